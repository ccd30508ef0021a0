"""One operation of a history, in Jepsen's sense: an invocation, later completed ok, fail or info.

`fail` means that it certainly did not happen. `info` means that nobody knows: a time-out, a lost connection, a nack
whose cause is not known. Everything that a checker concludes rests on this difference.

Conventions of our histories (a row an op; who appends which):

====================  ==========  =======================================================================
f                     process     meaning
====================  ==========  =======================================================================
`publish`             client >=0  value = message id, unique per attempt; ok = confirmed; fail = returned
                                  or refused
`consume`             client >=0  invoke = a credit granted (or a poll); ok = delivered, value = id, None =
                                  an empty answer
`seek`                client >=0  a reading of the log `key` begins; detail.from = an offset, "first" or "next"
`ack`                 client >=0  value = id; ok = known to have taken effect; info = sent (AMQP never
                                  answers an ack)
`read`                client >=0  of a key; ok: value, or detail = {"value": ...} where it is no whole number
`write`               client >=0  of a key
`cas`                 client >=0  detail = {"value": [from, to]}; fail: it held something else, or was refused
`add`                 client >=0  to a number, or to a set
`generate`            client >=0  ok: value = an id
`acquire`             client >=0  a lock; ok: value = the fencing token, where there is one
`release`             client >=0  a lock; info: sent, and nobody says when it is free; or lost before
`open`                client >=0  a client connects to `node`; ok / info; `channel`: the incarnation opened
`close`               client >=0  info, unpaired: the client's connection is gone; `error` says why
`inject`              NEMESIS     key = fault id; ok.detail = {nemesis, kind, target, actions: [Action],
                                  in_force: {node: ns}, evidence}; info = it could not be (error)
`undo`                NEMESIS     key = fault id; ok.detail = {times: {node: ns}, bit: true / false / null,
                                  evidence}; info = it could not be (error)
`leader`              OBSERVER    info, unpaired: a sampled belief: key = scope, node, term, incarnation,
                                  detail = {role, asked, answered}, times in ns of the run; role "removed":
                                  its replica was taken away, and one that comes later begins anew
`belief`              OBSERVER    info, unpaired: the same as an exact event (simulation): detail.role
                                  holds from the row's time until the node's next one
`exit`                OBSERVER    info, unpaired: the broker's process on `node` ended (error = how;
                                  detail.asked: whether a fault did it)
`replica`             OBSERVER    info, unpaired: what a node's replica of `key` holds after the faults, before
                                  the drain (simulation): value = messages, detail.digest = which, in order
`log`                 OBSERVER    info, unpaired: a line in a node's log that is never normal (error)
`watchdog`            OBSERVER    info, unpaired: the agent on `node` undid a fault by itself, having heard
                                  nothing of us (error); detail.time = when
`elected`             OBSERVER    info, unpaired: who leads by what is in LavinMQ's etcd, and its term (error), as the
                                  etcd on `node` was the first to show; detail.time = when
`in-sync`             OBSERVER    info, unpaired: the in-sync set there (error), likewise
`session`             OBSERVER    info, unpaired: our way to the agent on `node` was lost for a while (error)
`phase`               CONTROLLER  info, unpaired: detail.name = open, work, undo, serve, look, drain...
`drain`               CONTROLLER  ok = complete for `key`; info = not, and why (error)
`serve`               CONTROLLER  ok = every node serves again after all was undone; info = not, and why
`interrupt`           CONTROLLER  info, unpaired: somebody asked to stop early
`error`               CONTROLLER  info, unpaired: the controller or the workload itself failed (error), so
                                  that the run can never be valid
`stall`               CONTROLLER  info, unpaired: the controller itself was late; value = for how long, ns
====================  ==========  =======================================================================

A delivered message that was not ours, or whose payload did not match its checksum, is a `consume` ok with
`error` = "corrupt" or "foreign" and what is known in `detail`. `detail.queue` names the queue that the payload says it
was published to, when that is not `key` (misrouted).

On a log (a stream) `publish` is an append, and `consume` hands out an entry, with its place in `detail.offset`. Nothing
is acknowledged there: what is handed out stays. A `publish` ok has `detail.offset` where the broker tells it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

CHANGES = ("write", "cas", "add", "generate", "acquire")  # what clients of keys and locks ask to be changed

NEMESIS = -1
OBSERVER = -2
CONTROLLER = -3

PROCESS_NAMES: Mapping[int, str] = {NEMESIS: "nemesis", OBSERVER: "observer", CONTROLLER: "controller"}

CORRUPT = "corrupt"
FOREIGN = "foreign"
REMOVED = "removed"  # the role of a replica that was taken away


class OpType(IntEnum):
    """What a row of the history says of its operation."""

    INVOKE = 0
    OK = 1
    FAIL = 2
    INFO = 3

    def __str__(self) -> str:
        return self.name.lower()


INVOKE, OK, FAIL, INFO = OpType.INVOKE, OpType.OK, OpType.FAIL, OpType.INFO


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One row of a history.

    index: its place in the history, from 0. time: ns since the run began, on the controller's clock.
    process: a logical client (0 and up; a new number after an unknown outcome), or one of ours (below 0).
    op: index of the invocation that a completion belongs to; None for invocations and unpaired rows.
    channel: which incarnation of the process's connection. term: the leader's term where one is known.
    incarnation: which life of the node's broker process. detail: anything richer, as JSON.
    """

    index: int
    time: int
    process: int
    type: OpType
    f: str
    key: str | None = None
    value: int | None = None
    node: str | None = None
    error: str | None = None
    detail: Mapping[str, Any] | None = None
    op: int | None = None
    channel: int | None = None
    redelivered: bool | None = None
    term: int | None = None
    incarnation: int | None = None

    def __str__(self) -> str:
        who = PROCESS_NAMES.get(self.process, str(self.process))
        parts = [f"#{self.index}", f"{self.time / 1e9:.6f}s", who, str(self.type), self.f]
        parts += [
            f"{name}={value}"
            for name in ("key", "value", "node", "term", "error")
            if (value := getattr(self, name)) is not None
        ]
        return " ".join(parts)
