"""`splitbrain explore`: many seeds of a simulated scenario, to find what can go wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from chaos.cli import options
from chaos.cli.output import GLYPHS, columns, exit_code, out, print_json
from chaos.cli.run import say
from chaos.cli.spark_options import spark
from chaos.cli.tally import Tally
from chaos.controller import refuse
from chaos.model.errors import EXIT_INTERRUPTED, BadInput
from chaos.model.verdict import Verdict
from chaos.scenario import SIMULATED, Scenario
from chaos.scenario_flags import from_flags
from chaos.search.coverage import ranked
from chaos.search.explore import RUN, Alike, Exploration, Found, Seed, Spread, explore, keep_seed
from chaos.search.journal import Journal
from chaos.search.spread import cores
from chaos.search.spread import spread as processes
from chaos.search.suites import EVERY, NOTHING
from results.spark.session import Where
from results.store import Store
from results.text import count, plural, printable

PROCESSES, SPARK = "processes", "spark"  # engines
FOUND = "found"
SHOWN = 12  # rows of a table on a terminal; --json has all
_SEEDS = re.compile(r"(?:(\d{1,18})\.\.)?(\d{1,18})")


def seed_range(text: str) -> range:
    """The seeds that were asked for: "200" is the first 200, "A..B" from A to B. Raises BadInput."""
    match = _SEEDS.fullmatch(text.strip())
    wanted = range(int(match[1] or 1), int(match[2]) + 1) if match else range(0)
    if not wanted:
        raise BadInput(f"--seeds {text}: write how many, such as 200, or from which to which: 201..400")
    return wanted


@click.command
@options.scenario
@click.option("--seeds", metavar="N|A..B", default="100", show_default=True, help="How many seeds, or which.")
@click.option("--jobs", metavar="N", type=click.IntRange(1, 1024), help="How many at a time (default: one a core).")
@click.option("--all", "every", is_flag=True, help="Collect all distinct failures; do not stop at the first.")
@click.option(
    "--keep",
    type=click.Choice([FOUND, EVERY, NOTHING]),
    default=FOUND,
    show_default=True,
    help="Which runs are kept in the store: the first of each distinct failure, all, or none.",
)
@click.option("--swarm/--no-swarm", default=True, help="Let each seed have only some of the faults in play (default).")
@click.option("--resume", is_flag=True, help="Go on from where this command was interrupted.")
@click.option(
    "--engine", type=click.Choice([PROCESSES, SPARK]), default=PROCESSES, show_default=True, help="Who runs the seeds."
)
@spark
@options.store
@options.as_json
def command(
    scenario: Path | None,
    seeds: str,
    jobs: int | None,
    every: bool,
    keep: str,
    swarm: bool,
    resume: bool,
    engine: str,
    where: Where,
    store: Store,
    as_json: bool,
    sets: tuple[str, ...],
    **flags: Any,
) -> int:
    """Run many seeds of a simulated scenario, to find what can go wrong.

    SCENARIO is a TOML file; flags change what it says, or stand by themselves, as for `splitbrain run`. Each distinct
    failure is kept as a run.

        splitbrain explore --broker rabbitmq-mirrored --nemesis partition,kill --time 30s --seeds 200 --all
    """
    wanted = seed_range(seeds)
    base = from_flags(scenario, sets=sets, able=refuse, **flags)
    if base.cluster.on != SIMULATED:
        raise BadInput(
            f"explore needs a simulated cluster, and this one is on {base.cluster.on}: write --on simulated; a suite "
            "runs several seeds on real machines"
        )
    spreading = _engine(engine, jobs, where)
    journal = Journal(store.path, base, swarm)
    if resume:
        journal.load()
    journal.begin()
    # what failed is tried once more, and what is gone is made again
    done = {one: seed for one, seed in journal.done.items() if RUN not in seed.why}
    if keep == EVERY:
        done = {one: seed for one, seed in done.items() if _there(store, journal.runs.get(one))}
    alike = Alike()
    everywhere = store.path.absolute() if keep == EVERY else None
    so_far, interrupted = Exploration(), False
    with Tally(len(wanted)) as tally, ExitStack() as stack:
        try:
            spread = stack.enter_context(spreading)
            found = explore(base, wanted, spread=spread, swarm=swarm, done=done, store=everywhere)
            for seed in stack.enter_context(closing(found)):
                fresh = seed.seed not in done
                new = so_far.new(seed)
                run = seed.run if fresh else journal.runs.get(seed.seed)
                if new and keep == FOUND:
                    run = _kept(store, base, swarm, seed, run)
                so_far.add(seed, run)
                if fresh:
                    journal.add(seed, run)
                alike.add(seed)
                for failure in new:
                    tally.line(f"seed {seed.seed}: {failure.name}{_under(failure.shape)}: {failure.message}")
                tally.seed(so_far, fresh=fresh)
                if seed.verdict is Verdict.INVALID and not every:
                    break
        except KeyboardInterrupt:
            interrupted = True
        finally:
            journal.close()
    if as_json:
        told = {"scenario": base.name, "broker": base.cluster.broker, "asked": len(wanted), **so_far.to_json()}
        speed = {"seconds": round(tally.seconds, 1), "seeds_per_minute": round(tally.rate, 1)}
        print_json({**told, "interrupted": interrupted, **speed})
    else:
        _print(so_far, len(wanted), tally)
    if interrupted:
        say(f"interrupted after {so_far.seeds} of {plural(len(wanted), 'seed')}; with --resume it goes on from there")
        return EXIT_INTERRUPTED
    return exit_code(so_far.verdict.to_json())


def _engine(engine: str, jobs: int | None, where: Where) -> AbstractContextManager[Spread]:
    """Who runs the seeds. Raises BadInput for what does not go together."""
    if engine == SPARK:
        from chaos.search.spread_spark import engine as on_spark

        return on_spark(where, jobs)
    context = click.get_current_context()
    for name in ("master", "remote", "memory", "conf"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise BadInput(f"--{name} is for --engine {SPARK}")
    return nullcontext(partial(processes, jobs=jobs or cores()))


def _kept(store: Store, scenario: Scenario, swarm: bool, seed: Seed, before: str | None) -> str:
    """Where the run of a seed is, which was kept before or is now."""
    if before is not None and _there(store, before):
        return before
    return keep_seed(store, scenario, swarm, seed)


def _there(store: Store, run: str | None) -> bool:
    return run is not None and (store.path / run).is_dir()


def _print(so_far: Exploration, wanted: int, tally: Tally) -> None:
    """The summary, for people."""
    console = out()
    glyph, _, colour = GLYPHS[so_far.verdict.to_json()]
    heads = {Verdict.VALID: "no failure", Verdict.INVALID: plural(len(so_far.found), "distinct failure")}
    head = heads.get(so_far.verdict, "nothing is known")
    asked = f" of {wanted:,}" if so_far.seeds < wanted else ""
    console.print(
        Text.assemble(
            (f"{glyph} {head}", f"bold {colour}"),
            f" in {count(so_far.seeds)}{asked} seeds",
            (f"  {tally.seconds:,.0f} s, {tally.rate:,.0f} seeds a minute", "bright_black"),
        )
    )
    for found in so_far.found.values():
        _print_found(console, found)
    _print_unknowns(console, so_far.unknowns)
    covered = so_far.coverage
    console.print(Text("covered", "bold"))
    idle = f", and {plural(covered.idle, 'fault')} that found nobody to hurt" if covered.idle else ""
    told = plural(sum(covered.faults.values()), "fault")
    _print_counts(f"{told} of {plural(len(covered.faults), 'kind')}{idle}", covered.faults)
    console.print(f"  {plural(covered.leader_changes, 'leader change')}")
    _print_counts(plural(len(covered.states), "state"), covered.states)
    _print_counts(plural(len(covered.transitions), "transition"), covered.transitions)
    _print_counts(plural(len(covered.together), "state") + " of all nodes together", covered.together)


def _print_found(console: Console, found: Found) -> None:
    failure = found.failure
    where = f"{plural(found.seeds, 'seed')}, first {found.first}"
    run = "" if found.run is None else f"  run {found.run}"
    console.print(
        Text.assemble((f"  {failure.name}", "red"), _under(failure.shape), (f"  {where}{run}", "bright_black"))
    )
    console.print(f"      {printable(failure.message)}", markup=False)


def _print_unknowns(console: Console, unknowns: list[Seed]) -> None:
    if unknowns:
        console.print(Text(f"  ? {plural(len(unknowns), 'seed')} unknown", "yellow"))
    for seed in unknowns[:SHOWN]:
        why = "; ".join(f"{checker}: {reason}" for checker, reason in seed.why.items())
        console.print(f"      seed {seed.seed}: {printable(why)}", markup=False)
    if len(unknowns) > SHOWN:
        console.print(f"      and {count(len(unknowns) - SHOWN)} more")


def _print_counts(head: str, counts: Mapping[str, int]) -> None:
    out().print(f"  {head}")
    rows = list(ranked(counts).items())
    columns([(count(number), name) for name, number in rows[:SHOWN]], indent="    ")
    if len(rows) > SHOWN:
        out().print(f"    and {count(len(rows) - SHOWN)} more")


def _under(shape: tuple[str, ...]) -> str:
    return f" under {', '.join(shape)}" if shape else ""
