"""Raft's vocabulary: roles, messages, rules, and the mutations that tests switch rules off with."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.model.trace import HEARTBEAT
from clusters.simulated.replica import Message

FOLLOWER = "follower"
PRE_VOTE = "pre-vote"
CANDIDATE = "candidate"
LEADER = "leader"

# Messages between replicas
APPEND = 0  # term, previous index, previous term, entries, commit index
APPENDED = 1  # term, success, index: matches up to here; or else: send from here
VOTE = 2  # term, last index, last term
VOTED = 3  # term, granted
ASK = 4  # pre-vote: term, last index, last term
ASKED = 5  # pre-vote: term, granted
INSTALL = 6  # term, index, term of index, members and machine state
STAND = 7  # term: stand for election now, your leader gives way

_WORDS = {
    APPEND: "append",
    APPENDED: "appended",
    VOTE: "vote for me",
    VOTED: "vote",
    ASK: "would you vote?",
    ASKED: "I would",
    INSTALL: "snapshot",
    STAND: "stand now",
}

ELECTION_TIMER = 0
HEARTBEAT_TIMER = 1

BATCH = 512  # entries in one message
WINDOW = 8192  # entries sent to a follower and not yet known to be there
MISSED = 3  # heartbeats without an answer after which the mutation below takes a follower for lost
GIVES_WAY = 2  # heartbeats for which a leader waits for the one that is to lead instead

MUTATIONS = (
    "none",
    "confirm-before-commit",
    "no-fsync",
    "vote-twice",
    "forget-term",
    "ignore-log-up-to-date",
    "serve-after-losing-majority",
    "many-changes-at-once",
)


@dataclass(frozen=True, slots=True)
class Rules:
    """Times in ns. `election`: a follower waits once to twice as long; `hurry`: at most so long after the connection
    to its leader is lost. `snapshot`: entries applied between snapshots. `mutation`: the rule that is broken."""

    election: int
    hurry: int
    heartbeat: int
    snapshot: int
    mutation: str = "none"


class Peer:
    """What a leader knows of a follower."""

    __slots__ = ("match", "missed", "next", "probing", "sent")

    def __init__(self, next_: int) -> None:
        self.next = next_
        self.match = 0
        self.probing = True  # it is not known yet where its log meets ours: one message at a time
        self.sent = False  # something was, since the last heartbeat
        self.missed = 0  # heartbeats since it was heard


def tell(message: Message) -> tuple[str, int | None]:
    """What a message between members is called, and the term of its sender."""
    tag = message[0]
    if tag not in _WORDS:  # of whoever uses the group
        return "request", None
    term = message[1]
    if tag == APPEND and not message[4]:
        return HEARTBEAT, term
    refused = tag in (VOTED, ASKED, APPENDED) and not message[2]
    return ("no" if refused else _WORDS[tag]), term
