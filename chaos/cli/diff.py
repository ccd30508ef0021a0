"""`splitbrain diff`: two runs side by side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click
from rich.text import Text

from chaos.cli import options
from chaos.cli.dry_run import row
from chaos.cli.output import GLYPHS, columns, out, print_json
from chaos.model.verdict import ANOMALIES_KEPT
from results.diff import Diff, Pair, diff
from results.store import Store
from results.text import count, length, plural, printable
from results.versions import short

SHOWN = 10  # of the rows of a part; --json has all


@click.command
@click.argument("one", metavar="RUN")
@click.argument("other", metavar="RUN")
@options.store
@options.as_json
def command(one: str, other: str, store: Store, as_json: bool) -> int:
    """Show how two runs differ.

    Settings, versions, faults, what each checker says, anomalies, times; and of simulated runs with the same seed the
    first op at which their histories part. RUN is an id, a unique prefix, `latest` or `last-invalid`. Only what
    differs is shown, as A > B.
    """
    found = diff(store.find(one), store.find(other))
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)
    return 0


def _print(found: Diff) -> None:
    for letter, run, record, valid in zip("AB", found.runs, found.records, found.valid, strict=True):
        glyph, word, colour = _glyph(valid)
        where = f"{record.get('name')}, {record.get('broker')} {record.get('on')}, seed {record.get('seed')}"
        out().print(Text.assemble(f"{letter}  ", (f"{glyph} {word.lower()}", colour), f"  {run}  {printable(where)}"))
    _part("settings", _pairs(found.settings))
    _part("versions", _pairs(found.versions))
    _part(f"faults, of {found.planned[0]} and {found.planned[1]}", _faults(found))
    _print_checkers(found)
    _print_anomalies(found)
    _part("measured", [(name, _measured(name, pair)) for name, pair in found.figures.items()], "nothing")
    _print_parting(found)


def _part(head: str, rows: Iterable[tuple[str, ...]], otherwise: str = "the same") -> None:
    """A part of the page; what is said where it has no rows."""
    kept = list(rows)
    out().print(Text.assemble((head, "bold"), "" if kept else f": {otherwise}"))
    columns(kept[:SHOWN])
    if len(kept) > SHOWN:
        click.echo(f"  and {len(kept) - SHOWN} more")


def _pairs(pairs: Mapping[str, Pair]) -> list[tuple[str, str]]:
    return [(name, f"{_value(pair[0])} > {_value(pair[1])}") for name, pair in pairs.items()]


def _value(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, int) and not isinstance(value, bool):
        return count(value)
    return short(value) if isinstance(value, str) else json.dumps(value)


def _faults(found: Diff) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one, other in found.faults.values():
        rows += [(letter, *row(fault)) for letter, fault in (("A", one), ("B", other)) if fault is not None]
    return rows


def _print_checkers(found: Diff) -> None:
    console = out()
    console.print(Text.assemble(("checkers", "bold"), "" if found.checkers else ": the same"))
    for name, checked in found.checkers.items():
        sides = list(zip("AB", checked.valid, checked.reason, strict=True))
        if sides[0][1:] == sides[1][1:]:
            sides = [(" ", *sides[0][1:])]
        for letter, valid, reason in sides:
            glyph, _, colour = _glyph(valid)
            said = printable(reason) if reason is not None else "not asked"
            console.print(Text.assemble(f"  {letter}  ", (glyph, f"bold {colour}"), f" {name}: {said}"))
        counts = ", ".join(f"{what} {_value(one)} > {_value(other)}" for what, (one, other) in checked.counts.items())
        if counts:
            console.print(Text(f"       {counts}", "bright_black"))


def _print_anomalies(found: Diff) -> None:
    _part("anomalies", [(kind, f"{count(one)} > {count(other)}") for kind, (one, other) in found.anomalies.items()])
    for letter, side in zip("AB", found.only, strict=True):
        kinds: dict[str, list[str]] = {}
        for kind, message in side:
            kinds.setdefault(kind, []).append(message)
        for kind, messages in kinds.items():
            more = "" if len(messages) == 1 else f" (and {count(len(messages) - 1)} more"
            cut = ", of those kept" if len(messages) >= ANOMALIES_KEPT else ""
            out().print(Text(f"  only {letter}: {kind}: {printable(messages[0])}{more + cut + ')' if more else ''}"))


def _measured(name: str, pair: Pair) -> str:
    def told(value: Any) -> str:
        if value is None:
            return "unknown"
        return f"{value:,.1f}" if name == "confirms a second" else length(int(value))

    one, other = map(told, pair)
    return one if one == other else f"{one} > {other}"


def _print_parting(found: Diff) -> None:
    console = out()
    if found.parting is None:
        console.print(Text.assemble(("histories", "bold"), f" not compared: {printable(found.unparted or '')}"))
    elif found.parting.row is None:
        console.print(Text.assemble(("histories", "bold"), ": the same, to the byte"))
    else:
        console.print(Text.assemble(("histories", "bold"), f" part after {plural(found.parting.row, 'op')} in common"))
        for op in found.parting.common:
            console.print(Text(f"     {printable(str(op))}", "bright_black"))
        for letter, ops in zip("AB", found.parting.ops, strict=True):
            for op in ops:
                console.print(Text(f"  {letter}  {printable(f'{op}  {op.detail}' if op.detail else str(op))}"))
            if not ops:
                console.print(f"  {letter}  ends here")


def _glyph(valid: Any) -> tuple[str, str, str]:
    return GLYPHS.get(valid, ("·", "NO VERDICT", "bright_black"))
