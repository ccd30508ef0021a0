"""`splitbrain prune`: keep a store within an age and a size."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from chaos.cli import options
from chaos.cli.output import columns, print_json
from chaos.model.errors import BadInput
from chaos.model.settings import parse_duration, size
from results.store import DEFAULT
from results.tables.manifest import FOLDER, Tables
from results.text import plural


@click.command
@click.argument("store", envvar="SPLITBRAIN_STORE", default=DEFAULT, type=click.Path(path_type=Path))
@click.option("--older", metavar="AGE", help="Runs older than this go: 30d, 12h.")
@click.option("--larger", metavar="SIZE", help="The oldest runs go until the others are no larger than this: 20GB.")
@click.option("--yes", is_flag=True, help="Remove them; otherwise it is only told which they are.")
@options.tables
@options.as_json
def command(store: Path, older: str | None, larger: str | None, yes: bool, tables: str | None, as_json: bool) -> int:
    """Remove old runs from a STORE, and their rows from its tables. Without --yes, only say which.

    A suite's run goes as a whole, when the newest of its runs is old enough; what is going on stays. Sizes are those of
    the folders of runs.
    """
    from results.tables import prune

    if older is None and larger is None:
        raise click.UsageError("say what goes: --older 30d, --larger 20GB, or both")
    limit = None if older is None else _age(older)
    try:
        most = None if larger is None else size(larger)
    except ValueError as error:
        raise BadInput(f"--larger: {error}") from None
    place = Tables(tables or f"{store}/{FOLDER}")
    found = prune.groups(store, place)
    gone = prune.choose(found, datetime.now(UTC), limit, most)
    if yes and gone:
        prune.remove(gone, place)
    stays = sum(one.size for one in found) - sum(one.size for one in gone)
    if as_json:
        told = [{"name": one.name, "suite": one.suite, "runs": one.runs, "size": one.size} for one in gone]
        print_json({"removed": yes, "gone": told, "stays": stays})
        return 0
    what = [(f"{one.newest:%Y-%m-%d}", _bytes(one.size), plural(len(one.runs), "run"), one.name) for one in gone]
    columns(what)
    runs = sum(len(one.runs) for one in gone)
    if not gone:
        click.echo(f"nothing to remove: {_bytes(stays)} in {plural(sum(len(one.runs) for one in found), 'run')}")
    else:
        total = f"{plural(runs, 'run')}, {_bytes(sum(one.size for one in gone))}; {_bytes(stays)} stay"
        click.echo(f"removed {total}" if yes else f"would remove {total}; --yes removes them")
    return 0


def _age(text: str) -> timedelta:
    days = re.fullmatch(r"(\d+)\s*d", text.strip())
    try:
        age = timedelta(days=int(days[1])) if days else timedelta(microseconds=parse_duration(text) // 1000)
    except (ValueError, OverflowError):
        raise BadInput(f'--older {text}: not an age: write a number with a unit, such as "30d" or "12h"') from None
    if age < timedelta(0):
        raise BadInput(f"--older {text}: an age is not below zero")
    return age


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"
