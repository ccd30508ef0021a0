"""Real RabbitMQ, three nodes in containers: how soon it serves, how punctual a fault is, what recording costs.

The last is our queue workload with everything recorded, against a bare aio-pika loop that does the same (publish with
confirms and `mandatory`, consume, acknowledge) on the same brokers, turn and turn about.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from chaos import scenario
from chaos.kernel.clock import SECOND
from chaos.kernel.real import RealClock
from chaos.kernel.recorder import Recorder
from chaos.kernel.streams import Streams
from chaos.model.history_file import HistoryWriter
from chaos.model.op import CONTROLLER, OK
from chaos.model.schedule import CUT, KILL, LOSS, PAUSE, SHAPE, Action
from clusters.base import LeaderView, Setup
from clusters.hosted import HostedCluster
from clusters.make import make
from workloads.base import Context
from workloads.queue import Queue

STARTS = 3
TIMES = 5  # that each fault is injected
ROUNDS = 9
SECONDS = 8
CLIENTS = 3
WINDOW = 200
PREFETCH = 20
SIZE = 100
SCENARIO = {
    "schema": 1,
    "name": "benchmark",
    "cluster": {"broker": "rabbitmq-quorum@4.0", "on": "docker", "nodes": 3},
    "workload": {"name": "queue", "rate": 10_000, "producers": CLIENTS, "consumers": CLIENTS, "window": WINDOW,
                 "prefetch": PREFETCH, "size": SIZE},
}  # fmt: skip


class Nobody:
    """An observer that looks away."""

    def leader(self, view: LeaderView) -> None:
        pass

    def exited(self, node: str, incarnation: int, time: int, reason: str, asked: bool) -> None:
        pass

    def noticed(self, node: str, time: int, what: str, words: str) -> None:
        pass

    def synchronising(self, scope: str, node: str, over: bool) -> None:
        pass

    def logged(self, node: str, line: str) -> None:
        pass

    def broken(self, why: str) -> None:
        pass


def main() -> None:
    """All of it; needs a Docker engine."""
    asyncio.run(_main())


async def _main() -> None:
    serves, gone = [], []
    for number in range(STARTS):
        cluster, clock = _cluster(number)
        begun = time.monotonic()
        lines: list[str] = []
        await cluster.up(lines.append)
        serves.append(time.monotonic() - begun)
        print(lines[-1], flush=True)
        if number == STARTS - 1:
            await _punctuality(cluster, clock)
            await _overhead(cluster, clock)
        begun = time.monotonic()
        await cluster.down()
        gone.append(time.monotonic() - begun)
    print(f"\nthree nodes serve after a median of {statistics.median(serves):.1f} s (at most 30 s)")
    print(f"and are gone after a median of {statistics.median(gone):.1f} s (at most 5 s)")


def _cluster(number: int) -> tuple[HostedCluster, RealClock]:
    planned = scenario.from_data(SCENARIO)
    clock = RealClock()
    part = planned.cluster
    setup = Setup(
        f"benchmark-{number}", part.broker, part.version, part.nodes, part.settings, clock, Streams(1), Nobody()
    )
    cluster = make(part.on, setup)
    assert isinstance(cluster, HostedCluster)
    return cluster, clock


async def _punctuality(cluster: HostedCluster, clock: RealClock) -> None:
    """From the moment at which a fault, or its end, is due to its being so on all its nodes, by their own stamps."""
    print("\n| fault | in force, ms: median, most | healed, ms: median, most |")
    print("|---|---|---|")
    begun, over = [], []
    for name, action in _faults().items():
        lacks = [why for one in action.needs() if (why := cluster.abilities()[one])]
        if lacks:
            print(f"| {name} | {lacks[0]} | |")
            continue
        late, long = [], []
        for number in range(TIMES):
            due = clock.now()
            injected = await cluster.inject(f"{name} {number}", action)
            late.append((max(injected.times.values()) - due) / 1e6)
            due = clock.now()
            undone = await cluster.undo(f"{name} {number}")
            long.append((max(undone.times.values()) - due) / 1e6)
            await _serving(cluster)
        print(f"| {name} | {_told(late)} | {_told(long)} |", flush=True)
        begun += late
        over += long
    print(f"| all | {_told(begun)} | {_told(over)} |")
    print("(each within 300 ms)")


def _faults() -> dict[str, Action]:
    ends = (("n1", "n2"), ("n2", "n1"), ("n1", "n3"), ("n3", "n1"))
    links = {"links": [[source, target] for source, target in ends], "service": None}
    clients = {"links": [["n1", "clients"], ["clients", "n1"]]}
    nodes = ("n1", "n2", "n3")
    return {
        "pause": Action(PAUSE, ("n2",)),
        "kill": Action(KILL, ("n3",)),
        "cut": Action(CUT, nodes, links),
        "cut of clients": Action(CUT, ("n1",), clients),
        "cut, flapping": Action(CUT, nodes, {**links, "flap": [100_000_000, 50_000_000]}),
        "loss": Action(LOSS, nodes, {**links, "probability": 0.2}),
        "packets corrupt": Action(SHAPE, nodes, {**links, "corrupt": 0.05}),
        "packets twice": Action(SHAPE, nodes, {**links, "duplicate": 0.2}),
        "packets at a rate": Action(SHAPE, nodes, {**links, "rate": 50_000}),
        "packets late": Action(SHAPE, nodes, {**links, "delay": 100_000_000, "jitter": 30_000_000}),
        "packets out of order": Action(SHAPE, nodes, {**links, "delay": 100_000_000, "reorder": 0.25}),
    }


def _told(some: list[float]) -> str:
    return f"{statistics.median(some):.0f}, {max(some):.0f}"


async def _serving(cluster: HostedCluster) -> None:
    while any(why is not None for why in (await cluster.serving()).values()):  # noqa: ASYNC110 - it has to be asked
        await asyncio.sleep(0.5)


async def _overhead(cluster: HostedCluster, clock: RealClock) -> None:
    print("\n| round | bare aio-pika, confirms / s | recorded, confirms / s | ratio |")
    print("|---|---|---|---|")
    ratios = []
    for number in range(1, ROUNDS + 1):
        bare = await _bare(cluster, f"bare-{number}")
        ours = await _recorded(cluster, clock, number, rate=1.25 * bare)
        ratios.append(ours / bare)
        print(f"| {number} | {bare:,.0f} | {ours:,.0f} | {ratios[-1]:.2f} |", flush=True)
    print(f"\nmedian ratio: {statistics.median(ratios):.2f} (at least 0.8)")


async def _recorded(cluster: HostedCluster, clock: RealClock, number: int, rate: float) -> float:
    """The windows are always full at a quarter more than can be; what falls due in vain costs time that is nobody's."""
    options = {**scenario.from_data(SCENARIO).workload.options, "rate": rate}
    with _folder() as folder:
        recorder = Recorder(clock, HistoryWriter(folder / "history.arrows"))
        context = Context(cluster, recorder, clock, Streams(number), clock.now())
        workload = Queue(options)
        await workload.setup(context)
        recorder.note(CONTROLLER, "phase")
        await recorder.written()  # what the first row costs, imports mostly, falls into a run's start
        begun = clock.now()
        await workload.work(replace(context, until=begun + SECONDS * SECOND))
        taken = (clock.now() - begun) / SECOND
        await workload.drain(context, clock.now() + 60 * SECOND)  # the next round begins with an empty queue
        recorder.give_up("over")
        confirmed = len(recorder.close().rows("publish", OK))
    return confirmed / taken


