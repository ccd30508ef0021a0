"""BlazingMQ's election: scouting, proposals, supporters, heartbeats and cession, as a replica that keeps nothing else.

After "Leader election and state machine replication in BlazingMQ" with its TLA+ specification (etc/tlaplus), and, where
the implementation differs (mqbnet_elector.cpp), after that: proposals and cessions go to all; scouting is always
answered, with yes or no; a quorum of one is noticed only when the election's time is over; a node that turns up is sent
a heartbeat at once. Any node may win, whatever it has in its log. There is one leader a term at most, for as long as no
node forgets its term.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from clusters.simulated.blazingmq.rules import (
    CANDIDATE,
    CEDE,
    COUNT_STALE,
    ELECTION_TIMER,
    FOLLOWER,
    FORGET_TERM,
    HEARTBEAT,
    LEADER,
    LEAVE,
    PERSISTED,
    PROPOSE,
    SCOUT,
    SCOUTED,
    STALE,
    SUPPORT,
    TERM,
    VOTE_TWICE,
    ElectionRules,
)
from clusters.simulated.replica import BELIEF, COMPACT, LOG, SEND, TIMER, WRITE, Message, Pid, Record, Replica


class Elector(Replica):
    """Node `me` of `members`; `quorum`: how many supporters make it leader, itself among them.

    `leader`: whom it follows, or itself; `tentative`: whom it has voted for and not heard since. `scouting`: the term
    that it asks about, 0 if it does not. What `lead`, `follow` and `leaderless` do is for those who build on it.
    """

    __slots__ = (
        "leader", "me", "members", "others", "quorum", "role", "rules", "scouting", "supporters", "tentative", "term",
        "wait", "willing",
    )  # fmt: skip

    def __init__(self, me: str, members: Sequence[str], quorum: int, rules: ElectionRules) -> None:
        super().__init__()
        self.me = me
        self.members = tuple(members)
        self.others = tuple(node for node in members if node != me)
        self.quorum = quorum
        self.rules = rules
        self.term = 0
        self.role = FOLLOWER
        self.leader: str | None = None
        self.tentative: str | None = None
        self.supporters: dict[str, None] = {}
        self.scouting = 0
        self.willing: dict[str, bool] = {}  # what was answered to our scouting
        self.wait = rules.wait  # as last drawn

    def lead(self) -> None:
        """We lead from now on, in `term`."""

    def follow(self) -> None:
        """`leader` leads from now on, in `term`."""

    def leaderless(self) -> None:
        """There is nobody to follow from now on; if we led, we do no longer."""

    def remembered(self, records: Sequence[Record]) -> int:
        """The term that the journal tells of; 0 if it does not."""
        terms = [record[1] for record in records if record[0] == TERM]
        return terms[-1] if terms and self.rules.mutation != FORGET_TERM else 0

    # --- events

    def start(self, records: Iterable[Record], draw: float) -> None:
        self.term = self.remembered(list(records))
        self._draw(draw)
        self._in(self.rules.initial + self.wait)
        self._believe()

    def message(self, source: str, message: Message) -> None:
        tag, term = message[0], message[1]
        if tag == HEARTBEAT:
            self._on_heartbeat(source, term)
        elif tag == SCOUT:
            would = self.leader is None and term > self.term
            self._send(source, SCOUTED, would)
        elif tag == SCOUTED:
            self._on_scouted(source, message[2])
        elif tag == PROPOSE:
            self._on_proposal(source, term)
        elif tag == SUPPORT:
            self._on_support(source, term)
        elif tag == STALE:
            if self.role == LEADER and term > self.term:
                self._step_down(term, f"{source} is in term {term}")
        elif tag == CEDE:
            self._on_cession(source, term)
        elif tag == LEAVE:
            self._unavailable(source)

    def timer(self, name: int, draw: float) -> None:
        self._draw(draw)
        if self.role == LEADER:
            self._broadcast(HEARTBEAT)
            self._in(self.rules.heartbeat)
        elif self.role == CANDIDATE:
            if len(self.supporters) >= self.quorum:
                self._elected()
            else:
                self.role = FOLLOWER
                self.supporters.clear()
                self._in(self.wait)
                self._believe()
        elif self.leader is not None or self.tentative is not None:
            self._lose_leader("was silent")
        elif self.scouting:
            self._end_scouting()
            self._in(self.wait)
        else:
            self._scout()

    def up(self, node: str) -> None:
        if self.role == LEADER:
            self._send(node, HEARTBEAT)

    def down(self, node: str, draw: float) -> None:
        self._draw(draw)
        self._unavailable(node)

    def stop(self) -> None:
        self._broadcast(LEAVE)

    def request(self, pid: Pid, request: Message) -> None:
        """An election serves nobody."""

    def synced(self, token: Any) -> None:
        """It waits for no sync."""

    def ended(self, pid: Pid) -> None:
        """It knows no channels."""

    def flush(self) -> None:
        """Nothing is gathered."""

    # --- standing

    def _scout(self) -> None:
        if not self.rules.scouts:
            self._stand(self.term + 1)
            return
        self.scouting = self.term + 1
        self.willing = {self.me: True}
        if self.quorum <= 1:
            self._stand(self.scouting)
        else:
            for node in self.others:
                self.effects.append((SEND, node, (SCOUT, self.scouting)))
            self._in(self.rules.scouting)

    def _on_scouted(self, source: str, would: bool) -> None:
        if not self.scouting:
            return
        self.willing[source] = would
        if sum(self.willing.values()) >= self.quorum:
            self._stand(self.scouting)
        elif len(self.willing) == len(self.members):
            self._end_scouting()
            self._in(self.wait)

    def _end_scouting(self) -> None:
        self.scouting = 0
        self.willing = {}

    def _stand(self, term: int) -> None:
        self._end_scouting()
        self._raise(term)
        self.role = CANDIDATE
        self.supporters = {self.me: None}
        self._broadcast(PROPOSE)
        self._in(self.rules.election)
        self._believe()

    def _on_support(self, source: str, term: int) -> None:
        if self.role == CANDIDATE:
            if term >= self.term or self.rules.mutation == COUNT_STALE:
                self.supporters[source] = None
                if len(self.supporters) >= self.quorum:
                    self._elected()
        elif self.role == LEADER:
            if term == self.term:
                self.supporters[source] = None
            elif term > self.term:
                self._step_down(term, f"{source} is in term {term}")

    # --- leading

    def _elected(self) -> None:
        self.role = LEADER
        self.leader = self.me
        self._note()
        self._broadcast(HEARTBEAT)
        self._in(self.rules.heartbeat)
        self.effects.append((LOG, "notice", f"leads term {self.term}, with {', '.join(sorted(self.supporters))}"))
        self._believe()
        self.lead()

    def _step_down(self, term: int, why: str) -> None:
        """Lead no longer, without anybody to follow."""
        self.effects.append((LOG, "notice", f"steps down as leader of term {self.term}: {why}"))
        self.role = FOLLOWER
        self.leader = None
        self.supporters.clear()
        self._raise(term)
        self._in(self.wait)
        self._believe()
        self._cede()
        self.leaderless()

    def _cede(self) -> None:
        if self.rules.cedes:
            self._broadcast(CEDE)

    # --- following

    def _on_proposal(self, source: str, term: int) -> None:
        again = self.rules.mutation == VOTE_TWICE and term == self.term and self.role == FOLLOWER
        if self.leader is None and (term > self.term or again):
            believed = self.role, self.term
            self._end_scouting()
            self._raise(term)
            self.role = FOLLOWER
            self.supporters.clear()
            self.tentative = source
            self._send(source, SUPPORT)
            self._in(self.rules.patience)
            if believed != (self.role, self.term):
                self._believe()

    def _on_heartbeat(self, source: str, term: int) -> None:
        if term < self.term:
            self._send(source, HEARTBEAT if self.role == LEADER else STALE)
        elif term > self.term:
            led = self.role == LEADER
            if led:
                self.effects.append((LOG, "notice", f"steps down as leader of term {self.term}: {source} leads {term}"))
            self._follow(source, term)
            if led:
                self._cede()
            else:
                self._send(source, SUPPORT)
        elif source == self.leader:
            self._in(self.rules.patience)
        elif source == self.tentative:
            self._follow(source, term)
        elif self.leader is None and self.tentative is None:
            self._follow(source, term)
            self._send(source, SUPPORT)

    def _follow(self, leader: str, term: int) -> None:
        believed = self.role, self.term
        self._end_scouting()
        self._raise(term)
        self.role = FOLLOWER
        self.supporters.clear()
        self.leader, self.tentative = leader, None
        self._note()
        self._in(self.rules.patience)
        self.effects.append((LOG, "info", f"follows {leader} in term {term}"))
        if believed != (self.role, self.term):
            self._believe()
        self.follow()

    def _on_cession(self, source: str, term: int) -> None:
        if not self.rules.cedes:
            return
        if self.role == LEADER:
            if term <= self.term:
                self._send(source, HEARTBEAT)
        elif self.role == FOLLOWER and term >= self.term and source in (self.leader, self.tentative):
            self._lose_leader("has ceded")

    def _lose_leader(self, why: str) -> None:
        followed, lost = self.leader, self.leader or self.tentative
        self.effects.append((LOG, "notice", f"{lost} {why}: no leader any more"))
        self.leader = self.tentative = None
        self._in(self.wait)
        if followed is not None:
            self.leaderless()

    def _unavailable(self, node: str) -> None:
        if self.role != FOLLOWER:
            self.supporters.pop(node, None)
            if self.role == LEADER and len(self.supporters) < self.quorum:
                self._step_down(self.term, "it has no quorum")
        elif node in (self.leader, self.tentative):
            self._lose_leader("is unavailable")
        else:
            self.willing.pop(node, None)

    # --- inside

    def _draw(self, draw: float) -> None:
        self.wait = int(self.rules.wait * draw)

    def _in(self, time: int) -> None:
        self.effects.append((TIMER, ELECTION_TIMER, time))

    def _send(self, node: str, tag: int, *more: Any) -> None:
        self.effects.append((SEND, node, (tag, self.term, *more)))

    def _broadcast(self, tag: int) -> None:
        for node in self.others:
            self._send(node, tag)

    def _believe(self) -> None:
        self.effects.append((BELIEF, self.role, self.term))

    def _raise(self, term: int) -> None:
        if term > self.term:
            self.term = term
            if self.rules.terms == PERSISTED:  # replaced in the journal, and synced
                self.effects.append((COMPACT, [(TERM, term)], is_no_term))

    def _note(self) -> None:
        """A leader is known: its term goes into the ledger."""
        if self.rules.terms != PERSISTED:
            self.effects.append((WRITE, (TERM, self.term)))

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        return (
            self.role, self.term, self.leader, self.tentative, tuple(sorted(self.supporters)), self.scouting,
            tuple(sorted(self.willing.items())), self.wait,
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        self.role, self.term, self.leader, self.tentative, supporters, self.scouting, willing, self.wait = state
        self.supporters, self.willing = dict.fromkeys(supporters), dict(willing)
        self.effects.clear()


def is_no_term(record: Record) -> bool:
    """Whether a journal's record is about something else than the term."""
    return bool(record[0] != TERM)
