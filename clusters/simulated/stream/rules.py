"""The vocabulary of a stream's members and of its coordinator: roles, messages, records, and the mutations."""

from __future__ import annotations

from typing import Any

from clusters.simulated.replica import Message

LEADER = "leader"  # the writer
REPLICA = "replica"
STOPPED = "stopped"

Item = tuple[int, Any, int, Any]  # epoch, the channel that published, its number for the publish, body
Tail = tuple[int, int]  # epoch of the last entry, offset behind it

# Messages between members, beside those of Raft. From the coordinator:
STOP = 20  # epoch: whatever runs of it or of one before, stop, and say how far it got
START = 21  # epoch, writer
CHECK = 22  # epoch: still running?
# to the coordinator:
HALTED = 23  # epoch, tail
STARTED = 24  # epoch
DEAD = 25  # epoch: what ran here then does not run any more
FORWARD = 26  # a request of a channel on the sender's node
# between a writer and its replicas:
ATTACH = 27  # epoch
OVERVIEW = 28  # epoch, [(epoch, offset behind the last entry of it), ...]: what the writer has
DATA = 29  # epoch, offset of the first, entries, offset up to which all is committed
ACK = 30  # epoch, offset behind the last entry that the replica has

_WORDS = {
    STOP: "stop",
    START: "start",
    CHECK: "running?",
    HALTED: "stopped",
    STARTED: "started",
    DEAD: "not running",
    FORWARD: "request",
    ATTACH: "attach",
    OVERVIEW: "overview",
    DATA: "entries",
    ACK: "written",
}

# Journal records, beside those of Raft
ENTRIES = 20  # offset of the first, entries: they replace what was there from this offset on
CUT = 21  # offset: nothing from there on

# What a channel asks of a member: (kind, pid, 0, a, b). Of the coordinator, by way of the member on its own node:
LISTEN = 40  # tell me who the writer is, and when it, or the member on my node, is another
# of the writer:
WRITE = 41  # a = its number for the publish, b = (epoch of the writer that is meant, body)
# of the member on its own node:
READ = 42  # a = reader, b = (offset, FIRST or NEXT; credit)
GRANT = 43  # a = reader, b = credit
CANCEL = 44  # a = reader
REREAD = 45  # a = reader: the member was started anew, read on

# What it is told
WRITER = 0  # epoch, node
MEMBER = 1  # the member on its node was started
WRITTEN = 2  # its numbers for publishes that are committed
READING = 3  # reader, whether it reads
HANDED = 4  # reader, [(offset, body), ...]

TICK_TIMER = 2
TICK = 1_000_000_000  # ns between the coordinator's looks after members that did not do as they were told

MUTATIONS = (
    "none",
    "confirm-at-once",  # the writer confirms what it has written, before any replica has it
    "read-uncommitted",  # readers are handed what is not committed yet
    "elect-by-offset",  # the longest log leads, of whatever epoch
    "keep-tail",  # a replica keeps what the new writer does not have
    "no-dedup",  # the writer takes again what is sent again
)


def tell(message: Message) -> tuple[str, int | None]:
    """What a message between members is called, and its epoch."""
    tag = message[0]
    return _WORDS.get(tag, "request"), None if tag == FORWARD else message[1]
