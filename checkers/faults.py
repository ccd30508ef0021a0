"""The faults of a run as intervals, read from its history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from chaos.model.history import History, Ints, Mask
from chaos.model.op import INFO, INVOKE, OK
from checkers.columns import indices


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """One fault that was injected. Times are ns of the run.

    asked: when its injection began. start: when it was in force on the last of its nodes. undoing: when its undoing
    began. end: when that was complete. Between `start` and `undoing` it surely was in force, before `asked` and after
    `end` it surely was not; a fault that was never undone lasts to the end of the history. undone: whether the undoing
    is known to be complete. bit: whether it had an effect, None where nothing could tell.
    """

    id: str
    nemesis: str
    kind: str
    target: str
    nodes: tuple[str, ...]
    asked: int
    start: int
    undoing: int
    end: int
    undone: bool
    bit: bool | None
    ops: tuple[int, ...]


def faults(history: History) -> tuple[FaultSpan, ...]:
    """The faults that took place (inject ok), in the order in which they did."""
    last = int(history.time[-1]) if len(history) else 0
    undone = {history.key[row]: row for row in history.rows("undo", OK).tolist()}
    undoing = {history.key[row]: row for row in reversed(history.rows("undo", INVOKE).tolist())}
    found = []
    for row in history.rows("inject", OK).tolist():
        fault = history.key[row] or ""
        said = history.detail(row)
        begun = int(history.invocation[row]) if history.invocation[row] >= 0 else row
        heal, healed = undoing.get(fault), undone.get(fault)
        heal = healed if heal is None else heal
        found.append(
            FaultSpan(
                id=fault,
                nemesis=said.get("nemesis", ""),
                kind=said.get("kind", ""),
                target=said.get("target", ""),
                nodes=tuple(dict.fromkeys(node for action in said.get("actions", ()) for node in action["nodes"])),
                asked=int(history.time[begun]),
                start=max(said.get("in_force", {}).values(), default=int(history.time[row])),
                undoing=last if heal is None else int(history.time[heal]),
                end=last if healed is None else int(history.time[healed]),
                undone=healed is not None,
                bit=None if healed is None else history.detail(healed).get("bit"),
                ops=indices(history, begun, row, *(place for place in (heal, healed) if place is not None)),
            )
        )
    return tuple(found)


def unresolved(history: History) -> list[int]:
    """Rows of the faults that could not be: nobody to hurt, or the injection failed."""
    return [int(row) for row in history.rows("inject", INFO)]


def merged(spans: Iterable[tuple[int, int]]) -> Ints:
    """The union of intervals as an array of [start, end], ordered and apart from one another."""
    union: list[list[int]] = []
    for start, end in sorted(spans):
        if union and start <= union[-1][1]:
            union[-1][1] = max(union[-1][1], end)
        else:
            union.append([start, end])
    return np.asarray(union, dtype=np.int64).reshape(-1, 2)


def touches(union: Ints, start: Ints, end: Ints) -> Mask:
    """Which of the intervals [start, end] have a moment in common with a union of intervals (as `merged` gives it)."""
    if not len(union):
        return np.zeros(len(start), dtype=np.bool_)
    # the first of the union that does not end before our start
    at = np.searchsorted(union[:, 1], start)
    return np.asarray((at < len(union)) & (union[np.minimum(at, len(union) - 1), 0] <= end))


def inside(union: Ints, start: Ints, end: Ints) -> Mask:
    """Which of the intervals [start, end] lie wholly within one of a union of intervals."""
    if not len(union):
        return np.zeros(len(start), dtype=np.bool_)
    at = np.maximum(np.searchsorted(union[:, 0], start, side="right") - 1, 0)
    return np.asarray((union[at, 0] <= start) & (end <= union[at, 1]))


def stalls(history: History) -> Ints:
    """When the controller itself was late, as a union of intervals: no limit is judged across one."""
    rows = history.rows("stall")
    return merged((int(history.time[row] - history.value[row]), int(history.time[row])) for row in rows)
