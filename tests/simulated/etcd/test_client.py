"""Keys and locks of a simulated etcd, as its clients see them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from chaos.kernel.clock import SECOND
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model.schedule import CLOCK, KILL, PAUSE, Action
from chaos.model.settings import resolve
from clusters.base import Failed, Setup, Unknown
from clusters.simulated.etcd.client import EtcdClient
from clusters.simulated.etcd.group import STORE
from clusters.simulated.etcd.protocol import Etcd, EtcdCluster
from clusters.simulated.network import CLIENTS
from tests.simulated.made import Watcher, cut, outcome, seconds, served

T = TypeVar("T")
TTL = 4 * SECOND


def simulate(main: Callable[[EtcdCluster], Coroutine[Any, Any, T]], seed: int = 1, **settings: Any) -> T:
    """Run `main` on three nodes that serve."""

    async def on(loop: VirtualLoop) -> T:
        values = resolve(Etcd.settings, settings, "settings")
        cluster = EtcdCluster(Setup("run", "etcd", None, 3, values, loop, Streams(seed), Watcher()), Etcd)
        await cluster.up(lambda line: None)
        return await main(cluster)

    return run_virtual(on)


async def client(cluster: EtcdCluster, node: str) -> EtcdClient:
    made = await cluster.connect(node, "c")
    assert isinstance(made, EtcdClient)
    return made


def others(cluster: EtcdCluster, *but: str | None) -> list[str]:
    return [node for node in cluster.nodes if node not in but]


def apart(*nodes: str) -> Action:
    """Clients cannot reach these nodes, nor hear from them."""
    links = [pair for node in nodes for pair in ([CLIENTS, node], [node, CLIENTS])]
    return Action("cut", nodes, {"links": links, "service": CLIENTS})


def test_what_is_written_through_one_node_is_read_through_the_others() -> None:
    async def main(cluster: EtcdCluster) -> None:
        one, other = await client(cluster, "n1"), await client(cluster, "n3")
        assert await other.read("x") is None
        first = await one.write("x", b"1")
        assert (await other.read("x"), await other.read("x", serializable=True)) == (b"1", b"1")
        assert await other.write("y", b"2") == first + 1
        assert await one.read("") is None  # not by prefix

    simulate(main)


def test_compare_and_set_changes_only_what_it_expects() -> None:
    async def main(cluster: EtcdCluster) -> list[object]:
        one, other = await client(cluster, "n1"), await client(cluster, "n2")
        return [
            await one.compare_and_set("x", b"1", b"2"),
            await one.compare_and_set("x", None, b"1"),
            await other.compare_and_set("x", None, b"2"),
            await other.compare_and_set("x", b"1", b"2"),
            await one.read("x"),
        ]

    assert simulate(main) == [None, 2, None, 3, b"2"]


def test_a_serializable_read_on_the_minority_side_is_old_and_a_linearizable_one_gets_no_answer() -> None:
    async def main(cluster: EtcdCluster) -> None:
        assert cluster.leader() == "n1"
        old, new = await client(cluster, "n3"), await client(cluster, "n1")
        await new.write("x", b"1")
        await cluster.inject("cut", cut(cluster, "n3"))
        await seconds(2)
        await new.write("x", b"2")
        assert await old.read("x", serializable=True) == b"1"
        assert await outcome(old.read("x"), 3) == "TimeoutError"
        assert await outcome(old.read("x"), 10) == "Unknown: etcdserver: no leader"
        await cluster.undo("cut")
        await served(cluster)
        assert await old.read("x", serializable=True) == b"2"

    simulate(main)


def test_a_write_whose_leader_dies_is_in_doubt() -> None:
    async def main(cluster: EtcdCluster) -> None:
        leader = cluster.leader()
        assert leader is not None
        doomed, other = await client(cluster, leader), await client(cluster, others(cluster, leader)[0])
        lost: list[str] = []
        doomed.on_lost = lost.append
        write = asyncio.ensure_future(doomed.write("x", b"1"))
        await asyncio.sleep(0)
        await cluster.inject("kill", Action(KILL, (leader,), {}))
        with pytest.raises(Unknown):
            await write
        assert len(lost) == 1
        with pytest.raises(Unknown, match="the connection is gone"):
            await doomed.read("x")
        await seconds(3)
        await other.write("x", b"2")
        assert cluster.leader() not in (None, leader)

    simulate(main)


def test_a_lock_passes_from_one_to_the_next_with_greater_tokens() -> None:
    async def main(cluster: EtcdCluster) -> list[tuple[str, int]]:
        held: list[tuple[str, int]] = []
        inside = 0

        async def use(name: str, node: str, times: int) -> None:
            nonlocal inside
            mine = await client(cluster, node)
            for _ in range(times):
                held.append((name, await mine.acquire("l", TTL)))
                inside += 1
                assert inside == 1
                await seconds(0.5)
                inside -= 1
                await mine.release("l")
            await mine.close()

        await asyncio.gather(use("a", "n1", 3), use("b", "n2", 3), use("c", "n3", 3))
        return held

    held = simulate(main)
    assert sorted(name for name, _ in held) == list("aaabbbccc")
    assert [token for _, token in held] == sorted({token for _, token in held})


def test_a_lease_is_renewed_for_as_long_as_it_takes_and_a_close_ends_it() -> None:
    async def main(cluster: EtcdCluster) -> None:
        one, other = await client(cluster, "n1"), await client(cluster, "n2")
        first = await one.acquire("l", TTL)
        waiting = asyncio.ensure_future(other.acquire("l", TTL))
        await seconds(30)
        assert not waiting.done()
        await one.close()
        assert await asyncio.wait_for(waiting, 1) > first
        with pytest.raises(Failed, match="holds l"):
            await other.acquire("l", TTL)
        with pytest.raises(Failed, match="not held"):
            await other.release("m")

    simulate(main)


def test_a_holder_that_nobody_hears_gives_up_before_another_gets_the_lock() -> None:
    async def main(cluster: EtcdCluster) -> None:
        follower, leader = others(cluster, cluster.leader())[0], cluster.leader() or ""
        one, other = await client(cluster, follower), await client(cluster, leader)
        lost: list[tuple[float, str]] = []
        one.on_lost = lambda why: lost.append((cluster.loop.time(), why))
        token = await one.acquire("l", TTL)
        waiting = asyncio.ensure_future(other.acquire("l", TTL))
        await seconds(0.1)
        begun = cluster.loop.time()
        await cluster.inject("cut", apart(follower))
        assert await waiting > token
        ((at, why),) = lost
        assert why == "the lease of l was not renewed in time"
        assert begun + 2 < at < cluster.loop.time()

    simulate(main)


def test_a_holder_that_stands_still_is_the_last_to_know() -> None:
    async def main(cluster: EtcdCluster) -> None:
        one, other = await client(cluster, "n2"), await client(cluster, "n3")
        lost: list[str] = []
        one.on_lost = lost.append
        token = await one.acquire("l", TTL, renew=False)
        assert await other.acquire("l", TTL) > token
        assert lost == []
        with pytest.raises(Failed, match="run out before"):
            await one.release("l")

    simulate(main)


def test_a_leader_whose_clock_is_fast_gives_the_lock_away_too_soon() -> None:
    async def main(cluster: EtcdCluster) -> None:
        leader = cluster.leader() or ""
        one, other = [await client(cluster, node) for node in others(cluster, leader)]
        lost: list[str] = []
        one.on_lost = lost.append
        await one.acquire("l", TTL)
        waiting = asyncio.ensure_future(other.acquire("l", TTL))
        await seconds(0.1)
        await cluster.inject("clock", Action(CLOCK, (leader,), {"rate": 10.0}))
        await waiting
        assert lost == []

    simulate(main)


def test_a_member_that_missed_what_happened_while_it_stood_still_tells_its_clients() -> None:
    async def main(cluster: EtcdCluster) -> None:
        still, awake = others(cluster, cluster.leader())
        one, other = await client(cluster, awake), await client(cluster, still)
        await one.acquire("l", TTL)
        waiting = asyncio.ensure_future(other.acquire("l", 60 * SECOND))
        await seconds(0.5)
        await cluster.inject("pause", Action(PAUSE, (still,), {}))
        await one.release("l")
        for number in range(300):
            await one.write("x", b"%d" % number)
        assert not waiting.done()
        await cluster.undo("pause")
        await asyncio.wait_for(waiting, 5)

    simulate(main, snapshot_count=100)


def test_replicas_hold_the_same() -> None:
    async def main(cluster: EtcdCluster) -> list[Any]:
        mine = await client(cluster, "n2")
        for number in range(20):
            await mine.write(f"k{number % 7}", b"v")
        await seconds(1)
        return list(cluster.held())

    held = simulate(main)
    assert [(one.queue, one.node, one.messages) for one in held] == [(STORE, node, 7) for node in ("n1", "n2", "n3")]
    assert len({one.digest for one in held}) == 1
