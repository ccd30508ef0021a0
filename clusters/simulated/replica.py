"""What a replica is: a state machine from (state, event) to effects, both data.

It does no I/O, has no clock, and draws no random numbers: those that it needs come with the event (a `draw` in [0, 1)).
So the same replica runs in a simulated cluster, under random schedules, and under exhaustive exploration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

Message = tuple[Any, ...]
Effect = tuple[Any, ...]
Record = tuple[Any, ...]
Pid = tuple[str, int, int]  # a channel: its node, that node's incarnation, its number there

# Effects: (tag, arguments...). Whoever runs the replica carries them out in order, and then clears the list.
SEND = 0  # (SEND, node, message) to the replica of the same queue there
TIMER = (
    1  # (TIMER, name, delay): event `timer(name)` after so many ns of the node's own clock; replaces one of that name
)
WRITE = 2  # (WRITE, record): append to the replica's journal
SYNC = 3  # (SYNC, token): event `synced(token)` when all that was written so far would survive a power-off
COMPACT = 4  # (COMPACT, records, keep): put these in place of the journal's, but for those of which keep(record) holds
REPLY = 5  # (REPLY, pid, message) to a channel, on whichever node
MONITOR = 6  # (MONITOR, pid): event `ended(pid)` when that channel is gone; at once if it is already
BELIEF = 7  # (BELIEF, role, term): what this replica now holds to be true of leadership
LOG = 8  # (LOG, level, text): a line for the node's log
EXIT = 9  # (EXIT, code, why): end the process; its supervisor starts it again
CONNECT = 10  # (CONNECT, name): connect to a service beside the cluster; then event `up(name)`


class Replica(ABC):
    """One member of a replicated queue, on one node. Each event appends to `effects`."""

    __slots__ = ("effects",)

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    @abstractmethod
    def start(self, records: Iterable[Record], draw: float) -> None:
        """Begin with what the journal holds (nothing, the first time)."""

    @abstractmethod
    def message(self, source: str, message: Message) -> None:
        """A message from the replica on another node."""

    @abstractmethod
    def request(self, pid: Pid, request: Message) -> None:
        """A channel asks for something."""

    @abstractmethod
    def timer(self, name: int, draw: float) -> None:
        """A timer that was set is due."""

    @abstractmethod
    def synced(self, token: Any) -> None:
        """A sync that was asked for is complete."""

    @abstractmethod
    def up(self, node: str) -> None:
        """The connection to a node is there (again)."""

    @abstractmethod
    def down(self, node: str, draw: float) -> None:
        """The connection to a node is gone: the node may be dead, or only out of reach."""

    def stop(self) -> None:  # noqa: B027 - most have nothing to say
        """The process is about to be shut down, in order."""

    @abstractmethod
    def ended(self, pid: Pid) -> None:
        """A monitored channel has ended."""

    @abstractmethod
    def flush(self) -> None:
        """The event that was being handled is over: send and write what was gathered."""

    @abstractmethod
    def snapshot(self) -> tuple[Any, ...]:
        """The whole state, flat and hashable."""

    @abstractmethod
    def restore(self, state: tuple[Any, ...]) -> None:
        """Become the replica that `snapshot` was asked of."""
