"""What becomes of a mirrored queue in a partition, in each of the three ways of handling one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chaos.model.schedule import CUT, KILL, PAUSE, Action
from clusters.simulated.cluster import SimulatedCluster
from tests.simulated.made import cut, drain, served
from tests.simulated.mirrored.made import Watcher, bodies, masters, publish, replica, seconds, simulate

PAUSE_MINORITY: dict[str, Any] = {"cluster_partition_handling": "pause_minority"}
AUTOHEAL: dict[str, Any] = {"cluster_partition_handling": "autoheal"}


async def publish_on_both_sides(cluster: SimulatedCluster) -> None:
    """Cut the master off, wait until both sides know, and have a publish confirmed on each."""
    await cluster.inject("cut", cut(cluster, "n1"))
    await seconds(8)
    assert masters(cluster) == ["n1", "n2"]
    assert await publish(cluster, "n1", "one", "two") == ["ok", "ok"]
    assert await publish(cluster, "n3", "other") == ["ok"]
    await cluster.undo("cut")


def test_autoheal_restarts_the_smaller_side_which_loses_what_it_confirmed() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n2", "before")
        await publish_on_both_sides(cluster)
        await served(cluster)
        assert masters(cluster) == ["n2"]
        assert await drain(cluster, "n1") == [b"before", b"other"]

    simulate(main, **AUTOHEAL)


def test_ignore_leaves_two_queues_after_the_heal() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish_on_both_sides(cluster)
        await seconds(60)
        assert masters(cluster) == ["n1", "n2"]
        assert [bodies(cluster, node) for node in cluster.nodes] == [[b"one", b"two"], [b"other"], [b"other"]]
        assert "its replica of 'q' is behind" in (await cluster.serving()).values()

    simulate(main)


@pytest.mark.parametrize(("side", "left"), [(("n1",), [b"other"]), (("n2", "n3"), [b"one", b"two"])])
def test_ignore_loses_what_the_side_that_is_restarted_has_confirmed(side: tuple[str, ...], left: list[bytes]) -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish_on_both_sides(cluster)
        await seconds(5)
        await cluster.inject("restart", Action(KILL, side))
        await seconds(1)
        await cluster.undo("restart")
        await served(cluster)
        assert await drain(cluster, "n2") == left

    simulate(main)


@pytest.mark.parametrize("alone", ["n1", "n2", "n3"])
def test_pause_minority_stops_the_smaller_side_and_loses_nothing(alone: str) -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await publish(cluster, "n2", "before")
        await cluster.inject("cut", cut(cluster, alone))
        await seconds(8)
        majority = [node for node in cluster.nodes if node != alone]
        assert masters(cluster) == majority[:1]
        assert await publish(cluster, alone, "lost?") == ["TimeoutError"]
        assert await publish(cluster, majority[1], "meanwhile") == ["ok"]
        await cluster.undo("cut")
        await served(cluster)
        assert (await drain(cluster, alone))[:2] == [b"before", b"meanwhile"]

    simulate(main, **PAUSE_MINORITY)


def test_under_pause_minority_no_two_lead_at_once_although_each_finds_out_in_its_own_time() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("cut", cut(cluster, "n1"))
        for _ in range(80):
            await seconds(0.1)
            confirming = [node for node in masters(cluster) if (await publish(cluster, node, "m"))[0] == "ok"]
            assert len(confirming) <= 1

    simulate(main, **PAUSE_MINORITY)


def taken_by_an_heir(seed: int) -> tuple[bool, list[bytes]]:
    """Cut off, a mirror may find out about the master first: was it an heir then, and what did it let be taken?"""

    async def main(cluster: SimulatedCluster, watcher: Watcher) -> tuple[bool, list[bytes]]:
        await publish(cluster, "n1", "m")
        await cluster.inject("cut", cut(cluster, "n2"))
        seen, taken = False, []
        for _ in range(700):
            await seconds(0.01)
            if replica(cluster, "n2").role == "leader":
                seen = True
                client = await cluster.connect("n2", "c")
                polled = asyncio.ensure_future(client.get("q"))
                await seconds(0.02)
                if polled.done() and polled.exception() is None and (delivery := polled.result()) is not None:
                    taken.append(delivery.body)
                polled.cancel()
        return seen, taken

    return simulate(main, seed=seed, **PAUSE_MINORITY)


def test_an_heir_serves_nobody_before_all_members_know() -> None:
    found = [taken_by_an_heir(seed) for seed in range(1, 7)]
    assert [taken for _, taken in found] == [[]] * 6
    assert any(seen for seen, _ in found)


def test_who_first_sees_a_partition_that_others_do_not_pauses_until_all_is_well() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        links = [["n1", "n3"], ["n3", "n1"]]
        await cluster.inject("cut", Action(CUT, ("n1", "n3"), {"links": links}))
        await seconds(15)
        assert masters(cluster) == ["n2"]
        assert [view.role for view in watcher.views if view.node == "n1"][-1] == "paused"
        assert any("n2 still sees n3" in line for line in cluster.by_name["n1"].log)
        await cluster.undo("cut")
        await served(cluster)

    simulate(main, **PAUSE_MINORITY)


def test_a_partition_that_only_two_nodes_see_is_made_one_that_all_see() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        links = [["n1", "n3"], ["n3", "n1"]]
        await cluster.inject("cut", Action(CUT, ("n1", "n3"), {"links": links}))
        await seconds(9)
        assert len(masters(cluster)) > 1
        assert any("partial partition" in line for node in cluster.by_name.values() for line in node.log)
        await cluster.undo("cut")

    simulate(main)


def test_a_master_that_stood_still_comes_back_into_a_partition() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        await cluster.inject("still", Action(PAUSE, ("n1",)))
        await seconds(8)
        assert await publish(cluster, "n2", "m") == ["ok"]
        await cluster.undo("still")
        await seconds(1)
        assert masters(cluster) == ["n2"]
        await served(cluster)
        assert await drain(cluster, "n1") == [b"m"]

    simulate(main, **PAUSE_MINORITY)


def test_beliefs_carry_no_terms() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        assert {view.term for view in watcher.views} == {None}
        assert {view.role for view in watcher.views} >= {"leader", "mirror"}

    simulate(main)
