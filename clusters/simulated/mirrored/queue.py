"""RabbitMQ's classic mirrored queues, simulated: `rabbitmq-mirrored`.

After the documentation of RabbitMQ up to 3.10, its articles on the first mirrored queues (2.6) and on what quorum
queues do better, and the sources of `gm` and `rabbit_mirror_queue_*`. docs/protocols/rabbitmq-mirrored.md tells what
follows which, and what is simpler here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from chaos.model.settings import Setting, choice, duration
from clusters.base import QUEUE, REQUEUE
from clusters.simulated.channel import Channel
from clusters.simulated.mirrored.channel import MirroredChannel
from clusters.simulated.mirrored.replica import Mirror
from clusters.simulated.mirrored.rules import (
    ALWAYS,
    AUTOHEAL,
    IGNORE,
    LEADER,
    MIRROR,
    PAUSE_MINORITY,
    WHEN_SYNCED,
    Rules,
    tell,
)
from clusters.simulated.protocol import COMMON_SETTINGS, Protocol
from clusters.simulated.replica import Message, Replica

if TYPE_CHECKING:
    from clusters.simulated.node import Node

FIRST, LAST = "2011", "last"


class MirroredQueue(Protocol):
    """A ring of replicas a queue, on all nodes."""

    name = "rabbitmq-mirrored"
    meaning = "RabbitMQ classic mirrored queues: a master, and mirrors in a ring"
    versions = ("3.10",)
    serves = (QUEUE, REQUEUE)
    terms = False
    settings = (
        *COMMON_SETTINGS,
        Setting("net_ticktime", duration, "5s", "silence after which a node takes another for down"),
        Setting(
            "cluster_partition_handling",
            choice(IGNORE, PAUSE_MINORITY, AUTOHEAL),
            IGNORE,
            "what a node does when the cluster is partitioned",
        ),
        Setting("ha_sync_mode", choice("automatic", "manual"), "automatic", "whether new mirrors are synchronised"),
        Setting("sync_time", duration, "50us", "time that synchronising takes for each message in the queue"),
        Setting(
            "ha_promote_on_failure", choice(ALWAYS, WHEN_SYNCED), ALWAYS, "which mirrors may follow a failed master"
        ),
        Setting(
            "ha_promote_on_shutdown",
            choice(ALWAYS, WHEN_SYNCED),
            WHEN_SYNCED,
            "which mirrors may follow a master that is shut down",
        ),
        Setting(
            "generation",
            choice(LAST, FIRST),
            LAST,
            "2011: the first ones: no synchronising, partitions ignored, always promoted, rejoining by hand only",
        ),
    )

    def __init__(self, version: str | None, options: Mapping[str, Any]) -> None:
        super().__init__(version, options)
        first = options["generation"] == FIRST
        self._rules = Rules(
            partition=IGNORE if first else options["cluster_partition_handling"],
            automatic=not first and options["ha_sync_mode"] == "automatic",
            sync_time=options["sync_time"],
            on_failure=ALWAYS if first else options["ha_promote_on_failure"],
            on_shutdown=ALWAYS if first else options["ha_promote_on_shutdown"],
            restart=options["boot_time"],
            by_hand=first,
        )

    def tell(self, service: str, message: Message) -> tuple[str, int | None]:
        return tell(message)

    def members(self, queue: str, nodes: Sequence[str], number: int) -> tuple[str, ...]:
        return tuple(nodes[(number + place) % len(nodes)] for place in range(len(nodes)))

    def replica(self, queue: str, node: str, members: Sequence[str]) -> Replica:
        return Mirror(node, members, self._rules)

    def channel(self, node: Node, number: int) -> Channel:
        return MirroredChannel(node, number)

    def leads(self, replica: Replica) -> int | None:
        mirror = cast(Mirror, replica)
        return mirror.view.number if mirror.role == LEADER and mirror.done >= mirror.promotion else None

    def counts(self, leader: Replica) -> tuple[int, int]:
        contents = cast(Mirror, leader).contents
        return len(contents.ready), len(contents.messages) - len(contents.ready)

    def contents(self, replica: Replica, queue: str) -> Sequence[Any]:
        messages = cast(Mirror, replica).contents.messages
        return [messages[number][1] for number in sorted(messages)]

    def follows(self, replica: Replica, leader: Replica) -> bool:
        mirror, master = cast(Mirror, replica), cast(Mirror, leader)
        if master.frozen:
            return False
        return mirror is master or (
            mirror.role == MIRROR and mirror.view.same(master.view) and mirror.last >= master.done
        )
