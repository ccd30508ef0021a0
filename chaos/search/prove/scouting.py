"""BlazingMQ's election, explored: the elector of `clusters.simulated.blazingmq`.

The bounds that are set where nothing is said are those of the published configuration of its TLA+ specification
(etc/tlaplus/BlazingMQLeaderElection.cfg): three servers, one scouting and one restart each, terms below 3, nobody seen
as unavailable, each leader's heartbeats once. A candidate proposes itself to all, as the implementation does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from chaos.model.settings import Setting, integer
from chaos.search.prove.model import RESTARTS, Core, Model, View, common_bounds
from clusters.simulated.blazingmq.election import Elector
from clusters.simulated.blazingmq.rules import (
    CANDIDATE,
    CEDE,
    COUNT_STALE,
    ELECTION_MUTATIONS,
    FOLLOWER,
    FORGET_TERM,
    HEARTBEAT,
    LEADER,
    LEAVE,
    LEDGER,
    NONE,
    PERSISTED,
    PROPOSE,
    SCOUT,
    SCOUTED,
    STALE,
    SUPPORT,
    VOTE_TWICE,
    ElectionRules,
)
from clusters.simulated.replica import Message, Record, Replica

DISCONNECTS = "disconnects"
NAMES = {
    SCOUT: "would you?",
    SCOUTED: "I would",
    PROPOSE: "proposal",
    SUPPORT: "support",
    HEARTBEAT: "I lead",
    STALE: "stale",
    CEDE: "cession",
    LEAVE: "leave",
}


class ScoutingModel(Model):
    """A cluster of electors."""

    name = "blazingmq"
    bounds = (
        Setting("terms", integer(1), 2, "no node goes beyond this term"),
        Setting("scoutings", integer(0), 1, "each node: how often it asks whether it would be supported"),
        Setting("heartbeats", integer(0), 0, "each node: how often it sends heartbeats as leader, beside its first"),
        Setting(DISCONNECTS, integer(0), 0, "each node: how often it takes another for unavailable"),
        Setting(
            "ledger",
            integer(0, 1),
            0,
            "1: a restart finds the last leader's term (the setting terms = ledger); 0: its own",
        ),
        *common_bounds(in_flight=0),
    )
    each = ("scoutings", "heartbeats", DISCONNECTS, RESTARTS)
    mutations = tuple(mutation for mutation in ELECTION_MUTATIONS if mutation != NONE)
    invariants = ("one leader a term",)

    def replica(self, me: str) -> Replica:
        terms = LEDGER if self.limits["ledger"] else PERSISTED
        rules = ElectionRules(
            initial=1, wait=1, scouting=1, election=1, heartbeat=1, patience=1, terms=terms, mutation=self.mutation
        )
        return Elector(me, self.nodes, len(self.nodes) // 2 + 1, rules)

    def view(self, replica: Replica) -> View:
        elector = cast(Elector, replica)
        return View(elector.term, elector.role, elector.role == LEADER)

    def journal(self, records: Iterable[Record]) -> tuple[Record, ...]:
        return tuple(records)[-1:]

    def normal(self, core: Core) -> Core:
        """Dropped: who supports a leader, where nobody is taken for unavailable. Sorted: supporters and the willing."""
        role, term, leader, tentative, supporters, scouting, willing, wait = core.state
        if role == LEADER and not self.limits[DISCONNECTS]:
            supporters = ()
        state = (role, term, leader, tentative, tuple(sorted(supporters)), scouting, tuple(sorted(willing)), wait)
        return core._replace(state=state)

    def ignores(self, core: Core, left: Mapping[str, int], message: Message) -> bool:
        """What is about a term that is over; answers to scouting from who has done with it; support for who stands no
        longer; that its term is over, to who leads none. As long as terms never go back."""
        role, term = core.state[:2]
        tag, of = message[:2]
        if tag == SCOUTED:
            return self._done_scouting(core, left)
        if self.mutation == FORGET_TERM or self.limits["ledger"]:
            return False
        if tag == SUPPORT:
            if self.mutation == COUNT_STALE and role != LEADER:
                return False
            over = of == term and (role == FOLLOWER or (role == LEADER and not self.limits[DISCONNECTS]))
            return bool(of < term) or over
        if tag == PROPOSE:
            return bool(of < term or (of == term and self.mutation != VOTE_TWICE))
        if tag == STALE:
            return bool(of <= term or (of == term + 1 and role == FOLLOWER))
        return False

    def forgets(self, core: Core, left: Mapping[str, int], message: Message) -> bool:
        return message[0] == SCOUT and self._done_scouting(core, left)

    def _done_scouting(self, core: Core, left: Mapping[str, int]) -> bool:
        return not core.state[5] and not left["scoutings"]

    def charged(self, core: Core, timer: int) -> str | None:
        role, _, leader, tentative, _, scouting = core.state[:6]
        if role == LEADER:
            return "heartbeats"
        waits = role == CANDIDATE or leader is not None or tentative is not None or scouting
        return None if waits else "scoutings"

    # --- in words

    def timer(self, core: Core, name: int) -> str:
        role, _, leader, tentative, _, scouting = core.state[:6]
        if role == LEADER:
            return "heartbeat"
        if role == CANDIDATE:
            return "its election's time is over"
        if leader is not None or tentative is not None:
            return f"gives up {leader or tentative}, which was silent"
        return "its scouting's time is over" if scouting else "scouts"

    def message(self, message: Message) -> str:
        return f"{self.label(message)}, term {message[1]}"

    def label(self, message: Message) -> str:
        return "I would not" if message[0] == SCOUTED and not message[2] else NAMES[message[0]]

    def term_of(self, message: Message) -> int | None:
        return int(message[1])
