"""`splitbrain check`: judge a stored run, or a file with a history, again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from chaos import formats, scenario
from chaos.cli import options
from chaos.cli.check_all import PROCESS, every_run
from chaos.cli.output import exit_code, out, print_json, print_verdict
from chaos.cli.spark_options import spark_without_memory
from chaos.model import registry
from chaos.model.errors import BadHistory, BadInput, did_you_mean
from chaos.model.history_pieces import PARQUET_SUFFIX, STREAM_SUFFIX
from chaos.model.settings import BadKey, Setting, duration, resolve, size
from checkers.run import check_all
from results.checking import apart
from results.checking.apart import Limits
from results.publish import publish, summary
from results.spark.session import Where
from results.store import DONE, FAILED, LATEST, RunDirectory, Store

Options = dict[str, dict[str, Any]]


_NOT_GIVEN = click.core.ParameterSource.DEFAULT
LIMITS = (
    Setting("timeout", duration, f"{apart.LIMIT:.0f}s", "how long a checker may take of a run"),
    Setting("memory", size, f"{apart.MEMORY >> 30}GiB", "how much memory it may take"),
)
OWN = (STREAM_SUFFIX, PARQUET_SUFFIX)
LINEARIZABLE = "linearizable"


@click.command
@click.argument("run", default=LATEST)
@click.option("--checker", "names", metavar="NAME", multiple=True, help="Only this checker. Repeatable.")
@click.option(
    "--set", "sets", metavar="KEY=VALUE", multiple=True, help="A setting: availability.recovery=20s. Repeatable."
)
@click.option("--format", "format_", metavar="FORMAT", help="Of a FILE, where its name does not say.")
@click.option("--model", metavar="MODEL", help="Of what the checker linearizable judges: register, fifo-queue, ...")
@click.option(
    "--engine",
    metavar="ENGINE",
    help="Who decides linearizability: auto, monitor or porcupine. With --all, who runs checkers: process or spark.",
)
@click.option("--timeout", metavar="DURATION", help="How long a search may take.")
@click.option("--memory", metavar="SIZE", help="How much memory a search may take.")
@click.option("--all", "all_", is_flag=True, help="Every run of the store. Nothing is written.")
@click.option("--jobs", metavar="N", type=click.IntRange(1), help="With --all: how many at a time (default: cores).")
@spark_without_memory
@options.anywhere
@options.as_json
def command(
    run: str,
    names: tuple[str, ...],
    sets: tuple[str, ...],
    format_: str | None,
    all_: bool,
    jobs: int | None,
    where: Where,
    store: str,
    as_json: bool,
    **told: str | None,
) -> int:
    """Judge a stored run or a history file again.

    RUN is an id, a unique prefix, `latest` or `last-invalid`, the directory of a run, or a FILE with a history: our own
    (.arrows, .parquet), Jepsen's (.edn, .jsonl), a log of Knossos or Porcupine (.log), or columns (.csv).

    A run is judged as its scenario says, and its verdict and report are written anew; with --checker, --model or --set,
    and for a file, the verdict is only told. With --all, each run is judged as its scenario says, in processes of their
    own: `--timeout` and `--memory` are then of each checker, and one that takes more has the result unknown.
    """
    if all_:
        given = click.get_current_context().get_parameter_source("run") is not _NOT_GIVEN
        if given or names or sets or format_ or told["model"]:
            raise BadInput("--all judges every run as its scenario says: leave out RUN, --checker, --set and the like")
        try:
            limits = resolve(LIMITS, {name: told[name] for name in ("timeout", "memory") if told[name] is not None}, "")
        except BadKey as error:
            raise BadInput(f"-{error.key.replace('.', '-')}: {error.problem}") from None
        each = Limits(limits["timeout"] / 10**9, limits["memory"])
        place = store if "://" in store else str(Path(store).absolute())
        return every_run(place, told["engine"] or PROCESS, jobs, each, where, as_json)
    if "://" in store:
        raise BadInput(f"--store {store}: of an object store all runs are judged at once: --all; one needs a folder")
    path = Path(run)
    directory = _directory(path, Store(Path(store)), run, format_)
    names, sets = _linearizable(names, sets, told)
    if directory is None:
        if not names and formats.format_of(path, format_) not in ("arrows", "parquet"):
            raise BadInput(f"{path}: say what to check: --model register, or another model, or --checker NAME")
        history = formats.load(path, format_)
        chosen: Options = {name: {} for name in registry.names(registry.CHECKERS)}
    else:
        history = directory.history()
        chosen = {name: dict(said) for name, said in scenario.load(directory.scenario).checkers.items()}
    chosen = select(chosen, names, sets)
    try:
        results = list(check_all(history, chosen, strict=directory is None).values())
    except BadHistory as error:
        raise BadHistory(f"{path}: {str(error).removeprefix('history: ')}") from None
    if directory is None:
        verdict = summary(results, history, run=None, seed=None, digest=history.digest()) | {"file": str(path)}
    else:
        record = directory.run()
        verdict = summary(results, history, run=directory.id, seed=record.seed, digest=history.digest())
        if not names and not sets and not directory.running():
            publish(directory, history, results, problem=record.problem)
            if record.status != FAILED:
                directory.finish(DONE)
    if as_json:
        print_json(verdict)
    else:
        print_verdict(verdict, anomalies=5)
        if directory is not None and directory.report.exists():
            out().print(f"report: {directory.report}", markup=False)
    return exit_code(verdict["valid"])


def _linearizable(
    names: tuple[str, ...], sets: tuple[str, ...], told: Mapping[str, str | None]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The checkers and settings asked for, with those of the options that are about linearizability."""
    said = {option: value for option, value in told.items() if value is not None}
    if said and names and LINEARIZABLE not in names:
        option = next(iter(said))
        raise BadInput(f"--{option} is for --checker {LINEARIZABLE}, which is not asked")
    if said and not names:
        names = (LINEARIZABLE,)
    try:
        resolve(registry.find(registry.CHECKERS, LINEARIZABLE).settings, said, "")
    except BadKey as error:
        raise BadInput(f"-{error.key.replace('.', '-')}: {error.problem}") from None
    return names, (*sets, *(f"{LINEARIZABLE}.{option}={value}" for option, value in said.items()))


