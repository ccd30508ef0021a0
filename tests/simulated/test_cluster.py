"""Verbs, evidence, beliefs and counts of the simulated cluster."""

from pathlib import Path

import pytest

from chaos.kernel.clock import SECOND
from chaos.kernel.real import RealClock
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model.errors import BadInput, SplitbrainError
from chaos.model.schedule import (
    ABILITIES,
    CLOCK,
    CRASH_LOOP,
    CUT,
    DAMAGE,
    KILL,
    LOSS,
    NODE_STOP,
    PAUSE,
    POWER_OFF,
    STOP,
    WIPE,
    Action,
)
from chaos.model.settings import resolve
from clusters.base import Setup, Unknown, services
from clusters.simulated.cluster import SimulatedCluster
from clusters.simulated.faults import UNABLE
from clusters.simulated.quorum.queue import QuorumQueue
from tests.simulated.made import Watcher, cut, drain, outcome, seconds, served, simulate


def test_every_verb_can_be_done_or_says_why_not() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        assert dict(cluster.abilities()) == {**dict.fromkeys(ABILITIES), **UNABLE}

    simulate(main)


def test_a_cut_of_the_leader_elects_another_and_is_told_with_times_and_evidence() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        assert cluster.leader() == "n1"
        injected = await cluster.inject("f", cut(cluster, "n1"))
        assert dict(injected.times) == dict.fromkeys(cluster.nodes, cluster.loop.now())
        await seconds(5)
        assert cluster.leader() in ("n2", "n3")
        undone = await cluster.undo("f")
        assert undone.bit is True
        assert "messages dropped" in undone.evidence
        await served(cluster)
        roles = [(view.node, view.role, view.term) for view in watcher.views if view.node == "n1"]
        newest = max(term for _, _, term in roles if term is not None)
        assert roles[-1] == ("n1", "follower", newest)
        assert all(view.exact and view.asked == view.answered for view in watcher.views)

    simulate(main)


def test_in_every_term_at_most_one_leads() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        for number in range(6):
            await cluster.inject(f"f{number}", Action(KILL, (cluster.leader() or "n1",)))
            await seconds(3)
            await cluster.undo(f"f{number}")
            await served(cluster)
        leaders = dict.fromkeys((view.term, view.node) for view in watcher.views if view.role == "leader")
        assert len(leaders) == len(dict.fromkeys(term for term, _ in leaders)) == 7

    simulate(main)


def test_a_fault_that_met_nothing_did_not_bite() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("kill", Action(KILL, ("n2",)))
        await cluster.inject("again", Action(POWER_OFF, ("n2",)))
        await cluster.inject("pause", Action(PAUSE, ("n2",)))
        await cluster.inject("idle", Action(CUT, ("n3",), {"links": [["clients", "n3"]]}))
        assert (await cluster.undo("idle")).bit is False
        assert (await cluster.undo("pause")).bit is False
        assert (await cluster.undo("again")).bit is False
        await seconds(5)
        assert (await cluster.serving())["n2"] == "down"  # the first fault still holds it
        assert (await cluster.undo("kill")).bit is True
        await served(cluster)
        assert (await cluster.undo("kill")).bit is None

    simulate(main)


def test_kill_stop_and_power_off_end_the_process_and_undo_starts_it_again() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        for life, verb in enumerate((KILL, STOP, POWER_OFF, NODE_STOP), start=1):
            await cluster.inject(verb, Action(verb, ("n3",)))
            assert (await cluster.serving())["n3"] == "down"
            assert watcher.views[-1].role == "down"
            assert watcher.exits[-1] == ("n3", life, cluster.loop.now(), verb, True)
            await seconds(1)
            assert (await cluster.undo(verb)).bit is True
            await served(cluster)
            assert watcher.views[-1].incarnation == life + 1

    simulate(main)


