"""RabbitMQ's quorum queues: Raft, a replica on as many nodes as the initial group size.

Facts: https://www.rabbitmq.com/docs/quorum-queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from chaos.model.settings import Setting, integer, optional
from clusters.brokers.amqp import close_connection, doubtful, open_connection
from clusters.brokers.base import QueueState
from clusters.brokers.rabbitmq import PORT, Rabbitmq

GROUP_SIZE = Setting(
    "initial_group_size", optional(integer(1, 7)), None, "replicas of a queue; unset: as many as there are nodes"
)
DELIVERY_LIMIT = Setting(
    "delivery_limit",
    integer(-1),
    1_000_000,
    "deliveries after which a message is dropped; always set, since 4.x otherwise drops after 20; -1: no limit (4.x)",
)
_SERVES = ("leader", "follower")


class RabbitmqQuorum(Rabbitmq):
    """Quorum queues."""

    settings: ClassVar[Sequence[Setting]] = (*Rabbitmq.settings, GROUP_SIZE, DELIVERY_LIMIT)

    def arguments(self, nodes: int) -> dict[str, Any]:
        """What a queue is declared with."""
        size = self.options["initial_group_size"]
        return {
            "x-queue-type": "quorum",
            "x-quorum-initial-group-size": nodes if size is None else size,
            "x-delivery-limit": self.options["delivery_limit"],
        }

    async def declare(self, address: str, queue: str, nodes: int) -> None:
        connection = await open_connection(address, PORT, "splitbrain declare")
        try:
            async with doubtful(f"declare {queue}"):
                channel = await connection.channel()
                await channel.declare_queue(queue, durable=True, arguments=self.arguments(nodes), timeout=30)
        finally:
            await close_connection(connection)

    def queue_state(self, node: str, view: Mapping[str, Any]) -> QueueState:
        members = tuple(member.partition("@")[2] for member in view["members"])
        leader = view["leader"].partition("@")[2] or None
        return QueueState(
            view["ready"], view["unacked"], members, leader, view["role"] in _SERVES and leader is not None
        )
