"""What runs have covered: which faults, how often leadership passed on, which states the protocol was in.

From a history to a `Coverage`, and coverages add up. States come from beliefs: in a simulation, each node says when
its own view of its role changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.model.history import NONE, History
from checkers.faults import faults, unresolved

LEADER = "leader"
NEWER = " (newer term)"


@dataclass(frozen=True)
class Coverage:
    """What was met how often, over `runs` runs.

    faults: injected, as "partition halves of one" (nemesis, kind, target). idle: planned and then nobody to hurt.
    leader_changes: another node leads than the one before, in a queue. states: roles that nodes took up. transitions:
    from role to role on a node, "(newer term)" where its term rose. together: the roles of all nodes of a queue at a
    moment, as "down, follower, leader": "leader, leader" is two at once.
    """

    runs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    idle: int = 0
    leader_changes: int = 0
    states: Counter[str] = field(default_factory=Counter)
    transitions: Counter[str] = field(default_factory=Counter)
    together: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.runs + other.runs,
            self.faults + other.faults,
            self.idle + other.idle,
            self.leader_changes + other.leader_changes,
            self.states + other.states,
            self.transitions + other.transitions,
            self.together + other.together,
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON data, the most frequent first, those equally so by name."""
        return {
            "runs": self.runs,
            "faults": ranked(self.faults),
            "idle": self.idle,
            "leader_changes": self.leader_changes,
            "states": ranked(self.states),
            "transitions": ranked(self.transitions),
            "together": ranked(self.together),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Coverage:
        """Read back. Raises KeyError or TypeError for what is none."""
        return Coverage(
            data["runs"],
            Counter(data["faults"]),
            data["idle"],
            data["leader_changes"],
            Counter(data["states"]),
            Counter(data["transitions"]),
            Counter(data["together"]),
        )


def ranked(counter: Mapping[str, int]) -> dict[str, int]:
    """The most frequent first, those equally so by name."""
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def coverage(history: History) -> Coverage:
    """What one run has covered."""
    met = Counter(f"{what(span.nemesis, span.kind)} of {span.target}" for span in faults(history))
    states: Counter[str] = Counter()
    transitions: Counter[str] = Counter()
    together: Counter[str] = Counter()
    changes = 0
    views: dict[str | None, dict[str | None, tuple[str, int]]] = {}  # queue -> node -> role, term
    led: dict[str | None, str | None] = {}
    for row in history.rows("belief").tolist():
        queue, node, term = history.key[row], history.node[row], int(history.term[row])
        role = str(history.detail(row).get("role"))
        nodes = views.setdefault(queue, {})
        states[role] += 1
        if node in nodes:
            before, old = nodes[node]
            transitions[f"{before} > {role}{NEWER if NONE < old < term else ''}"] += 1
        nodes[node] = (role, term)
        together[", ".join(sorted(role for role, _ in nodes.values()))] += 1
        if role == LEADER:
            changes += led.setdefault(queue, node) != node
            led[queue] = node
    return Coverage(1, met, len(unresolved(history)), changes, states, transitions, together)


def what(nemesis: str, kind: str) -> str:
    """A fault in a word or two: "kill", "partition halves"."""
    return nemesis if kind == nemesis else f"{nemesis} {kind}"
