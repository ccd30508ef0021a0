"""The machine of a stream's coordinator: which epoch it is, who writes in it, who runs, and who wants to know.

After `rabbit_stream_coordinator`: when the writer is gone, all members are stopped; once a majority has stopped and
said how far it got, the one that is furthest becomes the writer of the next epoch, and the others its replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusters.simulated.replica import Message, Pid
from clusters.simulated.stream.rules import MEMBER, WRITER, Tail

# Commands: (kind, pid, 0, a, b)
HALT = 1  # a = node, b = (epoch, tail): its member was stopped
RUN = 2  # a = node, b = epoch: its member was started
DOWN = 3  # a = node, b = epoch: its member is gone, or out of reach
WATCH = 4  # pid wants to know
UNWATCH = 5  # a = pids that are gone, or out of reach


class Coordinator:
    """`electing`: members are being stopped, and `tails` are of those that have. Otherwise `writer` leads, or is to,
    and `running` are the members that were started. `news`: what listeners are to be told, if its replica leads."""

    def __init__(self, members: Sequence[str], by_offset: bool = False) -> None:
        self.leading = False
        self.members = tuple(members)
        self._by_offset = by_offset
        self.epoch = 1
        self.electing = False
        self.writer = members[0]
        self.tails: dict[str, Tail] = {}
        self.running: dict[str, None] = {}
        self.listeners: dict[Pid, None] = {}
        self.news: list[tuple[Pid, Message]] = []

    def apply(self, index: int, command: tuple[Any, ...]) -> None:
        kind, pid, _, a, b = command
        if kind == HALT:
            epoch, tail = b
            if self.electing and epoch == self.epoch:
                self.tails[a] = tail
                if len(self.tails) > len(self.members) // 2:
                    self._elect()
        elif kind == RUN:
            if not self.electing and b == self.epoch and a not in self.running:
                self.running[a] = None
                if a == self.writer:
                    self._tell((WRITER, self.epoch, a))
                self._tell((MEMBER,), a)
        elif kind == DOWN:
            if not self.electing and b == self.epoch:
                self.running.pop(a, None)
                if a == self.writer:
                    self.electing, self.tails = True, {}
        elif kind == WATCH:
            self.listeners[pid] = None
            if not self.electing and self.writer in self.running and self.leading:
                self.news.append((pid, (WRITER, self.epoch, self.writer)))
        elif kind == UNWATCH:
            for gone in a:
                self.listeners.pop(gone, None)

    def _elect(self) -> None:
        """Of equals the first in the order of members."""
        key = (lambda tail: (tail[1], tail[0])) if self._by_offset else (lambda tail: tail)
        best = max(self.tails.values(), key=key)
        self.writer = next(node for node in self.members if self.tails.get(node) == best)
        self.epoch += 1
        self.electing, self.tails, self.running = False, {}, {}

    def _tell(self, message: Message, node: str | None = None) -> None:
        if self.leading:
            self.news += [(pid, message) for pid in self.listeners if node in (None, pid[0])]

    def snapshot(self) -> tuple[Any, ...]:
        return (
            self.epoch, self.electing, self.writer, tuple(self.tails.items()), tuple(self.running),
            tuple(self.listeners),
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        self.epoch, self.electing, self.writer, tails, running, listeners = state
        self.tails, self.running = dict(tails), dict.fromkeys(running)
        self.listeners = dict.fromkeys(listeners)
        self.news = []
