"""What a client of the simulated cluster is told, and what it can rely on."""

import asyncio
from itertools import pairwise

import pytest

from chaos.model.schedule import CUT, KILL, PAUSE, Action
from clusters.base import Delivery, Failed, Unknown
from clusters.simulated.cluster import SimulatedCluster
from tests.simulated.made import Watcher, cut, drain, outcome, seconds, served, simulate


def test_publish_deliver_ack_in_order_from_every_node() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        publisher = await cluster.connect("n2", "p")
        await asyncio.gather(*[publisher.publish("q", b"%d" % number) for number in range(50)])
        consumer = await cluster.connect("n3", "c")
        got: list[Delivery] = []
        acks = []

        def deliver(delivery: Delivery) -> None:
            got.append(delivery)
            acks.append(asyncio.ensure_future(consumer.ack(delivery)))

        await consumer.subscribe("q", 5, deliver)
        await seconds(1)
        assert [(d.queue, d.body, d.redelivered) for d in got] == [("q", b"%d" % n, False) for n in range(50)]
        assert await asyncio.gather(*acks) == [True] * 50
        counts = await cluster.counts("q")
        assert counts.drained
        assert counts.replicas == 3

    simulate(main)


def test_a_message_given_back_is_delivered_again_to_anybody() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        one, other = await cluster.connect("n1", "a"), await cluster.connect("n3", "b")
        await one.publish("q", b"m")
        taken = await one.get("q")
        assert await other.get("q") is None
        assert await one.requeue(taken) is True
        again = await other.get("q")
        assert (again.body, again.redelivered) == (b"m", True)
        assert await one.requeue(taken) is False  # it does not hold it any more
        assert await other.requeue(again) is True
        counts = await cluster.counts("q")
        assert (counts.ready, counts.unacked) == (1, 0)

    simulate(main)


def test_no_more_than_the_prefetch_is_delivered_unacknowledged() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n1", "c")
        got: list[Delivery] = []
        await client.subscribe("q", 3, got.append)
        await asyncio.gather(*[client.publish("q", b"m") for _ in range(10)])
        await seconds(1)
        assert len(got) == 3
        counts = await cluster.counts("q")
        assert (counts.ready, counts.unacked, counts.drained) == (7, 3, False)

    simulate(main)


def test_an_empty_queue_answers_none_and_a_queue_that_is_not_there_fails() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n2", "c")
        assert await client.get("q") is None
        with pytest.raises(Failed, match="no queue 'nowhere'"):
            await client.publish("nowhere", b"m")
        with pytest.raises(Failed, match="no queue 'nowhere'"):
            await client.get("nowhere")

    simulate(main)


def test_what_a_closed_connection_held_is_delivered_again_and_says_so() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        first = await cluster.connect("n1", "c")
        await first.publish("q", b"m")
        taken = await first.get("q")
        assert taken is not None
        assert not taken.redelivered
        await first.close()
        await seconds(0.1)
        second = await cluster.connect("n2", "d")
        again = await second.get("q")
        assert again is not None
        assert (again.body, again.redelivered) == (b"m", True)
        assert await outcome(first.ack(taken)) == "Unknown: the connection is gone: closed by the client"

    simulate(main)


def test_a_killed_node_resets_its_clients_and_their_operations_are_unknown() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n1", "p")
        lost: list[str] = []
        client.on_lost = lost.append
        publish = client.publish("q", b"m")
        await cluster.inject("f", Action(KILL, ("n1",)))
        with pytest.raises(Unknown, match="closed by the other side"):
            await publish
        assert lost == ["closed by the other side"]
        with pytest.raises(Unknown, match="n1 refused the connection"):
            await cluster.connect("n1", "p")

    simulate(main)


def test_a_client_that_is_cut_off_notices_by_its_heartbeat_only() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> tuple[int, list[str]]:
        client = await cluster.connect("n1", "p")
        lost: list[str] = []
        client.on_lost = lost.append
        began = cluster.loop.now()
        await cluster.inject("f", Action(CUT, ("n1",), {"links": [["n1", "clients"], ["clients", "n1"]]}))
        publish = client.publish("q", b"m")
        with pytest.raises(Unknown):
            await publish
        return cluster.loop.now() - began, lost

    took, lost = simulate(main, heartbeat="4s")
    assert 4e9 <= took <= 5.1e9
    assert lost == ["silent for too long"]


