"""A simulated LavinMQ cluster for tests: made, driven and watched in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model.settings import resolve
from clusters.base import Setup
from clusters.simulated.lavinmq.cluster import LavinmqCluster
from clusters.simulated.lavinmq.protocol import Lavinmq
from clusters.simulated.lavinmq.server import SERVER, Server
from tests.simulated.made import Watcher

T = TypeVar("T")


def simulate(
    main: Callable[[LavinmqCluster, Watcher], Coroutine[Any, Any, T]],
    *,
    seed: int = 1,
    nodes: int = 3,
    version: str | None = None,
    **settings: Any,
) -> T:
    """Run `main` on a cluster that is up, with a queue "q"."""

    async def on(loop: VirtualLoop) -> T:
        watcher = Watcher()
        values = resolve(Lavinmq.settings, settings, "settings")
        setup = Setup("run", "lavinmq", version, nodes, values, loop, Streams(seed), watcher)
        cluster = LavinmqCluster(setup, Lavinmq)
        await cluster.up(lambda line: None)
        await cluster.declare("q")
        return await main(cluster, watcher)

    return run_virtual(on)


def server(cluster: LavinmqCluster, node: str) -> Server:
    """The replica on a node."""
    found = cluster.by_name[node].replicas[SERVER]
    assert isinstance(found, Server)
    return found


async def drain(cluster: LavinmqCluster, node: str) -> list[bytes]:
    """Every message, polled for and acknowledged. (LavinMQ answers no ack, so none is known to have taken effect.)"""
    client = await cluster.connect(node, "drain")
    bodies = []
    while (delivery := await client.get("q")) is not None:
        bodies.append(delivery.body)
        assert await client.ack(delivery) is False
    await client.close()
    return bodies


def others(cluster: LavinmqCluster, node: str) -> list[str]:
    """All nodes but one."""
    return [other for other in cluster.nodes if other != node]


async def led_by(cluster: LavinmqCluster, *nodes: str) -> str:
    """The first of these nodes that leads, as soon as it does."""
    for _ in range(6000):
        for node in nodes:
            found = cluster.by_name[node].replicas.get(SERVER)
            if isinstance(found, Server) and found.leading and not cluster.by_name[node].paused:
                return node
        await asyncio.sleep(0.01)
    raise AssertionError(f"none of {', '.join(nodes)} leads")
