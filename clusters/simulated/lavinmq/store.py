"""What a node keeps: files that are only ever appended to or deleted, as LavinMQ's data directory is replicated.

A queue's messages are in segments of a fixed number, with a file of acknowledgements beside each; the queues themselves
are records of one file of definitions. A file's checksum is over all that is in it, so that a node which diverged is
found out, and gets that file anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from clusters.simulated.replica import Record

# Changes, which are also the records of the journal: (ADD, file, record), (DELETE, file)
ADD = 0
DELETE = 1

DEFINITIONS = "definitions"

Change = tuple[Any, ...]
Checksum = tuple[int, int]  # how many records, and a sum over them


class _File:
    """Records, and the checksum of the first so many of them."""

    __slots__ = ("checksum", "records")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.checksum: Checksum = (0, 0)


class Other(NamedTuple):
    """Whether a journal's record is about none of some files."""

    files: tuple[str, ...]

    def __call__(self, record: Record) -> bool:
        return record[1] not in self.files


class Store:
    """Files by name. `segment`: how many messages one holds."""

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self._files: dict[str, _File] = {}

    def apply(self, change: Change) -> None:
        """Carry out a change."""
        if change[0] == DELETE:
            self._files.pop(change[1], None)
            return
        file = self._files.get(change[1])
        if file is None:
            file = self._files[change[1]] = _File()
        file.records.append(change[2])

    def files(self) -> tuple[tuple[str, Checksum], ...]:
        """Every file with its checksum, in the order in which they were made."""
        return tuple((name, self._checksum(file)) for name, file in self._files.items())

    def differing(self, files: Iterable[tuple[str, Checksum]]) -> tuple[str, ...]:
        """Those of another's files that are not the same here."""
        mine = self._files
        return tuple(name for name, sum_ in files if name not in mine or self._checksum(mine[name]) != sum_)

    def beyond(self, files: Iterable[tuple[str, Checksum]]) -> tuple[str, ...]:
        """The files here that another does not have."""
        known = dict(files)
        return tuple(name for name in self._files if name not in known)

    def records(self, name: str) -> Sequence[Any]:
        """What is in a file; nothing if it is gone."""
        file = self._files.get(name)
        return () if file is None else file.records

    def forget(self, names: Iterable[str]) -> None:
        """Delete files."""
        for name in names:
            self._files.pop(name, None)

    def queues(self) -> tuple[str, ...]:
        """The queues that are defined."""
        return tuple(self.records(DEFINITIONS))

    def messages_file(self, queue: str, number: int) -> str:
        """The segment that holds the message of that number, from 1."""
        return f"{queue}/msgs.{(number - 1) // self.segment}"

    def acks_file(self, queue: str, number: int) -> str:
        """The acknowledgements beside it."""
        return f"{queue}/acks.{(number - 1) // self.segment}"

    def load(self, queue: str) -> tuple[list[tuple[int, Any]], dict[int, int], int]:
        """A queue as its files have it: messages not acknowledged, by number; how many are left in each segment; and
        the number of the next."""
        left: list[tuple[int, Any]] = []
        remaining: dict[int, int] = {}
        newest = 0
        for name, file in self._files.items():
            owner, _, part = name.rpartition("/")
            kind, _, place = part.partition(".")
            if owner == queue and kind == "msgs":
                acked = dict.fromkeys(self.records(f"{queue}/acks.{place}"))
                kept = [(number, body) for number, body in file.records if number not in acked]
                left += kept
                remaining[int(place)] = len(kept)
                newest = max(newest, *(number for number, _ in file.records))
        return sorted(left, key=lambda message: message[0]), remaining, newest + 1

    def snapshot(self) -> tuple[Any, ...]:
        """All files, flat."""
        return tuple((name, tuple(file.records)) for name, file in self._files.items())

    def restore(self, state: tuple[Any, ...]) -> None:
        """Become the store that `snapshot` was asked of."""
        self._files = {}
        for name, records in state:
            self._files[name] = file = _File()
            file.records = list(records)

    @staticmethod
    def _checksum(file: _File) -> Checksum:
        count, total = file.checksum
        if count < len(file.records):
            for record in file.records[count:]:
                total = crc32(repr(record).encode(), total)
            file.checksum = (len(file.records), total)
        return file.checksum
