"""What a checker is: a pure function from a history to a result, and how it may be spread over many machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from chaos.model.history import History
from chaos.model.settings import Setting
from chaos.model.verdict import ANOMALIES_KEPT, Result


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
        """One result from those of the parts: the worst verdict, counts added, the first anomalies by index."""
        worst = max(results, key=lambda result: result.verdict.rank)
        counts: Counter[str] = Counter()
        for result in results:
            counts.update(result.counts)
        anomalies = sorted((a for result in results for a in result.anomalies), key=lambda a: (a.ops, a.kind))
        return Result(
            self.name, worst.verdict, worst.reason, dict(counts), tuple(anomalies[:ANOMALIES_KEPT]), worst.metrics
        )
