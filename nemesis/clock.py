"""Faults of clocks: a node's wall clock that is off, leaps, swings to and fro, or runs too fast or too slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from chaos.model.schedule import CLOCK, Action, Fault
from chaos.model.settings import Setting, choices, number
from nemesis.base import Nemesis, View
from nemesis.targets import LEADER, MAJORITY, MINORITY, ONE, hurt, targets, usable
from nemesis.timing import Chosen, at_least, deck, series, timing

OFFSET, JUMP, STROBE, RATE = "offset", "jump", "strobe", "rate"
KINDS = (OFFSET, JUMP, STROBE, RATE)

_MS = 1_000_000


class Clock(Nemesis):
    """Sets the clocks of a target's nodes wrong, all of them by the same amount, and right again after a while.

    How wrong is drawn when the fault is planned: from a tenth of the bound to the bound, forwards or backwards.
    """

    name = "clock"
    meaning = "set a node's clock off, make it leap or swing, or run too fast or too slow"
    settings = (
        *timing(every="20s", for_="10s", start="5s"),
        targets(ONE, MINORITY, MAJORITY, LEADER),
        Setting("kinds", choices(*KINDS), KINDS, "how it is wrong; each once before any comes again"),
        Setting("offset", at_least(_MS), "5s", "how far off at most, for offset and strobe"),
        Setting("jump", at_least(_MS), "1h", "how far a leap goes at most"),
        Setting("period", at_least(10 * _MS), "200ms", "strobe: how long the clock is off, and how long it is right"),
        Setting("rate", number(1.01, 100), 2.0, "how many times too fast or too slow at most"),
    )

    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (CLOCK,)

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        whom = deck(usable(options["targets"], nodes), random)
        kinds = deck(options["kinds"], random)

        def choose(random: Random) -> Chosen:
            kind = next(kinds)
            return Chosen(kind, next(whom), _wrong(kind, options, random))

        return series(self.name, options, span, random, choose)

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        return (Action(CLOCK, nodes, fault.args),) if nodes else ()


def _wrong(kind: str, options: Mapping[str, Any], random: Random) -> dict[str, Any]:
    args: dict[str, Any] = {"offset": 0, "rate": 1.0, "strobe": 0}
    ahead = random.random() < 0.5
    if kind == RATE:
        most = options["rate"]
        times = random.uniform(1 + (most - 1) / 10, most)
        args["rate"] = round(times if ahead else 1 / times, 4)
    else:
        most = options["jump" if kind == JUMP else "offset"]
        args["offset"] = random.randint(most // 10, most) * (1 if ahead else -1)
        args["strobe"] = options["period"] if kind == STROBE else 0
    return args