async def _bare(cluster: HostedCluster, queue: str) -> float:
    """The same number of clients, window, prefetch and size, and nothing recorded."""
    await cluster.declare(queue)
    until = time.monotonic() + SECONDS
    begun = time.monotonic()
    counts = await asyncio.gather(
        *(_publish(cluster.address(node), queue, until) for node in cluster.nodes[:CLIENTS]),
        *(_consume(cluster.address(node), queue, until) for node in cluster.nodes[:CLIENTS]),
    )
    taken = time.monotonic() - begun
    connection = await aio_pika.connect(f"amqp://guest:guest@{cluster.address('n1')}/")
    await (await connection.channel()).queue_delete(queue)
    await connection.close()
    return sum(counts[:CLIENTS]) / taken


async def _publish(address: str, queue: str, until: float) -> int:
    connection = await aio_pika.connect(f"amqp://guest:guest@{address}/")
    channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
    room = asyncio.Semaphore(WINDOW)
    confirmed = 0

    async def one(body: bytes) -> None:
        nonlocal confirmed
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, queue, mandatory=True)
        confirmed += 1
        room.release()

    running = []
    while time.monotonic() < until:
        await room.acquire()
        running.append(asyncio.ensure_future(one(b"." * SIZE)))
    await asyncio.gather(*running)
    await connection.close()
    return confirmed


async def _consume(address: str, queue: str, until: float) -> int:
    connection = await aio_pika.connect(f"amqp://guest:guest@{address}/")
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=PREFETCH)

    async def acknowledge(message: AbstractIncomingMessage) -> None:
        await message.ack()

    await (await channel.get_queue(queue, ensure=False)).consume(acknowledge)
    await asyncio.sleep(until - time.monotonic())
    await connection.close()
    return 0


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
