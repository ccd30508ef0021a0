"""A mirror that comes back: it has nothing, until it is synchronised, or until what it lacks is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chaos.model.schedule import KILL, STOP, Action
from clusters.simulated.cluster import SimulatedCluster
from tests.simulated.made import drain, outcome, served
from tests.simulated.mirrored.made import Watcher, bodies, masters, publish, replica, seconds, simulate, take

MANUAL: dict[str, Any] = {"ha_sync_mode": "manual"}


async def restart(cluster: SimulatedCluster, node: str) -> None:
    await cluster.inject(node, Action(KILL, (node,)))
    await seconds(1)
    await cluster.undo(node)
    await seconds(5)


def test_a_mirror_that_comes_back_discards_all_it_had() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n1", "a", "b")
        await restart(cluster, "n3")
        assert bodies(cluster, "n1") == [b"a", b"b"]
        assert bodies(cluster, "n3") == []
        assert any("discards 2 messages" in line for line in cluster.by_name["n3"].log)

    simulate(main, **MANUAL)


def test_a_late_mirror_has_only_what_was_published_since_until_the_head_is_consumed() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n1", "a", "b")
        await restart(cluster, "n3")
        await publish(cluster, "n1", "c")
        assert bodies(cluster, "n3") == [b"c"]
        assert replica(cluster, "n1").view.behind == ("n3",)
        await take(cluster, "n1", 1)
        assert replica(cluster, "n3").view.behind == ("n3",)
        await take(cluster, "n1", 1)
        await seconds(0.1)
        assert replica(cluster, "n3").view.behind == ()
        assert bodies(cluster, "n1") == bodies(cluster, "n3") == [b"c"]

    simulate(main, **MANUAL)


def test_a_mirror_of_an_empty_queue_is_synchronised_from_the_beginning() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await restart(cluster, "n3")
        assert replica(cluster, "n1").view.behind == ()

    simulate(main, **MANUAL)


def standstill(messages: int) -> float:
    """How long a queue of so many messages stands still while a mirror is synchronised, in seconds."""

    async def main(cluster: SimulatedCluster, watcher: Watcher) -> float:
        client = await cluster.connect("n1", "p")
        await asyncio.gather(*[client.publish("q", b"%d" % number) for number in range(messages)])
        await cluster.inject("f", Action(KILL, ("n3",)))
        await cluster.undo("f")
        while not replica(cluster, "n1").frozen:
            await seconds(0.001)
        begun = cluster.loop.now()
        assert await outcome(client.publish("q", b"m"), 60) == "ok"
        stood = (cluster.loop.now() - begun) / 1e9
        assert bodies(cluster, "n3") == bodies(cluster, "n1")
        return stood

    return simulate(main, sync_time="1ms")


def test_synchronising_stops_the_queue_for_a_time_that_grows_with_its_length() -> None:
    short, long = standstill(500), standstill(5000)
    assert short == pytest.approx(0.5, abs=0.05)
    assert long == pytest.approx(5.0, abs=0.05)


def test_an_unsynchronised_mirror_that_is_promoted_loses_what_it_lacks() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n1", "a", "b")
        await restart(cluster, "n2")
        await restart(cluster, "n3")
        await publish(cluster, "n1", "c")
        await cluster.inject("f", Action(KILL, ("n1",)))
        await seconds(1)
        assert masters(cluster) == ["n2"]
        await cluster.undo("f")
        await served(cluster)
        assert await drain(cluster, "n1") == [b"c"]

    simulate(main, **MANUAL)


@pytest.mark.parametrize(
    ("verb", "settings"),
    [(KILL, {"ha_promote_on_failure": "when-synced"}), (STOP, {"ha_promote_on_shutdown": "when-synced"})],
)
def test_where_only_synchronised_mirrors_are_promoted_the_queue_is_gone_until_the_master_returns(
    verb: str, settings: dict[str, Any]
) -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n1", "a", "b")
        await restart(cluster, "n2")
        await restart(cluster, "n3")
        await cluster.inject("f", Action(verb, ("n1",)))
        await seconds(20)
        assert masters(cluster) == []
        assert await publish(cluster, "n2", "m") == ["TimeoutError"]
        await cluster.undo("f")
        await served(cluster)
        assert masters(cluster) == ["n1"]
        assert (await drain(cluster, "n1"))[:2] == [b"a", b"b"]

    simulate(main, **MANUAL, **settings)


def test_a_master_that_is_shut_down_may_be_followed_by_an_unsynchronised_mirror_where_that_is_set() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n1", "a")
        await restart(cluster, "n2")
        await restart(cluster, "n3")
        await cluster.inject("f", Action(STOP, ("n1",)))
        await seconds(1)
        assert masters(cluster) == ["n2"]
        assert bodies(cluster, "n2") == []

    simulate(main, **MANUAL, ha_promote_on_shutdown="always")


def test_of_mirrors_the_eldest_that_is_synchronised_is_promoted_where_only_such_may_be() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n1", "a")
        await restart(cluster, "n2")  # now the youngest, and behind
        await cluster.inject("f", Action(KILL, ("n1",)))
        await seconds(1)
        assert masters(cluster) == ["n3"]
        assert await drain(cluster, "n2") == [b"a"]

    simulate(main, **MANUAL, ha_promote_on_failure="when-synced")


def test_the_first_generation_has_neither_synchronising_nor_a_way_back_but_by_hand() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n1", "a")
        await restart(cluster, "n3")
        await seconds(20)
        assert replica(cluster, "n3").role == "out"
        assert replica(cluster, "n1").view.members == ("n1", "n2")
        assert await publish(cluster, "n3", "m") == ["TimeoutError"]
        await cluster.inject("f", Action(KILL, ("n1",)))
        await seconds(1)
        assert masters(cluster) == ["n2"]
        assert await drain(cluster, "n2") == [b"a"]

    simulate(main, generation="2011", cluster_partition_handling="autoheal", ha_promote_on_failure="when-synced")


def test_a_mirror_that_dies_while_it_is_synchronised_lets_the_queue_go_on() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n1", "p")
        await asyncio.gather(*[client.publish("q", b"%d" % number) for number in range(9000)])
        await cluster.inject("f", Action(KILL, ("n3",)))
        await cluster.undo("f")
        while not replica(cluster, "n1").frozen:
            await seconds(0.001)
        await cluster.inject("g", Action(KILL, ("n3",)))
        assert await outcome(client.publish("q", b"m"), 60) == "ok"
        assert replica(cluster, "n1").view.members == ("n1", "n2")

    simulate(main, sync_time="1ms")
