"""What is said of LavinMQ's clustering, each as one literal scenario of faults."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from chaos.kernel.clock import SECOND
from chaos.model.schedule import CUT, KILL, PAUSE, POWER_OFF, STOP, Action
from clusters.base import Unknown
from clusters.simulated.client import SimulatedClient
from clusters.simulated.etcd.group import STORE
from clusters.simulated.lavinmq.cluster import ETCD, LavinmqCluster
from clusters.simulated.lavinmq.rules import CANDIDATES
from tests.simulated.lavinmq.made import drain, led_by, others, server, simulate
from tests.simulated.made import Watcher, cut, outcome, producer, seconds, served

# --- a crashed leader's lease expires, and another leads within the time to live plus the election


@pytest.mark.parametrize("seed", range(5))
def test_a_crashed_leader_is_followed_by_another_once_its_lease_has_expired(seed: int) -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> float:
        await seconds(7.5 * seed)  # somewhere between two keep-alives
        leader = cluster.leader() or ""
        await cluster.inject("f", Action(KILL, (leader,)))
        killed = cluster.loop.now()
        new = await led_by(cluster, *others(cluster, leader))
        took = (cluster.loop.now() - killed) / SECOND
        assert await outcome((await cluster.connect(new, "p")).publish("q", b"m")) == "ok"
        await cluster.undo("f")
        await served(cluster)
        assert cluster.leader() == new  # whoever comes back follows
        return took

    assert 3 - 0.1 <= simulate(main, seed=seed) <= 10 + 0.1  # the lease was renewed at most 7 s before


def test_a_leader_that_is_stopped_in_order_gives_its_lease_back() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> float:
        leader = cluster.leader() or ""
        await cluster.inject("f", Action(STOP, (leader,)))
        stopped = cluster.loop.now()
        await led_by(cluster, *others(cluster, leader))
        return (cluster.loop.now() - stopped) / SECOND

    assert simulate(main) < 0.12


def test_terms_are_create_revisions_and_only_grow() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        for number in range(4):
            await cluster.inject(f"f{number}", Action(KILL, (cluster.leader() or "",)))
            await seconds(12)
            await cluster.undo(f"f{number}")
            await served(cluster)
        led = list(dict.fromkeys((view.term, view.node) for view in watcher.views if view.role == "leader"))
        assert len(led) == 5
        assert [term for term, _ in led] == sorted({term for term, _ in led if term is not None})
        assert all(view.exact and view.scope == "q" for view in watcher.views)

    simulate(main)


# --- without fencing a paused or isolated leader confirms beside the new one


def test_a_paused_leader_that_wakes_confirms_beside_the_new_one_and_that_is_lost() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        old = cluster.leader() or ""
        stale = await cluster.connect(old, "stale")
        await cluster.inject("f", Action(PAUSE, (old,)))
        new = await led_by(cluster, *others(cluster, old))
        late = asyncio.ensure_future(outcome(stale.publish("q", b"late"), 30))
        fresh = await producer(cluster, new)
        await fresh.run(2)
        await cluster.undo("f")
        assert await late == "ok"
        assert cluster.by_name[old].state == "up"  # it has confirmed before it heard that its lease is gone
        await seconds(1)
        assert cluster.by_name[old].state == "booting"  # LavinMQ exits rather than step down
        await served(cluster)
        assert cluster.leader() == new
        left = await drain(cluster, old)
        assert set(left) == set(fresh.confirmed)

    simulate(main, heartbeat="60s")


def test_an_isolated_leader_confirms_beside_the_new_one_until_its_followers_are_given_up() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        old = cluster.leader() or ""
        assert cluster.etcd.leader() != old  # or its lease would begin anew, and outlive what follows
        stale = await producer(cluster, old, "stale")
        isolated = cluster.loop.now()
        await cluster.inject("f", cut(cluster, old))
        running = asyncio.ensure_future(stale.run(12))
        await led_by(cluster, *others(cluster, old))
        elected = cluster.loop.now()
        fresh = await producer(cluster, others(cluster, old)[0], "fresh")
        await fresh.run(2)
        await running
        both = stale.between(elected, cluster.loop.now())
        assert both > 0
        assert fresh.between(elected, cluster.loop.now()) > 0
        last = max(stale.confirmed.values())
        assert 5 <= (last - isolated) / SECOND <= 6.5  # then it must write the in-sync set, and cannot
        assert cluster.by_name[old].state != "up" or not server(cluster, old).leading
        await cluster.undo("f")
        await served(cluster)
        left = set(await drain(cluster, old))
        assert set(fresh.confirmed) <= left
        lost = set(stale.confirmed) - left
        assert len(lost) >= both

    simulate(main, seed=2, lease_ttl="4s", keepalive="2800ms")


def test_with_remote_etcd_endpoints_two_or_three_nodes_lead_for_as_long_as_the_cut_lasts() -> None:
    """Their keep-alives are on their way to where nothing arrives; measured on 2.1.0: 44 s."""

    async def main(cluster: LavinmqCluster, watcher: Watcher) -> tuple[set[int], set[int]]:
        await seconds(5)
        await cluster.inject("f", cut(cluster, cluster.leader() or ""))
        await seconds(20)
        during = set[int]()
        for _ in range(20):
            await seconds(1)
            during.add(how_many_lead(cluster))
        await cluster.undo("f")
        await served(cluster)
        return during, {how_many_lead(cluster)}

    assert simulate(main, seed=1, etcd_endpoints="all") == ({3}, {1})
    assert simulate(main, seed=2, etcd_endpoints="all") == ({2}, {1})
    assert simulate(main, seed=1, etcd_endpoints="local") == ({1}, {1})


def how_many_lead(cluster: LavinmqCluster) -> int:
    return sum(node.state == "up" and server(cluster, node.name).leading for node in cluster.by_name.values())


# --- with fencing and waiting confirms none is lost


@pytest.mark.parametrize("endpoints", ["local", "all"])
@pytest.mark.parametrize("fault", ["pause", "isolate", "etcd-and-replication", "lagging", "kill", "power-off"])
def test_the_fenced_and_waiting_form_loses_nothing(fault: str, endpoints: str) -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        old = cluster.leader() or ""
        follower = others(cluster, old)[0]
        producers = [await producer(cluster, node, node) for node in cluster.nodes]
        running = [asyncio.ensure_future(one.run(40)) for one in producers]
        await seconds(2)
        if fault == "lagging":
            await cluster.inject("lag", cut(cluster, follower, service="replication"))
            await seconds(12)
            await cluster.inject("f", Action(KILL, (old,)))
        elif fault == "etcd-and-replication":
            for service in ("etcd", "etcd-peers", "replication"):
                await cluster.inject(service, cut(cluster, old, service=service))
        elif fault == "isolate":
            await cluster.inject("f", cut(cluster, old))
        else:
            verb = {"pause": PAUSE, "kill": KILL, "power-off": POWER_OFF}[fault]
            await cluster.inject("f", Action(verb, (old,)))
        await seconds(15)
        for name in ("f", "lag", "etcd", "etcd-peers", "replication"):
            await cluster.undo(name)
        for one in running:
            await one
        await served(cluster)
        left = set(await drain(cluster, follower))
        confirmed = {body for one in producers for body in one.confirmed}
        assert len(confirmed) > 100
        assert confirmed <= left

    simulate(main, version="2.9", heartbeat="60s", etcd_endpoints=endpoints)


def test_the_fenced_leader_exits_when_it_is_told_that_it_leads_no_longer() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        old = cluster.leader() or ""
        stale = await cluster.connect(old, "stale")
        await cluster.inject("f", Action(PAUSE, (old,)))
        await led_by(cluster, *others(cluster, old))
        late = asyncio.ensure_future(outcome(stale.publish("q", b"late"), 30))
        await cluster.undo("f")
        assert (await late).startswith("Unknown")
        await served(cluster)
        assert await drain(cluster, old) == []

    simulate(main, version="2.9", heartbeat="60s")


# --- a confirm that does not wait loses on fail-over to a lagging follower


@pytest.mark.parametrize(("version", "loses"), [("2.1", True), ("2.9", False)])
def test_a_confirm_that_does_not_wait_loses_on_fail_over_to_a_lagging_follower(version: str, loses: bool) -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> bool:
        leader = cluster.leader() or ""
        for follower in others(cluster, leader):
            await cluster.inject(follower, cut(cluster, follower, service="replication"))
        one = await producer(cluster, leader)
        await one.run(2)
        await cluster.inject("f", Action(POWER_OFF, (leader,)))
        for follower in others(cluster, leader):
            await cluster.undo(follower)
        await led_by(cluster, *others(cluster, leader))
        await cluster.undo("f")
        await served(cluster)
        lost = set(one.confirmed) - set(await drain(cluster, leader))
        assert len(lost) in (0, len(one.confirmed))
        return bool(lost)

    assert simulate(main, version=version) is loses


@pytest.mark.parametrize(("unsynced", "loses"), [("true", True), ("false", False)])
def test_a_candidate_that_left_the_in_sync_set_may_win_or_not(unsynced: str, loses: bool) -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> bool:
        leader = cluster.leader() or ""
        first = next_candidate(cluster)
        last = next(node for node in others(cluster, leader) if node != first)
        one = await producer(cluster, leader)
        await cluster.inject("f", cut(cluster, first, service="replication"))
        await one.run(12)
        await cluster.inject("g", Action(KILL, (leader,)))
        new = await led_by(cluster, first, last)
        assert new == (first if loses else last)
        await cluster.undo("f")
        await cluster.undo("g")
        await served(cluster)
        return bool(set(one.confirmed) - set(await drain(cluster, leader)))

    assert simulate(main, confirm_waits="true", fenced="true", unsynced_candidates=unsynced) is loses


def next_candidate(cluster: LavinmqCluster) -> str:
    """Whose key has the lowest create-revision after the leader's."""
    store = cluster.etcd.nodes["n1"].replicas[STORE].machine.under(CANDIDATES)  # type: ignore[attr-defined]
    return [item.value for item in sorted(store.values(), key=lambda item: item.create)][1]


