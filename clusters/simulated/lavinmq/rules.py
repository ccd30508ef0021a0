"""LavinMQ's vocabulary in simulation: rules, keys in etcd, messages between nodes, timers."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.simulated.replica import Message

FOLLOWER = "follower"
LEADER = "leader"

# Keys in etcd
PREFIX = "lavinmq/"
ISR = PREFIX + "isr"  # the nodes that are in sync, in their order
CANDIDATES = PREFIX + "leader/"  # one key a candidate, by its lease; value: the node

# The connections to etcd: a stream that nothing is waited for on, one for its lease, and one for all else
WATCHING = "etcd.watch"
LEASE = "etcd.lease"
REQUESTS = "etcd"
LINKS = (WATCHING, LEASE, REQUESTS)

NO_ENDPOINT = 100  # instead of an answer: none of the endpoints can be reached

# Messages between nodes; `session` is the follower's number for a time of following
FOLLOW = 0  # session: let me follow
REFUSED = 1  # session: I do not lead
LEAVE = 2  # I follow another from now on
FILES = 3  # session, files with checksums
WANT = 4  # session, names of files
COPIED = 5  # session, [(name, records), ...]
HAVE = 6  # session: they are here
CHANGES = 7  # session, number of the last, changes
ACKED = 8  # session, number of the last that is here
DECLARE_QUEUE = 9  # queue: from whoever declares it, to the leader

_WORDS = {
    FOLLOW: "follow",
    REFUSED: "no",
    LEAVE: "leave",
    FILES: "files",
    WANT: "want",
    COPIED: "copy",
    HAVE: "have",
    CHANGES: "changes",
    ACKED: "appended",
    DECLARE_QUEUE: "declare",
}

# Timers
KEEPALIVE = 0
AGAIN = 1  # requests that must be sent once more
WATCH_AGAIN = 2
FOLLOW_AGAIN = 3
COPY = 4
GONE = 5  # a follower's end is found out


@dataclass(frozen=True, slots=True)
class Rules:
    """`ttl`: the lease's time to live; `keepalive`: pause between renewals (ns). `waits`: a confirm waits until every
    in-sync follower has the message. `fenced`: the in-sync set is written only by who still leads. `unsynced`: who wins
    leads, also outside the in-sync set. `syncs`: a follower syncs before it acknowledges, and a leader without
    followers before it confirms. `segment`: messages a file. `copy`: time to copy one record to a follower, ns."""

    ttl: int
    keepalive: int
    waits: bool
    fenced: bool
    unsynced: bool
    syncs: bool
    segment: int
    copy: int


def tell(message: Message) -> str:
    """What a message between brokers is called."""
    return _WORDS.get(message[0], "")
