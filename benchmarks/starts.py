"""Each real broker, three nodes in containers: how soon it serves, and what sampling the nodes' beliefs costs.

LavinMQ and BlazingMQ are of the images that SPLITBRAIN_LAVINMQ_IMAGE and SPLITBRAIN_BLAZINGMQ_IMAGE name. What sampling
costs is the processor time of a whole idle node, broker and agent, with its agent at work less that with it stopped.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from typing import Any

from benchmarks.containers import Nobody
from chaos import scenario
from chaos.kernel.real import RealClock
from chaos.kernel.streams import Streams
from clusters.base import Setup
from clusters.hosted import HostedCluster
from clusters.hosts.engine import engine
from clusters.make import make

STARTS = 3
ROUNDS = 3
SECONDS = 6  # of each half of a round
IMAGES = {"lavinmq@2.1": "SPLITBRAIN_LAVINMQ_IMAGE", "blazingmq": "SPLITBRAIN_BLAZINGMQ_IMAGE"}
BROKERS = (
    "rabbitmq-quorum@4.0",
    "rabbitmq-quorum@3.10",
    "rabbitmq-mirrored@3.10",
    "rabbitmq-stream@4.0",
    "etcd@3.5",
    *IMAGES,
)
WORKLOADS = {"etcd@3.5": "register", "rabbitmq-stream@4.0": "stream"}


def main() -> None:
    """All of it; needs a Docker engine."""
    asyncio.run(_main())


async def _main() -> None:
    rows, costs = [], []
    for broker in BROKERS:
        image = os.environ.get(IMAGES.get(broker, ""))
        if broker in IMAGES and not image:
            print(f"{broker}: {IMAGES[broker]} names no image", flush=True)
            continue
        serves = []
        for number in range(STARTS):
            cluster, run = _cluster(broker, image, number)
            lines: list[str] = []
            begun = time.monotonic()
            try:
                await cluster.up(lines.append)
                serves.append(time.monotonic() - begun)
                print(f"{broker}: {lines[-1]}", flush=True)
                if number == STARTS - 1:
                    costs.append((broker, await _sampling(cluster, run)))
            finally:
                await cluster.down()
        rows.append((broker, statistics.median(serves), min(serves), max(serves)))
    print("\n| three nodes | serve after, s: median | least | most |\n|---|---|---|---|")
    for broker, median, least, most in rows:
        print(f"| {broker} | {median:.1f} | {least:.1f} | {most:.1f} |")
    print("(each at most 30 s)\n\n| broker | sampling, % of a core a node: median | least | most |\n|---|---|---|---|")
    for broker, shares in costs:
        print(f"| {broker} | {statistics.median(shares):.2f} | {min(shares):.2f} | {max(shares):.2f} |")
    print("(each below 2 %)")


def _cluster(broker: str, image: str | None, number: int) -> tuple[HostedCluster, str]:
    about = {"schema": 1, "name": "start", "cluster": {"broker": broker, "on": "docker", "nodes": 3},
             "workload": {"name": WORKLOADS.get(broker, "queue")}}  # fmt: skip
    part, run = scenario.from_data(about).cluster, f"benchmark-{broker.partition('@')[0]}-{number}"
    setup = Setup(
        run, part.broker, part.version, part.nodes, part.settings, RealClock(), Streams(1), Nobody(), image=image
    )
    cluster = make(part.on, setup)
    assert isinstance(cluster, HostedCluster)
    return cluster, run


async def _sampling(cluster: HostedCluster, run: str) -> list[float]:
    """Per cent of a core, of each node in each round."""
    await cluster.declare("idle")
    containers = [engine().containers.get(f"splitbrain-{run}-{node}") for node in cluster.nodes]
    shares = []
    for number in range(ROUNDS):
        used = {}
        for signal in ("STOP", "CONT") if number % 2 else ("CONT", "STOP"):
            for container in containers:
                container.exec_run(["pkill", f"-{signal}", "-f", "clusters[.]agent"])
            await asyncio.sleep(1)
            before = [_used(container) for container in containers]
            await asyncio.sleep(SECONDS)
            used[signal] = [_share(then, _used(one)) for then, one in zip(before, containers, strict=True)]
        for container in containers:
            container.exec_run(["pkill", "-CONT", "-f", "clusters[.]agent"])
        shares += [one - other for one, other in zip(used["CONT"], used["STOP"], strict=True)]
    return shares


def _used(container: Any) -> tuple[float, float]:
    """Seconds of processor time that a container has used, and when that was."""
    said = container.stats(stream=False, one_shot=True)["cpu_stats"]["cpu_usage"]["total_usage"]
    return said / 1e9, time.monotonic()


def _share(before: tuple[float, float], after: tuple[float, float]) -> float:
    return 100 * (after[0] - before[0]) / (after[1] - before[1])
