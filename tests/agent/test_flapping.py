"""Links that flap by the node's own timer: a table that is told, and the times at which it was."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from clusters.faults.base import FaultError, Probe
from clusters.faults.flapping import Flapping, links
from clusters.faults.nftables import Links, Rule, Table

RULES = [{"direction": "in", "peer": "10.0.0.2", "ports": []}]
MS = 1_000_000


class Told(Table):
    """Notes what it is told, and drops two packets each time."""

    def __init__(self, most: int = 100) -> None:
        super().__init__()
        self.most = most
        self.turns: list[tuple[str, int]] = []
        self.enough = threading.Event()

    def add(self, rules: Sequence[Rule]) -> str:
        self._note("cut")
        return f"c{len(self.turns)}"

    def remove(self, name: str) -> int:
        self._note("whole")
        return 2

    def _note(self, what: str) -> None:
        if len(self.turns) == self.most:
            raise FaultError("nft failed")
        self.turns.append((what, time.monotonic_ns()))
        if len(self.turns) >= 5:
            self.enough.set()


def test_by_turns_until_it_is_undone() -> None:
    table = Told()
    fault = links(table, {"rules": RULES, "flap": [30 * MS, 60 * MS]})
    assert isinstance(fault, Flapping)
    assert fault.inject() == "1 rules in force, by turns"
    assert table.turns[0][0] == "cut", "in force when inject returns"
    assert table.enough.wait(10)
    probe = fault.undo()
    cuts = sum(what == "cut" for what, _ in table.turns)
    assert probe == Probe(True, f"{2 * cuts} packets dropped, cut {cuts} times")
    assert [what for what, _ in table.turns] == ["cut", "whole"] * cuts
    times = [at - table.turns[0][1] for _, at in table.turns[:5]]
    for at, due in zip(times, (0, 30, 90, 120, 180), strict=True):
        assert at > (due - 5) * MS, "none comes before its time"
    told = len(table.turns)
    time.sleep(0.1)
    assert (len(table.turns), fault.undo()) == (told, probe), "it is over, and a second undo is harmless"


def test_what_stands_still_says_why_and_is_mended() -> None:
    table = Told(most=5)
    fault = Flapping(table, {"rules": RULES, "flap": [MS]})
    fault.inject()
    assert table.enough.wait(10)
    while threading.active_count() > 1 and fault._problem is None:
        time.sleep(0.001)
    with pytest.raises(FaultError, match="nft failed"):
        fault.undo()
    table.most = 100
    assert fault.undo() == Probe(None, "6 packets dropped, cut 3 times; then it stood still: nft failed")
    assert [what for what, _ in table.turns] == ["cut", "whole"] * 3


@pytest.mark.parametrize("flap", [[], [0.5], ["1s"], [MS - 1], [MS, -1]])
def test_times_that_are_none(flap: list[Any]) -> None:
    with pytest.raises(FaultError, match=r"^flap: .* are not times in ns, of 1 ms or more$"):
        Flapping(Told(), {"rules": RULES, "flap": flap})


def test_a_cut_for_good_is_the_plain_one() -> None:
    assert isinstance(links(Table(), {"rules": RULES}), Links)
