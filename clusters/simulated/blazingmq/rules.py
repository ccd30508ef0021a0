"""BlazingMQ's vocabulary in simulation: roles, messages, rules, and the mutations that switch rules off."""

from __future__ import annotations

from dataclasses import dataclass

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
ELECTION = (SCOUT, SCOUTED, PROPOSE, SUPPORT, HEARTBEAT, STALE, CEDE, LEAVE)

TERM = 0  # record of the journal: (TERM, term)

# The one timer of an election: what it means is said by the state that the node is in
ELECTION_TIMER = 0

# Where the term is after a restart
PERSISTED = "persisted"  # durable before anybody hears of it, as in the specification
LEDGER = "ledger"  # that of the last leader who wrote to the cluster state ledger, as in the implementation

NONE = "none"
VOTE_TWICE = "vote-twice"  # whoever has voted votes again in the same term
FORGET_TERM = "forget-term"  # a restart begins at term 0
COUNT_STALE = "count-stale-votes"  # a candidate counts votes of earlier terms too
ELECTION_MUTATIONS = (VOTE_TWICE, FORGET_TERM, COUNT_STALE)


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
