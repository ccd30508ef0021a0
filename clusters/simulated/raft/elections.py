"""Raft's elections: terms, votes, and who leads (sections 5.2 and 5.4.1 of the paper), as the `ra` library holds them.

Before it stands, a member asks whether it would be elected (pre-vote), and a living leader answers by asserting itself.
Term and vote are durable before anyone hears of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from clusters.simulated.raft.log import META, RaftLog
from clusters.simulated.raft.rules import (
    ASK,
    ASKED,
    CANDIDATE,
    ELECTION_TIMER,
    FOLLOWER,
    LEADER,
    PRE_VOTE,
    VOTE,
    VOTED,
    Rules,
)  # fmt: skip
from clusters.simulated.replica import BELIEF, SEND, SYNC, TIMER, WRITE, Message, Replica


class Elections(Replica):
    """One member of a group, on node `me`, as far as elections go; `members` are all nodes of the group."""

    __slots__ = (
        "_again", "_held", "_meta", "_meta_durable", "_patience", "_votes", "connected", "gives_way_to", "leader",
        "log", "majority", "me", "members", "others", "role", "rules", "since", "term", "voted",
    )  # fmt: skip

    def __init__(self, me: str, members: Sequence[str], log: RaftLog, rules: Rules) -> None:
        super().__init__()
        self.me = me
        self.rules = rules
        # of one that takes the place of an earlier one of its name: term and index of what had been committed by then
        self.since = (0, 0)
        self._belong(members)
        self.role = FOLLOWER
        self.leader: str | None = None
        self.gives_way_to: str | None = None  # as leader: who is to lead instead
        self.connected: dict[str, None] = {}
        self._votes: dict[str, None] = {}
        # durable state, as the journal has it
        self.term = 0
        self.voted: str | None = None
        self.log = log
        self._meta = 0  # how often term or vote was written,
        self._meta_durable = 0  # and synced
        self._held: list[tuple[str, Message]] = []  # messages that wait until term and vote are durable
        self._patience = rules.election
        self._again = (TIMER, ELECTION_TIMER, rules.election)

    def up(self, node: str) -> None:
        self.connected[node] = None

    def down(self, node: str, draw: float) -> None:
        self.connected.pop(node, None)
        if node == self.leader:
            self.effects.append((TIMER, ELECTION_TIMER, int(self.rules.hurry * draw)))

    def _belong(self, members: Sequence[str]) -> None:
        """These are the group now. Who has just been started, and is not told yet, knows of nobody."""
        self.members = tuple(members)
        self.others = tuple(node for node in self.members if node != self.me)
        self.majority = len(self.members) // 2 + 1

    @abstractmethod
    def _lead(self) -> None:
        """A majority has voted for us."""

    @abstractmethod
    def _assert(self, node: str) -> None:
        """As leader: let a node know that we lead."""

    def _draw(self, draw: float) -> None:
        self._patience = int(self.rules.election * (1.0 + draw))
        self._again = (TIMER, ELECTION_TIMER, self._patience)

    def _believe(self) -> None:
        self.effects.append((BELIEF, self.role, self.term))

    def _save_meta(self) -> None:
        self._meta += 1
        self.effects.append((WRITE, (META, self.term, self.voted)))
        self._sync()

    def _sync(self) -> None:
        token = (self.log.written, self.log.epoch, self._meta)
        if self.rules.mutation == "no-fsync":
            self.synced(token)
        else:
            self.effects.append((SYNC, token))

    def _send(self, node: str, message: Message) -> None:
        """Send what promises something about term and vote: not before they are durable."""
        if self._meta_durable == self._meta:
            self.effects.append((SEND, node, message))
        else:
            self._held.append((node, message))

    def _follow(self, term: int, leader: str | None) -> None:
        """Step down, or on to a newer term; `leader` where it is known who leads it."""
        self.role = FOLLOWER
        self.leader = leader
        if term > self.term:
            self.term = term
            self.voted = None
            self._held.clear()
            self._save_meta()
        self.effects.append(self._again)
        self._believe()

    def _up_to_date(self, last: int, last_term: int) -> bool:
        """Whether a candidate's log is at least as new as ours: the rule that keeps committed entries."""
        if self.rules.mutation == "ignore-log-up-to-date":
            return True
        return (last_term, last) >= max((self.log.last_term, self.log.last), self.since)

    def _ask_for_votes(self) -> None:
        self.role = PRE_VOTE
        self.leader = None
        self._votes = {self.me: None}
        self.effects.append(self._again)
        self._believe()
        for node in self.others:
            self._send(node, (ASK, self.term, self.log.last, self.log.last_term))
        self._count_votes()

    def _on_ask(self, source: str, message: Message) -> None:
        _, term, last, last_term = message
        if self.role == LEADER and term <= self.term and source != self.gives_way_to:
            self._assert(source)
            return
        if term > self.term:
            self._follow(term, None)
        if self.rules.mutation == "vote-twice" and term == self.term - 1:
            answer = (ASKED, term, self._up_to_date(last, last_term))  # as if it had not voted in its term yet
            self.effects.append((SEND, source, answer))
            return
        self._send(source, (ASKED, self.term, term == self.term and self._up_to_date(last, last_term)))

    def _stand(self) -> None:
        self.role = CANDIDATE
        self.term += 1
        self.voted = self.me
        self._votes = {}
        self._held.clear()
        self._believe()
        self.effects.append(self._again)
        self._meta += 1
        self.effects.append((WRITE, (META, self.term, self.voted)))
        for node in self.others:
            self._send(node, (VOTE, self.term, self.log.last, self.log.last_term))
        self._sync()

    def _on_vote(self, source: str, message: Message) -> None:
        _, term, last, last_term = message
        if term > self.term:
            self._follow(term, None)
        granted = term == self.term and self._up_to_date(last, last_term)
        if granted and self.rules.mutation == "vote-twice":
            self.effects.append((SEND, source, (VOTED, term, True)))  # and forgets it
            return
        granted = granted and self.voted in (None, source)
        if granted:
            if self.voted != source:
                self.voted = source
                self._save_meta()
            self.effects.append(self._again)
        self._send(source, (VOTED, self.term, granted))

    def _on_answer(self, source: str, message: Message) -> None:
        """VOTED or ASKED."""
        tag, term, granted = message
        if term > self.term:
            self._follow(term, None)
        elif granted and term == self.term and self.role == (PRE_VOTE if tag == ASKED else CANDIDATE):
            self._votes[source] = None
            self._count_votes()

    def _meta_synced(self, meta: int) -> None:
        """Term and vote, as written so many times, are durable."""
        if meta > self._meta_durable:
            self._meta_durable = meta
            if meta == self._meta:
                self.effects.extend((SEND, node, message) for node, message in self._held)
                self._held.clear()
                if self.role == CANDIDATE:
                    self._votes[self.me] = None
                    self._count_votes()

    def _count_votes(self) -> None:
        if sum(node in self.members for node in self._votes) >= self.majority:
            if self.role == PRE_VOTE:
                self._stand()
            elif self.role == CANDIDATE:
                self._lead()