def test_damage_cuts_a_nodes_journals_short_while_it_is_down() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n1", "p")
        for number in range(20):
            await client.publish("q", b"%d" % number)
        before = cluster.by_name["n3"].disk.file("q").records()
        injected = await cluster.inject("f", Action(DAMAGE, ("n3",), {"how": "truncate", "files": 9, "draw": 1}))
        after = cluster.by_name["n3"].disk.file("q").records()
        assert after == before[: len(after)]
        assert len(after) < len(before)
        assert f"n3: the last {len(before) - len(after)} of {len(before)} records of q are lost" in injected.evidence
        assert (await cluster.undo("f")).bit is True
        await served(cluster)
        assert await drain(cluster, "n3") == [b"%d" % number for number in range(20)], "the others have them"

    simulate(main)


def test_damage_of_a_majority_loses_what_was_confirmed() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n1", "p")
        for number in range(20):
            await client.publish("q", b"%d" % number)
        await cluster.inject("f", Action(DAMAGE, cluster.nodes, {"how": "flip", "files": 9, "draw": 1}))
        await cluster.undo("f")
        await served(cluster)
        assert len(await drain(cluster, "n3")) < 20

    simulate(main)


def test_damage_where_nothing_is_written_does_not_bite() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("w", Action(WIPE, ("n2",)))
        await cluster.inject("f", Action(DAMAGE, ("n2",), {"how": "truncate", "files": 1, "draw": 1}))
        assert (await cluster.undo("f")).bit is False
        await cluster.undo("w")

    simulate(main)


def test_a_crash_loop_kills_again_as_soon_as_it_serves() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("f", Action(CRASH_LOOP, ("n2", "n3"), {"times": 3}))
        await seconds(20)
        ends = [(node, life) for node, life, *_ in watcher.exits]
        assert ends == [(node, life) for life in (1, 2, 3) for node in ("n2", "n3")]
        await served(cluster)
        undone = await cluster.undo("f")
        assert (undone.bit, undone.evidence) == (True, "n2 was killed 3 of 3 times, n3 was killed 3 of 3 times")
        await cluster.inject("g", Action(CRASH_LOOP, ("n1",), {"times": 3}))
        assert (await cluster.undo("g")).bit is False, "one kill is no loop"
        await served(cluster)
        await seconds(20)
        assert len(watcher.exits) == 7, "undone is undone"

    simulate(main)


@pytest.mark.parametrize("verb", [KILL, POWER_OFF])
def test_what_was_confirmed_survives_the_end_of_every_node(verb: str) -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n2", "p")
        for number in range(20):
            await client.publish("q", b"%d" % number)
        await cluster.inject("f", Action(verb, cluster.nodes))
        with pytest.raises(Unknown, match="has no leader"):
            await cluster.counts("q")
        await cluster.undo("f")
        await served(cluster)
        assert await drain(cluster, "n3") == [b"%d" % number for number in range(20)]

    simulate(main)


def test_a_node_that_was_away_catches_up_by_snapshot() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("f", Action(KILL, ("n3",)))
        client = await cluster.connect("n2", "p")
        for number in range(60):
            await client.publish("q", b"%d" % number)
        await cluster.undo("f")
        await served(cluster)
        assert any("installs the snapshot" in line for line in cluster.by_name["n3"].log)
        await cluster.inject("g", Action(KILL, ("n1",)))
        await seconds(3)
        assert await drain(cluster, "n3") == [b"%d" % number for number in range(60)]

    simulate(main, snapshot_interval=20)


def test_without_a_majority_nothing_is_confirmed() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n1", "p")
        await cluster.inject("f", Action(KILL, ("n2", "n3")))
        assert await outcome(client.publish("q", b"m")) == "TimeoutError"
        assert cluster.leader() == "n1"  # it has not heard of another

    simulate(main)


