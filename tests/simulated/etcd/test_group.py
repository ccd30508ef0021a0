"""The group of etcd processes: leases, watches, and writes under faults."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from chaos.kernel.clock import SECOND
from clusters.simulated.etcd.group import STORE, Times
from clusters.simulated.etcd.keyvalue import DELETE, GRANT, PUT, RANGE, RENEW, REVOKE, WATCH, Item
from clusters.simulated.etcd.member import AGAIN, EVENTS, NO_LEADER, TIMED_OUT, EtcdMember
from clusters.simulated.network import Message
from tests.simulated.etcd.group import MACHINES, Client, Etcd, Unavailable, simulate

TTL = 10 * SECOND


def others(machine: str) -> list[str]:
    return [other for other in MACHINES if other != machine]


def last(message: Message) -> Item | None:
    """What is told of the key last."""
    newest: Item | None = message[2]["key"] if message[0] == AGAIN else message[2][-1][2]
    return newest


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("in vain")


def test_any_member_takes_a_request_and_all_apply_it() -> None:
    async def main(etcd: Etcd) -> None:
        for machine in MACHINES:
            assert isinstance(await Client(etcd, machine, machine).ask(PUT, machine, ("here", 0)), int)
        assert list(await Client(etcd, "n1", "n2").ask(RANGE, "n")) == list(MACHINES)

    simulate(main)


def test_a_lease_lives_while_it_is_renewed_and_no_longer() -> None:
    async def main(etcd: Etcd) -> list[tuple[float, Any]]:
        client, seen = Client(etcd, "n1", "n1"), []
        lease = await client.ask(GRANT, TTL)
        await client.ask(PUT, "key", ("mine", lease))
        watcher = Client(etcd, "n2", "n2")
        await watcher.ask(WATCH, "key")
        for _ in range(3):
            await asyncio.sleep(7)
            assert await client.ask(RENEW, lease) == TTL
        renewed = etcd.loop.now()
        await until(lambda: bool(watcher.told))
        seen.append(((etcd.loop.now() - renewed) / SECOND, watcher.told))
        assert await client.ask(RENEW, lease) == 0
        return seen

    [(after, told)] = simulate(main)
    assert 10 <= after <= 10.1
    assert told == [(EVENTS, 1, [(3, "key", None)])]


def test_a_new_leader_of_the_group_lets_each_lease_begin_anew() -> None:
    async def main(etcd: Etcd) -> float:
        leader = await etcd.led()
        client = Client(etcd, "n1", others(leader)[0])
        await client.ask(PUT, "key", ("mine", await client.ask(GRANT, TTL)))
        await asyncio.sleep(8)
        etcd.kill(leader)
        killed = etcd.loop.now()
        await until(lambda: etcd.leader() is not None)
        watcher = Client(etcd, "n1", await etcd.led())
        await watcher.ask(WATCH, "key")
        await until(lambda: bool(watcher.told))
        return (etcd.loop.now() - killed) / SECOND

    assert 11 < simulate(main) < 11 + 2.5 + 0.5  # an election, and ten seconds and an election time-out more


def test_a_revoked_lease_is_gone_at_once() -> None:
    async def main(etcd: Etcd) -> None:
        client = Client(etcd, "n1", "n3")
        lease = await client.ask(GRANT, TTL)
        await client.ask(PUT, "key", ("mine", lease))
        assert await client.ask(REVOKE, lease) is True
        assert await client.ask(RANGE, "key") == {}

    simulate(main)


def test_a_watch_tells_what_was_there_and_then_every_event_once_in_order() -> None:
    async def main(etcd: Etcd) -> None:
        client, watcher = Client(etcd, "n1", "n1"), Client(etcd, "n3", "n3")
        await client.ask(PUT, "a/0", ("0", 0))
        assert await watcher.ask(WATCH, "a/") == {"a/0": Item("0", 2, 2, 0)}
        await asyncio.gather(*[client.ask(PUT, f"a/{number}", (str(number), 0)) for number in range(1, 6)])
        await client.ask(PUT, "b", ("unseen", 0))
        await client.ask(DELETE, "a/0")
        await asyncio.sleep(0.5)
        events = [event for _, corr, events in watcher.told for event in events if corr == 1]
        assert [(revision, key) for revision, key, _ in events] == [
            *[(2 + number, f"a/{number}") for number in range(1, 6)],
            (9, "a/0"),
        ]
        assert events[-1][2] is None

    simulate(main)


def test_a_watch_of_a_member_that_was_far_behind_begins_anew() -> None:
    async def main(etcd: Etcd) -> None:
        late = others(await etcd.led())[0]
        watcher = Client(etcd, late, late)
        await watcher.ask(WATCH, "")
        etcd.cut(late)
        client = Client(etcd, "n1", await etcd.led())
        for number in range(30):
            await client.ask(PUT, "key", (number, 0))
        await asyncio.sleep(8)  # the connection is given up, and with it what was on its way
        etcd.mend(late)
        await asyncio.sleep(15)
        tag, corr, keys = watcher.told[0]
        assert (tag, corr) == (AGAIN, 1)
        assert keys["key"].mod > 10  # the first of them are not told one by one
        assert last(watcher.told[-1]) == Item(29, 2, 31, 0)

    simulate(main, times=Times(snapshot=10))


def test_a_minority_says_so_in_time_and_has_done_nothing() -> None:
    async def main(etcd: Etcd) -> None:
        leader = await etcd.led()
        etcd.cut(leader)
        begun = etcd.loop.now()
        with pytest.raises(Unavailable, match=NO_LEADER):
            await Client(etcd, leader, leader).ask(PUT, "key", ("lost", 0))
        assert etcd.loop.now() - begun < Times().request + SECOND
        member = etcd.nodes[leader].replicas[STORE]
        assert isinstance(member, EtcdMember)
        assert not member.ready  # it has stepped down, as nobody answers
        assert await Client(etcd, others(leader)[0], others(leader)[0]).ask(RANGE, "") == {}

    simulate(main)


def test_a_request_that_was_lost_with_the_leader_times_out() -> None:
    async def main(etcd: Etcd) -> None:
        leader = await etcd.led()
        client = Client(etcd, "n1", others(leader)[0])
        await client.ask(PUT, "key", ("there", 0))
        etcd.nodes[leader].pause()
        with pytest.raises(Unavailable, match=TIMED_OUT):
            await client.ask(PUT, "key", ("lost", 0))
        assert await client.ask(RANGE, "key") == {"key": Item("there", 2, 2, 0)}

    simulate(main)


def test_what_was_answered_survives_the_power_of_all() -> None:
    async def main(etcd: Etcd) -> None:
        await Client(etcd, "n1", "n2").ask(PUT, "key", ("there", 0))
        for machine in MACHINES:
            etcd.nodes[machine].die("loses its power")
            etcd.nodes[machine].disk.power_off()
            etcd.network.vanish(f"{machine}/etcd")
        etcd.start(*MACHINES)
        await asyncio.sleep(5)
        assert await Client(etcd, "n1", "n2").ask(RANGE, "key") == {"key": Item("there", 2, 2, 0)}

    simulate(main)


@pytest.mark.parametrize("seed", range(4))
def test_an_isolated_member_that_comes_back_does_not_unseat_the_leader(seed: int) -> None:
    async def main(etcd: Etcd) -> None:
        leader = await etcd.led()
        member = etcd.nodes[leader].replicas[STORE]
        assert isinstance(member, EtcdMember)
        term = member.term
        etcd.cut(others(leader)[0])
        await asyncio.sleep(8)
        etcd.mend(others(leader)[0])
        await asyncio.sleep(8)
        assert (etcd.leader(), member.term) == (leader, term)

    simulate(main, seed=seed)


@pytest.mark.parametrize("seed", range(6))
def test_a_key_that_each_changes_by_what_it_read_is_linearizable_under_faults(seed: int) -> None:
    """Compare-and-set on one key, from every machine, while members are killed, cut off and paused: a value that was
    answered as written is followed by exactly the writes that came after it, and none is written twice."""
    done: list[tuple[int, int, int]] = []  # begun, ended, the revision that the answer gave

    async def main(etcd: Etcd) -> None:
        async def writer(machine: str) -> None:
            for number in range(40):
                target = MACHINES[(MACHINES.index(machine) + number) % 3]
                if etcd.nodes[target].state != "up":
                    await asyncio.sleep(0.2)
                    continue
                client, begun = Client(etcd, machine, target), etcd.loop.now()
                try:
                    revision = await asyncio.wait_for(client.ask(PUT, "key", ((machine, number), 0)), 8)
                except (Unavailable, TimeoutError):
                    continue
                done.append((begun, etcd.loop.now(), revision))
                read = (await asyncio.wait_for(client.ask(RANGE, "key"), 30))["key"] if number % 5 == 0 else None
                if read is not None:
                    assert read.mod >= revision
                await asyncio.sleep(0.1)

        async def hurt() -> None:
            for number in range(6):
                await asyncio.sleep(3)
                victim = (await etcd.led()) if number % 2 else MACHINES[number % 3]
                if number % 3 == 0:
                    etcd.kill(victim)
                    await asyncio.sleep(3)
                    etcd.start(victim)
                elif number % 3 == 1:
                    etcd.cut(victim)
                    await asyncio.sleep(3)
                    etcd.mend(victim)
                else:
                    etcd.nodes[victim].pause()
                    await asyncio.sleep(3)
                    etcd.nodes[victim].resume()

        hurting = asyncio.ensure_future(hurt())
        for result in await asyncio.gather(*[writer(machine) for machine in MACHINES], return_exceptions=True):
            assert result is None or isinstance(result, TimeoutError), result
        await hurting
        await asyncio.sleep(20)
        stores = [node.replicas[STORE].machine for node in etcd.nodes.values()]  # type: ignore[attr-defined]
        assert stores[0].snapshot() == stores[1].snapshot() == stores[2].snapshot()

    simulate(main, seed=seed)
    assert len(done) > 40
    by_revision = sorted(done, key=lambda write: write[2])
    assert all(one[2] < other[2] for one, other in pairwise(by_revision))
    for place, (begun, _, _) in enumerate(by_revision):  # who came later in the order did not end before it began
        assert all(ended > begun for _, ended, _ in by_revision[place:])
