"""Links that go up and down by themselves, by a timer on the node, for as long as a fault is in force."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from clusters.faults.base import FaultError, Probe, required
from clusters.faults.nftables import Links, Rule, Table

_BRIEFEST = 1_000_000  # ns: an nft command takes some milliseconds itself


class Flapping:
    """Cut links, and make them whole, by turns. Arguments: rules, as `nftables.Rule` has them; flap, the ns that each
    turn takes, the first with the links cut, over and over."""

    def __init__(self, table: Table, args: Mapping[str, Any]) -> None:
        self._rules = [Rule.parse(rule, 1.0) for rule in required(args, "rules", list)]
        self._turns = _turns(required(args, "flap", list))
        self._table = table
        self._name: str | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem: FaultError | None = None
        self._cuts = 0
        self._dropped = 0

    def inject(self) -> str:
        self._turn()
        self._thread = threading.Thread(target=self._go_on, args=(time.monotonic_ns(),), daemon=True)
        self._thread.start()
        return f"{len(self._rules)} rules in force, by turns"

    def undo(self) -> Probe:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._name is not None:
            self._turn()
        shown = f"{self._dropped} packets dropped, cut {self._cuts} times"
        if self._problem is not None:
            return Probe(None, f"{shown}; then it stood still: {self._problem}")
        return Probe(self._dropped > 0, shown)

    def _turn(self) -> None:
        if self._name is None:
            self._name = self._table.add(self._rules)
            self._cuts += 1
        else:
            self._dropped += self._table.remove(self._name)
            self._name = None

    def _go_on(self, begun: int) -> None:
        """By the time since the beginning, so that what a turn itself takes does not add up."""
        due = begun
        for turn in itertools.cycle(self._turns):
            due += turn
            if self._over.wait((due - time.monotonic_ns()) / 1e9):
                return
            try:
                self._turn()
            except FaultError as error:
                self._problem = error
                return


def links(table: Table, args: Mapping[str, Any]) -> Links | Flapping:
    """A cut, for good or by turns."""
    return Flapping(table, args) if "flap" in args else Links(table, args)


def _turns(flap: Sequence[Any]) -> list[int]:
    if not flap or not all(isinstance(turn, int) and turn >= _BRIEFEST for turn in flap):
        raise FaultError(f"flap: {flap!r} are not times in ns, of 1 ms or more")
    return list(flap)
