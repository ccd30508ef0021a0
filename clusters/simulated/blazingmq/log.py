"""What a node keeps: records in order, each of the leader who wrote it, as BlazingMQ's journal of a partition.

A leader's term is its lease on the log; the records of one lease are one leader's, who had all before them when it
wrote the first. So two logs are the same up to where their leases first differ, or one of them ends. Nothing here is
ever synced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# Records of the log: (kind, lease, ...)
MESSAGE = 1  # queue, channel, its number for the publish, body
CONFIRM = 2  # queue, places in the log of the messages that were consumed
POINT = 3  # a leader's first: the synchronisation point

Entry = tuple[Any, ...]
Summary = tuple[tuple[int, int], ...]  # (lease, end of its records), in order


class Log:
    """Records, and where those of each lease end."""

    __slots__ = ("_leases", "records")

    def __init__(self) -> None:
        self.records: list[Entry] = []
        self._leases: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.records)

    @property
    def lease(self) -> int:
        """That of the last record, or 0."""
        return self._leases[-1][0] if self._leases else 0

    @property
    def summary(self) -> Summary:
        """What another node needs to see where its log meets this one."""
        return tuple(self._leases)

    def left(self) -> Iterator[tuple[int, Entry]]:
        """The messages that were not consumed, each with its place."""
        consumed = {place: None for record in self.records if record[0] == CONFIRM for place in record[3]}
        for place, record in enumerate(self.records):
            if record[0] == MESSAGE and place not in consumed:
                yield place, record

    def append(self, entry: Entry) -> None:
        """Add a record."""
        self.records.append(entry)
        if self._leases and self._leases[-1][0] == entry[1]:
            self._leases.pop()
        self._leases.append((entry[1], len(self.records)))

    def put(self, start: int, entries: Iterable[Entry]) -> None:
        """Have these from `start` on, and nothing after them."""
        if start < len(self.records):
            del self.records[start:]
            self._leases = _first(self._leases, start)
        for entry in entries:
            self.append(entry)


def _first(leases: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    begin = 0
    for lease, end in leases:
        if begin >= length:
            break
        kept.append((lease, min(end, length)))
        begin = end
    return kept


def common(one: Summary, other: Summary) -> int:
    """How many records, from the first on, two logs have in common."""
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            return min(mine[1], yours[1]) if mine[0] == yours[0] else _begin(one, mine)
    shorter = min(one, other, key=len)
    return shorter[-1][1] if shorter else 0


def _begin(summary: Summary, of: tuple[int, int]) -> int:
    place = summary.index(of)
    return summary[place - 1][1] if place else 0


def advance(summary: Summary) -> tuple[int, int]:
    """How far a log goes: of two, the greater is the more advanced."""
    return summary[-1] if summary else (0, 0)
