"""BlazingMQ, simulated: `blazingmq`. What it follows and where it is simpler: docs/protocols/blazingmq.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from chaos.model.settings import Setting, boolean, choice, duration, integer, optional, text
from clusters.simulated.blazingmq.channel import BlazingmqChannel
from clusters.simulated.blazingmq.cluster import BlazingmqCluster
from clusters.simulated.blazingmq.rules import (
    EVENTUAL,
    LEDGER,
    MUTATIONS,
    NONE,
    PERSISTED,
    STRONG,
    ElectionRules,
    tell,
)
from clusters.simulated.blazingmq.server import Server
from clusters.simulated.channel import Channel
from clusters.simulated.node import Node
from clusters.simulated.protocol import COMMON_SETTINGS, Protocol
from clusters.simulated.replica import Message, Replica


class Blazingmq(Protocol):
    """One leader for all queues, elected whatever its log; it is their primary."""

    name = "blazingmq"
    meaning = "BlazingMQ: an election with scouting, and a leader that synchronises both ways"
    versions = ("0.95",)
    cluster = BlazingmqCluster
    settings = (
        *COMMON_SETTINGS,
        Setting("restart_delay", duration, "5s", "pause of the supervisor before it starts a broker that exited"),
        Setting("consistency", choice(STRONG, EVENTUAL), STRONG, "acknowledge with N/2+1 copies, or at once"),
        Setting("initial_wait", duration, "2500ms", "from a broker's start to its first scouting, but for random_wait"),
        Setting("random_wait", duration, "1s", "who has no leader waits at most so long before it scouts"),
        Setting("scouting_result", duration, "1s", "time for answers to scouting"),
        Setting("election_result", duration, "1s", "time for answers to a proposal"),
        Setting("heartbeat_broadcast", duration, "500ms", "pause between a leader's heartbeats"),
        Setting("heartbeat_check", duration, "250ms", "pause between a follower's looks at when it heard the last one"),
        Setting("heartbeat_miss_count", integer(1), 5, "heartbeats in a row whose absence costs a leader its follower"),
        Setting("peer_patience", duration, "4s", "silence after which a node gives up its connection to another"),
        Setting("scouting", boolean, True, "ask whether one would be supported before one stands"),
        Setting("cession", boolean, True, "whoever gives up its leadership tells all"),
        Setting("quorum", integer(0), 0, "supporters that make a leader, itself among them; 0 = N/2+1"),
        Setting("leader", optional(text), None, "the only node that may lead: no other ever has its quorum"),
        Setting(
            "terms",
            choice(PERSISTED, LEDGER),
            PERSISTED,
            "after a restart: the newest heard of (specification), or the last leader's in the ledger (implementation)",
        ),
        Setting("mutation", choice(*MUTATIONS), NONE, "for tests: the rule of the protocol that is switched off"),
    )

    def __init__(self, version: str | None, options: Mapping[str, Any]) -> None:
        super().__init__(version, options)
        self._rules = ElectionRules(
            initial=options["initial_wait"],
            wait=options["random_wait"],
            scouting=options["scouting_result"],
            election=options["election_result"],
            heartbeat=options["heartbeat_broadcast"],
            patience=options["heartbeat_broadcast"] * options["heartbeat_miss_count"] + options["heartbeat_check"] // 2,
            scouts=options["scouting"],
            cedes=options["cession"],
            terms=options["terms"],
            mutation=options["mutation"],
        )

    @property
    def patience(self) -> int:
        patience: int = self.options["peer_patience"]
        return patience

    def tell(self, service: str, message: Message) -> tuple[str, int | None]:
        return tell(message)

    def members(self, queue: str, nodes: Sequence[str], number: int) -> tuple[str, ...]:
        return tuple(nodes)

    def replica(self, queue: str, node: str, members: Sequence[str]) -> Replica:
        pinned = self.options["leader"]
        quorum = self.options["quorum"] or len(members) // 2 + 1
        if pinned is not None and node != pinned:
            quorum = len(members) + 1
        return Server(node, members, quorum, self._rules, self.options["consistency"])

    def channel(self, node: Node, number: int) -> Channel:
        return BlazingmqChannel(node, number)

    def leads(self, replica: Replica) -> int | None:
        leading = cast(Server, replica).leading
        return leading.term if leading is not None and leading.active else None

    def counts(self, leader: Replica) -> tuple[int, int]:
        """Of all queues: see `BlazingmqCluster.counts` for those of one."""
        leading = cast(Server, leader).leading
        fifos = leading.queues.values() if leading else ()
        return sum(fifo.ready_count for fifo in fifos), sum(fifo.unacked_count for fifo in fifos)

    def contents(self, replica: Replica, queue: str) -> Sequence[Any]:
        return [record[5] for _, record in cast(Server, replica).log.left() if record[2] == queue]

    def follows(self, replica: Replica, leader: Replica) -> bool:
        follower, leads = cast(Server, replica), cast(Server, leader)
        if leads.leading is None or leads.leader != leads.me:
            return False
        if follower is leads:
            return True
        return follower.follows == (leads.me, leads.term) and len(follower.log) >= leads.leading.commit
