"""`splitbrain suite`: many scenarios, many seeds, and whether all came out as expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
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
from chaos.scenario import SIMULATED
from chaos.scenario import plan as plan_faults
from chaos.search.spread import cores
from chaos.search.suite_plan import Work
from chaos.search.suite_plan import plan as plan_of
from chaos.search.suites import EVERY, NOTHING, UNEXPECTED, Done, Tried, conduct, line, part_of_suite
from chaos.suite import Suite
from results import suite_runs
from results.store import LATEST, Store
from results.suite_judged import shown
from results.suite_runs import Plan, Recorder
from results.text import plural, printable
from results.versions import unlike, versions

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
    help=f"Which simulated runs are kept in the store; as a rule {EVERY}.",
)
@click.option("--suite-run", "id_", metavar="ID", default="", help="What this run of the suite is to be called.")
@click.option("--resume", metavar="[ID]", is_flag=False, flag_value=LATEST, help="Go on with one that was interrupted.")
@click.option("--dry-run", is_flag=True, help="Only print what would be run, and how long it works.")
@options.store
@options.as_json
def command(
    file: Path,
    rows: tuple[str, ...],
    seeds: int | None,
    jobs: int | None,
    keep: str | None,
    id_: str,
    resume: str | None,
    dry_run: bool,
    store: Store,
    as_json: bool,
) -> int:
    """Run the scenarios in FILE with their seeds, and say whether all came out as expected.

    Exit code 0 if they did, 1 if one did not. docs/suites.md has the format.
    """
    suite = suites.load(file, seeds).only(rows)
    if resume is not None:
        told = {"--row": rows, "--seeds": seeds, "--keep": keep, "--suite-run": id_, "--dry-run": dry_run}
        return again(suite, resume, told, jobs, store, as_json)
    if dry_run:
        _refuse(suite)
        _tell(suite, as_json)
        return EXIT_VALID
    return run(suite, plan_of(suite, file, id_=id_, keep=keep or EVERY), jobs, store, as_json)


def again(suite: Suite, name: str, told: Mapping[str, object], jobs: int | None, store: Store, as_json: bool) -> int:
    """Go on with a run of the suite that was interrupted, as it began. Raises BadInput where that cannot be."""
    for option, value in told.items():
        if value:
            raise BadInput(f"--resume: it goes on as it began: leave {option} out")
    found = suite_runs.find(store.path, name, suite.name)
    if not found.missing:
        raise BadInput(f"--resume: {found.id} was not interrupted: nothing of it is missing")
    (part,) = found.parts
    others = unlike({**versions(), "splitbrain": part.plan.splitbrain, "commit": part.plan.commit}, versions())
    if others:
        raise BadInput(f"--resume: {found.id} began with {', '.join(others)}: leave --resume out to begin anew")
    return run(suite, part.plan, jobs, store, as_json, part)


def run(
    suite: Suite, plan: Plan, jobs: int | None, store: Store, as_json: bool, part: suite_runs.Part | None = None
) -> int:
    """Run what is planned of a suite, or what is left of that `part`, and tell what came of each row; the exit code."""
    _refuse(suite)
    with ExitStack() as until:
        recorder = None
        if part is not None:
            recorder = until.enter_context(suite_runs.resume(part))
        elif plan.keep != NOTHING:
            recorder = until.enter_context(suite_runs.begin(store.path, plan))
        code = _run(suite, plan if recorder is None else recorder.plan, jobs, store, as_json, recorder, part)
        if recorder is not None:
            recorder.finish()
        return code


def _run(
    suite: Suite,
    plan: Plan,
    jobs: int | None,
    store: Store,
    as_json: bool,
    recorder: Recorder | None,
    part: suite_runs.Part | None,
) -> int:
    before = {} if part is None else suite_runs.merged([part]).last
    total = sum(map(plan.mine, plan.planned()))
    told: list[Done] = []
    console = out()
    with _progress(total, len(before)) as tick:

        def ran(work: Work, tried: Tried) -> None:
            if recorder is not None:
                recorder.add(line(work, tried))
            tick(work.key[0])

        def really(work: Work, attempt: int) -> tuple[Seen, str | None]:
            return _really(work, attempt, store)

        for done in conduct(suite, plan, store=store.path, jobs=jobs or cores(), really=really, ran=ran, before=before):
            told.append(done)
            if not as_json:
                _print(console, done)
    met = sum(done.judgement.met for done in told)
    if as_json:
        print_json(
            {
                "suite": suite.name,
                "suite_run": plan.id if recorder is not None else None,
                "valid": met == len(told),
                "runs": total,
                "rows": [_json(done) for done in told],
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
        cluster = case.scenario.cluster
        work = format_duration(case.scenario.workload.time_ns)
        seeds = plural(len(row.seeds), "seed")
        click.echo(f"{case.cell}  {cluster.nodes} nodes, {cluster.on}, {work}, {seeds}, expected: {row.expect.says()}")
    runs = sum(len(row.seeds) for row, _ in every)
    working = sum(
        len(row.seeds) * case.scenario.workload.time_ns for row, case in every if case.scenario.cluster.on != SIMULATED
    )
    minutes = round(working / MINUTE)
    really = f", which work for {plural(minutes, 'minute')} on real nodes, one after the other" if working else ""
    click.echo(f"{plural(runs, 'run')}{really}")


def _really(work: Work, attempt: int, store: Store) -> tuple[Seen, str | None]:
    """A run on real machines. One that cannot be carried out shows nothing, and the suite goes on."""
    scenario = work.scenario
    planned = plan_faults(scenario)
    directory = begin(store, scenario, planned, part_of_suite(work, attempt))
    try:
        verdict = perform(directory, scenario, planned, keep=False)
    except SplitbrainError as error:
        return Seen(scenario.seed, Verdict.UNKNOWN, why=str(error)), directory.id
    if verdict is None or len(directory.history().rows("interrupt")):
        raise KeyboardInterrupt
    results = {name: Result.from_json(name, result) for name, result in verdict["checkers"].items()}
    return seen(scenario.seed, results, work.expect.measure), directory.id


def _print(console: Console, done: Done) -> None:
    """A case: whether it is met, what was expected, what was seen, and a few of the seeds that did otherwise."""
    row, judgement = done.row, done.judgement
    glyph, colour = ("✓", "green") if judgement.met else ("✗", "red")
    console.print(
        Text.assemble(
            (glyph, f"bold {colour}"),
            f" {done.case.cell}",
            (f"  {row.expect.says()}", "bright_black"),
            f": {judgement.observed}",
        )
    )
    if judgement.met:
        return
    if row.claim:
        said_by = f" ({row.said_by})" if row.said_by else ""
        console.print(Text(f"    {row.claim}{said_by}; {row.place}", "bright_black"))
    missed = [one for one in done.lines if shown(one) in judgement.missed]
    for one in missed[:MISSED_SHOWN]:
        what = ", ".join(one.anomalies) or one.verdict
        console.print(
            Text(
                f"    seed {one.seed}: {what}{f'; {printable(one.why)}' if one.why else ''}"
                f"{f'  {one.run}' if one.run else ''}"
            )
        )
    if len(missed) > MISSED_SHOWN:
        console.print(Text(f"    and {len(missed) - MISSED_SHOWN} more"))


def _json(done: Done) -> dict[str, Any]:
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
                "valid": Verdict(one.verdict).to_json(),
                "anomalies": list(one.anomalies),
                "measured": one.measured,
                "versus": one.versus,
                "why": one.why,
                "run": one.run,
            }
            for one in done.lines
        ],
    }


@contextmanager
def _progress(total: int, done: int) -> Iterator[Any]:
    """Counts runs, on a terminal only."""
    console = Console(stderr=True)
    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=total, completed=done)
        yield lambda name: shown.update(task, advance=1, description=name)
