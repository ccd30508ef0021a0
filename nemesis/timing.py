"""When faults come: again and again with some chance in it, or after something has happened in the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple, TypeVar

from chaos.model.schedule import Fault
from chaos.model.settings import BadKey, Setting, choice, duration, format_duration, optional, text

LEADER_CHANGE = "leader-change"
SYNC_START, SYNC_END, LOG_LINE = "sync-start", "sync-end", "log-line"
TRIGGERS = ("none", LEADER_CHANGE, SYNC_START, SYNC_END, LOG_LINE)
TIMES = ("every", "for", "start", "jitter", "quiet", "trigger", "line", "delay")

MINUTE = 60_000_000_000
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


def pattern(value: object) -> str:
    """Setting type: a regular expression."""
    try:
        re.compile(said := text(value))
    except re.error as error:
        raise ValueError(f"{value!r} is not a regular expression: {error}") from None
    return said


def timing(*, every: str, for_: str, start: str = "5s") -> tuple[Setting, ...]:
    """The settings that every nemesis has, with the defaults that suit it in a minute of work or more."""
    return (
        _scaled("every", 100 * _MS, every, "from the beginning of one fault to that of the next"),
        _scaled("for", _MS, for_, "how long a fault is in force"),
        _scaled("start", 0, start, "how long the work goes on undisturbed at first"),
        _scaled("jitter", 0, "3s", "each fault begins up to this much later, at random"),
        _scaled("quiet", 0, "5s", "how long before the work ends all faults are over"),
        Setting("trigger", choice(*TRIGGERS), "none", "begin not by time alone, but the next time that this happens"),
        Setting("line", optional(pattern), None, "log-line: the regular expression that a line of a log matches"),
        Setting("delay", at_least(0), "0s", "how long after the trigger a fault begins"),
    )


def _scaled(name: str, least: int, default: str, meaning: str) -> Setting:
    return Setting(name, at_least(least), default, meaning, scaled=True)


def within(settings: Sequence[Setting], span: int) -> tuple[Setting, ...]:
    """The settings with the defaults that suit `span` ns of work: in less than a minute, times that are meant for one
    shrink in proportion, so that short work meets faults too."""
    if span >= MINUTE:
        return tuple(settings)
    return tuple(replace(one, default=_shrunk(one, span)) if one.scaled else one for one in settings)


def _shrunk(setting: Setting, span: int) -> Any:
    """The default in proportion, rounded down as a person would; as it is where it cannot be that short."""
    ns = setting.convert(setting.default) * span // MINUTE
    step = next((step for step in (100 * _MS, 10 * _MS) if ns >= 10 * step), _MS)
    try:
        return setting.convert(ns // step * step)
    except ValueError:
        return setting.default


def needed(options: Mapping[str, Any]) -> str:
    """What one fault takes, for people: "start 12s + for 4s + quiet 5s = 21s"."""
    names = ["start", *(["delay"] if options["trigger"] != "none" else []), "for", "quiet"]
    parts = " + ".join(f"{name} {format_duration(options[name])}" for name in names)
    return f"{parts} = {format_duration(sum(int(options[name]) for name in names))}"


def series(
    name: str, options: Mapping[str, Any], span: int, random: Random, choose: Callable[[Random], Chosen]
) -> list[Fault]:
    """Faults from `start` on, one `every` so often, as many as are over `quiet` ns before `span` is.

    With a trigger, a fault waits for it from its time on; if that comes too late, the end of the work cuts it short.
    """
    trigger = None if options["trigger"] == "none" else options["trigger"]
    delay = options["delay"] if trigger else 0
    line = options.get("line")
    if (trigger == LOG_LINE) != (line is not None):
        raise BadKey("line", f"with trigger = {LOG_LINE!r}, and only with that, it says which line is waited for")
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
                duration=int(options["for"]),
                target=chosen.target,
                trigger=trigger,
                after=begin if trigger else 0,
                line=line,
                draw=random.getrandbits(32),
                args=chosen.args,
            )
        )
    return faults


def deck(items: Sequence[_T], random: Random) -> Iterator[_T]:
    """The items for ever in random order, each of them once before any comes again: so that a short run meets many."""
    while True:
        yield from random.sample(items, len(items))
