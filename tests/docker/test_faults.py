"""Faults of processes and disks on a real RabbitMQ of three nodes, one for the whole module, whose data are on disks of
ours; each with the probe that it bit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.model.errors import SplitbrainError
from chaos.model.schedule import (
    CRASH_LOOP,
    CUT,
    DAMAGE,
    DISK_FULL,
    DISK_READ_ONLY,
    DISK_SLOW,
    KILL,
    NODE_STOP,
    OWN_DISK,
    PAUSE,
    POWER_OFF,
    STARVE,
    Action,
)
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from clusters.hosted import HostedCluster
from tests.docker.cluster import Seen, World, new_run, serve, setup, until, up

pytestmark = pytest.mark.docker

QUEUE = "jobs"
STARTED = "Server startup complete"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    given = replace(setup(new_run(), Seen(), version="4.0"), verbs=(*OWN_DISK, STARVE), lines=(STARTED,), syncs=True)
    before = loops()
    with up(RabbitmqQuorum, given, QUEUE) as world:
        yield world
    assert set(loops()) <= set(before), "no loop device either"


def loops() -> list[str]:
    return sorted(str(path) for path in Path("/sys/block").glob("loop*/loop/backing_file"))


@pytest.fixture(autouse=True)
def healed(world: World, request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if not any(word in request.node.name for word in ("damaged", "power_off")):
        world.do(serve(world.cluster))


def test_a_crash_loop_kills_the_broker_each_time_that_it_serves(world: World) -> None:
    async def main() -> None:
        begun = len(world.seen.exits)
        await world.cluster.inject("c1", Action(CRASH_LOOP, ("n3",), {"times": 2}))
        await until(ended_twice)
        assert world.seen.exits[begun:] == [("n3", life, "signal SIGKILL", True) for life in (1, 2)]
        undone = await world.cluster.undo("c1")
        assert (undone.bit, undone.evidence) == (True, "n3: killed 2 of 2 times, each as soon as it served")

    async def ended_twice() -> bool:
        return len([one for one in world.seen.exits if one[0] == "n3"]) == 2

    world.do(main())


def test_a_broker_is_starved_of_cpu_and_of_memory(world: World) -> None:
    async def main() -> None:
        cluster = world.cluster
        stop = asyncio.Event()
        work = asyncio.ensure_future(publishing(cluster, "n1", stop))
        injected = await cluster.inject("s1", Action(STARVE, ("n1",), {"cpu": 0.01}))
        assert injected.evidence == "n1: held to 0.01 of a core"
        await asyncio.sleep(3)
        undone = await cluster.undo("s1")
        assert undone.bit is True
        assert undone.evidence.startswith("n1: the kernel made it wait for cpu ")
        await cluster.inject("s2", Action(STARVE, ("n1",), {"memory": 512 << 10}))
        await asyncio.sleep(6)
        undone = await cluster.undo("s2")
        assert undone.bit is True
        stop.set()
        await work
        assert "splitbrain-" not in world.shell("n1", "ls /sys/fs/cgroup /sys/fs/cgroup/*")

    world.do(main())


def test_a_slow_disk_takes_so_much_a_second(world: World) -> None:
    async def main() -> None:
        injected = await world.cluster.inject("w1", Action(DISK_SLOW, ("n2",), {"rate": 200_000}))
        undone = await world.cluster.undo("w1")
        assert (undone.bit, undone.evidence) == (True, injected.evidence)

    world.do(main())


async def publishing(cluster: HostedCluster, node: str, stop: asyncio.Event) -> int:
    """Publish through a node until told to stop, some at a time; how many were confirmed."""
    client = await cluster.connect(node, "test")
    confirmed = 0
    while not stop.is_set():
        some = [asyncio.ensure_future(client.publish(QUEUE, b"x" * 1000)) for _ in range(20)]
        done, late = await asyncio.wait(some, timeout=5)
        for one in late:
            one.cancel()
        confirmed += sum(not one.cancelled() and one.exception() is None for one in done)
        await asyncio.sleep(0.05)
    await client.close()
    return confirmed


def test_a_node_that_is_shut_down_stops_in_order_and_falls_silent(world: World) -> None:
    async def main() -> None:
        await world.cluster.inject("n1", Action(NODE_STOP, ("n2",)))
        await until(silent)
        undone = await world.cluster.undo("n1")
        assert undone.bit is True
        node, _, _, asked = world.seen.exits[-1]
        assert (node, asked) == ("n2", True)

    async def silent() -> bool:
        return "drop" in world.shell("n2", "nft list table inet splitbrain")

    world.do(main())


def test_a_full_disk_takes_no_write_and_the_broker_is_back_once_there_is_room(world: World) -> None:
    async def main() -> None:
        cluster = world.cluster
        stop = asyncio.Event()
        work = asyncio.ensure_future(publishing(cluster, "n1", stop))
        injected = await cluster.inject("f1", Action(DISK_FULL, ("n3",), {"restart": True}))
        assert injected.evidence == "n3: a write of the broker's user fails: ENOSPC"
        assert world.shell("n3", "df --output=avail /var/lib/rabbitmq/mnesia | tail -1") == "0"
        assert int(world.shell("n3", "df --output=avail / | tail -1")) > 1_000_000, "and nobody else's disk is full"
        await asyncio.sleep(4)
        undone = await cluster.undo("f1")
        assert (undone.bit, undone.evidence) == (True, injected.evidence)
        await serve(cluster)
        await until(told)
        assert cluster.newest() == "n3"
        stop.set()
        assert await work > 0

    async def told() -> bool:
        return world.seen.lines[-1][0] == "n3" and STARTED in world.seen.lines[-1][1]

    world.do(main())


def test_a_replica_that_is_cut_off_is_seen_to_lack_what_is_published_and_then_to_have_it(world: World) -> None:
    """Cut, and not restarted: whoever has caught up before the first look at it was never seen behind."""

    async def main() -> None:
        cluster = world.cluster
        stop = asyncio.Event()
        work = asyncio.ensure_future(publishing(cluster, "n1", stop))
        links = [[a, b] for other in ("n1", "n2") for a, b in (("n3", other), (other, "n3"))]
        await cluster.inject("c2", Action(CUT, cluster.nodes, {"links": links}))
        await until(lambda: told(False))
        await cluster.undo("c2")
        await until(lambda: told(True))
        stop.set()
        assert await work > 0

    async def told(over: bool) -> bool:
        return [over for scope, node, over in world.seen.synced if (scope, node) == (QUEUE, "n3")][-1:] == [over]

    world.do(main())


def test_a_read_only_disk_takes_no_write_until_it_is_mounted_anew(world: World) -> None:
    async def main() -> None:
        injected = await world.cluster.inject("r1", Action(DISK_READ_ONLY, ("n2",)))
        assert injected.evidence.startswith("n2: a write of the broker's user fails: EROFS; mounted ")
        assert "emergency_ro" in world.shell("n2", "grep mnesia /proc/mounts") or ",ro," in injected.evidence
        await asyncio.sleep(2)
        undone = await world.cluster.undo("r1")
        assert undone.bit is True
        assert "emergency_ro" not in world.shell("n2", "grep mnesia /proc/mounts")

    world.do(main())


def test_epmd_is_killed_and_paused_while_the_broker_runs_on(world: World) -> None:
    """Near the end: RabbitMQ looks once a minute whether it is still registered there, and until then no node that
    is started finds it."""

    async def main() -> None:
        begun = len(world.seen.exits)
        before = world.shell("n1", "pgrep -u rabbitmq -x epmd")
        assert before
        await world.cluster.inject("e1", Action(KILL, ("n1",), process="epmd"))
        assert world.shell("n1", "pgrep -u rabbitmq -x epmd") != before
        undone = await world.cluster.undo("e1")
        assert (undone.bit, undone.evidence) == (True, f"n1: pid {before} was killed")
        assert world.shell("n1", "pgrep -u rabbitmq -x epmd") not in ("", before)
        await world.cluster.inject("e2", Action(PAUSE, ("n2",), process="epmd"))
        assert world.shell("n2", "ps -o stat= -C epmd").startswith("T")
        assert (await world.cluster.undo("e2")).bit is True
        assert not world.shell("n2", "ps -o stat= -C epmd").startswith("T")
        assert world.seen.exits[begun:] == [], "no broker ended"

    world.do(main())


def test_a_power_off_loses_what_was_not_synced_and_the_node_is_silent(world: World) -> None:
    """RabbitMQ writes some files without syncing them: whether the node starts again is not for this to say."""

    async def main() -> None:
        cluster = world.cluster
        client = await cluster.connect("n2", "test")
        lost: asyncio.Queue[str] = asyncio.Queue()
        client.on_lost = lost.put_nowait
        await cluster.inject("o1", Action(POWER_OFF, ("n2",)))
        assert world.shell("n2", "pgrep -u rabbitmq .") == "", "no process of the broker is left, epmd neither"
        assert "mnesia" not in world.shell("n2", "cat /proc/mounts")
        await asyncio.sleep(2)
        assert lost.empty(), "a machine without power closes no connection"
        undone = await cluster.undo("o1")
        assert undone.bit is True
        assert "what we had written and not synced was lost" in undone.evidence
        assert "mnesia" in world.shell("n2", "cat /proc/mounts")
        assert world.shell("n2", "pgrep -u rabbitmq .") != ""
        await client.close()

    world.do(main())


def test_damaged_files_are_not_what_they_were(world: World) -> None:
    """The last of all: RabbitMQ 4.0 finds the damage, and does not start any more."""

    async def main() -> None:
        args = {"how": "flip", "what": "wal", "files": 1, "draw": 7}
        injected = await world.cluster.inject("d1", Action(DAMAGE, ("n3",), args))
        assert ".wal 8 bits flipped from byte " in injected.evidence
        with pytest.raises(SplitbrainError, match="the broker keeps no 'wall'; did you mean 'wal'"):
            await world.cluster.inject("d2", Action(DAMAGE, ("n1",), {**args, "what": "wall"}))
        undone = await world.cluster.undo("d1")
        assert undone.bit is True

    world.do(main())