# --- losing etcd's majority loses no data and stops service


def test_without_a_majority_of_etcd_service_stops_and_nothing_is_lost() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        leader = cluster.leader() or ""
        one = await producer(cluster, leader)
        running = asyncio.ensure_future(one.run(40))
        await seconds(1)
        await cluster.inject("f", Action(KILL, tuple(others(cluster, leader)), process=ETCD))
        lost_at = cluster.loop.now()
        await seconds(25)
        last = max(one.confirmed.values())
        assert 0 < (last - lost_at) / SECOND <= 7 + 7.1  # until a keep-alive is due, and is refused
        assert all(not why.endswith("is standing still") for why in (await cluster.serving()).values() if why)
        with pytest.raises(Unknown):
            await cluster.connect(leader, "p")
        await cluster.undo("f")
        await running
        await served(cluster)
        assert set(one.confirmed) <= set(await drain(cluster, leader))

    simulate(main)


def test_killing_the_leaders_own_etcd_ends_its_lease_soon() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> float:
        leader = cluster.leader() or ""
        assert cluster.etcd.leader() != leader
        one = await producer(cluster, leader)
        running = asyncio.ensure_future(one.run(30))
        await seconds(1)
        await cluster.inject("f", Action(KILL, (leader,), process=ETCD))
        new = await led_by(cluster, *others(cluster, leader))
        stopped = max(one.confirmed.values())
        gap = (cluster.loop.now() - stopped) / SECOND
        await running
        await cluster.undo("f")
        await served(cluster)
        assert set(one.confirmed) <= set(await drain(cluster, new))
        return gap

    # what the lease has left when a keep-alive finds nobody: 3.4 s was measured
    assert 2.5 < simulate(main, seed=2) < 5.5


