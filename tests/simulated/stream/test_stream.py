"""A simulated stream: appended to, read by offset, hurt, and read again."""

from __future__ import annotations

import asyncio

import pytest

from chaos.model.schedule import KILL, Action
from clusters.base import Counts, Entry, Failed, Unknown
from clusters.simulated.cluster import SimulatedCluster
from clusters.simulated.stream.member import Member
from clusters.simulated.stream.replica import StreamReplica
from tests.simulated.made import cut, outcome, seconds, served
from tests.simulated.stream.made import client, seen, simulate

ALL = [(offset, b"%d" % offset) for offset in range(5)]


def member(cluster: SimulatedCluster, node: str) -> Member:
    replica = cluster.by_name[node].replicas["s"]
    assert isinstance(replica, StreamReplica)
    return replica.member


async def append(cluster: SimulatedCluster, node: str, *bodies: bytes) -> None:
    one = await client(cluster, node)
    for body in bodies:
        await one.append("s", body)
    await one.close()


def test_what_is_appended_is_read_by_offset_from_every_node_as_often_as_anybody_likes() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        await append(cluster, "n2", *(body for _, body in ALL))
        for node in cluster.nodes:
            one = await client(cluster, node)
            assert await seen(one) == ALL
            assert await seen(one, 3) == ALL[3:]
            assert await seen(one, "next") == []
        assert await cluster.counts("s") == Counts(5, 0, 3, 3)
        assert [held.messages for held in cluster.held()] == [5, 5, 5]

    simulate(main)


def test_a_credit_is_for_one_entry() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        await append(cluster, "n1", *(body for _, body in ALL))
        one = await client(cluster, "n3")
        got: list[Entry] = []
        await one.read("s", "first", 2, got.append)
        await seconds(1)
        assert [entry.offset for entry in got] == [0, 1]
        one.grant(got[0])
        await seconds(1)
        assert [entry.offset for entry in got] == [0, 1, 2]

    simulate(main)


def test_next_begins_with_what_comes_next() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        await append(cluster, "n1", b"before")
        one = await client(cluster, "n2")
        reading = asyncio.ensure_future(seen(one, "next", 2))
        await seconds(1)
        await append(cluster, "n1", b"after")
        assert await reading == [(1, b"after")]

    simulate(main)


def test_another_writes_in_the_next_epoch_when_the_writer_is_killed_and_nothing_is_lost() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        await append(cluster, "n1", b"0")
        assert cluster.leader("s") == "n1"
        one = await client(cluster, "n2")
        await one.append("s", b"1")
        await cluster.inject("k", Action(KILL, ("n1",)))
        assert await outcome(one.append("s", b"2"), 20) == "ok", "sent again to the new writer"
        assert cluster.leader("s") in ("n2", "n3")
        await cluster.undo("k")
        await served(cluster)
        for node in cluster.nodes:
            assert await seen(await client(cluster, node)) == ALL[:3]

    simulate(main)


def test_a_writer_cut_off_confirms_nothing_and_what_it_alone_has_is_cut_back() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        alone, other = await client(cluster, "n1"), await client(cluster, "n2")
        await alone.append("s", b"0")
        await cluster.inject("c", cut(cluster, "n1"))
        lost = asyncio.ensure_future(outcome(alone.append("s", b"lost"), 15))
        await seconds(10)
        assert await seen(alone) == [(0, b"0")], "what is not committed is handed to nobody"
        assert await outcome(other.append("s", b"1")) == "ok"
        await seconds(6)
        assert await lost == "TimeoutError"
        assert [body for *_, body in member(cluster, "n1").log] == [b"0", b"lost"]
        await alone.close()  # who would send it again
        await cluster.undo("c")
        await served(cluster)
        for node in cluster.nodes:
            assert await seen(await client(cluster, node)) == ALL[:2]

    simulate(main)


def test_who_was_out_of_the_coordinators_reach_is_told_of_no_other_writer_until_it_connects_again() -> None:
    """As in RabbitMQ: the connection stays open, and its publishes are neither confirmed nor refused."""

    async def main(cluster: SimulatedCluster) -> None:
        one = await client(cluster, "n3")
        await one.append("s", b"0")
        await cluster.inject("c", cut(cluster, "n3"))
        await seconds(10)
        await cluster.undo("c")
        await served(cluster)
        await one.append("s", b"1")  # the writer is the same
        await cluster.inject("k", Action(KILL, ("n1",)))
        await seconds(5)
        assert await outcome(one.append("s", b"2"), 20) == "TimeoutError"
        assert await outcome((await client(cluster, "n3")).append("s", b"2")) == "ok"

    simulate(main)


def test_what_cannot_be_done() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        one = await client(cluster, "n1")
        with pytest.raises(Failed, match="no stream 'other'"):
            await one.append("other", b"x")
        with pytest.raises(Unknown, match="no stream 'other'"):
            await one.read("other", 0, 1, lambda entry: None)
        with pytest.raises(Failed, match="knows no such operation"):
            await one.get("s")
        await one.close()
        with pytest.raises(Unknown, match="closed by the client"):
            await one.append("s", b"x")

    simulate(main)


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_where_no_member_runs_nothing_is_read(node: str) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        others = [other for other in cluster.nodes if other != node]
        await cluster.inject("k", Action(KILL, tuple(others)))
        await seconds(8)
        one = await client(cluster, node)
        if node == "n1":  # a writer that nobody has stopped goes on, and has committed nothing new
            assert await seen(one) == []
        else:  # a replica ends with its connection to the writer
            with pytest.raises(Unknown, match="no replica of the stream runs on this node"):
                await one.read("s", "first", 1, lambda entry: None)

    simulate(main)


def test_what_is_committed_though_of_an_earlier_epoch_may_be_cut_back_later() -> None:
    """As osiris has it, and Raft forbids (section 5.4.2 of the paper): readers were handed X, and then it is Y."""

    async def main(cluster: SimulatedCluster) -> None:
        first = await client(cluster, "n1")
        await first.append("s", b"0")
        await cluster.inject("c", cut(cluster, "n1"))
        x = asyncio.ensure_future(outcome(first.append("s", b"X"), 60))
        await seconds(8)
        (second,) = [node for node in ("n2", "n3") if member(cluster, node).role == "leader"]
        third = "n3" if second == "n2" else "n2"
        other = await client(cluster, second)
        assert await seen(other) == [(0, b"0")]
        await cluster.inject("k3", Action(KILL, (third,)))
        y = asyncio.ensure_future(outcome(other.append("s", b"Y"), 60))
        await seconds(3)
        assert [body for *_, body in member(cluster, second).log] == [b"0", b"Y"], "written by one, of epoch 2"
        await cluster.inject("k2", Action(KILL, (second,)))
        await cluster.undo("c")
        await cluster.undo("k3")
        await seconds(15)
        assert (member(cluster, "n1").role, member(cluster, "n1").epoch) == ("leader", 3), "X is longer than nothing"
        for node in ("n1", third):
            assert await seen(await client(cluster, node)) == [(0, b"0"), (1, b"X")]
        await cluster.inject("k1", Action(KILL, ("n1",)))
        await cluster.undo("k2")
        await seconds(15)
        assert (member(cluster, second).role, member(cluster, second).epoch) == ("leader", 4), "Y is of a later epoch"
        for node in (second, third):
            assert await seen(await client(cluster, node)) == [(0, b"0"), (1, b"Y")]
        for asked in (x, y):
            asked.cancel()

    simulate(main)
