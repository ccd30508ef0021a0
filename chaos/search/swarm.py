"""Swarm testing: each seed has some of a scenario's faults in play, and some of what these may do.

A configuration in which everything may happen finds less than many in each of which some things cannot, since one
fault often hides what another would have shown: a kill every few seconds leaves no time for what a long cut does.
(A. Groce, C. Zhang, E. Eide, Y. Chen, J. Regehr: Swarm Testing, ISSTA 2012.)

What is drawn stays within what the scenario allows: a target or a kind that it does not name is never drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from chaos.kernel.streams import Streams
from chaos.model import registry
from chaos.model.settings import BadKey, Setting
from chaos.scenario import NemesisPart, Scenario

FACTORS = (0.5, 1, 2)  # how much more or less often, longer or shorter, than the scenario says
STRETCHED = ("every", "for")
_MS = 1_000_000


def draw(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with that seed, and what the seed has in play of its nemeses.

    Each of them is in play or not by the toss of a coin, at least one of them; each of its lists (targets, kinds) keeps
    some of its words, at least one; `every` and `for` are half, once or twice what they were. A nemesis none of whose
    faults would fit into the time is left as it was. Each draws from a stream of its own, so that what is drawn for one
    does not hang on which others there are.
    """
    streams = Streams(seed)
    met: Counter[str] = Counter()
    parts, tosses = [], []
    for part in scenario.nemeses:
        random = streams.stream("swarm", part.name, met[part.name])
        met[part.name] += 1
        tosses.append(random.random())
        parts.append(_vary(part, scenario, random))
    in_play = [part for part, toss in zip(parts, tosses, strict=True) if toss < 0.5]
    if parts and not in_play:
        in_play = [parts[tosses.index(min(tosses))]]
    return replace(scenario, seed=seed, nemeses=tuple(in_play))


def _vary(part: NemesisPart, scenario: Scenario, random: Random) -> NemesisPart:
    nemesis = registry.find(registry.NEMESES, part.name)()
    options = {setting.name: _drawn(setting, part.options[setting.name], random) for setting in nemesis.settings}
    varied = replace(part, options=options)
    return varied if _fits(nemesis, options, scenario) else part


def _drawn(setting: Setting, value: Any, random: Random) -> Any:
    if isinstance(value, tuple) and len(value) > 1:
        return _some(value, random)
    if setting.name in STRETCHED:
        return _stretched(setting, value, random.choice(FACTORS))
    return value


def _some(words: Sequence[Any], random: Random) -> tuple[Any, ...]:
    kept = tuple(word for word in words if random.random() < 0.5)
    return kept or (random.choice(words),)


def _stretched(setting: Setting, ns: int, factor: float) -> int:
    if factor == 1:
        return ns
    try:
        return int(setting.convert(max(_MS, round(ns * factor / _MS) * _MS)))
    except ValueError:  # shorter than it may be
        return ns


def _fits(nemesis: Any, options: Mapping[str, Any], scenario: Scenario) -> bool:
    """Whether a nemesis told so plans any fault."""
    try:
        planned = nemesis.plan(options, scenario.cluster.names(), scenario.workload.time_ns, Random(0))
    except BadKey:
        return False
    return bool(planned)
