"""A simulated cluster with a mirrored queue, for tests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model.settings import resolve
from clusters.base import Setup, Unknown
from clusters.simulated.cluster import SimulatedCluster
from clusters.simulated.mirrored.queue import MirroredQueue
from clusters.simulated.mirrored.replica import Mirror
from tests.simulated.made import Watcher, outcome, seconds

T = TypeVar("T")


def simulate(
    main: Callable[[SimulatedCluster, Watcher], Coroutine[Any, Any, T]],
    *,
    seed: int = 1,
    nodes: int = 3,
    **settings: Any,
) -> T:
    """Run `main` on a cluster that is up, with a queue "q" whose master is n1."""

    async def on(loop: VirtualLoop) -> T:
        watcher = Watcher()
        values = resolve(MirroredQueue.settings, settings, "settings")
        setup = Setup("run", "rabbitmq-mirrored", None, nodes, values, loop, Streams(seed), watcher)
        cluster = SimulatedCluster(setup, MirroredQueue)
        await cluster.up(lambda line: None)
        await cluster.declare("q")
        return await main(cluster, watcher)

    return run_virtual(on)


def replica(cluster: SimulatedCluster, node: str) -> Mirror:
    return cast(Mirror, cluster.by_name[node].replicas["q"])


def masters(cluster: SimulatedCluster) -> list[str]:
    """Every node that is master, as it holds itself."""
    there = {name: node.replicas.get("q") for name, node in cluster.by_name.items()}
    return [name for name, mine in there.items() if mine is not None and cluster.protocol.leads(mine) is not None]


def bodies(cluster: SimulatedCluster, node: str) -> list[bytes]:
    """What a node holds of the queue."""
    return [body for _, body, _ in replica(cluster, node).contents.messages.values()]


async def publish(cluster: SimulatedCluster, node: str, *texts: str) -> list[str]:
    """Publish through a node; each one's outcome."""
    client = await cluster.connect(node, "p")
    outcomes = [await outcome(client.publish("q", text.encode())) for text in texts]
    await client.close()
    return outcomes


async def take(cluster: SimulatedCluster, node: str, number: int) -> list[bytes]:
    """Poll and acknowledge so many messages at a node."""
    client = await cluster.connect(node, "c")
    taken = []
    for _ in range(number):
        delivery = await client.get("q")
        if delivery is None:
            break
        taken.append(delivery.body)
        assert await client.ack(delivery)
    await client.close()
    return taken


__all__ = ["Unknown", "Watcher", "bodies", "masters", "outcome", "publish", "replica", "seconds", "simulate", "take"]
