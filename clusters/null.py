"""A broker that is no broker: it answers at once, from memory. For measuring what the controller itself costs, and for
tests of whatever sits above a cluster. It cannot be hurt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from chaos.model.schedule import ABILITIES, Action
from chaos.model.settings import Setting
from clusters.base import (
    FIRST,
    LOG,
    NEXT,
    PLAIN,
    QUEUE,
    REQUEUE,
    Counts,
    Delivery,
    Entry,
    Failed,
    Held,
    Injected,
    QueueOptions,
    Setup,
    Start,
    Undone,
)

Deliver = Callable[[Delivery], None]
Hand = Callable[[Entry], None]


class NullQueue:
    """Messages in memory; consumers with a credit get them in turn."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[tuple[bytes, bool]] = deque()
        self.unacked: dict[int, bytes] = {}
        self.consumers: deque[NullClient] = deque()
        self._tags = 0

    def take(self, client: NullClient) -> Delivery:
        """The oldest message, which `client` then holds until its ack."""
        body, redelivered = self.ready.popleft()
        self._tags += 1
        self.unacked[self._tags] = body
        client.held[self._tags] = self
        return Delivery(self.name, body, redelivered, self._tags)

    def pump(self) -> None:
        """Hand out what can be handed out."""
        while self.ready:
            for _ in range(len(self.consumers)):
                self.consumers.rotate(-1)
                if self.consumers[-1].credit > 0:
                    break
            else:
                return
            client = self.consumers[-1]
            client.credit -= 1
            assert client.deliver is not None
            client.deliver(self.take(client))


class NullLog:
    """Entries in memory, and who reads them: client -> [next offset, credit, whom to hand them to]."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.readings: dict[NullClient, tuple[int, int, Hand]] = {}

    def pump(self, name: str, client: NullClient) -> None:
        """Hand a reader what it may be handed."""
        while (reading := self.readings.get(client)) is not None:
            offset, credit, deliver = reading
            if not credit or offset >= len(self.entries):
                return
            self.readings[client] = (offset + 1, credit - 1, deliver)
            deliver(Entry(name, offset, self.entries[offset]))


class NullClient:
    """One connection to nothing."""

    def __init__(self, cluster: NullCluster, node: str) -> None:
        self.node = node
        self.on_lost: Callable[[str], None] = lambda reason: None
        self.credit = 0
        self.deliver: Deliver | None = None
        self.held: dict[int, NullQueue] = {}
        self._cluster = cluster

    def publish(self, queue: str, body: bytes) -> Awaitable[None]:
        confirm = asyncio.get_running_loop().create_future()
        known = self._cluster.queues.get(queue)
        if known is None:
            confirm.set_exception(Failed(f"no queue {queue!r}"))
        else:
            known.ready.append((body, False))
            known.pump()
            confirm.set_result(None)
        return confirm

    async def subscribe(self, queue: str, prefetch: int, deliver: Deliver, acks: bool = True) -> None:
        self.deliver, self.credit = deliver, prefetch
        known = self._cluster.queues[queue]
        known.consumers.append(self)
        known.pump()

    async def get(self, queue: str, acks: bool = True) -> Delivery | None:
        known = self._cluster.queues[queue]
        return known.take(self) if known.ready else None

    def ack(self, delivery: Delivery) -> Awaitable[bool]:
        queue = self.held.pop(delivery.tag)
        del queue.unacked[delivery.tag]
        if self.deliver is not None:
            self.credit += 1
            queue.pump()
        known = asyncio.get_running_loop().create_future()
        known.set_result(True)
        return known

    def requeue(self, delivery: Delivery) -> Awaitable[bool]:
        queue = self.held.pop(delivery.tag)
        queue.ready.appendleft((queue.unacked.pop(delivery.tag), True))
        if self.deliver is not None:
            self.credit += 1
        queue.pump()
        known = asyncio.get_running_loop().create_future()
        known.set_result(True)
        return known

    def append(self, log: str, body: bytes) -> Awaitable[int | None]:
        there = self._cluster.logs[log]
        there.entries.append(body)
        for reader in list(there.readings):
            there.pump(log, reader)
        known: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        known.set_result(len(there.entries) - 1)
        return known

    async def read(self, log: str, start: Start, credit: int, deliver: Hand) -> None:
        there = self._cluster.logs[log]
        offset = {FIRST: 0, NEXT: len(there.entries)}.get(start, start) if isinstance(start, str) else start
        there.readings[self] = (int(offset), credit, deliver)
        there.pump(log, self)

    def grant(self, entry: Entry) -> None:
        there = self._cluster.logs[entry.log]
        if self in there.readings:
            offset, credit, deliver = there.readings[self]
            there.readings[self] = (offset, credit + 1, deliver)
            there.pump(entry.log, self)

    async def stop(self, log: str) -> None:
        self._cluster.logs[log].readings.pop(self, None)

    async def close(self) -> None:
        for log in self._cluster.logs.values():
            log.readings.pop(self, None)
        for queue in self._cluster.queues.values():
            if self in queue.consumers:
                queue.consumers.remove(self)
        for tag, queue in reversed(self.held.items()):
            queue.ready.appendleft((queue.unacked.pop(tag), True))
        touched, self.held = list(self.held.values()), {}
        for queue in touched:
            queue.pump()


class NullCluster:
    """Implements `clusters.base.Cluster`."""

    services: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    serves: tuple[str, ...] = (QUEUE, REQUEUE, LOG)

    def __init__(self, setup: Setup) -> None:
        self.nodes = tuple(f"n{number + 1}" for number in range(setup.nodes))
        self.queues: dict[str, NullQueue] = {}
        self.logs: dict[str, NullLog] = {}

    def abilities(self) -> Mapping[str, str | None]:
        return dict.fromkeys(ABILITIES, "there is nothing to hurt")

    async def up(self, report: Callable[[str], None]) -> None:
        report("nothing to start")

    async def down(self) -> None:
        self.queues.clear()

    def versions(self) -> Mapping[str, str]:
        return {"broker": "null"}

    async def declare(self, queue: str, options: QueueOptions = PLAIN) -> None:
        self.queues[queue] = NullQueue(queue)
        self.logs[queue] = NullLog()

    async def connect(self, node: str, name: str) -> NullClient:
        return NullClient(self, node)

    async def inject(self, fault: str, action: Action) -> Injected:
        raise NotImplementedError("there is nothing to hurt")

    async def undo(self, fault: str) -> Undone:
        return Undone({}, None)

    def leader(self, scope: str | None = None) -> str | None:
        return None

    def newest(self) -> str | None:
        return None

    async def serving(self) -> Mapping[str, str | None]:
        return dict.fromkeys(self.nodes)

    async def counts(self, queue: str) -> Counts:
        known = self.queues[queue]
        return Counts(len(known.ready), len(known.unacked), len(self.nodes), len(self.nodes))

    def held(self) -> Sequence[Held]:
        return ()

    async def collect(self, directory: Path) -> Sequence[tuple[str, str]]:
        return ()


class Null:
    """What the null broker is called, for the registry."""

    name = "null"
    meaning = "no broker at all: answers at once, from memory"
    versions: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    serves: tuple[str, ...] = (QUEUE, REQUEUE, LOG)

    @staticmethod
    def cluster(setup: Setup, on: str) -> NullCluster:
        """A cluster of nothing."""
        return NullCluster(setup)
