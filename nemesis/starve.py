"""Faults of a node's means: little CPU, or no more memory, for the broker's process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from chaos.model.schedule import STARVE, Action, Fault
from chaos.model.settings import Setting, choices, number, size
from nemesis.base import Nemesis, View
from nemesis.targets import FOLLOWER, LEADER, MINORITY, ONE, hurt, targets, usable
from nemesis.timing import Chosen, deck, series, timing

CPU, MEMORY = "cpu", "memory"


class Starve(Nemesis):
    """Holds the broker's process to a share of a core, or to little more memory than it has, by a control group."""

    name = "starve"
    meaning = "give the broker's process little CPU, or no more memory"
    settings = (
        *timing(every="20s", for_="10s", start="6s"),
        targets(ONE, MINORITY, LEADER, FOLLOWER),
        Setting("kinds", choices(CPU, MEMORY), (CPU, MEMORY), "of what; each once before any comes again"),
        Setting("cpu", number(0.01, 64), 0.1, "cpu: so much of one core"),
        Setting("memory", size, "1MiB", "memory: so much more than it has; who wants more waits"),
    )

    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (STARVE,)

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        whom = deck(usable(options["targets"], nodes), random)
        kinds = deck(options["kinds"], random)

        def choose(_: Random) -> Chosen:
            kind = next(kinds)
            return Chosen(kind, next(whom), {kind: options[kind] if kind == CPU else int(options[kind])})

        return series(self.name, options, span, random, choose)

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        return (Action(STARVE, nodes, {fault.kind: fault.args[fault.kind]}),) if nodes else ()
