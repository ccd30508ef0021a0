"""`splitbrain check`: judge a stored run, or a file with a history, again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from chaos import scenario
from chaos.cli import options
from chaos.cli.output import exit_code, out, print_json, print_verdict
from chaos.model import registry
from chaos.model.errors import BadInput, did_you_mean
from chaos.model.history_file import PARQUET_SUFFIX, STREAM_SUFFIX, read
from chaos.model.settings import resolve
from checkers.run import check_all
from results.publish import publish, summary
from results.store import DONE, FAILED, LATEST, RunDirectory, Store

Options = dict[str, dict[str, Any]]


@click.command
@click.argument("run", default=LATEST)
@click.option("--checker", "names", metavar="NAME", multiple=True, help="Only this checker. Repeatable.")
@click.option(
    "--set", "sets", metavar="KEY=VALUE", multiple=True, help="A setting: availability.recovery=20s. Repeatable."
)
@options.store
@options.as_json
def command(run: str, names: tuple[str, ...], sets: tuple[str, ...], store: Store, as_json: bool) -> int:
    """Judge a stored run or a history file again.

    RUN is an id, a unique prefix, `latest` or `last-invalid`, the directory of a run, or a history file (.arrows or
    .parquet). A run is judged as its scenario says, and its verdict and report are written anew; with --checker or
    --set, and for a file, the verdict is only told.
    """
    path = Path(run)
    directory = _directory(path, store, run)
    if directory is None:
        history = read(path)
        chosen: Options = {name: {} for name in registry.names(registry.CHECKERS)}
    else:
        history = directory.history()
        chosen = {name: dict(said) for name, said in scenario.load(directory.scenario).checkers.items()}
    chosen = select(chosen, names, sets)
    results = list(check_all(history, chosen).values())
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


def _directory(path: Path, store: Store, run: str) -> RunDirectory | None:
    """The run that was meant; None when it is a history file."""
    if path.is_file():
        if path.suffix not in (STREAM_SUFFIX, PARQUET_SUFFIX):
            raise BadInput(f"{path}: not a history: its name ends in neither {STREAM_SUFFIX} nor {PARQUET_SUFFIX}")
        return None
    if (path / "run.json").is_file():
        return RunDirectory(path.resolve())
    if path.suffix in (STREAM_SUFFIX, PARQUET_SUFFIX):
        raise BadInput(f"{path}: there is no such file")
    return store.find(run)
