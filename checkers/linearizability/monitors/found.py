"""Violations as they are found: the earliest of the first object is told, and explained only then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from checkers.linearizability.calls import Calls
from checkers.linearizability.monitors.ranks import Ranks
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