def test_a_publish_to_a_cut_off_leader_is_confirmed_after_the_heal_by_the_new_leader_once() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n1", "p")
        await client.publish("q", b"before")
        await cluster.inject("f", cut(cluster, "n1"))
        publish = asyncio.ensure_future(client.publish("q", b"meanwhile"))
        assert await outcome(asyncio.shield(publish)) == "TimeoutError"
        assert cluster.leader("q") != "n1"
        await cluster.undo("f")
        await publish
        assert await drain(cluster, "n2") == [b"before", b"meanwhile"]

    simulate(main)


def test_publishes_of_one_channel_keep_their_order_through_changes_of_leader() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> list[bytes]:
        client = await cluster.connect("n3", "p")
        publishes = []
        for number in range(400):
            publishes.append(asyncio.ensure_future(client.publish("q", b"%04d" % number)))
            await seconds(0.05)
            if number in (50, 250):
                await cluster.inject(f"cut {number}", cut(cluster, cluster.leader() or ""))
            if number in (150, 350):
                await cluster.undo(f"cut {number - 100}")
        for publish in publishes:
            assert await outcome(publish, 60) == "ok"
        await served(cluster)
        return await drain(cluster, "n1")

    bodies = simulate(main, net_ticktime="2s")
    assert bodies == [b"%04d" % number for number in range(400)]


def test_deliveries_go_on_after_a_change_of_leader_and_none_is_missing() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        publisher = await cluster.connect("n2", "p")
        consumer = await cluster.connect("n3", "c")
        got: list[int] = []
        acks = []

        def deliver(delivery: Delivery) -> None:
            got.append(int(delivery.body))
            acks.append(asyncio.ensure_future(consumer.ack(delivery)))

        await consumer.subscribe("q", 10, deliver)
        publishes = []
        for number in range(300):
            publishes.append(asyncio.ensure_future(publisher.publish("q", b"%d" % number)))
            await seconds(0.02)
            if number == 100:
                await cluster.inject("f", Action(KILL, ("n1",)))
        for publish in publishes:
            assert await outcome(publish, 30) == "ok"
        await seconds(10)
        assert list(dict.fromkeys(got)) == list(range(300))
        assert all(one < other for one, other in pairwise(got))  # no duplicates either: its channel has seen them
        assert len(acks) == 300

    simulate(main)


def test_a_paused_node_answers_late_and_loses_nothing() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n2", "p")
        await cluster.inject("f", Action(PAUSE, ("n2",)))
        publish = asyncio.ensure_future(client.publish("q", b"m"))
        assert await outcome(asyncio.shield(publish), 3) == "TimeoutError"
        await cluster.undo("f")
        assert await outcome(publish, 1) == "ok"
        assert await drain(cluster, "n1") == [b"m"]

    simulate(main)


def test_a_message_returned_more_often_than_the_limit_is_dropped() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> int:
        client = await cluster.connect("n1", "p")
        await client.publish("q", b"m")
        for taken in range(40):
            poller = await cluster.connect("n1", "c")
            if await poller.get("q") is None:
                return taken
            await poller.close()
            await seconds(0.1)
        return 40

    assert simulate(main) == 40
    assert simulate(main, delivery_limit=20) == 21
    assert simulate(main, delivery_limit=3) == 4


def test_a_consumer_suspected_under_one_leader_is_served_again_by_the_next() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        consumer = await cluster.connect("n3", "c")
        got: list[bytes] = []
        await consumer.subscribe("q", 10, lambda delivery: got.append(delivery.body))
        await cluster.inject("cut", cut(cluster, "n3"))
        await seconds(4)
        assert any("n3 is down" in line for line in cluster.by_name["n1"].log)
        await cluster.inject("kill", Action(KILL, ("n1",)))
        await cluster.undo("cut")
        await seconds(5)
        publisher = await cluster.connect("n2", "p")
        await publisher.publish("q", b"m")
        await seconds(1)
        assert got == [b"m"]

    simulate(main, net_ticktime="2s")
