"""The vocabulary of a mirrored queue's replicas: roles, messages, operations, and the rules that settings choose."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.simulated.replica import Message

# Roles
LEADER = "leader"  # the master
HEIR = "heir"  # what a new master is until all members know that it is
MIRROR = "mirror"
STARTING = "starting"  # it has what it had, and looks for a master to come to
PAUSED = "paused"  # the broker is stopped, by its own partition handling; its connections to other nodes are not
OUT = "out"  # of the first generation, and to be brought back by hand
SERVING = (LEADER, MIRROR)

# Messages between replicas
RING = 0  # view, number of the last one, operations, number up to which all have them: from the left neighbour
ROUND = 1  # view, number: up to there the operations have come round, from the last in the ring to the master
VIEW = 2  # view: the master's, to every node
HELLO = 3  # role, view: upon a new connection, and a change of role that no view tells
JOIN = 4  # number of the view: to its master
BATCH = 5  # messages, to a mirror that is being synchronised
BATCHED = 6  # it has them
STOPPING = 7  # the broker is being shut down, in order
CHECK = 8  # node: I have lost it, have you?
PROBE = 9  # node that asks
ALIVE = 10  # node that asks
PARTIAL = 11  # node: I have not
CUT_OFF = 12  # we are not to talk any more, since others cannot

_WORDS = {
    RING: "ring",
    ROUND: "round",
    VIEW: "view",
    HELLO: "hello",
    JOIN: "join",
    BATCH: "synchronise",
    BATCHED: "synchronised",
    STOPPING: "stopping",
    CHECK: "lost it?",
    PROBE: "alive?",
    ALIVE: "alive",
    PARTIAL: "not lost",
    CUT_OFF: "cut off",
}

# Operations that go round
PUBLISHED = 0  # channel, its number for the publish, body
DROPPED = 1  # ring numbers: acknowledged
SYNCHRONISED = 2  # member
PROMOTED = 3  # the first of a new master

# Partition handling
IGNORE, PAUSE_MINORITY, AUTOHEAL = "ignore", "pause_minority", "autoheal"
# Promotion of mirrors
ALWAYS, WHEN_SYNCED = "always", "when-synced"

START_TIMER = 0  # set by the node for the first member of a new queue
RESUME_TIMER = 1
GATHER_TIMER = 2
SYNC_TIMER = 3

GATHER = 25_000_000  # ns that acknowledgements wait for company in the ring (BROADCAST_TIMER of gm)
SYNC_BATCH = 4096  # messages sent at a time to mirrors that are being synchronised (ha-sync-batch-size)
COMPACT_EVERY = 4096  # operations between truncations of the journal


@dataclass(frozen=True, slots=True)
class Rules:
    """Times in ns. `partition`: what a node does in a partition. `automatic`: new mirrors are synchronised at once, a
    message taking `sync_time`. `on_failure`, `on_shutdown` of the master: which mirrors may be promoted. `restart`:
    time the broker takes to come back where partition handling has stopped it. `by_hand`: a node that was dropped does
    not come back by itself."""

    partition: str
    automatic: bool
    sync_time: int
    on_failure: str
    on_shutdown: str
    restart: int
    by_hand: bool = False


def tell(message: Message) -> tuple[str, int | None]:
    """What a message between members is called; it is sent in no term."""
    return _WORDS.get(message[0], ""), None
