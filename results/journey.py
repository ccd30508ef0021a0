"""What became of one message, step by step: the evidence behind "it was lost" that a person can follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.model.history import History
from chaos.model.op import FAIL, INFO, INVOKE, OK, Op, OpType
from results.text import count, length, moment
from results.timeline import Exit, Timeline

_TOLD = 3


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened at a time. `tone`: good, bad, fault, leader or plain; `index`: the op that says so."""

    time: int
    text: str
    tone: str = "plain"
    index: int | None = None


def message_of(history: History, ops: tuple[int, ...]) -> int | None:
    """The id of the message that ops are about: that of the first publish among them."""
    for op in ops:
        row = row_of(history, op)
        if row is not None and history[row].f == "publish":
            return history[row].value
    return None


def row_of(history: History, index: int) -> int | None:
    """The row of an op by its index; None when the history has no such op."""
    row = int(np.searchsorted(history.index, index))
    return row if row < len(history) and int(history.index[row]) == index else None


def journey(history: History, line: Timeline, message: int) -> list[Step]:
    """Every op of the message, with who led and which faults were in force, to the drain of its queue."""
    rows = np.flatnonzero((history.value == message) & _of_messages(history))
    steps: list[Step] = []
    queue, confirmed, delivered = None, None, False
    for row in rows.tolist():
        op = history[row]
        queue = queue or op.key
        steps.append(_step(history, row, op))
        if op.f == "publish" and op.type == INVOKE:
            steps.extend(_circumstances(line, op))
        if op.f == "publish" and op.type == OK:
            confirmed = op.time
        delivered = delivered or (op.f == "consume" and op.type == OK)
    if not steps:
        return []
    since = steps[0].time
    steps.extend(_leader_changes(line, queue or "", since))
    if confirmed is not None and not delivered:
        steps.extend(_blows(line, since))
        steps.extend(_end(history, line, queue))
    return sorted(steps, key=lambda step: step.time)


def _of_messages(history: History) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(history.f.is_("publish") | history.f.is_("consume") | history.f.is_("ack"))


def _step(history: History, row: int, op: Op) -> Step:
    who, where = f"client {op.process}", f" through {op.node}" if op.node else ""
    begun = int(history.invocation[row])
    took = f" after {length(op.time - int(history.time[begun]))}" if begun >= 0 else ""
    match op.f, op.type:
        case "publish", OpType.INVOKE:
            return Step(op.time, f"{who} publishes message {op.value} to {op.key}{where}", "plain", op.index)
        case "publish", OpType.OK:
            return Step(op.time, f"the broker confirms it{where}{took}: it promises to keep it", "good", op.index)
        case "publish", OpType.FAIL:
            return Step(op.time, f"it certainly was not taken{_why(op)}", "plain", op.index)
        case "publish", _:
            return Step(op.time, f"nobody knows whether it was taken{took}{_why(op)}", "plain", op.index)
        case "consume", OpType.OK:
            again = " again" if op.redelivered else ""
            return Step(op.time, f"it is delivered{again} to {who}{where}{_why(op)}", "good", op.index)
        case "ack", OpType.OK:
            return Step(op.time, f"{who} acknowledged it, and that took effect", "good", op.index)
        case "ack", OpType.INVOKE:
            return Step(op.time, f"{who} acknowledges it{where}", "plain", op.index)
    return Step(op.time, f"{op.f} {op.type}{_why(op)}", "plain", op.index)


def _why(op: Op) -> str:
    return f": {op.error}" if op.error else ""


def _circumstances(line: Timeline, op: Op) -> list[Step]:
    steps = []
    leaders = line.leaders(op.key or "", op.time)
    for claim in leaders:
        term = "" if claim.term is None else f" (term {claim.term})"
        steps.append(Step(op.time, f"{claim.node} holds itself leader of {op.key}{term}", "leader"))
    if len({claim.node for claim in leaders}) > 1:
        steps.append(Step(op.time, f"so {count(len(leaders))} nodes hold themselves leader at once", "bad"))
    for fault in line.in_force(op.time):
        since = moment(fault.begin)
        steps.append(Step(op.time, f"in force since {since}: {fault.id} ({fault.label})", "fault"))
    return steps


def _blows(line: Timeline, since: int) -> list[Step]:
    """What the cluster suffered after the publish: the next few faults, and processes that ended."""
    faults = [fault for fault in line.faults if fault.begin > since and not fault.problem]
    exits = [exit_ for exit_ in line.exits if exit_.time > since]
    return [
        *(Step(fault.begin, f"comes into force: {fault.id} ({fault.label})", "fault") for fault in faults[:_TOLD]),
        *(Step(exit_.time, f"{exit_.node} ends{_because(exit_)}", "fault") for exit_ in exits[:_TOLD]),
    ]


def _because(exit_: Exit) -> str:
    return f": {exit_.reason}" if exit_.reason else ""


def _leader_changes(line: Timeline, scope: str, since: int) -> list[Step]:
    changes = [change for change in line.changes if change.scope == scope and change.time > since]
    steps = []
    for change in changes[:_TOLD]:
        term = "" if change.term is None else f" in term {change.term}"
        steps.append(
            Step(change.time, f"{change.node} becomes leader of {scope}{term}, after {change.before}", "leader")
        )
    if len(changes) > _TOLD:
        more = len(changes) - _TOLD
        steps.append(Step(changes[_TOLD].time, f"and so on: {count(more)} more leader changes", "leader"))
    return steps


def _end(history: History, line: Timeline, queue: str | None) -> list[Step]:
    """Why the silence about a confirmed message means something, or does not."""
    steps = []
    for phase in line.phases:
        if phase.name == "undo":
            steps.append(Step(phase.begin, "every fault is undone", "plain"))
    for row in history.rows("serve", OK).tolist():
        steps.append(Step(int(history.time[row]), "every node serves again", "plain", int(history.index[row])))
    drains = [row for row in history.rows("drain", OK, INFO, FAIL).tolist() if history.key[row] == queue]
    whole = [row for row in drains if history.type[row] == OK]
    last = line.end
    if whole:
        row = whole[-1]
        text = f"{queue} was read until nothing was left, and the message had never come: it is lost"
        steps.append(Step(int(history.time[row]), text, "bad", int(history.index[row])))
    elif history.cut:
        steps.append(Step(last, "the history was cut off here: it may have been delivered later", "plain"))
    else:
        why = next((history.error[row] for row in reversed(drains) if history.error[row]), None)
        text = f"{queue} was not read to its end{f' ({why})' if why else ''}: it may still be there"
        steps.append(Step(last, text, "plain"))
    return steps
