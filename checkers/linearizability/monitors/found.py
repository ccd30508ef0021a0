"""Violations as they are found: the earliest of the first object is told, and explained only then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from checkers.linearizability.calls import Calls
from checkers.linearizability.monitors.ranks import Ranks, Rows
from checkers.linearizability.verdict import Decision, Violation

ENGINE = "monitor"


@dataclass(slots=True)
class Found:
    """What breaks a rule, by the rank at which it shows on the line; `explain` names it."""

    at: int | None = None
    explain: Callable[[], Violation] | None = None

    def first(self, bad: npt.NDArray[np.bool_], ranks: Ranks, explain: Callable[[int], Violation]) -> None:
        """The place where `bad` with the least rank shows first, if it comes before what was found already."""
        if not bad.any():
            return
        places = np.flatnonzero(bad)
        place = int(places[np.argmin(ranks[places])])
        if self.at is None or int(ranks[place]) < self.at:
            self.at, self.explain = int(ranks[place]), lambda: explain(place)

    def decision(self, calls: Calls, what: str) -> Decision:
        """Invalid with the violation found, or valid."""
        if self.explain is None:
            return Decision(True, ENGINE, f"{len(calls):,} operations {what}")
        violation = self.explain()
        return Decision(False, ENGINE, violation.sentence, violation)


def of_first_object(calls: Calls, decision: Decision, decide: Callable[[Rows], Decision]) -> Decision:
    """The violation of the first object that has one, where rules that are tried in turn may have found one of a later
    object first. decide: about some of the rows."""
    while decision.violation is not None:
        before = np.flatnonzero(calls.key < calls.key[decision.violation.rows[0]])
        other = renamed(decide(before), before) if len(before) else None
        if other is None or other.violation is None:
            break
        decision = other
    return decision


def renamed(decision: Decision, rows: Rows) -> Decision:
    """A decision about some of the rows, told of all of them."""
    told = decision.violation
    if told is None:
        return decision
    return replace(decision, violation=replace(told, rows=tuple(sorted(int(rows[row]) for row in told.rows))))
