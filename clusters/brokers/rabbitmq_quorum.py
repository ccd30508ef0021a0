"""RabbitMQ's quorum queues: Raft, a replica on as many nodes as the initial group size.

Facts: https://www.rabbitmq.com/docs/quorum-queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from chaos.kernel.clock import MILLISECOND
from chaos.model.settings import Setting, duration, integer
from clusters.base import DEAD_LETTERS, NO_ACKS, PLAIN, SINGLE_ACTIVE, QueueOptions
from clusters.brokers.base import QueueState
from clusters.brokers.rabbitmq import Rabbitmq
from clusters.hosts.base import File

GROUP_SIZE = Setting("initial_group_size", integer(0), 0, "how many nodes keep a queue; 0 = all")
DELIVERY_LIMIT = Setting(
    "delivery_limit",
    integer(0),
    0,
    "a message returned more often is dropped; 0 = never. Always set, since 4.0 would otherwise drop after 20",
)
DEAD_LETTER_TIMEOUT = Setting(
    "dead_letter_timeout",
    duration,
    "5s",
    "how long dead-lettering waits for a confirm before it sends a message again; RabbitMQ's own default is 3 minutes",
)
_NEVER = 2**31 - 1  # returns: both lines take it, where 0 means at once, and only 4.x has a word for never
_SERVES = ("leader", "follower")


class RabbitmqQuorum(Rabbitmq):
    """Quorum queues."""

    meaning: ClassVar[str] = "RabbitMQ quorum queues: real nodes, a queue replicated to as many as its group has"
    settings: ClassVar[Sequence[Setting]] = (*Rabbitmq.settings, GROUP_SIZE, DELIVERY_LIMIT, DEAD_LETTER_TIMEOUT)

    asked: ClassVar[Sequence[str]] = (*Rabbitmq.asked, "initial_group_size", "delivery_limit")
    features: ClassVar[Sequence[str]] = (SINGLE_ACTIVE, DEAD_LETTERS, NO_ACKS)

    def files(self, node: str, nodes: Sequence[str]) -> Sequence[File]:
        # what rabbitmq.conf has no word for
        milliseconds = max(1, round(self.options["dead_letter_timeout"] / MILLISECOND))
        advanced = f"[{{rabbit, [{{dead_letter_worker_publisher_confirm_timeout, {milliseconds}}}]}}].\n"
        return (
            *super().files(node, nodes),
            File("/etc/rabbitmq/advanced.config", advanced.encode(), 0o644, "rabbitmq"),
        )

    def arguments(self, nodes: int, options: QueueOptions = PLAIN) -> dict[str, Any]:
        arguments = {
            "x-queue-type": "quorum",
            "x-quorum-initial-group-size": self.options["initial_group_size"] or nodes,
            "x-delivery-limit": self.options["delivery_limit"] or _NEVER,
        }
        if options.single_active:
            arguments["x-single-active-consumer"] = True
        if options.ttl is not None:
            arguments["x-message-ttl"] = max(1, round(options.ttl / MILLISECOND))
        if options.dead_letters is not None:
            # At least once, which takes an overflow that refuses; the default exchange routes by the queue's name.
            arguments |= {
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": options.dead_letters,
                "x-dead-letter-strategy": "at-least-once",
                "x-overflow": "reject-publish",
            }
        return arguments

    def queue_state(self, node: str, view: Mapping[str, Any]) -> QueueState:
        """What a leader has in its log and not applied yet, as after its election, may be messages: it is `unacked`."""
        members = tuple(member.partition("@")[2] for member in view["members"])
        leader = view["leader"].partition("@")[2] or None
        unapplied = max(view["last"] - view["applied"], 0) if view["role"] == "leader" else 0
        serves = view["role"] in _SERVES and leader is not None
        return QueueState(view["ready"], view["unacked"] + unapplied, members, leader, serves)
