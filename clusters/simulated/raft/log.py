"""A member's Raft log: a snapshot and the entries after it, and how the journal on disk holds them.

Journal records: (META, term, voted for), (ENTRIES, index of the first, entries), (SNAPSHOT, index, term, machine
state); entries replace earlier ones from their index on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from clusters.simulated.replica import Record

META = 0
ENTRIES = 1
SNAPSHOT = 2

Entry = tuple[int, tuple[Any, ...]]  # term, command


class Outlives(NamedTuple):
    """Whether a journal's record still matters once a snapshot covers entries up to `base`, or (None) replaces all."""

    base: int | None

    def __call__(self, record: Record) -> bool:
        if record[0] != ENTRIES:
            return bool(record[0] == META)
        return self.base is not None and record[1] + len(record[2]) - 1 > self.base


class RaftLog:
    """Entries are numbered from 1. `base`: the snapshot covers entries up to here. `written`: in the journal up to here
    (a leader gathers entries before it writes them); `durable`: synced up to here. `epoch`: how often written entries
    were cut back; a sync that began before says nothing of what came after."""

    __slots__ = ("base", "base_term", "durable", "entries", "epoch", "last", "saved", "written")

    def __init__(self, saved: tuple[Any, ...]) -> None:
        self.saved = saved
        self.base = 0
        self.base_term = 0
        self.entries: list[Entry] = []
        self.last = 0
        self.written = 0
        self.durable = 0
        self.epoch = 0

    @property
    def last_term(self) -> int:
        return self.entries[-1][0] if self.entries else self.base_term

    def term_at(self, index: int) -> int:
        """The term of the entry at an index that the log has, or that its snapshot ends with."""
        return self.base_term if index == self.base else self.entries[index - self.base - 1][0]

    def between(self, after: int, upto: int) -> list[Entry]:
        """The entries after one index, up to another, which must not lie in the snapshot."""
        return self.entries[after - self.base : upto - self.base]

    def first_of_term(self, index: int, floor: int) -> int:
        """The first index above `floor` whose entry has the same term as that at `index`."""
        term = self.term_at(index)
        floor = max(floor, self.base)
        while index - 1 > floor and self.term_at(index - 1) == term:
            index -= 1
        return index

    def cut_back(self, index: int) -> None:
        """Forget the entries from `index` on."""
        del self.entries[index - self.base - 1 :]
        self.last = index - 1
        if index <= self.written:
            self.epoch += 1
            self.written = self.last
        self.durable = min(self.durable, self.last)

    def compact(self, index: int, saved: tuple[Any, ...]) -> None:
        """Keep a machine's state in place of the entries up to `index`, which led to it."""
        self.base_term = self.term_at(index)
        del self.entries[: index - self.base]
        self.base = index
        self.saved = saved
        self.durable = max(self.durable, index)

    def follows(self, index: int, term: int) -> bool:
        """Whether entries are here that come after one that ends a snapshot."""
        return self.base < index < self.last and self.term_at(index) == term

    def install(self, index: int, term: int, saved: tuple[Any, ...]) -> None:
        """Take another's snapshot; entries after it stay if they belong to it."""
        if self.follows(index, term):
            del self.entries[: index - self.base]
        else:
            self.entries = []
            self.last = self.written = index
            self.epoch += 1
        self.base, self.base_term, self.saved = index, term, saved
        self.durable = max(min(self.durable, self.last), index)

    def replay(self, record: Record) -> None:
        """Read a record back, in journal order."""
        if record[0] == SNAPSHOT:
            _, self.base, self.base_term, self.saved = record
            self.entries = []
            self.last = self.base
        elif record[0] == ENTRIES:
            _, first, entries = record
            if first <= self.base:
                entries = entries[self.base + 1 - first :]
                first = self.base + 1
            if entries and first <= self.last + 1:
                del self.entries[first - self.base - 1 :]
                self.entries.extend(entries)
                self.last = self.base + len(self.entries)
        self.written = self.last

    def snapshot(self) -> tuple[Any, ...]:
        """The whole state, flat."""
        return (
            self.saved, self.base, self.base_term, tuple(self.entries),
            self.last, self.written, self.durable, self.epoch,
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        self.saved, self.base, self.base_term, entries, self.last, self.written, self.durable, self.epoch = state
        self.entries = list(entries)
