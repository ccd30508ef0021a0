"""`splitbrain show`: a run's verdict and why, in the terminal."""

from __future__ import annotations

import re

import click
import numpy as np

from chaos.cli import options
from chaos.cli.output import columns, out, print_json, print_verdict
from chaos.model.errors import BadInput
from results.ledger import open_entries
from results.store import LATEST, RunDirectory, Store
from results.text import printable

_RANGE = re.compile(r"(\d+)(?:\.\.(\d+))?")


@click.command
@click.argument("run", default=LATEST)
@click.option("--ops", metavar="N[..M]", help="Print these ops of the history, by index.")
@click.option("--report", is_flag=True, help="Print only the path of the report.")
@options.store
@options.as_json
def command(run: str, ops: str | None, report: bool, store: Store, as_json: bool) -> int:
    """Show a run's verdict and why.

    RUN is an id, a unique prefix, `latest` or `last-invalid`.
    """
    directory = store.find(run)
    if report:
        if not directory.report.exists():
            raise BadInput(f"{directory.id} has no report; `splitbrain check {directory.id}` writes one")
        click.echo(directory.report)
    elif ops is not None:
        show_ops(directory, ops)
    elif as_json:
        print_json(
            directory.read_json(directory.record) | {"state": state(directory)} | directory.read_json(directory.verdict)
        )
    else:
        show(directory)
    return 0


def show(directory: RunDirectory) -> None:
    """Print what the run is, and its verdict if it has one."""
    record, verdict = directory.run(), directory.read_json(directory.verdict)
    if verdict:
        print_verdict(verdict, anomalies=10)
    else:
        click.echo(f"{directory.id}: {state(directory)}")
        if not directory.running():
            click.echo(f"  `splitbrain check {directory.id}` judges what was recorded of it")
    still = [entry for entry in open_entries(directory.ledger) if not directory.running()]
    if still and record.on != "simulated":
        faults = ", ".join(dict.fromkeys(entry.fault for entry in still))
        click.echo(f"  never undone: {printable(faults)}; `splitbrain clean {directory.id}` removes its cluster")
    click.echo()
    rows = [
        ("scenario", record.name),
        ("broker", f"{record.broker}, {record.on}"),
        ("begun", f"{record.created[:19]} UTC"),
    ]
    if directory.report.exists():
        rows.append(("report", str(directory.report)))
    columns([*rows, ("directory", str(directory.path))])


def show_ops(directory: RunDirectory, wanted: str) -> None:
    """Print some ops. Raises BadInput for a range that is none."""
    match = _RANGE.fullmatch(wanted)
    if match is None:
        raise BadInput(f"--ops {wanted}: write the index of an op, or two joined with dots: 100..120")
    first, last = int(match[1]), int(match[2] or match[1])
    history = directory.history()
    rows = np.flatnonzero((history.index >= first) & (history.index <= last)).tolist()
    if not rows:
        end = int(history.index[-1]) if len(history) else 0
        raise BadInput(f"--ops {wanted}: the history has no such op; its last one is {end}")
    for row in rows:
        op = history[row]
        out().print(printable(f"{op}{f'  {op.detail}' if op.detail else ''}"), markup=False)


def state(directory: RunDirectory) -> str:
    """How a run stands, in a word or two."""
    valid = directory.read_json(directory.verdict).get("valid")
    record = directory.run()
    if directory.running():
        return "running"
    if record.status == "failed":
        return f"failed: {record.problem}"
    if valid is None:
        return "its controller was killed before there was a verdict"
    return {True: "valid", False: "invalid"}.get(valid, "unknown") if isinstance(valid, bool) else "unknown"
