"""A real etcd of three members in containers: keys and locks, while it is hurt."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.kernel.streams import Streams
from chaos.model.errors import SplitbrainError
from chaos.model.schedule import CLOCK, CUT, GROW, KILL, LEAVE, PAUSE, TRANSFER, Action
from chaos.model.settings import resolve
from clusters.base import Failed, Setup, Unknown
from clusters.brokers.etcd import Etcd
from clusters.brokers.etcd_client import EtcdClient
from clusters.hosted import HostedCluster
from tests.docker.cluster import RealClock, Seen, World, new_run, serve, until, up
from tests.docker.inside import run_in

pytestmark = pytest.mark.docker

SECOND = 10**9


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    settings = resolve(Etcd.settings, {}, "cluster.settings")
    with up(Etcd, Setup(new_run(), "etcd", "3.5", 3, settings, RealClock(), Streams(1), Seen())) as world:
        yield world


@pytest.fixture(autouse=True)
def healed(world: World) -> Iterator[None]:
    yield
    for fault in ("k1", "p1", "c1"):  # of a test that failed
        world.do(world.cluster.undo(fault))
    world.do(serve(world.cluster))


async def leads(cluster: HostedCluster, other_than: str | None = None) -> str | None:
    leader = cluster.leader()
    return None if leader == other_than else leader


async def written(client: EtcdClient, key: str, value: bytes) -> bool:
    """One attempt to write; whether it is known to have been done."""
    try:
        await asyncio.wait_for(client.write(key, value), 8)
    except (Failed, Unknown, TimeoutError):
        return False
    return True


def test_keys(world: World) -> None:
    async def main() -> None:
        one, other = [await world.cluster.connect(node, "test") for node in ("n1", "n2")]
        assert await one.read("k") is None
        first = await one.write("k", b"1")
        assert await other.read("k") == b"1"
        assert await other.compare_and_set("k", b"1", b"2") == first + 1
        assert await one.compare_and_set("k", b"1", b"3") is None
        assert await one.compare_and_set("k", None, b"3") is None
        assert await one.compare_and_set("new", None, b"") == first + 2
        assert (await other.read("k"), await other.read("new")) == (b"2", b"")
        assert await other.read("new", serializable=True) in (b"", None)
        await asyncio.gather(one.close(), other.close())
        with pytest.raises(Unknown, match="closed"):
            await one.write("k", b"4")

    world.do(main())


def test_a_killed_leader_is_replaced_in_a_new_term_while_a_lock_is_held_and_waited_for(world: World) -> None:
    cluster, seen = world.cluster, world.seen

    async def main() -> None:
        leader = await until(lambda: leads(cluster))
        term = max(view.term or 0 for view in seen.views)
        near, far = [node for node in cluster.nodes if node != leader]
        holder, waiter = await cluster.connect(near, "holder"), await cluster.connect(far, "waiter")
        doomed = await cluster.connect(leader, "doomed")
        token = await holder.acquire("lock", 20 * SECOND)
        waiting = asyncio.ensure_future(waiter.acquire("lock", 20 * SECOND))
        await asyncio.sleep(1)  # that it stands in line
        await cluster.inject("k1", Action(KILL, (leader,)))
        with pytest.raises((Failed, Unknown)):
            await doomed.write("k", b"x")
        successor = await until(lambda: leads(cluster, other_than=leader))
        await until(lambda: written(holder, "k", b"after"))
        assert not waiting.done()
        await holder.release("lock")
        later = await asyncio.wait_for(waiting, 20)
        assert later > token
        assert (await cluster.undo("k1")).bit is True
        await serve(cluster)
        back = await cluster.connect(leader, "test")
        assert await back.read("k") == b"after"
        await asyncio.gather(*(client.close() for client in (holder, waiter, doomed, back)))
        leading = {(view.node, view.term) for view in seen.views if view.role == "leader"}
        assert (leader, term) in leading
        assert successor in {node for node, of in leading if (of or 0) > term}
        assert (leader, 1, "signal SIGKILL", True) in seen.exits

    world.do(main())
    terms: dict[int | None, set[str]] = {}
    for view in seen.views:
        if view.role == "leader":
            terms.setdefault(view.term, set()).add(view.node)
    assert {term: nodes for term, nodes in terms.items() if len(nodes) > 1} == {}


def test_a_holder_behind_a_paused_member_loses_its_lock_by_its_own_clock(world: World) -> None:
    cluster = world.cluster

    async def main() -> None:
        node = next(node for node in cluster.nodes if node != cluster.leader())
        other = next(one for one in cluster.nodes if one != node)
        holder, waiter = await cluster.connect(node, "holder"), await cluster.connect(other, "waiter")
        lost: asyncio.Queue[str] = asyncio.Queue()
        holder.on_lost = lost.put_nowait
        token = await holder.acquire("lock", 2 * SECOND)
        await cluster.inject("p1", Action(PAUSE, (node,)))
        later = await asyncio.wait_for(waiter.acquire("lock", 20 * SECOND), 30)
        assert later > token
        assert await asyncio.wait_for(lost.get(), 20) == "the lease of lock was not renewed in time"
        assert (await cluster.undo("p1")).bit is True
        await asyncio.gather(holder.close(), waiter.close())

    world.do(main())


def test_a_member_that_is_cut_off_does_not_write_and_knows_no_leader(world: World) -> None:
    cluster, seen = world.cluster, world.seen

    async def main() -> None:
        node = await until(lambda: leads(cluster))
        others = [other for other in cluster.nodes if other != node]
        links = [[a, b] for other in others for a, b in ((node, other), (other, node))]
        client = await cluster.connect(node, "test")
        await cluster.inject("c1", Action(CUT, cluster.nodes, {"links": links, "service": "replication"}))
        assert not await written(client, "k", b"cut off")
        await until(lambda: leads(cluster, other_than=node))
        assert [view.role for view in seen.views if view.node == node][-1] in ("none", "candidate")
        assert (await cluster.undo("c1")).bit is True
        await client.close()

    world.do(main())


def test_a_leader_hands_over_to_the_one_that_is_named_and_nothing_asked_is_lost(world: World) -> None:
    cluster, seen = world.cluster, world.seen

    async def main() -> None:
        leader = await until(lambda: leads(cluster))
        to, third = [node for node in cluster.nodes if node != leader]
        with pytest.raises(SplitbrainError, match=f"{third}: inject: it leads nothing that {leader} could lead"):
            await cluster.inject("t0", Action(TRANSFER, (third,), {"to": leader}))
        await cluster.undo("t0")
        begun = len(seen.views)
        injected = await cluster.inject("t1", Action(TRANSFER, (leader,), {"to": to}))
        before, after = map(int, re.findall(r"term (\d+)", injected.evidence))
        assert injected.evidence == f"{leader}: {leader} led term {before}, {to} leads term {after}"
        assert after > before
        assert (await cluster.undo("t1")).bit is True
        await until(lambda: leads(cluster, other_than=leader))
        assert {(view.node, view.term) for view in seen.views[begun:] if view.role == "leader"} >= {(to, after)}
        client = await cluster.connect(leader, "test")
        assert await until(lambda: written(client, "k", b"handed over"))
        await client.close()
        for verb in (LEAVE, GROW):
            assert "has to be started in another way" in str(cluster.abilities()[verb])

    world.do(main())


def test_what_it_refuses_what_it_met_and_what_it_left(world: World, tmp_path: Path) -> None:
    with pytest.raises(SplitbrainError, match="clock cannot be done here: etcd is a Go program"):
        world.do(world.cluster.inject("bad", Action(CLOCK, ("n1",), {"offset": SECOND})))
    assert world.cluster.versions()["broker"].startswith("etcd 3.5.")
    assert world.do(world.cluster.collect(tmp_path)) == []
    assert '"level":"info"' in (tmp_path / "n1" / "etcd.log").read_text()


def test_looking_costs_little(world: World) -> None:
    """Of a core, the agent and the reporter: with room for a loaded machine above the 2 % that it should be."""
    script = "cat /proc/[0-9]*/stat | awk '/python3/ {used += $14 + $15} END {print used}'"

    container = world.container("n1")

    def ticks() -> int:
        return int(run_in(container, "sh", "-c", script)[1])

    async def main() -> None:
        before = ticks()
        await asyncio.sleep(5)
        used = (ticks() - before) / 100
        print(f"{used / 5:.2%} of a core")
        assert used / 5 < 0.08

    world.do(main())
