"""What a checker is: a pure function from a history to a result, and how it may be spread over many machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from chaos.model.history import History
from chaos.model.settings import Setting
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result


class Split(StrEnum):
    """How a history may be cut so that each part can be checked by itself."""

    MESSAGE = "message"  # by key and bucket of message ids
    KEY = "key"  # by key (queue), all of it in order
    RUN = "run"  # not at all


class Checker(ABC):
    """A named judgement of histories. No cluster, no files, no clock: the same function runs in process and in Spark.

    `split` says how a history may be cut for it; `ordered` whether it needs rows in history order; `streams` whether
    it could take them one by one.
    """

    name: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]] = ()
    split: ClassVar[Split] = Split.RUN
    ordered: ClassVar[bool] = True
    streams: ClassVar[bool] = False

    @abstractmethod
    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        """Judge a history. `options` holds a value for each of `settings`."""

    def merge(self, results: Sequence[Result]) -> Result:
        """One result from those of the parts: the worst verdict, counts added, the first anomalies of each kind."""
        worst = max(results, key=lambda result: result.verdict.rank)
        counts: Counter[str] = Counter()
        for result in results:
            counts.update(result.counts)
        anomalies = first(anomaly for result in results for anomaly in result.anomalies)
        return Result(self.name, worst.verdict, worst.reason, dict(counts), anomalies, worst.metrics)


def several(number: int, one: str) -> str:
    """ "1 fault", "1,200 faults"."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def first(anomalies: Iterable[Anomaly]) -> tuple[Anomaly, ...]:
    """The first ANOMALIES_KEPT of each kind, in the order of their ops: many of one kind never hide another."""
    kept: list[Anomaly] = []
    seen: Counter[str] = Counter()
    for anomaly in sorted(anomalies, key=lambda anomaly: (anomaly.ops, anomaly.kind)):
        seen[anomaly.kind] += 1
        if seen[anomaly.kind] <= ANOMALIES_KEPT:
            kept.append(anomaly)
    return tuple(kept)
