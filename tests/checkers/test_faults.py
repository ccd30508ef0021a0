"""Faults as intervals, and intervals as unions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.op import INFO
from checkers.faults import FaultSpan, faults, inside, merged, stalls, touches, unresolved
from tests.checkers.histories import MS, SECOND, Story


def test_literal() -> None:
    story = Story()
    story.at(1 * SECOND).inject("f1", "n1", "n2", in_force={"n1": 1 * SECOND, "n2": 2 * SECOND})
    story.at(3 * SECOND).inject("f2", end=INFO)
    story.inject("f3", "n3", kind="leader", target="leader", in_force={})
    story.at(5 * SECOND).undo("f1", bit=False)
    story.at(6 * SECOND).undo("f3", end=INFO)
    story.at(9 * SECOND).drain()
    history = story.history()
    assert faults(history) == (
        FaultSpan(
            "f1", "partition", "halves", "one", ("n1", "n2"),
            1 * SECOND, 2 * SECOND, 5 * SECOND, 5 * SECOND + MS, True, False, (0, 1, 6, 7),
        ),
        FaultSpan(
            "f3", "partition", "leader", "leader", ("n3",),
            3 * SECOND + 2 * MS, 3 * SECOND + 3 * MS, 6 * SECOND, 9 * SECOND, False, None, (4, 5, 8),
        ),
    )  # fmt: skip
    assert unresolved(history) == [3]


def test_a_fault_that_was_never_undone_lasts_to_the_end() -> None:
    story = Story()
    story.inject("f1", "n1")
    story.at(9 * SECOND).drain()
    (span,) = faults(story.history())
    assert (span.undoing, span.end, span.undone, span.bit) == (9 * SECOND, 9 * SECOND, False, None)


def test_a_stall_ended_when_it_was_noted() -> None:
    story = Story()
    story.at(5 * SECOND).stall(2 * SECOND)
    story.at(6 * SECOND).stall(SECOND)
    assert stalls(story.history()).tolist() == [[3 * SECOND, 6 * SECOND]]


SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)).map(lambda span: (span[0], sum(span))), max_size=6)


@given(SPANS, SPANS)
def test_unions_agree_with_looking_at_every_moment(spans: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    union = merged(spans)
    assert all(union[at, 1] < union[at + 1, 0] for at in range(len(union) - 1))
    start, end = (np.array([span[side] for span in asked], dtype=np.int64) for side in (0, 1))
    # quarters, so that two intervals that end and begin a whole apart are not one
    covered = {moment for low, high in spans for moment in range(4 * low, 4 * high + 1)}
    moments = [set(range(4 * low, 4 * high + 1)) for low, high in asked]
    assert touches(union, start, end).tolist() == [bool(each & covered) for each in moments]
    assert inside(union, start, end).tolist() == [each <= covered for each in moments]