def select(chosen: Options, names: Sequence[str], sets: Sequence[str]) -> Options:
    """The checkers to ask and what to tell them: those named, or all that were chosen, with the settings given.

    Raises BadInput for a checker or a setting that there is not.
    """
    told: dict[str, dict[str, Any]] = defaultdict(dict)
    for assignment in sets:
        key, equals, value = assignment.partition("=")
        checker, dot, setting = key.strip().removeprefix("checkers.").partition(".")
        if not equals or not dot or not setting:
            raise BadInput(f"--set {assignment}: write it as CHECKER.SETTING=VALUE, such as availability.recovery=20s")
        told[checker][setting] = value
    wanted = {name: chosen.get(name, {}) for name in names} if names else dict(chosen)
    for name, given in told.items():
        if name not in wanted:
            raise BadInput(f"--set {name}.{next(iter(given))}: {name!r} is not asked; {did_you_mean(name, wanted)}")
        settings = registry.find(registry.CHECKERS, name).settings
        values: Mapping[str, Any] = resolve(settings, given, f"--set {name}")
        wanted[name] = wanted[name] | {setting: values[setting] for setting in given}
    return wanted


def _directory(path: Path, store: Store, run: str, format_: str | None) -> RunDirectory | None:
    """The run that was meant; None when it is a history file."""
    if path.is_file():
        return None
    if (path / "run.json").is_file():
        found = RunDirectory(path.resolve())
    elif format_ is not None or path.suffix in OWN or any(path.suffix in ends for ends in formats.FORMATS.values()):
        raise BadInput(f"{path}: there is no such file")
    else:
        found = store.find(run)
    if format_ is not None:
        raise BadInput(f"--format {format_}: {run} is a run of ours; a format is for a history file")
    return found
