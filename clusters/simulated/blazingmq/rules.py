"""BlazingMQ's vocabulary in simulation: roles, messages, rules, and the mutations that switch rules off."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.simulated.replica import Message

FOLLOWER = "follower"
CANDIDATE = "candidate"
LEADER = "leader"

# Messages of the election: (tag, term), SCOUTED with a third: whether it would support
SCOUT = 0  # would you support me in this term?
SCOUTED = 1
PROPOSE = 2  # support me in this term
SUPPORT = 3  # a vote; and what a leader is told by whoever follows it without having voted
HEARTBEAT = 4  # I lead this term
STALE = 5  # your heartbeat's term is over: mine is this one
CEDE = 6  # I lead no longer
LEAVE = 7  # my process ends

# Messages of replication: (tag, the leader's term, ...)
STATE = 8  # summary of the log: from a follower, to whom it follows
PULL = 9  # place in the log: send me all from there on
PULLED = 10  # place, records
APPEND = 11  # place, records: have these from there on, and nothing after them
HAVE = 12  # length of the log
ACTIVE = 13  # I serve

_WORDS = (
    "scout", "scouted", "propose", "support", "heartbeat", "stale", "cede", "leave",
    "state", "pull", "pulled", "append", "appended", "active",
)  # fmt: skip

# Records of the journal
TERM = 0  # term
DATA = 1  # place, records: these from there on, and nothing after them

EVENTUAL, STRONG = "eventual", "strong"  # consistency: a publish is acknowledged at once, or with N/2+1 copies

# The one timer of an election: what it means is said by the state that the node is in
ELECTION_TIMER = 0

# Where the term is after a restart
PERSISTED = "persisted"  # durable before anybody hears of it, as in the specification
LEDGER = "ledger"  # that of the last leader who wrote to the cluster state ledger, as in the implementation

NONE = "none"
VOTE_TWICE = "vote-twice"  # whoever has voted votes again in the same term
FORGET_TERM = "forget-term"  # a restart begins at term 0
COUNT_STALE = "count-stale-votes"  # a candidate counts votes of earlier terms too
ACK_EARLY = "acknowledge-early"  # strong consistency acknowledges before anybody else has it
PUSH_ONLY = "push-only"  # a new leader pulls nothing: what it lacks is dropped everywhere
ELECTION_MUTATIONS = (NONE, VOTE_TWICE, FORGET_TERM, COUNT_STALE)
MUTATIONS = (*ELECTION_MUTATIONS, ACK_EARLY, PUSH_ONLY)


@dataclass(frozen=True, slots=True)
class ElectionRules:
    """Times in ns. `initial`: from the start to the first scouting; `wait`: at most so long before any other;
    `scouting`, `election`: time for answers; `heartbeat`: pause between a leader's; `patience`: a follower's silence
    after which it has no leader. `scouts`: whether it asks before it stands. `cedes`: whether who gives up leadership
    says so. `terms`: PERSISTED or LEDGER. `mutation`: the rule that is broken."""

    initial: int
    wait: int
    scouting: int
    election: int
    heartbeat: int
    patience: int
    scouts: bool = True
    cedes: bool = True
    terms: str = PERSISTED
    mutation: str = NONE


def tell(message: Message) -> tuple[str, int | None]:
    """What a message between nodes is called, and its term."""
    return _WORDS[message[0]], message[1]
