"""A real LavinMQ of three nodes, each with its etcd, of the image that SPLITBRAIN_LAVINMQ_IMAGE names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.kernel.streams import Streams
from chaos.model.schedule import CUT, KILL, PAUSE, Action
from chaos.model.settings import resolve
from clusters.base import Counts, Failed, Setup, Unknown
from clusters.brokers.lavinmq import Lavinmq
from clusters.hosted import HostedCluster
from tests.docker.cluster import RealClock, Seen, World, new_run, serve, until, up

IMAGE = os.environ.get("SPLITBRAIN_LAVINMQ_IMAGE")
pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(IMAGE is None, reason="SPLITBRAIN_LAVINMQ_IMAGE names no image with LavinMQ and etcd"),
]

QUEUE = "jobs"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    settings = resolve(Lavinmq.settings, {}, "cluster.settings")
    given = Setup(new_run(), "lavinmq", "2.1", 3, settings, RealClock(), Streams(1), Seen(), image=IMAGE)
    with up(Lavinmq, given, QUEUE) as world:
        yield world


@pytest.fixture(autouse=True)
def healed(world: World) -> Iterator[None]:
    yield
    for fault in ("k1", "e1", "p1", "c1"):  # of a test that failed
        world.do(world.cluster.undo(fault))
    world.do(serve(world.cluster))


async def leads(cluster: HostedCluster, other_than: str | None = None) -> str | None:
    leader = cluster.leader()
    return None if leader == other_than else leader


async def published(cluster: HostedCluster, node: str) -> bool:
    try:
        client = await cluster.connect(node, "test")
    except Unknown:
        return False
    try:
        await asyncio.wait_for(client.publish(QUEUE, b"x"), 5)
    except (Failed, Unknown, TimeoutError):
        return False
    finally:
        await client.close()
    return True


def test_any_node_serves_and_the_in_sync_set_is_told_by_names(world: World) -> None:
    cluster = world.cluster

    async def main() -> None:
        assert cluster.versions()["broker"].startswith("LavinMQ 2.")
        for node in cluster.nodes:
            assert await published(cluster, node)
        await until(lambda: counted(Counts(3, 0, 3, 3)))
        client = await cluster.connect("n1", "test")
        for _ in range(3):
            delivery = await client.get(QUEUE)
            assert delivery is not None
            await client.ack(delivery)
        assert await client.get(QUEUE) is None
        await client.close()
        leader = await until(lambda: leads(cluster))
        assert [words for _, what, words in world.seen.noted if what == "in-sync"][-1] == "n1 n2 n3"
        elected = [words for _, what, words in world.seen.noted if what == "elected"]
        assert elected[-1].startswith(f"{leader}, term ")

    async def counted(wanted: Counts) -> bool:
        return await cluster.counts(QUEUE) == wanted

    world.do(main())


def test_a_killed_leader_is_replaced_in_a_new_term(world: World) -> None:
    cluster, seen = world.cluster, world.seen

    async def main() -> None:
        leader = await until(lambda: leads(cluster))
        term = max(view.term or 0 for view in seen.views)
        await cluster.inject("k1", Action(KILL, (leader,)))
        successor = await until(lambda: leads(cluster, other_than=leader))
        await until(lambda: published(cluster, successor))
        assert (await cluster.undo("k1")).bit is True
        assert max(view.term or 0 for view in seen.views) > term
        assert (leader, "signal SIGKILL", True) in [(node, why, asked) for node, _, why, asked in seen.exits]

    world.do(main())


def test_a_leader_whose_etcd_is_killed_leaves_the_lead_which_is_no_crash(world: World) -> None:
    cluster, seen = world.cluster, world.seen

    async def main() -> None:
        leader = await until(lambda: leads(cluster))
        await cluster.inject("e1", Action(KILL, (leader,), {}, "etcd"))
        successor = await until(lambda: leads(cluster, other_than=leader))
        await until(lambda: published(cluster, successor))
        assert (await cluster.undo("e1")).bit is True
        ends = [(why, asked) for node, _, why, asked in seen.exits if node == leader]
        assert ("etcd: signal SIGKILL", True) in ends
        assert ("exit code 3: it lost the lead", True) in ends

    world.do(main())


def test_a_paused_leader_says_nothing_and_a_cut_of_replication_leaves_clients_served(world: World) -> None:
    cluster = world.cluster

    async def main() -> None:
        leader = await until(lambda: leads(cluster))
        injected = await cluster.inject("p1", Action(PAUSE, (leader,)))
        await asyncio.sleep(1)
        undone = await cluster.undo("p1")
        assert undone.bit is True
        between = [
            view for view in world.seen.views if view.node == leader
            and injected.times[leader] < view.asked and view.answered < undone.times[leader]
        ]  # fmt: skip
        assert between == []
        links = [[a, b] for a in cluster.nodes for b in cluster.nodes if a != b]
        await cluster.inject("c1", Action(CUT, cluster.nodes, {"links": links, "service": "replication"}))
        assert await published(cluster, leader)
        await asyncio.sleep(1)
        assert (await cluster.undo("c1")).bit is True

    world.do(main())


def test_what_is_left_of_it(world: World, tmp_path: Path) -> None:
    assert world.do(world.cluster.collect(tmp_path)) == []
    assert "Listening on" in (tmp_path / "n1" / "lavinmq.log").read_text()
