"""`splitbrain list`: the runs in the store, and what scenarios can be made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from chaos.cli import options
from chaos.cli.output import GLYPHS, columns, out, print_json
from chaos.cli.show import state
from chaos.model import registry
from chaos.model.errors import BadInput, SplitbrainError, did_you_mean
from chaos.model.settings import Setting
from results import suite_runs
from results.store import Store
from results.suite_judged import judged
from results.text import plural, printable

GROUPS = {
    "brokers": (registry.BROKERS, registry.SIMULATIONS),
    "nemeses": (registry.NEMESES,),
    "workloads": (registry.WORKLOADS,),
    "checkers": (registry.CHECKERS,),
}

SUITE_RUNS = "suite-runs"


@click.command
@click.argument("what", default="runs")
@click.argument("name", required=False)
@options.store
@options.as_json
def command(what: str, name: str | None, store: Store, as_json: bool) -> int:
    """List runs, suite-runs, brokers, nemeses, workloads or checkers.

    With NAME, only that one, with every setting it takes.
    """
    if what == "runs":
        runs = list(_runs(store))
        if as_json:
            print_json({"runs": runs})
        else:
            _print_runs(runs, store)
        return 0
    if what == SUITE_RUNS:
        _list_suite_runs(store, name, as_json)
        return 0
    if what not in GROUPS:
        raise BadInput(f"nothing to list called {what!r}; {did_you_mean(what, ['runs', SUITE_RUNS, *GROUPS])}")
    things = [thing for group in GROUPS[what] for thing in _things(group)]
    if name is not None:
        known = {thing["name"] for thing in things}
        things = [thing for thing in things if thing["name"] == name]
        if not things:
            raise BadInput(f"no {name!r} among the {what}; {did_you_mean(name, known)}")
    if as_json:
        print_json({what: things})
    else:
        _print_things(things)
    return 0


def _runs(store: Store) -> Iterator[dict[str, Any]]:
    for directory in reversed(store.runs()):
        record = directory.read_json(directory.record)
        valid = directory.read_json(directory.verdict).get("valid")
        yield {**record, "valid": valid, "state": state(directory)}


def _print_runs(runs: Sequence[dict[str, Any]], store: Store) -> None:
    if not runs:
        click.echo(f"no runs in {store.path}; make one with `splitbrain run`", err=True)
    width = max((len(run["id"]) for run in runs), default=0)
    for run in runs:
        glyph, _, colour = GLYPHS.get(run["valid"] if run["state"] != "running" else None, ("·", "", "bright_black"))
        line = printable(f" {run['id']:{width}}  {run['state']:8}  {run['name']}, {run['on']}")
        out().print(f"[{colour}]{glyph}[/]", end="")
        out().print(line, markup=False)


def _list_suite_runs(store: Store, name: str | None, as_json: bool) -> None:
    found = suite_runs.suite_runs(store.path) if name is None else [suite_runs.find(store.path, name)]
    rows = [_suite_run(one) for one in reversed(found)]
    if as_json:
        print_json({SUITE_RUNS: rows})
        return
    if not rows:
        click.echo(f"no suites' runs in {store.path}; make one with `splitbrain suite FILE`", err=True)
    columns(
        [
            (
                row["id"],
                row["state"] + (f", parts {', '.join(map(str, row['absent']))} not here" if row["absent"] else ""),
                f"{row['done']} of {plural(row['planned'], 'run')}",
                f"{row['expected']} of {plural(len(row['cells']), 'cell')} as expected",
            )
            for row in rows
        ],
        indent="",
    )
    if name is not None:
        for cell in rows[0]["cells"]:
            glyph, colour = ("✓", "green") if cell["met"] else ("✗", "red")
            out().print(f"[bold {colour}]{glyph}[/]", end=" ")
            out().print(printable(f"{cell['cell']}  {cell['expected']}: {cell['observed']}"), markup=False)


def _suite_run(run: suite_runs.SuiteRun) -> dict[str, Any]:
    cells = [
        {"cell": one.cell.cell, "expected": one.cell.expected, "observed": one.judgement.observed, "met": one.whole}
        for one in judged(run)
    ]
    return {
        "id": run.id,
        "suite": run.plan.suite,
        "created": run.created,
        "state": run.state,
        "absent": run.absent,
        "planned": sum(1 for _ in run.plan.planned()),
        "done": len(run.last),
        "expected": sum(cell["met"] is True for cell in cells),
        "cells": cells,
    }


def _things(group: str) -> Iterator[dict[str, Any]]:
    """What is registered in a group, as data; what cannot be loaded says why."""
    for name in registry.names(group):
        thing: dict[str, Any] = {"name": name}
        if group in (registry.BROKERS, registry.SIMULATIONS):
            thing["on"] = "simulated" if group == registry.SIMULATIONS else "docker"
        try:
            found = registry.find(group, name)
        except SplitbrainError as error:
            yield thing | {"error": str(error)}
            continue
        thing["meaning"] = getattr(found, "meaning", None) or (found.__doc__ or "").strip().partition("\n")[0]
        if versions := getattr(found, "versions", ()):
            thing["versions"] = list(versions)
        if checkers := getattr(found, "checkers", ()):
            thing["checkers"] = list(checkers)
        yield thing | {"settings": [_setting(setting) for setting in getattr(found, "settings", ())]}


def _setting(setting: Setting) -> dict[str, Any]:
    return {"name": setting.name, "default": setting.default, "meaning": setting.meaning}


def _print_things(things: Sequence[dict[str, Any]]) -> None:
    for number, thing in enumerate(things):
        if number:
            click.echo()
        head = [thing["name"], *([f"({thing['on']})"] if "on" in thing else [])]
        out().print(f"[bold]{head[0]}[/] {' '.join(head[1:])}".rstrip())
        if "error" in thing:
            click.echo(f"  cannot be used: {printable(thing['error'])}")
            continue
        if thing["meaning"]:
            click.echo(f"  {thing['meaning']}")
        if "versions" in thing:
            click.echo(f"  versions: {', '.join(thing['versions'])}")
        if "checkers" in thing:
            click.echo(f"  checkers: {', '.join(thing['checkers'])}")
        columns([(s["name"], _default(s["default"]), s["meaning"]) for s in thing["settings"]], indent="    ")


def _default(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
