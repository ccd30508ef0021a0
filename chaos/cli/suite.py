"""`splitbrain suite`: many scenarios, many seeds, and whether all came out as expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from chaos import suite as suites
from chaos.cli import options
from chaos.cli.output import out, print_json
from chaos.cli.run import begin, perform
from chaos.controller import refuse
from chaos.expectation import Seen, seen
from chaos.kernel.clock import SECOND
from chaos.model.errors import EXIT_INVALID, EXIT_VALID, BadInput, SplitbrainError
from chaos.model.settings import BadKey, format_duration
from chaos.model.verdict import Result, Verdict
from chaos.scenario import SIMULATED, Scenario, plan
from chaos.search.spread import cores
from chaos.search.suites import EVERY, NOTHING, UNEXPECTED, Done, Work, conduct
from chaos.suite import Suite
from results.store import Store
from results.text import plural, printable

MISSED_SHOWN = 3
MINUTE = 60 * SECOND


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--row", "rows", metavar="NAME", multiple=True, help="Only rows whose names begin so. Repeatable.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="So many seeds of each row, whatever it says.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Simulated runs at a time; as a rule one a core.")
@click.option(
    "--keep",
    type=click.Choice([EVERY, UNEXPECTED, NOTHING]),
    default=EVERY,
    show_default=True,
    help="Which simulated runs are kept in the store.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be run, and how long it works.")
@options.store
@options.as_json
def command(
    file: Path,
    rows: tuple[str, ...],
    seeds: int | None,
    jobs: int | None,
    keep: str,
    dry_run: bool,
    store: Store,
    as_json: bool,
) -> int:
    """Run the scenarios in FILE with their seeds, and say whether all came out as expected.

    Exit code 0 if they did, 1 if one did not. docs/suites.md has the format.
    """
    suite = suites.load(file, seeds).only(rows)
    if dry_run:
        _refuse(suite)
        _tell(suite, as_json)
        return EXIT_VALID
    return run(suite, jobs, keep, store, as_json)


def run(suite: Suite, jobs: int | None, keep: str, store: Store, as_json: bool) -> int:
    """Run a suite and tell what came of each row; the exit code."""
    _refuse(suite)

    def really(scenario: Scenario) -> tuple[Seen, str | None]:
        return _really(scenario, store, measures.get(scenario.name))

    measures = {row.name: row.expect.measure for row in suite.rows}
    total = sum(len(row.cases) * len(row.seeds) for row in suite.rows)
    told: list[Done] = []
    kept: dict[tuple[str, int], str] = {}
    console = out()
    with _progress(total) as tick:

        def ran(work: Work, what: Seen, id_: str | None) -> None:
            if id_ is not None:
                kept[suite.rows[work.row].name, what.seed] = id_
            tick(suite.rows[work.row].name)

        for done in conduct(suite, store=store.path, kept=keep, jobs=jobs or cores(), really=really, ran=ran):
            told.append(done)
            if not as_json:
                _print(console, done, kept)
    met = sum(done.judgement.met for done in told)
    if as_json:
        print_json(
            {
                "suite": suite.name,
                "valid": met == len(told),
                "runs": total,
                "rows": [_json(done, kept) for done in told],
            }
        )
    else:
        word, colour = ("as expected", "green") if met == len(told) else ("NOT as expected", "red")
        rest = f"{met} of {len(told)} as expected" if met < len(told) else f"{len(told)} of {len(told)}"
        console.print(Text.assemble((word, f"bold {colour}"), f": {rest}, {total:,} runs"))
    return EXIT_VALID if met == len(told) else EXIT_INVALID


def _refuse(suite: Suite) -> None:
    """Raises BadInput for a row that cannot be run."""
    for row in suite.rows:
        for case in row.cases:
            try:
                refuse(case.scenario)
            except (BadKey, BadInput) as error:
                raise BadInput(f"{row.place}: {row.name}: {error}") from None


def _tell(suite: Suite, as_json: bool) -> None:
    """What would be run: a line a case, and how long all of them work."""
    every = [(row, case) for row in suite.rows for case in row.cases]
    if as_json:
        rows = [
            {
                "name": row.name,
                "case": case.label,
                "seeds": [row.seeds.start, row.seeds.stop - 1],
                "expected": row.expect.says(),
                "scenario": case.scenario.dumps(),
            }
            for row, case in every
        ]
        print_json({"suite": suite.name, "runs": sum(len(row.seeds) for row, _ in every), "rows": rows})
        return
    for row, case in every:
        name = row.name + (f" [{case.label}]" if case.label else "")
        cluster = case.scenario.cluster
        work = format_duration(case.scenario.workload.time_ns)
        seeds = plural(len(row.seeds), "seed")
        click.echo(f"{name}  {cluster.nodes} nodes, {cluster.on}, {work}, {seeds}, expected: {row.expect.says()}")
    runs = sum(len(row.seeds) for row, _ in every)
    working = sum(
        len(row.seeds) * case.scenario.workload.time_ns for row, case in every if case.scenario.cluster.on != SIMULATED
    )
    minutes = round(working / MINUTE)
    really = f", which work for {plural(minutes, 'minute')} on real nodes, one after the other" if working else ""
    click.echo(f"{plural(runs, 'run')}{really}")


def _really(scenario: Scenario, store: Store, measure: str | None) -> tuple[Seen, str | None]:
    """A run on real machines. One that cannot be carried out shows nothing, and the suite goes on."""
    planned = plan(scenario)
    directory = begin(store, scenario, planned)
    try:
        verdict = perform(directory, scenario, planned, keep=False)
    except SplitbrainError as error:
        return Seen(scenario.seed, Verdict.UNKNOWN, why=str(error)), directory.id
    if verdict is None or len(directory.history().rows("interrupt")):
        raise KeyboardInterrupt
    results = {name: Result.from_json(name, result) for name, result in verdict["checkers"].items()}
    return seen(scenario.seed, results, measure), directory.id


def _print(console: Console, done: Done, kept: dict[tuple[str, int], str]) -> None:
    """A case: whether it is met, what was expected, what was seen, and a few of the seeds that did otherwise."""
    row, judgement = done.row, done.judgement
    glyph, colour = ("✓", "green") if judgement.met else ("✗", "red")
    name = row.name + (f" [{done.case.label}]" if done.case.label else "")
    console.print(
        Text.assemble(
            (glyph, f"bold {colour}"), f" {name}", (f"  {row.expect.says()}", "bright_black"), f": {judgement.observed}"
        )
    )
    if judgement.met:
        return
    if row.claim:
        said_by = f" ({row.said_by})" if row.said_by else ""
        console.print(Text(f"    {row.claim}{said_by}; {row.place}", "bright_black"))
    for one in judgement.missed[:MISSED_SHOWN]:
        what = ", ".join(one.anomalies) or str(one.verdict)
        run = kept.get((row.name, one.seed))
        console.print(
            Text(
                f"    seed {one.seed}: {what}{f'; {printable(one.why)}' if one.why else ''}{f'  {run}' if run else ''}"
            )
        )
    if len(judgement.missed) > MISSED_SHOWN:
        console.print(Text(f"    and {len(judgement.missed) - MISSED_SHOWN} more"))


def _json(done: Done, kept: dict[tuple[str, int], str]) -> dict[str, Any]:
    row = done.row
    return {
        "name": row.name,
        "case": done.case.label,
        "claim": row.claim,
        "said_by": row.said_by,
        "expected": row.expect.says(),
        "observed": done.judgement.observed,
        "met": done.judgement.met,
        "seeds": [
            {
                "seed": one.seed,
                "valid": one.verdict.to_json(),
                "anomalies": list(one.anomalies),
                "measured": one.measured,
                "versus": one.versus,
                "why": one.why,
                "run": kept.get((row.name, one.seed)),
            }
            for one in done.seen
        ],
    }


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """Counts runs, on a terminal only."""
    console = Console(stderr=True)
    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=total)
        yield lambda name: shown.update(task, advance=1, description=name)
