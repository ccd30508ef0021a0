"""A simulated cluster for tests: made, driven and watched in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from chaos.kernel.clock import SECOND
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model.schedule import CUT, Action
from chaos.model.settings import resolve
from clusters.base import LeaderView, QueueClient, Setup, Unknown
from clusters.simulated.cluster import SimulatedCluster
from clusters.simulated.quorum.queue import QuorumQueue

T = TypeVar("T")


class Watcher:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.views: list[LeaderView] = []
        self.exits: list[tuple[str, int, int, str, bool]] = []
        self.synced: list[tuple[str, str, bool]] = []
        self.lines: list[tuple[str, str]] = []

    def leader(self, view: LeaderView) -> None:
        self.views.append(view)

    def exited(self, node: str, incarnation: int, time: int, reason: str, asked: bool) -> None:
        self.exits.append((node, incarnation, time, reason, asked))

    def noticed(self, node: str, time: int, what: str, words: str) -> None:
        pass

    def synchronising(self, scope: str, node: str, over: bool) -> None:
        self.synced.append((scope, node, over))

    def logged(self, node: str, line: str) -> None:
        self.lines.append((node, line))

    def broken(self, why: str) -> None:
        raise AssertionError(why)


def simulate(
    main: Callable[[SimulatedCluster, Watcher], Coroutine[Any, Any, T]],
    *,
    seed: int = 1,
    nodes: int = 3,
    version: str | None = None,
    **settings: Any,
) -> T:
    """Run `main` on a cluster that is up, with a queue "q" whose leader is n1."""

    async def on(loop: VirtualLoop) -> T:
        watcher = Watcher()
        values = resolve(QuorumQueue.settings, settings, "settings")
        setup = Setup("run", "rabbitmq-quorum", version, nodes, values, loop, Streams(seed), watcher)
        cluster = SimulatedCluster(setup, QuorumQueue)
        await cluster.up(lambda line: None)
        await cluster.declare("q")
        return await main(cluster, watcher)

    return run_virtual(on)


def cut(cluster: SimulatedCluster, *alone: str, service: str | None = None) -> Action:
    """These nodes apart from the others, both ways; clients reach all."""
    others = [node for node in cluster.nodes if node not in alone]
    links = [[a, b] for one in alone for other in others for a, b in ((one, other), (other, one))]
    return Action(CUT, cluster.nodes, {"links": links, "service": service})


async def seconds(number: float) -> None:
    await asyncio.sleep(number)


async def served(cluster: SimulatedCluster) -> None:
    """Until every node serves."""
    for _ in range(600):
        if not any((await cluster.serving()).values()):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(await cluster.serving())


async def outcome(operation: Awaitable[object], patience: float = 5.0) -> str:
    """ok, or what became of it."""
    try:
        async with asyncio.timeout(patience):
            await operation
    except (TimeoutError, Unknown) as error:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    return "ok"


async def drain(cluster: SimulatedCluster, node: str, answered: bool = True) -> list[bytes]:
    """Everything that is in the queue, polled and acknowledged at a node. `answered`: whether acks are known to have
    taken effect."""
    client = await cluster.connect(node, "drain")
    bodies = []
    while (delivery := await client.get("q")) is not None:
        bodies.append(delivery.body)
        assert await client.ack(delivery) is answered
    await client.close()
    return bodies


class Producer:
    """Publishes through one connection every 10 ms, and keeps what was confirmed, and when."""

    def __init__(self, cluster: SimulatedCluster, client: QueueClient, name: str) -> None:
        self.confirmed: dict[bytes, int] = {}
        self._cluster = cluster
        self._client = client
        self._name = name
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, for_: float) -> None:
        for number in range(int(for_ * 100)):
            self._tasks.append(asyncio.ensure_future(self._one(b"%s-%d" % (self._name.encode(), number))))
            await asyncio.sleep(0.01)

    async def _one(self, body: bytes) -> None:
        try:
            await self._client.publish("q", body)
        except Unknown:
            return
        self.confirmed[body] = self._cluster.loop.now()

    def between(self, start: int, end: int) -> int:
        return sum(start <= time < end for time in self.confirmed.values())


async def producer(cluster: SimulatedCluster, node: str, name: str = "p") -> Producer:
    return Producer(cluster, await cluster.connect(node, name), name)


__all__ = ["SECOND", "Producer", "Watcher", "cut", "drain", "outcome", "producer", "seconds", "served", "simulate"]
