"""Members of a simulated cluster that leave and join, replicas taken away and added, and leaders that hand over."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from chaos import scenario
from chaos.controller import refuse
from chaos.model.errors import BadInput, SplitbrainError
from chaos.model.op import REMOVED
from chaos.model.schedule import GROW, KILL, LEAVE, REPLACE, SHRINK, TRANSFER, Action
from chaos.model.settings import BadKey
from clusters.simulated.cluster import SimulatedCluster
from tests.simulated.made import Producer, Watcher, cut, drain, outcome, seconds, served, simulate


async def producing(cluster: SimulatedCluster, node: str, for_: float) -> tuple[Producer, "asyncio.Task[None]"]:
    producer = Producer(cluster, await cluster.connect(node, "p"), node)
    return producer, asyncio.ensure_future(producer.run(for_))


@pytest.mark.parametrize("who", ["n1", "n3"])
def test_a_replica_is_taken_away_and_added_while_all_goes_on(who: str) -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        producer, task = await producing(cluster, "n2", 12)
        await seconds(2)
        assert cluster.leader() == "n1"
        left = ", ".join(node for node in cluster.nodes if node != who)
        injected = await cluster.inject("f", Action(SHRINK, (who,)))
        assert injected.evidence == f"q: {left} keep it, and {who} does not"
        counts = await cluster.counts("q")
        assert (counts.serving, counts.replicas) == (2, 2)
        assert cluster.replica(cluster.by_name[who], "q") is None
        assert [view.role for view in watcher.views if view.node == who][-1] == REMOVED
        await seconds(3)
        undone = await cluster.undo("f")
        assert (undone.bit, undone.evidence) == (True, injected.evidence)
        await task
        await seconds(1)
        assert (await cluster.counts("q")).serving == 3
        assert len(producer.confirmed) == 1200
        assert len({one.digest for one in cluster.held()}) == 1
        assert sorted(await drain(cluster, who)) == sorted(producer.confirmed)

    simulate(main)


@pytest.mark.parametrize("verb", [LEAVE, REPLACE])
@pytest.mark.parametrize("who", ["n1", "n2"])
def test_a_node_leaves_with_all_that_it_had_and_joins_with_nothing(verb: str, who: str) -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        producer, task = await producing(cluster, "n3", 12)
        await seconds(2)
        injected = await cluster.inject("f", Action(verb, (who,)))
        assert injected.evidence.startswith(f"{who} left; q: ")
        node = cluster.by_name[who]
        assert (node.state, node.disk.names(), (await cluster.counts("q")).replicas) == ("down", [], 2)
        await seconds(2)
        undone = await cluster.undo("f")
        assert undone.bit is True
        assert undone.evidence.endswith(f"joined again: {who}")
        await task
        await served(cluster)
        assert [(node, asked) for node, _, _, _, asked in watcher.exits] == [(who, True)]
        counts = await cluster.counts("q")
        assert (counts.serving, counts.replicas) == (3, 3)
        assert sorted(set(await drain(cluster, who))) == sorted(producer.confirmed)

    simulate(main)


def test_who_was_taken_out_may_lead_again_after_it_was_taken_in() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("s", Action(SHRINK, ("n1",)))
        assert (await cluster.undo("s")).bit is True
        leader = cluster.leader() or ""
        injected = await cluster.inject("t", Action(TRANSFER, (leader,), {"to": "n1"}))
        assert injected.evidence == f"q: {leader} led term 2, n1 leads term 3"
        await cluster.inject("k", Action(KILL, (leader,)))
        assert cluster.leader() == "n1"
        client = await cluster.connect("n1", "p")
        assert await outcome(client.publish("q", b"m")) == "ok"

    simulate(main)


def test_a_leader_hands_over_to_whoever_it_may_be_and_that_stays() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.declare("r")
        producer, task = await producing(cluster, "n3", 3)
        await seconds(1)
        assert (cluster.leader("q"), cluster.leader("r")) == ("n1", "n2")
        await cluster.inject("t", Action(TRANSFER, ("n1",), {"to": None}))
        assert cluster.leader("q") == "n2"
        undone = await cluster.undo("t")
        assert undone.bit is True
        await cluster.inject("u", Action(TRANSFER, ("n2",), {"to": "n3"}))
        assert (cluster.leader("q"), cluster.leader("r")) == ("n3", "n3")
        await task
        await seconds(1)
        assert len(producer.confirmed) == 300
        gaps = sorted(producer.confirmed.values())
        assert max(b - a for a, b in pairwise(gaps)) < 300_000_000

    simulate(main)


def test_grow_gives_a_replica_to_a_node_without_one() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        with pytest.raises(SplitbrainError, match="n2 has a replica of each queue already"):
            await cluster.inject("no", Action(GROW, ("n2",)))
        injected = await cluster.inject("g", Action(GROW, ("n5",)))
        assert injected.evidence == "q: n1, n2, n3, n5 keep it"
        assert (await cluster.counts("q")).replicas == 4
        assert (await cluster.undo("g")).bit is True
        assert (await cluster.counts("q")).replicas == 3
        assert cluster.by_name["n5"].disk.names() == []

    simulate(main, nodes=5, initial_group_size=3)


def test_what_cannot_be_done_says_why() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        for action, problem in (
            (Action(TRANSFER, ("n3",), {"to": "n1"}), "n3 leads nothing that n1 could lead"),
            (Action(SHRINK, ("n1", "n2", "n3")), "n3 has the last replica of q"),
        ):
            with pytest.raises(SplitbrainError, match=problem):
                await cluster.inject("f", action)
            await cluster.undo("f")
            await served(cluster)
            assert (await cluster.counts("q")).replicas == 3
        with pytest.raises(BadInput, match="no node 'n4'"):
            await cluster.inject("f", Action(SHRINK, ("n4",)))
        await cluster.inject("c", cut(cluster, "n1"))
        await cluster.inject("k", Action(KILL, ("n3",)))
        with pytest.raises(SplitbrainError, match="n3 was not taken out: no leader of q committed it in 40 s"):
            await cluster.inject("f", Action(SHRINK, ("n3",)))
        for fault in ("c", "k", "f"):
            await cluster.undo(fault)
        await served(cluster)
        assert (await cluster.counts("q")).replicas == 3

    simulate(main)


@pytest.mark.parametrize("faults", ["listed", "planned"])
def test_protocols_whose_members_do_not_change_say_so_before_anything_starts(faults: str) -> None:
    cluster = {"broker": "rabbitmq-stream", "on": "simulated"}
    told: dict[str, Any] = {
        "schema": 1,
        "name": "fixed",
        "cluster": cluster,
        "workload": {"name": "stream", "time": "60s"},
    }
    if faults == "listed":
        told["fault"] = [{"nemesis": "members", "kind": "shrink", "target": "n3", "at": "5s"}]
    else:
        told["nemesis"] = [{"name": "members", "kinds": ["shrink"]}]
    made = scenario.from_data(told)
    with pytest.raises((BadInput, BadKey), match="'members' needs 'shrink', which this cluster cannot do: which nodes"):
        refuse(made, scenario.plan(made))