# --- a follower forwards


def test_a_follower_passes_its_clients_on_to_the_leader() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        leader = cluster.leader() or ""
        follower = others(cluster, leader)[0]
        client = await cluster.connect(follower, "p")
        assert await outcome(client.publish("q", b"m")) == "ok"
        delivery = await (await cluster.connect(leader, "c")).get("q")
        assert delivery is not None
        assert delivery.body == b"m"
        lost: list[str] = []
        client.on_lost = lost.append
        await cluster.inject("f", Action(KILL, (leader,)))
        await seconds(1)
        assert lost == ["closed by the other side"]

    simulate(main)


def test_while_there_is_no_leader_a_follower_accepts_and_closes() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        leader = cluster.leader() or ""
        await cluster.inject("f", Action(KILL, (leader,)))
        with pytest.raises(Unknown, match="closed by the other side"):
            await cluster.connect(others(cluster, leader)[0], "p")

    simulate(main)


# --- a follower far behind catches up, and the leader's pause at the end is short


def test_a_follower_far_behind_catches_up_and_the_leader_stands_still_only_at_the_end() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> tuple[float, float, float]:
        leader = cluster.leader() or ""
        late = others(cluster, leader)[0]
        client = await cluster.connect(leader, "p")
        await cluster.inject("f", Action(KILL, (late,)))
        for _ in range(20):
            await asyncio.gather(*[client.publish("q", b"%d" % number) for number in range(1000)])
        one = await producer(cluster, leader)
        running = asyncio.ensure_future(one.run(8))
        await cluster.undo("f")
        await running
        await served(cluster)
        times = [
            [float(line.split()[0]) for line in cluster.by_name[leader].log if text in line]
            for text in (f"lists its files to {late}", f"stands still for the last that {late}", f"{late} is in sync")
        ]
        begun, stood_still, in_sync = times[0][-2], times[1][-1], times[2][-1]
        gaps = sorted(one.confirmed.values())
        longest = max(after - before for before, after in pairwise(gaps))
        assert server(cluster, late).store.files() == server(cluster, leader).store.files()
        return stood_still - begun, in_sync - stood_still, longest / SECOND

    catching_up, standing_still, longest = simulate(main, copy_time="100us")
    assert catching_up > 2  # 20,000 messages at 100 us
    assert standing_still < 0.2
    assert longest < 0.25  # all that a publisher notices


