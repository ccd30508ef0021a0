"""When two failures are the same one: the same checker found the same anomaly, under the same kinds of faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.model.history import History
from chaos.model.op import CONTROLLER
from chaos.model.verdict import Anomaly, Result, Verdict
from chaos.search.coverage import what
from checkers.faults import FaultSpan, faults

Key = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True)
class Failure:
    """An anomaly of an invalid result. `shape`: the kinds of faults around it, sorted. `message`: of the first such."""

    checker: str
    anomaly: str
    shape: tuple[str, ...]
    message: str

    @property
    def key(self) -> Key:
        """Equal for failures that are the same one."""
        return self.checker, self.anomaly, self.shape

    @property
    def name(self) -> str:
        """As suites name it: "messages.lost"."""
        return f"{self.checker}.{self.anomaly}"

    def to_json(self) -> dict[str, Any]:
        return {"checker": self.checker, "anomaly": self.anomaly, "shape": list(self.shape), "message": self.message}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Failure:
        return Failure(data["checker"], data["anomaly"], tuple(data["shape"]), data["message"])


def failures(history: History, results: Mapping[str, Result]) -> tuple[Failure, ...]:
    """The failures of a run: of each kind of anomaly of each invalid result, the first."""
    spans = faults(history)
    found: dict[tuple[str, str], Failure] = {}
    for name, result in results.items():
        if result.verdict is Verdict.INVALID:
            for anomaly in result.anomalies or (Anomaly("invalid", result.reason),):
                if (name, anomaly.kind) not in found:
                    around = shape(history, spans, anomaly)
                    found[name, anomaly.kind] = Failure(name, anomaly.kind, around, anomaly.message)
    return tuple(found.values())


def shape(history: History, spans: Sequence[FaultSpan], anomaly: Anomaly) -> tuple[str, ...]:
    """The kinds of the faults in force at the last op of an anomaly; where there is none, that of the fault nearest to
    it in time. The controller's own ops, such as the drain that shows a loss, are no part of that: they come long after
    whatever did it."""
    rows = np.flatnonzero(np.isin(history.index, anomaly.ops) & (history.process != CONTROLLER))
    if not len(rows) or not spans:
        return ()
    moment = int(history.time[rows[-1]])
    in_force = [span for span in spans if span.asked <= moment <= span.end]
    if not in_force:
        in_force = [min(spans, key=lambda span: max(span.asked - moment, moment - span.end))]
    return tuple(sorted({what(span.nemesis, span.kind) for span in in_force}))
