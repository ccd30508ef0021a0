"""`splitbrain suite`: many scenarios, many seeds, and whether all came out as expected."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from chaos import suite as suites
from chaos.cli import options
from chaos.cli.output import out, print_json
from chaos.cli.run import begin, perform
from chaos.cli.suite_progress import SuiteProgress
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
from chaos.selection import select
from chaos.shipped import shipped
from chaos.suite import Suite
from results import suite_runs
from results.store import LATEST, Store
from results.suite_judged import failed, shown
from results.suite_runs import Plan, Recorder
from results.text import plural, printable
from results.versions import unlike, versions

MISSED_SHOWN = 3
MINUTE = 60 * SECOND


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--row", "rows", metavar="NAME", multiple=True, help="Only rows whose names begin so. Repeatable.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="So many seeds of each row, whatever it says.")
@click.option("--filter", "expression", metavar="EXPR", help="Only such cells: 'broker=rabbitmq* nemesis!=kill'.")
@click.option("--repeat", type=click.IntRange(1), metavar="K", help="Run each seed so often; for real nodes.")
@click.option("--retries", type=click.IntRange(0), metavar="K", help="Try what came out unknown so often again.")
@click.option("--shard", metavar="I/N", help="Only the I-th of N parts, such as 2/4; together they are the whole.")
@click.option(
    "--rerun-failed",
    metavar="[ID]",
    is_flag=False,
    flag_value=LATEST,
    help="Only what failed or is missing in an earlier run.",
)
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
    expression: str | None,
    repeat: int | None,
    retries: int | None,
    shard: str | None,
    rerun_failed: str | None,
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
    part = _shard(shard)
    file = shipped(file)
    suite = suites.load(file, seeds)
    if resume is not None:
        told = {"--row": rows, "--filter": expression, "--seeds": seeds, "--repeat": repeat, "--retries": retries,
                "--rerun-failed": rerun_failed, "--keep": keep, "--suite-run": id_, "--dry-run": dry_run}  # fmt: skip
        return again(suite, resume, part, told, jobs, store, as_json)
    before = None
    if rerun_failed is not None:
        if seeds is not None:
            raise BadInput("--rerun-failed: the seeds are those that failed: leave --seeds out")
        before = suite_runs.find(store.path, rerun_failed, suite.name)
    suite = suite.only(rows)
    if expression is not None:
        suite = select(suite, expression)
    wanted = None if before is None else failed(before)
    for cell in set(wanted or ()) - {case.cell for row in suites.load(file).rows for case in row.cases}:
        raise BadInput(f"--rerun-failed: {cell!r} failed in {rerun_failed}, and is not in {file} any more")
    plan = plan_of(
        suite, file, id_=id_, shard=part, repeat=repeat or 1, retries=retries or 0, keep=keep or EVERY,
        seeds=wanted, rerun_of=None if before is None else before.id,
    )  # fmt: skip
    if before is not None and not plan.cells:
        click.echo(f"nothing of this failed or is missing in {before.id}")
        return EXIT_VALID
    if dry_run:
        _refuse(suite)
        _tell(suite, plan, as_json)
        return EXIT_VALID
    return run(suite, plan, jobs, store, as_json)


def _shard(text: str | None) -> tuple[int, int]:
    """ "2/4" as numbers."""
    if text is None:
        return 1, 1
    found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise BadInput(f"--shard: {text!r} is not a part of so many, such as 1/4 (the first is 1, the last 4/4)")
    return int(found[1]), int(found[2])


def again(
    suite: Suite,
    name: str,
    shard: tuple[int, int],
    told: Mapping[str, object],
    jobs: int | None,
    store: Store,
    as_json: bool,
) -> int:
    """Go on with a run of the suite that was interrupted, or with a part of one, as it began. Raises BadInput where
    that cannot be."""
    for option, value in told.items():
        if value:
            raise BadInput(f"--resume: it goes on as it began: leave {option} out")
    found = suite_runs.find(store.path, name, suite.name)
    parts = [part for part in found.parts if part.plan.shard == shard]
    if not parts:
        here = ", ".join(f"{number}/{many}" for number, many in (part.plan.shard for part in found.parts))
        raise BadInput(f"--resume: {found.id} was made in parts, and of these {here} is here: say which with --shard")
    (part,) = parts
    last = suite_runs.merged(parts).last
    if all(key in last for key in filter(part.plan.mine, part.plan.planned())):
        raise BadInput(f"--resume: {part.path.name} was not interrupted: nothing of it is missing")
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
    planned = Counter(key[0] for key in plan.planned() if plan.mine(key))
    today = datetime.now(UTC).date()
    told: list[Done] = []
    console = out()
    with SuiteProgress(planned) as progress:
        expects = {case.cell: row.expect for row in suite.rows for case in row.cases}
        for one in before.values():
            progress.ran(one, expects[one.cell], final=True, fresh=False)

        def ran(work: Work, tried: Tried, final: bool) -> None:
            ended = line(work, tried)
            if recorder is not None:
                recorder.add(ended)
            progress.ran(ended, work.expect, final=final)

        def really(work: Work, attempt: int) -> tuple[Seen, str | None]:
            more = f", attempt {attempt}" if attempt > 1 else ""
            with progress.aside(f"{work.key[0]}, seed {work.seed}{more}"):
                return _really(work, attempt, store)

        for done in conduct(suite, plan, store=store.path, jobs=jobs or cores(), really=really, ran=ran, before=before):
            told.append(done)
            if not as_json:
                _print(console, done, today)
    met = sum(done.judgement.met for done in told)
    excused = [done for done in told if not done.judgement.met and _excused(done, today)]
    good = met + len(excused) == len(told)
    if as_json:
        print_json(
            {
                "suite": suite.name,
                "suite_run": plan.id if recorder is not None else None,
                "valid": good,
                "runs": planned.total(),
                "rows": [_json(done, today) for done in told],
            }
        )
    else:
        word, colour = ("as expected", "green") if good else ("NOT as expected", "red")
        rest = f"{met} of {len(told)}" + (" as expected" if met < len(told) else "")
        rest += f", {len(excused)} in quarantine" if excused else ""
        ends = [rest, plural(planned.total(), "run"), *_more(told)]
        if plan.shard != (1, 1):
            ends.append(f"part {plan.shard[0]} of {plan.shard[1]}")
        console.print(Text.assemble((word, f"bold {colour}"), f": {', '.join(ends)}"))
    return EXIT_VALID if good else EXIT_INVALID


def _more(told: Sequence[Done]) -> Iterator[str]:
    """What is said besides: nothing is tried again in silence."""
    if retried := sum(len(done.retried) for done in told):
        yield f"{plural(retried, 'run')} tried more than once"


def _excused(done: Done, today: date) -> bool:
    return done.row.quarantine is not None and done.row.quarantine.holds(today)


def _refuse(suite: Suite) -> None:
    """Raises BadInput for a row that cannot be run."""
    for row in suite.rows:
        for case in row.cases:
            try:
                refuse(case.scenario)
            except (BadKey, BadInput) as error:
                raise BadInput(f"{row.place}: {row.name}: {error}") from None


def _tell(suite: Suite, plan: Plan, as_json: bool) -> None:
    """What would be run: a line a case, and how long all of them work."""
    runs_of = Counter(key[0] for key in plan.planned() if plan.mine(key))
    every = [(row, case) for row in suite.rows for case in row.cases if runs_of[case.cell]]
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
        print_json({"suite": suite.name, "runs": runs_of.total(), "rows": rows})
        return
    for row, case in every:
        cluster = case.scenario.cluster
        work = format_duration(case.scenario.workload.time_ns)
        seeds = plural(runs_of[case.cell], "seed")
        click.echo(f"{case.cell}  {cluster.nodes} nodes, {cluster.on}, {work}, {seeds}, expected: {row.expect.says()}")
    runs = runs_of.total()
    real = [case for _, case in every if case.scenario.cluster.on != SIMULATED]
    working = sum(runs_of[case.cell] * case.scenario.workload.time_ns for case in real)
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


def _print(console: Console, done: Done, today: date) -> None:
    """A case: whether it is met, what was expected, what was seen, and a few of the seeds that did otherwise."""
    row, judgement = done.row, done.judgement
    glyph, colour = ("✓", "green") if judgement.met else ("✗", "red")
    if not judgement.met and _excused(done, today):
        glyph, colour = "~", "yellow"
    console.print(
        Text.assemble(
            (glyph, f"bold {colour}"),
            f" {done.case.cell}",
            (f"  {row.expect.says()}", "bright_black"),
            f": {judgement.observed}",
        )
    )
    for one in done.retried:
        console.print(Text(f"    seed {one.seed}: {one.verdict} on attempt {one.attempt}", "yellow"))
    if row.quarantine is not None:
        mended = "; it is as expected: take it out" if judgement.met else ""
        console.print(Text(f"    {printable(row.quarantine.says(today))}{mended}", "yellow"))
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


def _json(done: Done, today: date) -> dict[str, Any]:
    row = done.row
    return {
        "name": row.name,
        "case": done.case.label,
        "claim": row.claim,
        "said_by": row.said_by,
        "expected": row.expect.says(),
        "observed": done.judgement.observed,
        "met": done.judgement.met,
        "quarantine": None if row.quarantine is None else {**row.quarantine.to_json(), "holds": _excused(done, today)},
        "seeds": [
            {
                "seed": one.seed,
                "repetition": one.repetition,
                "attempt": one.attempt,
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
