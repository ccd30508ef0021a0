"""What `splitbrain run --dry-run` prints: the scenario with every value, and the faults that its seed gives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from chaos.cli.output import columns, print_json
from chaos.model.schedule import Fault, Schedule
from chaos.scenario import Scenario
from results.text import plural

_TIMES = ("offset", "strobe")  # arguments of faults that are ns


def show(scenario: Scenario, schedule: Schedule, as_json: bool) -> None:
    """Print what would be run."""
    if as_json:
        print_json({"scenario": scenario.dumps(), "schedule": json.loads(schedule.dumps())})
        return
    click.echo(scenario.dumps())
    number = len(schedule.faults)
    click.echo(f"# {plural(number, 'fault')}, counted from the beginning of the work{':' if number else ''}")
    columns([row(fault) for fault in schedule.faults], indent="#   ")


def row(fault: Fault) -> tuple[str, str, str, str]:
    """A fault in four columns: its id, when, for how long, and what to whom."""
    what = fault.nemesis if fault.kind == fault.nemesis else f"{fault.nemesis} {fault.kind}"
    told = "".join(f", {word}" for word in _told(fault.args))
    return fault.id, when(fault), f"for {seconds(fault.duration)}", f"{what}: {fault.target}{told}"


def when(fault: Fault) -> str:
    """When a fault begins: "at 7.0 s", or after what."""
    if fault.trigger is None:
        return f"at {seconds(fault.at)}"
    later = f"{seconds(fault.at)} after" if fault.at else "at"
    return f"{later} the first {fault.trigger} from {seconds(fault.after)} on"


def seconds(ns: int) -> str:
    """7.0 s: to the tenth, or as finely as a shorter time needs."""
    return f"{ns / 1e9:.1f} s" if ns % 10**8 == 0 or abs(ns) >= 10**9 else f"{ns / 1e9:.3g} s"


def _told(args: Mapping[str, Any]) -> Iterator[str]:
    """Arguments that say something, as a person would."""
    for name, value in args.items():
        if name in _TIMES and value:
            yield f"{name} {seconds(value)}"
        elif value is True:
            yield name
        elif value and not (name == "rate" and value == 1.0):
            yield f"{name} {value}"
