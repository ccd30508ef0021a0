"""`splitbrain gate`: whether what a suite showed is enough to release."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click
from rich.text import Text

from chaos.cli import options
from chaos.cli.output import out, print_json
from chaos.model.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, BadInput
from chaos.shipped import shipped
from results import suite_runs
from results.gate import told
from results.gate.evidence import Evidence, evidence
from results.gate.policy import Baseline, load
from results.gate.rules import Finding, Status, conclude, judge
from results.store import Store, writing
from results.suite_runs import SuiteRun
from results.tables.load import Loaded
from results.tables.load import load as load_tables
from results.tables.manifest import FOLDER, Tables
from results.text import printable

CODES = {Status.OPEN: EXIT_VALID, Status.SHUT: EXIT_INVALID, Status.UNDECIDED: EXIT_UNKNOWN}
COLOURS = {Status.OPEN: "green", Status.SHUT: "red", Status.UNDECIDED: "yellow"}


@click.command
@click.argument("suite_run")
@click.option("--policy", "file", required=True, type=click.Path(path_type=Path), help="What has to be shown.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write the rules as JUnit XML to this file.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write them as a table in Markdown.")
@options.store
@options.tables
@options.as_json
def command(
    suite_run: str,
    file: Path,
    junit: Path | None,
    markdown: Path | None,
    store: Store,
    tables: str | None,
    as_json: bool,
) -> int:
    """Say whether SUITE_RUN (its id, a prefix, or `latest`) shows what a policy asks for.

    Exit code 0 if the gate is open, 1 if it is shut, 2 if that cannot be decided. docs/gate.md has the rules. The
    tables must be up to date: `splitbrain ingest` first.
    """
    policy = load(shipped(file))
    if not store.path.is_dir():
        raise BadInput(f"{store.path}: there is no such store: say where with --store")
    now = datetime.now(UTC)
    name = suite_run
    if not suite_runs.suite_runs(store.path):
        findings = [Finding("suite-run", Status.SHUT, f"there is no suite's run in {store.path}: nothing was shown")]
    else:
        run = suite_runs.find(store.path, suite_run)
        name = run.id
        before = _earlier(store, policy.baseline, run) if policy.baseline is not None else None
        place = Tables(tables or store.path / FOLDER)
        if place.current() is None:
            why = f"there are no tables in {tables or store.path}: `splitbrain ingest` first"
            findings = [Finding("tables", Status.UNDECIDED, why)]
        else:
            loaded = load_tables(store.path, tables)
            findings = judge(policy, evidence(run, loaded), now, _evidence(before, loaded))
    for path, text in ((junit, told.junit(name, findings, now)), (markdown, told.markdown(name, findings))):
        if path is not None:
            with writing(path):
                path.write_text(text, encoding="utf-8")
    if as_json:
        print_json(told.as_json(name, findings))
    else:
        _print(name, findings)
    return CODES[conclude(findings)]


def _earlier(store: Store, baseline: Baseline, run: SuiteRun) -> SuiteRun:
    """The baseline. Raises BadInput where there is none that is earlier."""
    try:
        found = suite_runs.find(store.path, baseline.suite_run)
    except BadInput as error:
        raise BadInput(f"baseline.suite_run: {error}") from None
    if found.created >= run.created:
        raise BadInput(
            f"baseline.suite_run: {found.id} is not earlier than {run.id}: it cannot be what that is held to"
        )
    return found


def _evidence(run: SuiteRun | None, tables: Loaded) -> Evidence | None:
    return None if run is None else evidence(run, tables)


def _print(run: str, findings: list[Finding]) -> None:
    console = out()
    width = max(len(one.rule) for one in findings)
    for one in findings:
        glyph = (told.GLYPHS[one.status], f"bold {COLOURS[one.status]}")
        console.print(Text.assemble(glyph, f" {printable(one.rule):{width}}  ", printable(one.says)))
    console.print(Text(printable(told.head(run, findings)), f"bold {COLOURS[conclude(findings)]}"))
