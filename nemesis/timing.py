"""When faults come: again and again with some chance in it, or after something has happened in the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from chaos.model.schedule import Fault
from chaos.model.settings import Setting, choice, duration, format_duration

LEADER_CHANGE = "leader-change"
TRIGGERS = ("none", LEADER_CHANGE)

_MS = 1_000_000
_T = TypeVar("_T")


class Chosen(NamedTuple):
    """What one fault is to be: which kind, whom it hurts, and its arguments."""

    kind: str
    target: str
    args: Mapping[str, Any]


def at_least(low: int) -> Callable[[object], int]:
    """Setting type: a duration of at least `low` ns."""

    def convert(value: object) -> int:
        if (ns := duration(value)) < low:
            raise ValueError(f"{value!r} is too short: at least {format_duration(low)}")
        return ns

    return convert


def timing(*, every: str, for_: str, start: str = "5s") -> tuple[Setting, ...]:
    """The settings that every nemesis has, with the defaults that suit it."""
    return (
        Setting("every", at_least(100 * _MS), every, "from the beginning of one fault to that of the next"),
        Setting("for", at_least(_MS), for_, "how long a fault is in force"),
        Setting("start", at_least(0), start, "how long the work goes on undisturbed at first"),
        Setting("jitter", at_least(0), "3s", "each fault begins up to this much later, at random"),
        Setting("quiet", at_least(0), "5s", "how long before the work ends all faults are over"),
        Setting("trigger", choice(*TRIGGERS), "none", "begin not by time alone, but the next time that this happens"),
        Setting("delay", at_least(0), "0s", "how long after the trigger a fault begins"),
    )


def series(
    name: str, options: Mapping[str, Any], span: int, random: Random, choose: Callable[[Random], Chosen]
) -> list[Fault]:
    """Faults from `start` on, one `every` so often, as many as are over `quiet` ns before `span` is.

    With a trigger, a fault waits for it from its time on; if that comes too late, the end of the work cuts it short.
    """
    trigger = None if options["trigger"] == "none" else options["trigger"]
    delay = options["delay"] if trigger else 0
    latest = span - options["quiet"] - options["for"] - delay
    faults = []
    for number, earliest in enumerate(range(options["start"], latest + 1, options["every"]), 1):
        begin = earliest + random.randint(0, min(options["jitter"], latest - earliest))
        chosen = choose(random)
        faults.append(
            Fault(
                id=f"{name}-{number}",
                nemesis=name,
                kind=chosen.kind,
                at=delay if trigger else begin,
                duration=options["for"],
                target=chosen.target,
                trigger=trigger,
                after=begin if trigger else 0,
                draw=random.getrandbits(32),
                args=chosen.args,
            )
        )
    return faults


def deck(items: Sequence[_T], random: Random) -> Iterator[_T]:
    """The items for ever in random order, each of them once before any comes again: so that a short run meets many."""
    while True:
        yield from random.sample(items, len(items))
