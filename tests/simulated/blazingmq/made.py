"""A simulated BlazingMQ cluster for tests: made, driven and watched in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model.settings import resolve
from clusters.base import Setup
from clusters.simulated.blazingmq.cluster import BlazingmqCluster
from clusters.simulated.blazingmq.protocol import Blazingmq
from clusters.simulated.blazingmq.server import SERVER, Server
from tests.simulated.made import Watcher

T = TypeVar("T")


def simulate(
    main: Callable[[BlazingmqCluster, Watcher], Coroutine[Any, Any, T]],
    *,
    seed: int = 1,
    nodes: int = 3,
    **settings: Any,
) -> T:
    """Run `main` on a cluster that is up, with a queue "q"."""

    async def on(loop: VirtualLoop) -> T:
        watcher = Watcher()
        values = resolve(Blazingmq.settings, settings, "settings")
        setup = Setup("run", "blazingmq", None, nodes, values, loop, Streams(seed), watcher)
        cluster = BlazingmqCluster(setup, Blazingmq)
        await cluster.up(lambda line: None)
        await cluster.declare("q")
        return await main(cluster, watcher)

    return run_virtual(on)


def server(cluster: BlazingmqCluster, node: str) -> Server:
    """The replica on a node."""
    found = cluster.by_name[node].replicas[SERVER]
    assert isinstance(found, Server)
    return found


def others(cluster: BlazingmqCluster, node: str) -> list[str]:
    """All nodes but one."""
    return [other for other in cluster.nodes if other != node]


async def active(cluster: BlazingmqCluster, *nodes: str) -> str:
    """The first of these nodes that is an active leader, as soon as it is."""
    for _ in range(10_000):
        for node in nodes:
            found = cluster.by_name[node].replicas.get(SERVER)
            if isinstance(found, Server) and found.leading is not None and found.leading.active:
                return node
        await asyncio.sleep(0.01)
    raise AssertionError(f"none of {', '.join(nodes)} is active")
