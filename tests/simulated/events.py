"""Run as a module: prints a digest of all that a simulated run with many faults did, and how many events it took.

python -m tests.simulated.events SEED
"""

from __future__ import annotations

import asyncio
import hashlib
import sys

from chaos.model.schedule import KILL, LOSS, PAUSE, POWER_OFF, Action
from clusters.base import Delivery, Unknown
from clusters.simulated.client import SimulatedClient
from clusters.simulated.cluster import SimulatedCluster
from tests.simulated.made import Watcher, cut, seconds, served, simulate


async def consume(cluster: SimulatedCluster, node: str, seen: list[tuple[object, ...]]) -> None:
    while True:
        try:
            client = await cluster.connect(node, "c")
            gone = asyncio.Event()
            client.on_lost = lambda reason, gone=gone: gone.set()

            def deliver(delivery: Delivery, client: SimulatedClient = client) -> None:
                seen.append((cluster.loop.now(), node, delivery.body, delivery.redelivered))
                asyncio.ensure_future(client.ack(delivery)).add_done_callback(asyncio.Future.exception)

            await client.subscribe("q", 7, deliver)
            await gone.wait()
        except Unknown:
            await seconds(0.3)


async def publish(cluster: SimulatedCluster, node: str, seen: list[tuple[object, ...]], count: int) -> None:
    client = None
    for number in range(count):
        await seconds(0.02)
        try:
            client = client or await cluster.connect(node, "p")
            async with asyncio.timeout(2):
                await client.publish("q", f"{node} {number}".encode())
            seen.append((cluster.loop.now(), node, number))
        except (Unknown, TimeoutError) as error:
            seen.append((cluster.loop.now(), node, number, str(error)))
            client = None


async def main(cluster: SimulatedCluster, watcher: Watcher) -> str:
    seen: list[tuple[object, ...]] = []
    consumers = [asyncio.ensure_future(consume(cluster, node, seen)) for node in cluster.nodes]
    publishers = [asyncio.ensure_future(publish(cluster, node, seen, 300)) for node in cluster.nodes]
    links = [[one, other] for one in cluster.nodes for other in cluster.nodes if one != other]
    for number, action in enumerate(
        (
            cut(cluster, "n1"),
            Action(KILL, ("n2",)),
            Action(LOSS, cluster.nodes, {"links": links, "probability": 0.1}),
            Action(PAUSE, ("n3",)),
            Action(POWER_OFF, cluster.nodes),
        )
    ):
        await seconds(1)
        await cluster.inject(f"f{number}", action)
        await seconds(3)
        await cluster.undo(f"f{number}")
    await served(cluster)
    await asyncio.gather(*publishers)
    for consumer in consumers:
        consumer.cancel()
    logs = [line for node in cluster.by_name.values() for line in node.log]
    everything = repr((seen, watcher.views, watcher.exits, logs, cluster.loop.now()))
    return f"{hashlib.sha256(everything.encode()).hexdigest()} {cluster.loop.happened} {len(seen)}"


if __name__ == "__main__":
    print(simulate(main, seed=int(sys.argv[1]), net_ticktime="2s", snapshot_interval=100))
