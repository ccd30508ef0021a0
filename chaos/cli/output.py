"""How verdicts look on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from chaos.model.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from results.store import dumps
from results.text import count, printable

GLYPHS: Mapping[object, tuple[str, str, str]] = {
    True: ("✓", "VALID", "green"),
    False: ("✗", "INVALID", "red"),
    "unknown": ("?", "UNKNOWN", "yellow"),
    "not applicable": ("–", "NOT APPLICABLE", "bright_black"),
}


def exit_code(valid: object) -> int:
    """Jepsen's exit code for a run's `valid`."""
    return {True: EXIT_VALID, False: EXIT_INVALID}.get(valid, EXIT_UNKNOWN) if isinstance(valid, bool) else EXIT_UNKNOWN


def print_json(data: Mapping[str, Any]) -> None:
    """One object on stdout."""
    click.echo(dumps(data))


def out() -> Console:
    """The terminal on stdout; lines are never wrapped, so that they can be searched."""
    return Console(soft_wrap=True, highlight=False, emoji=False)


def print_verdict(summary: Mapping[str, Any], *, anomalies: int = 2) -> None:
    """A verdict, its checkers with their reasons, and a few anomalies of each: one of each kind, up to `anomalies`."""
    console = out()
    glyph, word, colour = GLYPHS[summary["valid"]]
    head = Text.assemble((f"{glyph} {word}", f"bold {colour}"), "  ", printable(summary.get("run") or ""))
    if summary.get("seed") is not None:
        head.append(f"  seed {summary['seed']}", "bright_black")
    if summary.get("digest"):
        head.append(f"  digest {summary['digest']}", "bright_black")
    console.print(head)
    if summary.get("problem"):
        console.print(Text(f"  {printable(summary['problem'])}", "yellow"))
    if summary.get("cut"):
        console.print(Text(f"  the history was cut off: {printable(summary['cut'])}", "yellow"))
    width = max((len(name) for name in summary["checkers"]), default=0)
    for name, result in summary["checkers"].items():
        print_checker(console, name, result, width, anomalies)


def print_checker(console: Console, name: str, result: Mapping[str, Any], width: int, anomalies: int) -> None:
    """One checker's line, and below it what it found."""
    glyph, _, colour = GLYPHS[result["valid"]]
    dim = "bright_black" if result["valid"] == "not applicable" else ""
    console.print(
        Text.assemble("  ", (glyph, f"bold {colour}"), f" {name:{width}}  ", (printable(result["reason"]), dim))
    )
    shown = select(result["anomalies"], anomalies)
    for anomaly in shown:
        kind = Text(f"      {name}.{anomaly['kind']}", colour)
        ops = ", ".join(f"#{op}" for op in anomaly["ops"][:6])
        console.print(kind, Text(f" {printable(anomaly['message'])}"), Text(f"  {ops}", "bright_black"), sep="")
    left = found(result) - len(shown)
    if shown and left > 0:
        console.print(Text(f"      and {count(left)} more", "bright_black"))


def select(anomalies: Sequence[Mapping[str, Any]], number: int) -> list[Mapping[str, Any]]:
    """The first of each kind, however many kinds there are, then the next ones until there are `number`."""
    kinds: dict[str, Mapping[str, Any]] = {}
    for anomaly in anomalies:
        kinds.setdefault(anomaly["kind"], anomaly)
    firsts = list(kinds.values())
    others = [anomaly for anomaly in anomalies if anomaly not in firsts]
    return firsts + others[: max(0, number - len(firsts))]


def found(result: Mapping[str, Any]) -> int:
    """How many anomalies a checker found: by its counts, since only some of each kind are kept."""
    kept = Counter(anomaly["kind"] for anomaly in result["anomalies"])
    return sum(max(number, result["counts"].get(kind, 0)) for kind, number in kept.items())


def columns(rows: Iterable[Sequence[str]], indent: str = "  ") -> None:
    """Rows in columns as wide as they need; the last one runs on."""
    kept = [tuple(printable(cell) for cell in row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*kept, strict=True)] if kept else []
    for row in kept:
        cells = [f"{cell:{width}}" for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        click.echo((indent + "  ".join([*cells, row[-1]])).rstrip())
