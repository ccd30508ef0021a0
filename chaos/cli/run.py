"""`splitbrain run`: one run, from a scenario to its verdict."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from chaos.cli import options
from chaos.cli.dry_run import show
from chaos.cli.output import exit_code, out, print_json, print_verdict
from chaos.cli.progress import Shown, progress
from chaos.controller import Interrupted, Outcome, execute, refuse
from chaos.model import registry
from chaos.model.errors import EXIT_INTERRUPTED, BadInput, SplitbrainError
from chaos.model.schedule import Schedule
from chaos.model.settings import LONGEST
from chaos.scenario import Scenario, plan
from chaos.scenario_flags import from_flags
from checkers.run import check_all
from nemesis.base import View
from nemesis.targets import strangers
from results.ledger import Ledger
from results.publish import publish
from results.store import DONE, FAILED, PartOf, RunDirectory, Store
from results.versions import versions


@click.command
@options.scenario
@click.option("--seed", metavar="N", help="What all random choices come from.")
@click.option("--schedule", type=click.Path(path_type=Path), help="The faults to inject, as an earlier run kept them.")
@options.store
@click.option("--dry-run", is_flag=True, help="Print the resolved scenario and its faults; start nothing.")
@click.option("--keep", is_flag=True, help="Leave the cluster up in the end; `splitbrain clean` removes it.")
@options.as_json
def command(
    scenario: Path | None,
    schedule: Path | None,
    store: Store,
    dry_run: bool,
    keep: bool,
    as_json: bool,
    sets: tuple[str, ...],
    **flags: Any,
) -> int:
    """Run a scenario, and say whether the broker kept its promises.

    SCENARIO is a TOML file (see `splitbrain init`); flags change what it says, or stand by themselves:

        splitbrain run --broker rabbitmq-quorum --nemesis partition,kill --time 60s
    """
    resolved = from_flags(scenario, sets=sets, able=refuse, **flags)
    planned = plan(resolved) if schedule is None else read_schedule(schedule, resolved.cluster.names())
    refuse(resolved, planned)
    if dry_run:
        show(resolved, planned, as_json)
        return 0
    directory = begin(store, resolved, planned)
    verdict = perform(directory, resolved, planned, keep=keep)
    if verdict is None:
        return EXIT_INTERRUPTED
    if as_json:
        print_json(verdict | {"report": str(directory.report)})
    else:
        print_verdict(verdict)
        out().print(f"report: {directory.report}", markup=False)
    return exit_code(verdict["valid"])


def perform(directory: RunDirectory, scenario: Scenario, schedule: Schedule, *, keep: bool) -> dict[str, Any] | None:
    """Carry out the run that was begun, and keep what became of it: its verdict, None if it was interrupted before.

    Raises what ended it, after that was kept.
    """
    with directory.held():
        try:
            return conduct(directory, scenario, schedule, keep=keep)
        except Interrupted as error:
            with suppress(SplitbrainError, OSError):
                fail(directory, str(error))
            say(str(error))
            return None
        except KeyboardInterrupt:
            say(f"interrupted before a verdict; `splitbrain check {directory.id}` gives one")
            return None
        except Exception as error:
            known = isinstance(error, SplitbrainError | OSError)
            with suppress(SplitbrainError, OSError):  # what went wrong first is what is told
                fail(directory, str(error) if known else f"internal error: {type(error).__name__}: {error}")
            raise


def say(text: str) -> None:
    """A line about the run itself, which is no error."""
    with suppress(OSError):
        click.echo(f"splitbrain: {text}", err=True)


def begin(store: Store, scenario: Scenario, schedule: Schedule, part_of: PartOf | None = None) -> RunDirectory:
    """A directory for the run, holding what it is made from."""
    cluster = scenario.cluster
    directory = store.create(
        name=scenario.name,
        broker=cluster.broker,
        on=cluster.on,
        seed=scenario.seed,
        now=datetime.now(UTC),
        part_of=part_of,
    )
    with directory.whole():
        directory.write(directory.scenario, scenario.dumps())
        directory.write(directory.schedule, schedule.dumps())
        directory.write_json(directory.versions, versions())
    return directory


def conduct(directory: RunDirectory, scenario: Scenario, schedule: Schedule, *, keep: bool) -> dict[str, Any]:
    """Carry out the run, judge it, and keep the verdict, which is returned."""
    with progress(scenario.workload.time_ns) as watching:
        outcome = _execute(directory, scenario, schedule, watching, keep)
        directory.write_json(directory.versions, {**versions(), **outcome.versions})
        directory.keep_history(outcome.history)
        watching.phase("check", int(outcome.history.time[-1]) if len(outcome.history) else 0)
        results = list(check_all(outcome.history, scenario.checkers).values())
        publish(directory, outcome.history, results)
    directory.finish(DONE)
    if outcome.interrupted:
        say("interrupted; what had happened by then was judged")
    return directory.read_json(directory.verdict)


def _execute(directory: RunDirectory, scenario: Scenario, schedule: Schedule, watching: Shown, keep: bool) -> Outcome:
    ledger = Ledger(directory.ledger)
    try:
        return execute(
            scenario,
            schedule,
            run=directory.id,
            stream=directory.stream,
            nodes=directory.nodes,
            ledger=ledger,
            progress=watching,
            keep=keep,
        )
    finally:
        ledger.close()


def fail(directory: RunDirectory, problem: str) -> None:
    """Keep why there is no verdict, with a report of what there is."""
    directory.finish(FAILED, problem)
    try:
        history = directory.history()
    except BadInput:
        history = None
    publish(directory, history, (), problem=problem)


def read_schedule(path: Path, nodes: tuple[str, ...]) -> Schedule:
    """The faults in a file. Raises BadInput for one that cannot be carried out on these nodes."""
    try:
        schedule = Schedule.loads(path.read_text(encoding="utf-8-sig"), str(path))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not a schedule: it is not UTF-8 text") from None
    for name, times in Counter(fault.id for fault in schedule.faults).items():
        if times > 1:
            raise BadInput(f"{path}: {times} faults are called {name!r}; give each an id of its own")
    for fault in schedule.faults:
        where = f"{path}: fault {fault.id!r}"
        try:
            nemesis = registry.find(registry.NEMESES, fault.nemesis)()
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from None
        for name in ("at", "duration", "after"):
            value = getattr(fault, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LONGEST:
                raise BadInput(f"{where}: {name}: {value!r} is not a number of ns, 0 or more")
        try:
            nemesis.verbs(fault.args)
            missing = strangers(fault, nodes)
            hurts = nemesis.resolve(fault, View(nodes, nodes[0]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"{where}: {fault.nemesis!r} cannot carry it out: {type(error).__name__}: {error}") from None
        if missing:
            there = ", ".join(nodes)
            raise BadInput(f"{where}: there is no node {' or '.join(missing)} in this cluster; its nodes are {there}")
        if not hurts:
            raise BadInput(f"{where}: {fault.target!r} is nobody among {', '.join(nodes)}")
    return schedule
