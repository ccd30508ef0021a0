"""Real streams: appended to and read by offset on each node, and a whole run with a cut and a kill."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from chaos.model.schedule import KILL, SHRINK, Action
from clusters.base import Counts, Entry, Failed, LogClient, Unknown
from clusters.brokers.rabbitmq_stream import RabbitmqStream
from clusters.hosted import HostedCluster
from clusters.hosts import docker
from tests.docker.cli import SECOND, SEED, fault, splitbrain
from tests.docker.cluster import Seen, new_run, serve, setup, until

pytestmark = pytest.mark.docker

STREAM = "log #1"


async def reading(client: LogClient, start: int | str, wanted: int) -> list[tuple[int, bytes]]:
    """The first entries that a reading hands out, a few credits at a time."""
    got: list[tuple[int, bytes]] = []
    enough = asyncio.Event()

    def take(entry: Entry) -> None:
        got.append((entry.offset, entry.body))
        client.grant(entry)
        if len(got) >= wanted:
            enough.set()

    await client.read(STREAM, start, 5, take)
    await asyncio.wait_for(enough.wait(), 20)
    await client.stop(STREAM)
    return got[:wanted]


def test_append_read_by_offset_and_another_writer() -> None:
    run, seen = new_run(), Seen()
    cluster = RabbitmqStream.cluster(setup(run, seen, version="3.10", of=RabbitmqStream), "docker")
    assert isinstance(cluster, HostedCluster)
    bodies = [b"%d" % number for number in range(30)]
    whole = list(enumerate(bodies))

    async def counted(wanted: Counts) -> bool:
        try:
            return await cluster.counts(STREAM) == wanted
        except Unknown:
            return False

    async def leads() -> str | None:
        return cluster.leader(STREAM)

    async def another(before: str) -> bool:
        return cluster.leader(STREAM) not in (None, before)

    async def main() -> None:
        try:
            await cluster.up(print)
            assert cluster.versions()["broker"].startswith("RabbitMQ 3.10.")
            await cluster.declare(STREAM)
            writer = await until(leads)
            other = next(node for node in cluster.nodes if node != writer)
            client = await cluster.connect(other, "test")
            with pytest.raises(Failed, match="NO_ROUTE"):
                await client.append("no such stream", b"lost?")
            assert await asyncio.gather(*(client.append(STREAM, body) for body in bodies)) == [None] * 30
            await until(lambda: counted(Counts(30, 0, 3, 3)))
            for node in cluster.nodes:
                reader = await cluster.connect(node, "test")
                assert await reading(reader, "first", 30) == whole
                assert await reading(reader, 21, 9) == whole[21:], "the same client reads again, from elsewhere"
                await reader.close()
            new = asyncio.ensure_future(reading(client, "next", 1))
            await asyncio.sleep(1)
            await client.append(STREAM, b"new")
            assert await asyncio.wait_for(new, 20) == [(30, b"new")]
            epoch = max(view.term or 0 for view in seen.views)

            await cluster.inject("k1", Action(KILL, (writer,)))
            await until(lambda: another(writer))
            await asyncio.wait_for(client.append(STREAM, b"newer"), 30)  # sent again to the new writer, if need be
            assert (await cluster.undo("k1")).bit is True
            await serve(cluster)
            assert {view.role for view in seen.views} >= {"leader", "replica"}
            assert max(view.term or 0 for view in seen.views) > epoch
            back = await cluster.connect(writer, "test")
            assert await reading(back, 29, 3) == [(29, b"29"), (30, b"new"), (31, b"newer")]
            await back.close()

            injected = await cluster.inject("m1", Action(SHRINK, (writer,)))
            assert f"{STREAM}: kept by " in injected.evidence
            await until(lambda: counted(Counts(32, 0, 2, 2)))
            assert (await cluster.undo("m1")).bit is True
            await until(lambda: counted(Counts(32, 0, 3, 3)))
            lost: asyncio.Queue[str] = asyncio.Queue()
            client.on_lost = lost.put_nowait
            await client.close()
            assert lost.empty()
        finally:
            await cluster.down()

    asyncio.run(main())
    assert docker.clean(run) == [], "down left nothing"


def test_a_run_with_a_cut_and_a_kill_keeps_what_was_confirmed(tmp_path: Path) -> None:
    faults = [
        {**fault("partition", "halves", "n1"), "at": 2 * SECOND, "duration": 9 * SECOND},
        {**fault("kill", "kill", "leader"), "at": 14 * SECOND, "duration": 3 * SECOND},
    ]
    schedule = tmp_path / "schedule.json"
    schedule.write_text(json.dumps({"schema": 1, "faults": faults}))
    done = splitbrain(
        tmp_path, "run", "--broker", "rabbitmq-stream@4.0", "--on", "docker", "--workload", "stream", "--rate", "60",
        "--time", "22s", "--nemesis", "partition,kill", "--schedule", str(schedule), "--set", "workload.stay=4s",
        "--json", "--seed", SEED,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {name: result["counts"] for name, result in json.loads(done.stdout)["checkers"].items()}
    assert counts["streams"]["polled"] >= counts["streams"]["acknowledged"] > 100
    assert counts["leaders"]["terms"] > 1
    assert counts["earned"]["bit"] == 2
