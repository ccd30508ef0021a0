"""`splitbrain trends`: how scenarios fare from night to night."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from chaos.cli import options
from chaos.cli.output import GLYPHS, out, print_json
from chaos.model.errors import BadInput
from chaos.model.verdict import Verdict
from results.suite_runs import suite_runs
from results.tables.export import whole
from results.tables.load import load
from results.text import brief, length, plural, printable, share
from results.trends import Night, Times, Trend, Trends, trends
from results.trends_page import draw
from results.versions import short

SHOWN = 7  # nights of each on a terminal; --html and --json have all
HEADS = ("night", "runs", "valid", "95 %", "lost", "dup", "recovery", "fail-over")
_AGO = re.compile(r"(\d{1,5})([dwh])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}


def begin(text: str, now: datetime) -> datetime:
    """From when on: the day, in UTC, of a time ago ("30d", "2w", "12h"), or a date. Raises BadInput."""
    match = _AGO.fullmatch(text.strip())
    try:
        if match is not None:
            moment = now.astimezone(UTC) - timedelta(hours=int(match[1]) * _HOURS[match[2]])
        else:
            moment = datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"--since {text}: write how long ago, such as 30d, 2w or 12h, or a date: 2026-11-21") from None
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


@click.command
@click.option("--scenario", "scenarios", metavar="NAME", multiple=True, help='Only these: a name, or "queue-*".')
@click.option("--broker", "brokers", metavar="NAME[@VERSION]", multiple=True, help="Only on these.")
@click.option("--since", metavar="TIME", default="30d", show_default=True, help="How far back: 30d, 2w, or a date.")
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Also write a page.")
@options.anywhere
@options.tables
@options.as_json
def command(
    scenarios: tuple[str, ...],
    brokers: tuple[str, ...],
    since: str,
    html: Path | None,
    store: str,
    tables: str | None,
    as_json: bool,
) -> int:
    """Show how scenarios fare from night to night, for each version of a broker.

    From the tables that `splitbrain ingest` makes: the share of valid runs with its interval, lost and duplicated
    messages, how soon the broker served again and failed over; since when something is wrong; and which runs are in no
    figure, and why. What the suites in STORE expected is taken for good: a control that fails as it is to fail.
    """
    suites = [] if "://" in store else suite_runs(Path(store))
    found = trends(load(store, tables), begin(since, datetime.now(UTC)), scenarios, brokers, suites)
    if html is not None:
        with whole(html) as file:
            file.write(draw(found).encode())
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)
        if html is not None:
            out().print(f"page: {html}", markup=False)
    return 0


def _print(found: Trends) -> None:
    console = out()
    for number, trend in enumerate(found.trends):
        if number:
            console.print()
        _print_trend(console, trend)
    if found.rejected:
        console.print()
        console.print(Text(f"{plural(len(found.rejected), 'run')} could not be read into the tables", "yellow"))
        for one in found.rejected[:SHOWN]:
            console.print(Text(f"  {printable(one.run)}: {printable(one.why)}"))
        if len(found.rejected) > SHOWN:
            console.print(f"  and {len(found.rejected) - SHOWN} more")


def _print_trend(console: Console, trend: Trend) -> None:
    glyph, _, colour = GLYPHS[trend.nights[-1].worst.to_json() if trend.nights else "not applicable"]
    head = Text.assemble((glyph, f"bold {colour}"), " ", (printable(trend.name), "bold"), f"  {trend.on}")
    console.print(head)
    if trend.total is not None:
        console.print(Text(_row(*HEADS), "bright_black"))
        hidden = len(trend.nights) - SHOWN
        if hidden > 1:
            console.print(Text(f"  and {plural(hidden, 'night')} before", "bright_black"))
        for night in trend.nights[hidden if hidden > 1 else 0 :]:
            console.print(Text(_line(night), "" if night.worst is Verdict.VALID else GLYPHS[night.worst.to_json()][2]))
        if len(trend.nights) > 1:
            console.print(Text(_line(trend.total)))
    if (trouble := trend.trouble) is not None:
        word = trouble.verdict if trouble.expected is None else "not as expected"
        since = f"{word} since {trouble.day}, {plural(trouble.nights, 'night')}"
        console.print(Text(f"  {glyph} {since}; first {trouble.run}", colour))
        before = "" if trouble.before is None else f"; before it {short(trouble.before)}"
        console.print(Text(f"    at commit {short(trouble.commit)}{before}"))
        if trouble.expected is not None:
            console.print(Text(f"    expected: {printable(trouble.expected)}"))
    for words in trend.expected:
        console.print(Text(f"  {glyph} as expected: {printable(words)}", colour))
    for why, number in Counter(one.why for one in trend.left_out).most_common():
        console.print(Text(f"  – {plural(number, 'run')} left out: {printable(why)}", "bright_black"))


def _line(night: Night) -> str:
    low, high = night.interval
    return _row(
        night.day, brief(night.runs), share(night.rate), f"{100 * low:.0f}–{100 * high:.0f}",
        "–" if night.lost is None else brief(night.lost), "–" if night.duplicated is None else brief(night.duplicated),
        _middle(night.recovery), _middle(night.failover),
    )  # fmt: skip


def _middle(times: Times | None) -> str:
    return "–" if times is None else length(times.median)


def _row(night: str, *cells: str) -> str:
    """One line of the table: 78 columns."""
    widths = (6, 6, 6, 6, 6, 11, 11)
    return f"  {night:10}" + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
