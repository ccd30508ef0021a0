"""What goes round the ring: publishes, acks, the death of a member, and what a failed master was in the middle of."""

from __future__ import annotations

import asyncio

import pytest

from chaos.model.schedule import CUT, KILL, POWER_OFF, Action
from clusters.simulated.cluster import SimulatedCluster
from tests.simulated.made import cut, drain, outcome, served
from tests.simulated.mirrored.made import Watcher, bodies, masters, publish, replica, seconds, simulate, take


def test_a_confirmed_publish_is_on_every_mirror() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        assert await publish(cluster, "n2", "a", "b") == ["ok", "ok"]
        assert [bodies(cluster, node) for node in cluster.nodes] == [[b"a", b"b"]] * 3

    simulate(main)


def test_an_ack_that_was_answered_has_taken_the_message_from_every_mirror() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n1", "a", "b")
        assert await take(cluster, "n3", 1) == [b"a"]
        assert [bodies(cluster, node) for node in cluster.nodes] == [[b"b"]] * 3

    simulate(main)


def test_a_publish_waits_for_a_mirror_until_that_is_dropped_and_then_the_queue_goes_on() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("f", cut(cluster, "n3"))
        client = await cluster.connect("n1", "p")
        confirm = asyncio.ensure_future(outcome(client.publish("q", b"m"), 30))
        await seconds(4.9)
        assert not confirm.done()
        await seconds(2)
        assert confirm.result() == "ok"
        assert replica(cluster, "n1").view.members == ("n1", "n2")

    simulate(main)


def held_after_the_masters_death(moment: float) -> list[list[bytes]]:
    """What n2 and n3 hold when n1 is killed that long (s) after it was sent thirty messages."""

    async def main(cluster: SimulatedCluster, watcher: Watcher) -> list[list[bytes]]:
        client = await cluster.connect("n1", "p")
        publishes = [asyncio.ensure_future(outcome(client.publish("q", b"%d" % number))) for number in range(30)]
        await seconds(moment)
        await cluster.inject("f", Action(KILL, ("n1",)))
        await asyncio.gather(*publishes)
        await seconds(1)
        assert masters(cluster) == ["n2"]
        return [bodies(cluster, node) for node in ("n2", "n3")]

    return simulate(main)


def test_what_a_failed_master_was_about_to_send_reaches_all_or_none() -> None:
    found = []
    for moment in range(0, 8000, 250):  # us
        n2, n3 = held_after_the_masters_death(moment / 1e6)
        assert n2 == n3
        found.append(len(n2))
    assert set(found) == {0, 30}


def test_a_promoted_mirror_publishes_what_reached_it_from_the_channel_alone() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        links = [["n3", "n1"]]
        await cluster.inject("f", Action(CUT, ("n1", "n3"), {"links": links, "service": "replication"}))
        client = await cluster.connect("n3", "p")
        operation = asyncio.ensure_future(outcome(client.publish("q", b"m"), 30))
        await seconds(0.5)
        assert bodies(cluster, "n1") == bodies(cluster, "n2") == []
        await cluster.inject("g", Action(KILL, ("n1",)))
        await seconds(0.5)
        assert masters(cluster) == ["n2"]
        assert bodies(cluster, "n2") == bodies(cluster, "n3") == [b"m"]
        assert (await operation).startswith("Unknown")  # its channel could not know

    simulate(main)


def test_the_eldest_mirror_is_promoted() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("f", Action(KILL, ("n2",)))
        await seconds(1)
        await cluster.undo("f")
        await served(cluster)
        assert replica(cluster, "n1").view.members == ("n1", "n3", "n2")
        await cluster.inject("g", Action(KILL, ("n1",)))
        await seconds(1)
        assert masters(cluster) == ["n3"]

    simulate(main)


def test_consumers_may_see_a_message_again_after_a_fail_over_and_are_told() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n2", "a")
        client = await cluster.connect("n2", "c")
        first = await client.get("q")
        assert first is not None
        assert not first.redelivered
        await cluster.inject("f", Action(KILL, ("n1",)))
        await seconds(1)
        assert await client.ack(first) is False  # the new master knows nothing of that consumer
        again = await (await cluster.connect("n2", "c")).get("q")
        assert again is not None
        assert (again.body, again.redelivered) == (b"a", True)

    simulate(main)


def test_what_a_lost_consumer_held_goes_back_to_its_place() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n2", "a", "b", "c")
        client = await cluster.connect("n3", "c")
        assert [(await client.get("q")).body for _ in range(2)] == [b"a", b"b"]
        await client.close()
        await seconds(0.1)
        assert await drain(cluster, "n2") == [b"a", b"b", b"c"]

    simulate(main)


@pytest.mark.parametrize("verb", [KILL, POWER_OFF])
def test_what_was_confirmed_survives_the_end_of_every_node(verb: str) -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n2", *map(str, range(20)))
        await cluster.inject("f", Action(verb, cluster.nodes))
        await cluster.undo("f")
        await served(cluster)
        assert await drain(cluster, "n3") == [b"%d" % number for number in range(20)]

    simulate(main)


def test_a_node_that_went_down_before_others_waits_for_them() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("first", Action(KILL, ("n1",)))
        await seconds(1)
        assert await publish(cluster, "n2", "m") == ["ok"]
        await cluster.inject("then", Action(KILL, ("n2", "n3")))
        await cluster.undo("first")
        await seconds(20)
        assert masters(cluster) == []  # n1 has not got m, and knows that others may have more
        await cluster.undo("then")
        await served(cluster)
        assert masters(cluster) == ["n2"]
        assert await drain(cluster, "n1") == [b"m"]

    simulate(main)