def test_a_follower_that_diverged_throws_its_own_away() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        old = cluster.leader() or ""
        stale = await cluster.connect(old, "stale")
        await cluster.inject("f", cut(cluster, old))
        assert await outcome(stale.publish("q", b"mine")) == "ok"
        new = await led_by(cluster, *others(cluster, old))
        assert await outcome((await cluster.connect(new, "p")).publish("q", b"yours")) == "ok"
        await cluster.undo("f")
        await served(cluster)
        assert server(cluster, old).store.records("q/msgs.0") == [(1, b"yours")]

    simulate(main)


def test_nothing_is_synced_by_default_and_2_9_syncs_what_followers_acknowledge() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> int:
        client = await cluster.connect(cluster.leader() or "", "p")
        assert isinstance(client, SimulatedClient)
        for number in range(20):
            await client.publish("q", b"%d" % number)
        leader = cluster.leader() or ""
        await cluster.inject("f", Action(POWER_OFF, tuple(others(cluster, leader))))
        return sum(cluster.by_name[node].disk.lost for node in others(cluster, leader))

    assert simulate(main) >= 40
    assert simulate(main, version="2.9") == 0


def test_each_service_can_be_cut_on_its_own() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        for service in cluster.services:
            links = [["n1", "n2"], ["n2", "n1"]]
            await cluster.inject(service, Action(CUT, ("n1", "n2"), {"links": links, "service": service}))
            await seconds(0.5)
            await cluster.undo(service)
        await served(cluster)

    simulate(main)
