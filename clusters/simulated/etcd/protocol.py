"""etcd by itself, simulated: `etcd`. What it follows and where it is simpler: docs/brokers/etcd.md."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from chaos.model.settings import Setting, choice, duration, integer
from clusters.base import KEY_VALUE, LOCK, Client
from clusters.simulated.channel import CLOSE, Channel
from clusters.simulated.cluster import SimulatedCluster
from clusters.simulated.etcd.client import EtcdClient
from clusters.simulated.etcd.group import DISPATCH, PATIENCE_OF_PEERS, SNAPSHOT_COUNT, STORE
from clusters.simulated.etcd.member import ANSWER, EtcdMember
from clusters.simulated.network import Connection
from clusters.simulated.node import Node
from clusters.simulated.protocol import COMMON_SETTINGS, Protocol
from clusters.simulated.raft import rules
from clusters.simulated.raft.rules import Rules
from clusters.simulated.replica import Message, Replica

MUTATIONS = ("none", "no-fsync", "vote-twice", "forget-term", "ignore-log-up-to-date")
TOLD = "answer", "told"  # to its clients, in pictures


class EtcdCluster(SimulatedCluster):
    """One Raft group, STORE, with a member on each node."""

    async def up(self, report: Callable[[str], None]) -> None:
        await super().up(report)
        await self.declare(STORE)


class EtcdChannel(Channel):
    """A client's connection, as its node serves it."""

    def _receive(self, batch: list[Message]) -> None:
        for message in batch:
            if message[0] == CLOSE:
                self.node.end_channel(self.number)
                return
            _, number, kind, a, b = message
            self.node.request(self.node.name, STORE, (kind, self.pid, number, a, b))

    def from_queue(self, queue: str, source: str, message: Message) -> None:
        self.to_client((TOLD[message[0] != ANSWER], *message))


class Etcd(Protocol):
    """A store of keys, replicated by Raft."""

    name = "etcd"
    meaning = "etcd: keys, leases and locks, replicated by Raft"
    versions = ("3.5",)
    serves = (KEY_VALUE, LOCK)
    cluster = EtcdCluster
    settings = (
        *COMMON_SETTINGS,
        Setting("election_timeout", duration, "1s", "a member waits once to twice as long for its leader"),
        Setting("heartbeat_interval", duration, "100ms", "pause between a leader's messages"),
        Setting("snapshot_count", integer(1), SNAPSHOT_COUNT, "entries applied between snapshots"),
        Setting("mutation", choice(*MUTATIONS), "none", "for tests: the rule of the protocol that is switched off"),
    )

    def __init__(self, version: str | None, options: Mapping[str, Any]) -> None:
        super().__init__(version, options)
        election = options["election_timeout"]
        self._request = DISPATCH + 2 * election
        self._rules = Rules(
            election, election, options["heartbeat_interval"], options["snapshot_count"], options["mutation"]
        )

    @property
    def patience(self) -> int:
        return PATIENCE_OF_PEERS

    def tell(self, service: str, message: Message) -> tuple[str, int | None]:
        return rules.tell(message)

    def members(self, queue: str, nodes: Sequence[str], number: int) -> tuple[str, ...]:
        return tuple(nodes)

    def replica(self, queue: str, node: str, members: Sequence[str]) -> Replica:
        return EtcdMember(node, members, self._rules, self._request)

    def channel(self, node: Node, number: int) -> Channel:
        return EtcdChannel(node, number)

    def client(self, node: str, connection: Connection, loop: AbstractEventLoop) -> Client:
        return EtcdClient(node, connection, loop)

    def leads(self, replica: Replica) -> int | None:
        member = cast(EtcdMember, replica)
        return member.term if member.ready else None

    def counts(self, leader: Replica) -> tuple[int, int]:
        raise NotImplementedError("etcd has no queues")

    def contents(self, replica: Replica, queue: str) -> Sequence[Any]:
        return list(cast(EtcdMember, replica).machine.keys.items())

    def follows(self, replica: Replica, leader: Replica) -> bool:
        follower, leading = cast(EtcdMember, replica), cast(EtcdMember, leader)
        return follower is leading or (
            follower.leader == leading.me and follower.term == leading.term and follower.applied >= leading.applied
        )