def test_clocks_are_off_while_the_fault_lasts() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        node = cluster.by_name["n2"]
        await cluster.inject("f", Action(CLOCK, ("n2",), {"offset": 10**9, "rate": 2.0, "strobe": 0}))
        await seconds(3)
        assert node.clock.offset(cluster.loop.now()) == 4 * 10**9
        undone = await cluster.undo("f")
        assert (undone.bit, undone.evidence) == (True, "n2 was +4000.000 ms off")
        assert node.clock.offset(cluster.loop.now()) == 0
        await cluster.inject("g", Action(CLOCK, ("n2",), {"offset": 10**9, "rate": 1.0, "strobe": 10**8}))
        await seconds(1.05)
        assert (await cluster.undo("g")).bit is True

    simulate(main)


def test_a_fast_clock_makes_a_follower_impatient() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("f", Action(CLOCK, ("n3",), {"offset": 0, "rate": 20.0, "strobe": 0}))
        await seconds(5)
        assert any(view.node == "n3" and view.role == "pre-vote" for view in watcher.views)
        await cluster.undo("f")

    simulate(main)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (None, ("clients", "replication", "etcd")),
        ("etcd", ("etcd",)),
        ("etcd,clients", ("clients", "etcd")),
        ("!clients", ("replication", "etcd")),
        ("!clients,etcd", ("replication",)),
    ],
)
def test_services_by_name_several_and_all_but_some(said: str | None, meant: tuple[str, ...]) -> None:
    assert services(said, ("clients", "replication", "etcd")) == meant


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("replicatoin", "no service 'replicatoin'; did you mean 'replication'"),
        ("!web", "no service 'web'; known: clients, replication"),
        ("!clients,replication", "service: '!clients,replication' leaves none of clients, replication"),
    ],
)
def test_services_that_there_are_not(said: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        services(said, ("clients", "replication"))


def test_flapping_links_go_up_and_down_by_themselves_until_they_are_mended() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        action = cut(cluster, "n2")
        flap = [int(times * SECOND) for times in (1, 2, 0.5, 0.5)]
        link = cluster.network.link("n1", "n2", "replication")
        begun = cluster.loop.now()
        shown = await cluster.inject("f", Action(CUT, action.nodes, {**action.args, "flap": flap}))
        assert shown.evidence == "4 links cut, and whole again, by turns"
        turned = [(begun, link.cuts)]
        while cluster.loop.now() < begun + 8 * SECOND:
            if link.cuts != turned[-1][1]:
                turned.append((cluster.loop.now(), link.cuts))
            await seconds(0.001)
        told = [(round((time - begun) / SECOND, 1), cuts) for time, cuts in turned]
        assert told == [(0, 1), (1, 0), (3, 1), (3.5, 0), (4, 1), (5, 0), (7, 1), (7.5, 0)]
        await seconds(0.1)
        undone = await cluster.undo("f")
        assert (undone.bit, undone.evidence.partition(", ")[2]) == (True, "cut 5 times")
        await seconds(5)
        assert link.cuts == 0
        await served(cluster)

    simulate(main)


def test_loss_slows_but_loses_nothing() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        ends = (*cluster.nodes, "clients")
        links = [[one, other] for one in ends for other in ends if one != other]
        await cluster.inject("f", Action(LOSS, cluster.nodes, {"links": links, "probability": 0.2}))
        client = await cluster.connect("n2", "p")
        for number in range(20):
            assert await outcome(client.publish("q", b"%d" % number), 30) == "ok"
        assert (await cluster.undo("f")).bit is True
        assert await drain(cluster, "n3") == [b"%d" % number for number in range(20)]

    simulate(main)


def test_what_is_not_there_cannot_be_hurt() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        for action, problem in (
            (Action(KILL, ("n4",)), "no node 'n4'"),
            (Action(KILL, ("n1",), process="etcd"), "no process 'etcd'"),
            (Action(CUT, ("n1",), {"links": [["n1", "moon"]]}), "no endpoint 'moon'"),
            (Action(CUT, ("n1",), {"links": [["n1", "n2"]], "service": "smtp"}), "no service 'smtp'"),
        ):
            with pytest.raises(BadInput, match=problem):
                await cluster.inject("f", action)

    simulate(main)


def test_queues_are_led_by_different_nodes_and_may_be_kept_by_some_only() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.declare("r")
        assert (cluster.leader("q"), cluster.leader("r")) == ("n1", "n2")
        client = await cluster.connect("n5", "p")
        await client.publish("q", b"m")
        assert (await cluster.counts("q")).replicas == 3
        assert await drain(cluster, "n4") == [b"m"]

    simulate(main, nodes=5, initial_group_size=3)


def test_each_node_leaves_a_log(tmp_path: Path) -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("f", Action(KILL, ("n1",)))
        await seconds(3)
        assert await cluster.collect(tmp_path) == []
        await cluster.down()
        await cluster.down()

    simulate(main)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n1.log", "n2.log", "n3.log"]
    assert "leads term 1" in (tmp_path / "n1.log").read_text()


def test_it_lives_in_virtual_time_only() -> None:
    setup = Setup("run", "rabbitmq-quorum", None, 3, {}, RealClock(), Streams(1), Watcher())
    with pytest.raises(SplitbrainError, match="virtual time"):
        SimulatedCluster(setup, QuorumQueue)


def test_a_cut_between_followers_bites_by_their_heartbeats_also_when_they_die_in_it() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        links = [["n2", "n3"], ["n3", "n2"]]
        await cluster.inject("f", Action(CUT, ("n2", "n3"), {"links": links}))
        await seconds(3)
        assert (await cluster.undo("f")).bit is True
        await cluster.inject("g", Action(CUT, ("n2", "n3"), {"links": links}))
        await seconds(3)
        await cluster.inject("h", Action(POWER_OFF, cluster.nodes))
        assert (await cluster.undo("g")).bit is True

    simulate(main)


@pytest.mark.parametrize("seed", range(5))
def test_a_connection_that_one_side_still_held_is_replaced_once(seed: int) -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> int:
        await cluster.inject("f", cut(cluster, "n1"))
        await seconds(5.6)  # by now some ends have lost patience, and some have not
        await cluster.undo("f")
        await seconds(15)
        return max(sum("connected to n" in line for line in node.log) for node in cluster.by_name.values())

    assert simulate(main, seed=seed, net_ticktime="5s") <= 5  # two at first, and each perhaps replaced


def test_the_newest_is_whose_broker_was_started_last() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        assert cluster.newest() == "n3"  # all at once: the last of them
        await cluster.inject("f", Action(KILL, ("n2",)))
        await seconds(1)
        await cluster.undo("f")
        assert cluster.newest() == "n2"
        await cluster.inject("g", Action(KILL, ("n2",)))
        assert cluster.newest() == "n3"
        await cluster.undo("g")

    simulate(main)


def test_who_waits_for_it_is_told_when_a_replica_catches_up_and_of_lines() -> None:
    async def main(loop: VirtualLoop) -> Watcher:
        watcher = Watcher()
        options = resolve(QuorumQueue.settings, {}, "cluster.settings")
        setup = Setup(
            "r", "b", None, 3, options, loop, Streams(1), watcher, lines=("steps down", "n3 is down"), syncs=True
        )
        cluster = SimulatedCluster(setup, QuorumQueue)
        await cluster.up(lambda line: None)
        await cluster.declare("q")
        client = await cluster.connect("n1", "p")
        await cluster.inject("f", Action(CUT, cluster.nodes, cut(cluster, "n3").args))
        for number in range(200):
            await client.publish("q", b"%d" % number)
        await seconds(10)
        assert watcher.synced == [("q", "n3", False)], "cut off, and known to be behind"
        await cluster.undo("f")
        await served(cluster)
        await seconds(1)
        return watcher

    watcher = run_virtual(main)
    assert watcher.synced == [("q", "n3", False), ("q", "n3", True)]
    assert {node for node, _ in watcher.lines} == {"n1", "n2"}
    assert all("n3 is down" in line for _, line in watcher.lines)
