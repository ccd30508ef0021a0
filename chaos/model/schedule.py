"""Faults as data: what is to happen when, and to whom.

A nemesis turns a seed into a *schedule* of `Fault`s. A fault names a role ("leader"); when it falls due it is
resolved to *actions* on nodes that exist, which a cluster carries out. The schedule keeps the role, the history keeps
the actions. A schedule can be saved, edited, replayed and shrunk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from chaos.model.errors import BadInput

SCHEMA = 1

# The verbs that clusters know. A cluster says which of them it can do here, and why not the others.
# cut: args: links [[source, target], ...] directed; service: one of the broker, several ("a,b"), all but some ("!a"),
# or None for all; flap: ns for which the links are cut, whole, cut, ..., over and over, if they are not cut throughout
CUT = "cut"
KILL = "kill"  # SIGKILL of `process` on each node; what was written stays; undo starts it again
STOP = "stop"  # SIGTERM, an orderly stop; undo starts it again
NODE_STOP = "node-stop"  # every process told to end, then the node is silent; undo starts them again
POWER_OFF = "power-off"  # as kill, and writes that were not synced are lost; undo starts it again
WIPE = "wipe"  # as kill, and the disk is empty then; undo starts it again
CRASH_LOOP = "crash-loop"  # args: times; killed, started, killed again as soon as it serves; undo starts it
PAUSE = "pause"  # SIGSTOP; undo resumes
CLOCK = "clock"  # args: offset (ns), rate (1.0 = true), strobe (ns between jumps to and fro; 0 = none)
DISK_FULL = "disk-full"  # no room is left for the broker's data; args: restart (undo starts the broker anew)
DISK_READ_ONLY = "disk-read-only"  # nothing can be written, beneath open files too
DISK_SLOW = "disk-slow"  # args: rate (bytes a second that are written)
STARVE = "starve"  # args: cpu (share of a core) or memory (bytes more than it has)
DAMAGE = "damage"  # args: how (truncate, flip), what (of its files, None: any), files, draw; undo starts it again
LOSS = "loss"  # args: links [[source, target], ...]; probability of each packet's (message's) loss
# shape: args: links, service as for cut; and what becomes of each packet, any of SHAPES: delay and jitter (ns: later by
# this, give or take that), loss, corrupt, duplicate, reorder (probabilities; reorder: of going ahead of those that are
# delayed), rate (bytes a second that a link lets through)
SHAPE = "shape"
SHAPES = ("delay", "jitter", "loss", "corrupt", "duplicate", "reorder", "rate")
# Who belongs to the cluster, and to the group of each queue. Asked of the broker by its own means.
LEAVE = "leave"  # the node leaves the cluster in order, and ends; undo starts it: it joins again, with nothing
REPLACE = "replace"  # killed, its data destroyed, and the others forget it; undo: one of its name joins with nothing
SHRINK = "shrink"  # the node's replica of each queue is taken away; undo adds one, with nothing
GROW = "grow"  # the node gets a replica of each queue of which it has none; undo takes it away
TRANSFER = "transfer"  # the node hands over what it leads; args: to (a node; None: whoever it may be); that stays so
MEMBERS = (LEAVE, REPLACE, SHRINK, GROW, TRANSFER)
DISKS = (DISK_FULL, DISK_READ_ONLY)
_PROCESSES = (KILL, STOP, CRASH_LOOP, NODE_STOP, POWER_OFF, WIPE, PAUSE, STARVE)
VERBS = (CUT, *_PROCESSES, *DISKS, DISK_SLOW, DAMAGE, CLOCK, LOSS, SHAPE, *MEMBERS)
# Those that hold a node's processes, or may end them, or need them there: one at a time on each node.
HOLDING = (KILL, STOP, CRASH_LOOP, NODE_STOP, POWER_OFF, WIPE, PAUSE, *DISKS, DAMAGE, *MEMBERS)
OWN_DISK = (POWER_OFF, *DISKS, DISK_SLOW)  # those that need a disk of ours beneath the broker's data
LIMITS = {STARVE: ("cpu", "memory"), DISK_SLOW: ("io",)}  # those that need control groups, with these controllers
# What a cluster says of itself: each verb, and of those that hang on their arguments, each argument ("shape.delay").
ABILITIES = (*VERBS, *(f"{SHAPE}.{one}" for one in SHAPES), f"{TRANSFER}.to")


@dataclass(frozen=True, slots=True)
class Action:
    """One thing done to a cluster: a verb, the nodes that it is done to, and arguments as JSON data.

    For link verbs `nodes` are the nodes whose links are hurt. `process` names which process (the broker, or a helper
    of it); args as noted beside the verbs.
    """

    verb: str
    nodes: tuple[str, ...]
    args: Mapping[str, Any] = field(default_factory=dict)
    process: str = "broker"

    def to_json(self) -> dict[str, Any]:
        return {"verb": self.verb, "nodes": list(self.nodes), "args": dict(self.args), "process": self.process}

    def needs(self) -> tuple[str, ...]:
        """Which of ABILITIES a cluster must have."""
        told = [f"{self.verb}.{name}" for name, value in self.args.items() if value]
        return (self.verb, *(one for one in told if one in ABILITIES))

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Action:
        return Action(data["verb"], tuple(data["nodes"]), dict(data["args"]), data["process"])


def whom(actions: Iterable[Action]) -> str:
    """Whom actions hurt, in few letters: nodes as "n1, n3"; cuts as the sides that they part, "n1 | n2 n3", else as
    the links that they cut, "n1-n3 n2-n4", or "n1>n2" where only one way is."""
    actions = tuple(actions)
    links = [(str(link[0]), str(link[1])) for action in actions if action.verb == CUT for link in action.args["links"]]
    others = dict.fromkeys(node for action in actions if action.verb != CUT for node in action.nodes)
    words = [", ".join(others)] if others else []
    if links:
        both = [(one, other) for one, other in links if (other, one) in links]
        sides = _sides(list(dict.fromkeys(node for link in links for node in link)), both)
        if len(sides) > 1:
            words.append(" | ".join(" ".join(side) for side in sides))
        else:
            once = [f"{one}-{other}" for number, (one, other) in enumerate(both) if (other, one) in both[number:]]
            words.append(" ".join([*once, *(f"{one}>{other}" for one, other in links if (one, other) not in both)]))
    return ", ".join(words)


def _sides(nodes: list[str], cut: list[tuple[str, str]]) -> list[list[str]]:
    """The groups within which nodes still reach one another, over some way, when those pairs do not."""
    sides: list[list[str]] = []
    left = nodes
    while left:
        side = [left[0]]
        for node in side:  # grows as it is walked
            side += [other for other in left if other not in side and (node, other) not in cut]
        sides.append(sorted(side))
        left = [node for node in left if node not in side]
    return sorted(sides, key=lambda side: (len(side), side))


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault.

    id: unique in its schedule. nemesis, kind: who resolves it and which of its kinds. at: ns since the work phase
    began; or, with a trigger, ns after the trigger fires (the first time that it does once `after` ns of work have
    passed). line: what is waited for, a regular expression, where the trigger is a line of a log. duration: ns in
    force. target: a role (see `nemesis.targets`) or node names joined with "+". draw: the fault's own seed, from which
    a role that leaves a choice is resolved.
    """

    id: str
    nemesis: str
    kind: str
    at: int
    duration: int
    target: str = "one"
    trigger: str | None = None
    after: int = 0
    draw: int = 0
    args: Mapping[str, Any] = field(default_factory=dict)
    line: str | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """The faults of a run, ordered by time."""

    faults: tuple[Fault, ...] = ()

    def dumps(self) -> str:
        """As JSON text, a fault a line, so that it can be edited and compared by line."""
        lines = ",\n  ".join(json.dumps(asdict(fault), sort_keys=True) for fault in self.faults)
        return f'{{"schema": {SCHEMA}, "faults": [\n  {lines}\n]}}\n'

    @staticmethod
    def loads(text: str, where: str = "schedule") -> Schedule:
        """Read back what `dumps` wrote.

        Raises BadInput naming `where` for text that is not a schedule of this version.
        """
        try:
            data = json.loads(text)
            if data["schema"] != SCHEMA:
                raise BadInput(
                    f"{where}: schedule schema {data['schema']!r} is not one that this version reads ({SCHEMA})"
                )
            return Schedule(tuple(Fault(**fault) for fault in data["faults"]))
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{where}: not a schedule: {error}") from error

    def without(self, fault_id: str) -> Schedule:
        """The same schedule with one fault taken out."""
        return Schedule(tuple(fault for fault in self.faults if fault.id != fault_id))
