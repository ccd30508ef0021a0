"""LavinMQ, simulated: `lavinmq`. What it follows and where it is simpler: docs/protocols/lavinmq.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from chaos.model.settings import Setting, boolean, choice, duration, integer, optional
from clusters.base import NO_ACKS, QUEUE, REQUEUE
from clusters.simulated.channel import Channel
from clusters.simulated.etcd.group import CLIENTS_OF_ETCD, PEERS
from clusters.simulated.lavinmq.cluster import ALL, LOCAL, LavinmqCluster
from clusters.simulated.lavinmq.rules import Rules, tell
from clusters.simulated.lavinmq.server import Server
from clusters.simulated.node import Node
from clusters.simulated.protocol import COMMON_SETTINGS, Protocol
from clusters.simulated.raft import rules as raft
from clusters.simulated.replica import Message, Replica

# What a version means where a setting is not set: how long a follower may be silent, and the lease's life over the
# pause between keep-alives (clustering/follower.cr, etcd.cr, etcd/lease.cr).
_ACK_TIMEOUT = {"2.1": 5 * 10**9, "2.9": 3 * 10**9}
_KEEPALIVE = {"2.1": (7, 10), "2.9": (1, 3)}


def _by_version(name: str, meaning: str) -> Setting:
    return Setting(name, optional(boolean), None, f"{meaning} (not set: 2.1 no, 2.9 yes)")


class Lavinmq(Protocol):
    """One leader for all queues, by a lease in an etcd that has a process beside each broker."""

    name = "lavinmq"
    meaning = "LavinMQ: a leader by lease in etcd, and followers that copy its files"
    versions = ("2.1", "2.9")
    serves = (QUEUE, REQUEUE)
    features = (NO_ACKS,)
    services = ("clients", "replication", CLIENTS_OF_ETCD, PEERS)
    helpers = ("etcd",)
    cluster = LavinmqCluster
    settings = (
        *[setting for setting in COMMON_SETTINGS if setting.name != "boot_time"],
        Setting("boot_time", duration, "1s", "a broker serves once to twice as long after its start"),
        Setting("restart_delay", duration, "5s", "pause of the supervisor before it starts a broker that exited"),
        Setting("lease_ttl", duration, "10s", "time to live of a node's lease in etcd"),
        Setting("keepalive", optional(duration), None, "pause between renewals (not set: 2.1 0.7 of it, 2.9 a third)"),
        Setting("etcd_endpoints", choice(LOCAL, ALL), LOCAL, "the etcd on its own machine, or any of them"),
        Setting("etcd_election_timeout", duration, "1s", "an etcd member waits once to twice as long for its leader"),
        _by_version("confirm_waits", "a publish is confirmed once every in-sync follower has it"),
        _by_version("fenced", "the in-sync set in etcd is written only by who still leads"),
        Setting(
            "unsynced_candidates",
            optional(boolean),
            None,
            "who wins leads, also if it has left the in-sync set since it stood (not set: 2.1 yes, 2.9 no)",
        ),
        _by_version("sync", "a follower syncs its disk before it acknowledges, a lone leader before it confirms"),
        Setting("ack_timeout", optional(duration), None, "a follower this silent is dropped (not set: 2.1 5s, 2.9 3s)"),
        Setting("segment", integer(1), 1000, "messages in one file: what differs is copied in whole files"),
        Setting("copy_time", duration, "20us", "time to copy one record to a follower that joins"),
    )

    def __init__(self, version: str | None, options: Mapping[str, Any]) -> None:
        super().__init__(version, options)
        newer = self.version == "2.9"
        ttl, (part, whole) = options["lease_ttl"], _KEEPALIVE[self.version]

        def told(name: str, otherwise: Any) -> Any:
            return otherwise if options[name] is None else options[name]

        self._patience: int = told("ack_timeout", _ACK_TIMEOUT[self.version])
        self._rules = Rules(
            ttl=ttl,
            keepalive=told("keepalive", ttl * part // whole),
            waits=told("confirm_waits", newer),
            fenced=told("fenced", newer),
            unsynced=told("unsynced_candidates", not newer),
            syncs=told("sync", newer),
            segment=options["segment"],
            copy=options["copy_time"],
        )

    @property
    def patience(self) -> int:
        return self._patience

    def tell(self, service: str, message: Message) -> tuple[str, int | None]:
        if service == PEERS:
            return raft.tell(message)
        return ("etcd" if service == CLIENTS_OF_ETCD else tell(message)), None

    def members(self, queue: str, nodes: Sequence[str], number: int) -> tuple[str, ...]:
        return tuple(nodes)

    def replica(self, queue: str, node: str, members: Sequence[str]) -> Replica:
        return Server(node, members, self._rules)

    def channel(self, node: Node, number: int) -> Channel:
        raise NotImplementedError("a channel needs the cluster, to be passed on to the leader")

    def leads(self, replica: Replica) -> int | None:
        server = cast(Server, replica)
        return server.term if server.leading else None

    def counts(self, leader: Replica) -> tuple[int, int]:
        """Of all queues: see `LavinmqCluster.counts` for those of one."""
        leading = cast(Server, leader).leader
        fifos = [queue.fifo for queue in leading.queues.values()] if leading else []
        return sum(fifo.ready_count for fifo in fifos), sum(fifo.unacked_count for fifo in fifos)

    def contents(self, replica: Replica, queue: str) -> Sequence[Any]:
        left, _, _ = cast(Server, replica).store.load(queue)
        return [body for _, body in left]

    def follows(self, replica: Replica, leader: Replica) -> bool:
        leading = cast(Server, leader).leader
        if replica is leader:
            return True
        node = cast(Server, replica).me
        return leading is not None and leading.followers.get(node) == leading.number
