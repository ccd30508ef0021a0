"""A node's disk: files that are journals of records, some synced, some only written.

A killed process keeps what it wrote, because the kernel has it. A power-off loses what was not synced. One sync is
under way at a time, and takes with it everything that was written before it began, of all files (as RabbitMQ's Raft
logs share one write-ahead log a node). What nobody syncs, the kernel writes back by itself every WRITE_BACK.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from random import Random
from typing import Any

from chaos.kernel.clock import SECOND
from chaos.kernel.virtual import VirtualLoop

WRITE_BACK = 5 * SECOND

Record = tuple[Any, ...]


class File:
    """A journal. `synced` survives a power-off; `moving` and `written` survive a kill."""

    __slots__ = ("moving", "synced", "token", "written")

    def __init__(self) -> None:
        self.synced: list[Record] = []
        self.moving: list[Record] = []
        self.written: list[Record] = []
        self.token: Any = None

    def records(self) -> list[Record]:
        """As a process that opens the file reads it."""
        return [*self.synced, *self.moving, *self.written]


class Disk:
    """`synced(name, token)` is called for each file with the last token of a sync that is now complete."""

    def __init__(self, loop: VirtualLoop, random: Random, fsync: int, synced: Callable[[str, Any], None]) -> None:
        self._loop = loop
        self._random = random
        self._fsync = fsync
        self._done = synced
        self._files: dict[str, File] = {}
        self._busy = False
        self._wanted = False
        self._life = 0
        self.lost = 0
        self.slow: dict[str, int] = {}  # ns more that each record takes, by what makes it so
        self.waited = 0

    def file(self, name: str) -> File:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = File()
        return file

    def write(self, name: str, record: Record) -> None:
        """Written: in the kernel's hands."""
        self.file(name).written.append(record)

    def sync(self, name: str, token: Any) -> None:
        """Ask for all that was written to be synced; the token comes back once it is."""
        self.file(name).token = token
        if self._busy:
            self._wanted = True
        else:
            self._begin()

    def replace(self, name: str, records: Sequence[Record], keep: Callable[[Record], bool]) -> None:
        """Put records in place of those there, but for the ones to keep, atomically: how a log is truncated.

        They are synced at once (their time is not counted); what is kept is as synced as it was.
        """
        file = self.file(name)
        file.synced = [*records, *filter(keep, file.synced)]
        file.moving = list(filter(keep, file.moving))
        file.written = list(filter(keep, file.written))

    def write_back(self) -> None:
        """The kernel's own, every WRITE_BACK: files without a sync on its way become synced."""
        for file in self._files.values():
            if file.written and file.token is None and not file.moving:
                file.synced += file.written
                file.written = []

    def process_died(self) -> None:
        """Nobody waits for a sync any more; what was written stays."""
        self._life += 1
        self._busy = self._wanted = False
        for file in self._files.values():
            file.written = [*file.moving, *file.written]
            file.moving = []
            file.token = None

    def power_off(self) -> int:
        """Everything that was not synced is lost. Returns how many records that were."""
        self.process_died()
        lost = 0
        for file in self._files.values():
            lost += len(file.written)
            file.written = []
        self.lost += lost
        return lost

    def wipe(self) -> int:
        """Nothing is left. Returns how many records there were."""
        lost = sum(len(file.records()) for file in self._files.values())
        self.process_died()
        self._files.clear()
        self.lost += lost
        return lost

    def remove(self, name: str) -> None:
        """This file is no more; a sync of it that is under way is of no interest."""
        self._files.pop(name, None)

    def names(self) -> list[str]:
        """The files in which there is something."""
        return [name for name, file in self._files.items() if file.records()]

    def cut_short(self, name: str, count: int) -> None:
        """The last records of a file, so many, are gone, while no process has it open."""
        file = self.file(name)
        file.synced, file.written = file.records()[: len(file.records()) - count], []
        self.lost += count

    def _begin(self) -> None:
        self._busy = True
        tokens = []
        for name, file in self._files.items():
            if file.token is not None:
                file.moving, file.written = file.written, []
                tokens.append((name, file, file.token))
                file.token = None
        more = max(self.slow.values(), default=0) * sum(len(file.moving) for _, file, _ in tokens)
        self.waited += more
        time = more + self._fsync // 2 - int(self._fsync / 2 * log(1.0 - self._random.random()))
        self._loop.at(self._loop.now() + time, self._end, self._life, tokens)

    def _end(self, life: int, tokens: list[tuple[str, File, Any]]) -> None:
        if life != self._life:
            return
        for _, file, _ in tokens:
            file.synced += file.moving
            file.moving = []
        if self._wanted:
            self._wanted = False
            self._begin()
        else:
            self._busy = False
        for name, file, token in tokens:
            if self._files.get(name) is file:
                self._done(name, token)
