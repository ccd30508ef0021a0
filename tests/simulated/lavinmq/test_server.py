"""A node's replica: what it asks etcd for, and its whole state."""

from dataclasses import replace
from typing import Any

from chaos.kernel.clock import SECOND
from chaos.model.schedule import KILL, Action
from clusters.simulated.etcd import keyvalue, member
from clusters.simulated.etcd.keyvalue import Item
from clusters.simulated.lavinmq.cluster import LavinmqCluster
from clusters.simulated.lavinmq.rules import CANDIDATES, FOLLOW, ISR, LEASE, LINKS, PREFIX, REQUESTS, WATCHING, Rules
from clusters.simulated.lavinmq.server import Server
from clusters.simulated.replica import BELIEF, EXIT, SEND
from tests.simulated.lavinmq.made import drain, server, simulate
from tests.simulated.made import Watcher, outcome, seconds, served

RULES = Rules(
    ttl=10 * SECOND, keepalive=7 * SECOND, waits=True, fenced=True, unsynced=False, syncs=False, segment=10, copy=0
)


def made(keys: dict[str, Item], **rules: Any) -> Server:
    """Node n1, connected to etcd and to n2, which has heard what is in etcd."""
    replica = Server("n1", ("n1", "n2", "n3"), replace(RULES, **rules))
    replica.start((), 0.5)
    for name in (*LINKS, "n2"):
        replica.up(name)
    replica.effects.clear()
    replica.message(WATCHING, (member.ANSWER, 1, keys))
    return replica


def sent(replica: Server, target: str) -> list[Any]:
    return [effect[2] for effect in replica.effects if effect[0] == SEND and effect[1] == target]


def leader(node: str, revision: int, lease: int = 7) -> dict[str, Item]:
    return {f"{CANDIDATES}{lease}": Item(node, revision, revision, lease)}


def in_sync(*nodes: str) -> dict[str, Item]:
    return {ISR: Item(nodes, 3, 3, 0)}


def test_where_nobody_is_in_sync_yet_it_stands() -> None:
    assert sent(made({}), LEASE) == [(keyvalue.GRANT, 2, 10 * SECOND, None)]


def test_whoever_is_not_in_sync_does_not_stand_and_follows() -> None:
    replica = made({**leader("n2", 5), **in_sync("n2", "n3")})
    assert sent(replica, LEASE) == []
    assert sent(replica, "n2") == [(FOLLOW, 1)]
    assert (BELIEF, "follower", 5) in replica.effects


def test_it_stands_with_a_key_under_its_lease_if_there_is_none_yet() -> None:
    replica = made({})
    replica.message(LEASE, (member.ANSWER, 2, 44))
    key = f"{CANDIDATES}44"
    assert sent(replica, REQUESTS) == [(keyvalue.TXN, 3, (key, 0), (key, "n1", 44))]


def stood(keys: dict[str, Item], **rules: Any) -> Server:
    """As candidate with lease 44, and these keys besides its own."""
    replica = made({}, **rules)
    replica.message(LEASE, (member.ANSWER, 2, 44))
    replica.effects.clear()
    replica.message(WATCHING, (member.AGAIN, 1, {**keys, f"{CANDIDATES}44": Item("n1", 9, 9, 44)}))
    return replica


def test_the_lowest_create_revision_leads() -> None:
    assert not stood(leader("n2", 8)).leading
    replica = stood(leader("n2", 10))
    assert replica.leading
    assert (BELIEF, "leader", 9) in replica.effects


def test_the_winner_that_is_not_in_sync_gives_its_lease_back_and_exits_or_leads() -> None:
    replica = stood(in_sync("n2"))
    assert not replica.leading
    assert sent(replica, REQUESTS) == [(keyvalue.REVOKE, 4, 44, None)]
    assert replica.effects[-1][:2] == (EXIT, 3)
    assert stood(in_sync("n2"), unsynced=True).leading


def test_the_in_sync_set_is_written_only_by_who_leads_or_by_anybody() -> None:
    for fenced, expected in (
        (True, (keyvalue.TXN, 4, (f"{CANDIDATES}44", 9), (ISR, ("n1",), 0))),
        (False, (keyvalue.PUT, 4, ISR, (("n1",), 0))),
    ):
        replica = stood({}, fenced=fenced)
        replica.request(("n1", 1, 1), (1, ("n1", 1, 1), 1, "q", b"m"))
        assert sent(replica, REQUESTS) == [expected]


def test_a_leader_that_is_told_that_another_leads_exits() -> None:
    replica = stood({})
    replica.request(("n1", 1, 1), (1, ("n1", 1, 1), 1, "q", b"m"))
    replica.message(REQUESTS, (member.ANSWER, 4, None))
    assert replica.effects[-1] == (EXIT, 3, "stale leadership")


def test_a_lease_that_is_gone_or_cannot_be_renewed_ends_the_process() -> None:
    for answer in ((member.ANSWER, 4, 0), (member.UNAVAILABLE, 4, member.NO_LEADER)):
        replica = stood({})
        replica.timer(0, 0.5)
        assert sent(replica, LEASE) == [(keyvalue.RENEW, 4, 44, None)]
        replica.message(LEASE, answer)
        assert replica.effects[-1][:2] == (EXIT, 3)
    replica = stood({})
    replica.timer(0, 0.5)
    replica.message(LEASE, (member.UNAVAILABLE, 4, member.TIMED_OUT))
    assert replica.effects[-1][0] != EXIT  # it asks again


def test_it_watches_all_that_is_lavinmqs() -> None:
    replica = Server("n1", ("n1",), RULES)
    replica.start((), 0.5)
    replica.effects.clear()
    replica.up(WATCHING)
    assert sent(replica, WATCHING) == [(keyvalue.WATCH, 1, PREFIX, None)]


def test_a_replica_that_is_restored_is_what_was_snapshot() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n1", "p")
        for number in range(25):
            assert await outcome(client.publish("q", b"%d" % number)) == "ok"
        assert (await client.get("q")) is not None
        for node in cluster.nodes:
            whole = server(cluster, node).snapshot()
            twin = Server(node, cluster.nodes, server(cluster, node).rules)
            twin.restore(whole)
            assert twin.snapshot() == whole
            hash(whole)

    simulate(main, segment=10)


def test_segments_that_are_acknowledged_whole_are_deleted_everywhere() -> None:
    async def main(cluster: LavinmqCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n1", "p")
        for number in range(25):
            await client.publish("q", b"%d" % number)
        assert len(await drain(cluster, "n2")) == 25
        await seconds(1)
        for node in cluster.nodes:
            assert [name for name, _ in server(cluster, node).store.files()] == ["definitions", "q/msgs.2", "q/acks.2"]
        await cluster.inject("f", Action(KILL, cluster.nodes))
        await cluster.undo("f")
        await served(cluster)
        assert await drain(cluster, "n3") == []
        await (await cluster.connect("n1", "p")).publish("q", b"next")
        assert server(cluster, cluster.leader() or "").store.records("q/msgs.2")[-1] == (26, b"next")

    simulate(main, segment=10)
