"""RabbitMQ's quorum queue, simulated: `rabbitmq-quorum`.

After the documentation of RabbitMQ 3.10 and 4.0 and the sources of `ra` and `rabbit_fifo`. What is simpler than there:
times are not adaptive (ra's failure detector learns them), a snapshot travels in one message, a poll that is asked
again after a change of leader gets the same message, and a node that is yet to be taken in knows of nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from chaos.model.settings import Setting, choice, duration, integer
from clusters.base import NO_ACKS, PLAIN, QUEUE, REQUEUE, SINGLE_ACTIVE
from clusters.simulated.channel import Channel
from clusters.simulated.fifo import Fifo
from clusters.simulated.protocol import COMMON_SETTINGS, Protocol
from clusters.simulated.quorum.replica import EMPTY_WHEN_DEPOSED, QuorumReplica
from clusters.simulated.raft import rules
from clusters.simulated.raft.rules import Rules
from clusters.simulated.replica import Message, Replica

if TYPE_CHECKING:
    from clusters.simulated.node import Node

SERVE_ALL = "serve-all"  # mutation: where one consumer at a time is to be served, all are
FORGET_ACKS = "forget-acks"  # mutation: of every few messages one is still held though its ack is committed
MUTATIONS = (*rules.MUTATIONS, EMPTY_WHEN_DEPOSED, FORGET_ACKS, SERVE_ALL)
EVERY = 250


class QuorumQueue(Protocol):
    """A Raft group a queue, with `fifo` as its machine."""

    name = "rabbitmq-quorum"
    meaning = "RabbitMQ quorum queues: a Raft group a queue"
    versions = ("4.0", "3.10")
    serves = (QUEUE, REQUEUE)
    features = (SINGLE_ACTIVE, NO_ACKS)
    fixed = None
    settings = (
        *COMMON_SETTINGS,
        Setting("net_ticktime", duration, "5s", "silence after which a node takes another for down"),
        Setting("delivery_limit", integer(0), 0, "a message returned more often is dropped; 0 = never"),
        Setting("initial_group_size", integer(0), 0, "how many nodes keep a queue; 0 = all"),
        Setting("election_timeout", duration, "1s", "a follower waits once to twice as long for its leader"),
        Setting("hurry", duration, "100ms", "the same, at most, once the connection to the leader is lost"),
        Setting(
            "leader_heartbeat", duration, "200ms", "pause between a leader's messages when there is nothing to say"
        ),
        Setting("snapshot_interval", integer(1), 4096, "log entries applied between snapshots of a queue"),
        Setting("mutation", choice(*MUTATIONS), "none", "for tests: the rule of the protocol that is switched off"),
    )

    def __init__(self, version: str | None, options: Mapping[str, Any]) -> None:
        super().__init__(version, options)
        self._limit = options["delivery_limit"]
        self._forget = EVERY if options["mutation"] == FORGET_ACKS else 0
        self._rules = Rules(
            election=options["election_timeout"],
            hurry=options["hurry"],
            heartbeat=options["leader_heartbeat"],
            snapshot=options["snapshot_interval"],
            mutation=options["mutation"],
        )

    def tell(self, service: str, message: Message) -> tuple[str, int | None]:
        return rules.tell(message)

    def members(self, queue: str, nodes: Sequence[str], number: int) -> tuple[str, ...]:
        size = self.options["initial_group_size"] or len(nodes)
        return tuple(nodes[(number + place) % len(nodes)] for place in range(min(size, len(nodes))))

    def replica(self, queue: str, node: str, members: Sequence[str]) -> Replica:
        single_active = self.declared.get(queue, PLAIN).single_active and self.options["mutation"] != SERVE_ALL
        return QuorumReplica(node, members, Fifo(self._limit, self._forget, single_active), self._rules)

    def channel(self, node: Node, number: int) -> Channel:
        return Channel(node, number)

    def leads(self, replica: Replica) -> int | None:
        raft = cast(QuorumReplica, replica)
        return raft.term if raft.ready else None

    def counts(self, leader: Replica) -> tuple[int, int]:
        machine = cast(QuorumReplica, leader).machine
        return machine.ready_count, machine.unacked_count

    def contents(self, replica: Replica, queue: str) -> Sequence[Any]:
        return cast(QuorumReplica, replica).machine.bodies()

    def follows(self, replica: Replica, leader: Replica) -> bool:
        follower, raft = cast(QuorumReplica, replica), cast(QuorumReplica, leader)
        return follower is raft or (
            follower.leader == raft.me and follower.term == raft.term and follower.log.last >= raft.applied
        )
