"""The faults of a run as they came: each at its time, on the nodes that its role turned out to be.

A fault so pinned hurts the same nodes at the same time whatever else changes around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from chaos.model.history import History
from chaos.model.op import INVOKE
from chaos.model.schedule import CUT, Action, Fault, Schedule
from nemesis.partition import APART, FIXED, HALVES, ISOLATE, ONE_NODE, THIRD
from nemesis.targets import CLIENTS, PINNED


def pinned(schedule: Schedule, history: History) -> tuple[Fault, ...]:
    """The faults that were injected, pinned. One whose role cannot be said in names keeps it, and its draw."""
    begun = next(
        (int(history.time[row]) for row in history.rows("phase").tolist() if history.detail(row).get("name") == "work"),
        0,
    )
    came = _injections(history)
    faults = []
    for fault in schedule.faults:
        if fault.id in came:
            time, actions = came[fault.id]
            placed = replace(fault, at=max(time - begun, 0), trigger=None, line=None, after=0)
            target = _whom(fault, actions)
            args = {key: value for key, value in fault.args.items() if key != PINNED}
            faults.append(placed if target is None else replace(placed, target=target, draw=0, args=args))
    return tuple(sorted(faults, key=lambda fault: (fault.at, fault.id)))


def _injections(history: History) -> Mapping[str, tuple[int, Sequence[Action]]]:
    found = {}
    for row in history.rows("inject", INVOKE).tolist():
        answer = int(history.completion[row])
        detail: Mapping[str, Any] = history.detail(answer) if answer >= 0 else {}
        if detail.get("actions"):
            actions = [Action.from_json(action) for action in detail["actions"]]
            found[history.key[row] or ""] = int(history.time[row]), actions
    return found


def _whom(fault: Fault, actions: Sequence[Action]) -> str | None:
    """The nodes as a target says them; None where the kind of a cut means more than who is apart."""
    if any(action.verb == CUT for action in actions):
        return _apart(actions[0]) if fault.kind in (HALVES, FIXED, THIRD, ONE_NODE, ISOLATE, APART) else None
    return "+".join(dict.fromkeys(node for action in actions for node in action.nodes))


def _apart(cut: Action) -> str | None:
    """The side of a cut that is apart: where clients are cut off too, theirs; else the smaller one."""
    reaches: dict[str, list[str]] = {}
    for source, target in cut.args["links"]:
        if source != CLIENTS:
            reaches.setdefault(source, []).append(target)
    ofclients = [node for node, others in reaches.items() if CLIENTS in others]
    if ofclients:
        return "+".join(ofclients)
    sides = sorted(("+".join(node for node in reaches if reaches[node] == others) for others in reaches.values()),
                   key=lambda side: (side.count("+"), side))  # fmt: skip
    return sides[0] if sides else None
