"""What a checker concludes: a verdict, why, counts, and a few anomalies each with the ops that show it.

Verdicts merge invalid > unknown > valid. *Not applicable* is neither: there was nothing to judge (a leader check
without terms); it never makes a run valid by itself, nor spoils one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

ANOMALIES_KEPT = 10
WINDOW = "window"  # in an anomaly's detail: the ops of the shortest piece of history that shows it, for its picture


class Verdict(StrEnum):
    """The conclusion of one checker, or of a run."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not applicable"

    def to_json(self) -> bool | str:
        """Jepsen's `valid`: true, false or "unknown"; and "not applicable"."""
        return {Verdict.VALID: True, Verdict.INVALID: False}.get(self, self.value)

    @property
    def rank(self) -> int:
        """How bad it is: the higher one wins a merge."""
        return (Verdict.NOT_APPLICABLE, Verdict.VALID, Verdict.UNKNOWN, Verdict.INVALID).index(self)


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of them; *unknown* where there is none, or where none of them had anything to judge."""
    worst = max(verdicts, key=lambda verdict: verdict.rank, default=Verdict.NOT_APPLICABLE)
    return Verdict.UNKNOWN if worst is Verdict.NOT_APPLICABLE else worst


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that went wrong, in a sentence, with the indices of the ops that show it (in history order).

    kind: short and stable, such as "lost"; suites name it as `checker.kind` ("messages.lost").
    """

    kind: str
    message: str
    ops: tuple[int, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "message": self.message, "ops": list(self.ops), "detail": dict(self.detail)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Anomaly:
        return Anomaly(data["kind"], data["message"], tuple(data["ops"]), dict(data["detail"]))


@dataclass(frozen=True, slots=True)
class Result:
    """What one checker found. `counts` add up when results merge; `metrics` (series, intervals) are for reports."""

    checker: str
    verdict: Verdict
    reason: str
    counts: Mapping[str, int] = field(default_factory=dict)
    anomalies: tuple[Anomaly, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "valid": self.verdict.to_json(),
            "reason": self.reason,
            "counts": dict(self.counts),
            "anomalies": [anomaly.to_json() for anomaly in self.anomalies],
            "metrics": dict(self.metrics),
        }

    @staticmethod
    def from_json(checker: str, data: Mapping[str, Any]) -> Result:
        """What `to_json` made of it, as a verdict that was kept has it."""
        verdict = next(verdict for verdict in Verdict if verdict.to_json() == data["valid"])
        anomalies = tuple(map(Anomaly.from_json, data["anomalies"]))
        return Result(checker, verdict, data["reason"], data["counts"], anomalies, data["metrics"])
