"""RabbitMQ's streams: append-only logs, a writer and its replicas on as many nodes as the initial cluster size.

Facts: https://www.rabbitmq.com/docs/streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from chaos.kernel.clock import SECOND
from chaos.model.schedule import LEAVE, REPLACE, TRANSFER
from chaos.model.settings import Setting, choice, integer
from clusters.base import LOG, PLAIN, QueueOptions
from clusters.brokers.amqp_log import AmqpLogClient, open_log_client
from clusters.brokers.base import CLIENTS, QueueState
from clusters.brokers.rabbitmq import DISTRIBUTION, EPMD, PORT, Rabbitmq

REPLICATION = range(6000, 6501)  # osiris' own connections, from a writer to each replica
CLUSTER_SIZE = Setting("initial_cluster_size", integer(0), 0, "how many nodes keep a stream; 0 = all")
LOCATOR = Setting(
    "leader_locator", choice("client-local", "balanced"), "client-local", "where a new stream's writer is put"
)
_SERVES = ("leader", "replica")


class RabbitmqStream(Rabbitmq):
    """Streams."""

    meaning: ClassVar[str] = "RabbitMQ streams: real nodes, a log with a writer, and replicas to read from"
    settings: ClassVar[Sequence[Setting]] = (*Rabbitmq.settings, CLUSTER_SIZE, LOCATOR)
    serves: ClassVar[Sequence[str]] = (LOG,)
    features: ClassVar[Sequence[str]] = ()
    unable: ClassVar[Mapping[str, str]] = {
        TRANSFER: "3.10 has no command that moves the writer of a stream",
        **dict.fromkeys((LEAVE, REPLACE), "3.10 does not take the replicas of streams from a node that is forgotten"),
    }
    services: ClassVar[Mapping[str, Sequence[int]]] = {
        CLIENTS: (PORT,),
        "replication": (DISTRIBUTION, EPMD, *REPLICATION),
    }

    def arguments(self, nodes: int, options: QueueOptions = PLAIN) -> dict[str, Any]:
        return {
            "x-queue-type": "stream",
            "x-initial-cluster-size": self.options["initial_cluster_size"] or nodes,
            "x-queue-leader-locator": self.options["leader_locator"],
        }

    async def connect(self, address: str, node: str, name: str) -> AmqpLogClient:
        return await open_log_client(address, PORT, node, name, max(1, round(self.options["heartbeat"] / SECOND)))

    def queue_state(self, node: str, view: Mapping[str, Any]) -> QueueState:
        """Of a stream, `ready` is the offset behind its last entry, `unacked` what of it is not committed: its writer
        commits by chunks, and names them by the offset of their first entry."""
        members = tuple(member.partition("@")[2] for member in view["members"])
        leader = view["leader"].partition("@")[2] or None
        next_, committed = view.get("next", 0), view.get("committed", -1)
        behind = next_ - 1 - committed if view["role"] == "leader" and view["tail"] > committed else 0
        return QueueState(next_, behind, members, leader, view["role"] in _SERVES and leader is not None)
