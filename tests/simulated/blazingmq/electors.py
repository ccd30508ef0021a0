"""Electors under a random schedule: any message may come late, twice or never; nodes restart, or take each other for
gone. The invariant is the specification's: not more than one leader in a term."""

from __future__ import annotations

from random import Random
from typing import Any

from clusters.simulated.blazingmq.election import Elector
from clusters.simulated.blazingmq.rules import LEADER, ElectionRules
from clusters.simulated.replica import BELIEF, COMPACT, SEND, WRITE, Message

RULES = ElectionRules(initial=1, wait=1, scouting=1, election=1, heartbeat=1, patience=1)


class Broken(AssertionError):
    """Two lead in one term."""


class Electors:
    """Everything that happens is drawn from `random`. An elector's one timer may be due at any time."""

    def __init__(self, random: Random, rules: ElectionRules = RULES, size: int = 3, quorum: int = 0) -> None:
        self.random = random
        self.rules = rules
        self.names = [f"n{number}" for number in range(1, size + 1)]
        self.quorum = quorum or size // 2 + 1
        self.disks: dict[str, list[Any]] = {name: [] for name in self.names}
        self.flying: list[tuple[str, str, Message]] = []
        self.led: dict[int, str] = {}
        self.electors: dict[str, Elector] = {}
        for name in self.names:
            self.restart(name)

    def run(self, steps: int) -> None:
        acts = [self.deliver, self.duplicate, self.drop, self.timer, self.forget, self.crash]
        deliveries = self.random.choice([20, 40, 60])  # how soon what was sent arrives
        crashes = self.random.choice([1, 2])
        for act in self.random.choices(acts, [deliveries, 2, 2, 10, 1, crashes], k=steps):
            act()

    def deliver(self) -> None:
        if self.flying:
            source, target, message = self.flying.pop(self.random.randrange(len(self.flying)))
            self.electors[target].message(source, message)
            self.after(target)

    def duplicate(self) -> None:
        if self.flying:
            self.flying.append(self.random.choice(self.flying))

    def drop(self) -> None:
        if self.flying:
            self.flying.pop(self.random.randrange(len(self.flying)))

    def timer(self) -> None:
        name = self.random.choice(self.names)
        self.electors[name].timer(0, 0.5)
        self.after(name)

    def forget(self) -> None:
        """One takes another for gone."""
        name, other = self.random.sample(self.names, 2)
        self.electors[name].down(other, 0.5)
        self.after(name)

    def crash(self) -> None:
        self.restart(self.random.choice(self.names))

    def restart(self, name: str) -> None:
        self.electors[name] = Elector(name, self.names, self.quorum, self.rules)
        self.electors[name].start(self.disks[name], 0.5)
        self.after(name)

    def after(self, name: str) -> None:
        elector = self.electors[name]
        effects, elector.effects = elector.effects, []
        for effect in effects:
            if effect[0] == SEND:
                self.flying.append((name, effect[1], effect[2]))
            elif effect[0] == WRITE:
                self.disks[name].append(effect[1])
            elif effect[0] == COMPACT:
                self.disks[name] = [*effect[1], *filter(effect[2], self.disks[name])]
            elif effect[0] == BELIEF and effect[1] == LEADER and self.led.setdefault(effect[2], name) != name:
                raise Broken(f"{self.led[effect[2]]} and {name} lead term {effect[2]}")
