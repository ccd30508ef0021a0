"""What a checker is: a pure function from a history to a result, and how it may be spread over many machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaos.model.history import History
from chaos.model.settings import Setting
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result
from checkers.split import Split, by_key
from checkers.stretches import Read

__all__ = ["Checker", "Part", "Parted", "Split", "Streamed", "added", "first", "several"]


class Checker(ABC):
    """A named judgement of histories. No cluster, no files, no clock: the same function runs in process and in Spark.

    `split` says how a history may be cut for it; one that may be cut is `Parted`.
    """

    name: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]] = ()
    split: ClassVar[Split] = Split.RUN

    @abstractmethod
    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        """Judge a history. `options` holds a value for each of `settings`."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a checker found in one part of a history. `counts` add up, of the anomalies the first are kept; `facts`:
    whatever else its merge must know (to be pickled, and small)."""

    counts: Mapping[str, int]
    anomalies: tuple[Anomaly, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


class Parted(Checker):
    """A checker of which `split` is MESSAGE or KEY: it finds facts part by part, and concludes from all of them.

    Whatever the parts are, the result is the same to the letter. So nothing may be concluded in `part` (a reason, a
    verdict, a share) that another part could change, and `merge` may not ask how many parts there are.
    """

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        return self.merge([part for _, part in self.pieces(history, options)], options)

    def pieces(self, history: History, options: Mapping[str, Any]) -> list[tuple[int, Part]]:
        """What was found in a history, or in one of the parts that it was cut into: each with a number by which those
        of all parts are ordered for `merge`. By key: a piece a key, however many keys there are here."""
        if self.split is Split.KEY:
            return [(at, self.part(one, options)) for at, one in by_key(history)]
        return [(0, self.part(history, options))]

    @abstractmethod
    def part(self, history: History, options: Mapping[str, Any]) -> Part:
        """What there is to find in the rows of one key, or of some messages."""

    @abstractmethod
    def merge(self, parts: Sequence[Part], options: Mapping[str, Any]) -> Result:
        """What follows from all parts; by key in the order of the keys, as they first come."""


class Streamed(Checker):
    """A checker that need not have all of a history in memory: it judges stretches of it (`checkers.stretches`)."""

    @abstractmethod
    def stream(self, read: Read, options: Mapping[str, Any]) -> Any:
        """What `check` says of the history that is read, or, of a checker that is `Parted`, what `part` does."""

    def streamed(self, read: Read, options: Mapping[str, Any]) -> Result:
        """What `check` says of the history that is read (of one key, where the checker is cut by key)."""
        found = self.stream(read, options)
        return self.merge([found], options) if isinstance(self, Parted) else found


def added(parts: Sequence[Part]) -> tuple[dict[str, int], tuple[Anomaly, ...]]:
    """The counts of all parts added, and the first of their anomalies of each kind."""
    counts: dict[str, int] = {}
    for part in parts:
        for name, count in part.counts.items():
            counts[name] = counts.get(name, 0) + count
    return counts, first(anomaly for part in parts for anomaly in part.anomalies)


def several(number: int, one: str) -> str:
    """ "1 fault", "1,200 faults"."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def first(anomalies: Iterable[Anomaly]) -> tuple[Anomaly, ...]:
    """The first ANOMALIES_KEPT of each kind, in the order of their ops: many of one kind never hide another."""
    kept: list[Anomaly] = []
    seen: Counter[str] = Counter()
    for anomaly in sorted(anomalies, key=lambda anomaly: (anomaly.ops, anomaly.kind, anomaly.message)):
        seen[anomaly.kind] += 1
        if seen[anomaly.kind] <= ANOMALIES_KEPT:
            kept.append(anomaly)
    return tuple(kept)
