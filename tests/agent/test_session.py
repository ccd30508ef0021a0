"""Lines over connections that drop: each once, in order, whatever was lost on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.agent.session import Lines


class Wire:
    """One connection between two ends: frames under way, which a drop loses, each way."""

    def __init__(self, ends: tuple[Lines, Lines]) -> None:
        self.ends = ends
        self.under_way: tuple[list[bytes], list[bytes]] = ([], [])  # to each end
        for side in (0, 1):
            self.under_way[1 - side].append(ends[side].greeting())

    def say(self, side: int, line: bytes) -> None:
        self.under_way[1 - side].append(self.ends[side].put(line))

    def deliver(self, side: int) -> list[bytes]:
        """The first frame under way to a side; the line that it brought."""
        if not self.under_way[side]:
            return []
        line, again = self.ends[side].take(self.under_way[side].pop(0))
        self.under_way[1 - side].extend(again)
        return [] if line is None else [line]


@given(st.lists(st.sampled_from(["say0", "say1", "take0", "take1", "drop"]), max_size=120))
def test_nothing_is_lost_doubled_or_out_of_order(steps: list[str]) -> None:
    ends = (Lines(), Lines())
    wire = Wire(ends)
    said: tuple[list[bytes], list[bytes]] = ([], [])
    came: tuple[list[bytes], list[bytes]] = ([], [])
    for number, step in enumerate(steps):
        side = int(step[-1]) if step != "drop" else 0
        if step == "drop":
            wire = Wire(ends)
        elif step.startswith("say"):
            line = b"line %d, with spaces" % number
            said[1 - side].append(line)
            wire.say(side, line)
        else:
            came[side].extend(wire.deliver(side))
        for end in (0, 1):
            assert came[end] == said[end][: len(came[end])]
    wire = Wire(ends)  # one more connection, which holds
    while any(wire.under_way):
        for side in (0, 1):
            came[side].extend(wire.deliver(side))
    assert came == said


def test_what_has_come_is_let_go() -> None:
    one, other = Lines(), Lines()
    for number in range(1000):
        assert other.take(one.put(b"%d" % number))[0] == b"%d" % number
    assert len(one._kept) == 1000
    one.take(other.put(b"thanks"))
    assert len(one._kept) == 0


def test_a_line_that_was_not_expected_is_left_for_later() -> None:
    """A frame of a new connection before its greeting was answered: what lies between comes again, and then it."""
    one, other = Lines(), Lines()
    one.put(b"first")  # lost
    assert other.take(one.put(b"second")) == (None, [])
    _, again = one.take(other.greeting())
    assert [other.take(frame)[0] for frame in again] == [b"first", b"second"]


@pytest.mark.parametrize("frame", [b"\n", b"1 2\n", b"one 2 x\n"])
def test_what_is_no_frame(frame: bytes) -> None:
    with pytest.raises(ValueError):
        Lines().take(frame)
