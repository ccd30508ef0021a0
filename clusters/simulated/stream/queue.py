"""RabbitMQ's stream, simulated: `rabbitmq-stream`.

After the documentation of RabbitMQ 3.10 and 4.0 and the sources of `osiris`, `rabbit_stream_coordinator` and
`rabbit_stream_queue`. What is simpler than there: each stream has a coordinator of its own, every node keeps a
replica, an entry is a chunk, and a log is one segment that is never cut off at its beginning.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from chaos.model.settings import Setting, choice, duration
from clusters.base import LOG, Client
from clusters.simulated.network import Connection
from clusters.simulated.protocol import COMMON_SETTINGS, Protocol
from clusters.simulated.raft import rules as raft
from clusters.simulated.raft.rules import Rules
from clusters.simulated.replica import Message, Replica
from clusters.simulated.stream import rules
from clusters.simulated.stream.channel import StreamChannel
from clusters.simulated.stream.client import SimulatedLogClient
from clusters.simulated.stream.replica import StreamReplica
from clusters.simulated.stream.rules import LEADER, STOPPED

if TYPE_CHECKING:
    from clusters.simulated.channel import Channel
    from clusters.simulated.node import Node

SNAPSHOT_INTERVAL = 4096


class StreamQueue(Protocol):
    """A log a stream: a writer, replicas, and a coordinator that says who is which."""

    name = "rabbitmq-stream"
    meaning = "RabbitMQ streams: a log with a writer, and replicas to read from"
    versions = ("4.0", "3.10")
    serves = (LOG,)
    settings = (
        *COMMON_SETTINGS,
        Setting("net_ticktime", duration, "5s", "silence after which a node takes another for down"),
        Setting("election_timeout", duration, "1s", "of the coordinator: waits once to twice as long for its leader"),
        Setting("hurry", duration, "100ms", "the same, at most, once the connection to the leader is lost"),
        Setting("leader_heartbeat", duration, "200ms", "pause between messages of the coordinator's leader"),
        Setting(
            "mutation", choice(*rules.MUTATIONS), "none", "for tests: the rule of the protocol that is switched off"
        ),
    )

    def __init__(self, version: str | None, options: Mapping[str, Any]) -> None:
        super().__init__(version, options)
        self._rules = Rules(
            election=options["election_timeout"],
            hurry=options["hurry"],
            heartbeat=options["leader_heartbeat"],
            snapshot=SNAPSHOT_INTERVAL,
        )

    def tell(self, service: str, message: Message) -> tuple[str, int | None]:
        return rules.tell(message) if message[0] >= rules.STOP else raft.tell(message)

    def members(self, queue: str, nodes: Sequence[str], number: int) -> tuple[str, ...]:
        return tuple(nodes[(number + place) % len(nodes)] for place in range(len(nodes)))

    def replica(self, queue: str, node: str, members: Sequence[str]) -> Replica:
        return StreamReplica(node, members, self._rules, self.options["mutation"])

    def channel(self, node: Node, number: int) -> Channel:
        return StreamChannel(node, number, looks_up=self.version == "3.10")

    def client(self, node: str, connection: Connection, loop: AbstractEventLoop) -> Client:
        return SimulatedLogClient(node, connection, loop)

    def leads(self, replica: Replica) -> int | None:
        member = cast(StreamReplica, replica).member
        return member.epoch if member.role == LEADER and member.attached + 1 >= member.majority else None

    def counts(self, leader: Replica) -> tuple[int, int]:
        member = cast(StreamReplica, leader).member
        return len(member.log), len(member.log) - member.committed

    def contents(self, replica: Replica, queue: str) -> Sequence[Any]:
        member = cast(StreamReplica, replica).member
        return [body for _, _, _, body in member.log[: member.committed]]

    def follows(self, replica: Replica, leader: Replica) -> bool:
        member, writer = cast(StreamReplica, replica).member, cast(StreamReplica, leader).member
        return member is writer or (
            member.role != STOPPED and member.epoch == writer.epoch and len(member.log) >= writer.committed
        )
