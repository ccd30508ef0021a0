"""Simulated streams for tests: a cluster that is up, and whole runs of the workload."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model.settings import resolve
from clusters.base import Entry, Setup
from clusters.simulated.cluster import SimulatedCluster
from clusters.simulated.stream.client import SimulatedLogClient
from clusters.simulated.stream.queue import StreamQueue
from tests.seeds import runs
from tests.simulated.made import Watcher

T = TypeVar("T")
FAULTS = ("partition", "kill", "pause", "restart", "clock", "loss")


def simulate(main: Callable[[SimulatedCluster], Coroutine[Any, Any, T]], *, seed: int = 1, **settings: Any) -> T:
    """Run `main` on a cluster that is up, with a stream "s" whose writer is n1."""

    async def on(loop: VirtualLoop) -> T:
        values = resolve(StreamQueue.settings, settings, "settings")
        setup = Setup("run", "rabbitmq-stream", None, 3, values, loop, Streams(seed), Watcher())
        cluster = SimulatedCluster(setup, StreamQueue)
        await cluster.up(lambda line: None)
        await cluster.declare("s")
        return await main(cluster)

    return run_virtual(on)


async def client(cluster: SimulatedCluster, node: str) -> SimulatedLogClient:
    made = await cluster.connect(node, f"client of {node}")
    assert isinstance(made, SimulatedLogClient)
    return made


async def seen(one: SimulatedLogClient, start: int | str = "first", seconds: float = 1.0) -> list[tuple[int, bytes]]:
    """What a reading hands out within a while."""
    got: list[tuple[int, bytes]] = []

    def take(entry: Entry) -> None:
        got.append((entry.offset, entry.body))
        one.grant(entry)

    await one.read("s", start, 2, take)
    await asyncio.sleep(seconds)
    await one.stop("s")
    return got


def data(
    seed: int, *nemeses: Any, time: str = "40s", workload: Mapping[str, Any] | None = None, **settings: Any
) -> dict[str, Any]:
    told = runs.data(seed, nemeses=nemeses or FAULTS, time=time, **settings)
    told["cluster"]["broker"] = "rabbitmq-stream"
    told["workload"] = {"name": "stream", "rate": 50, "time": time, **(workload or {})}
    return told
