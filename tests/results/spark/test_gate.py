"""From a suite to the gate: what was run, by the tables that an ingest makes of it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaos.cli import main
from results.gate.evidence import Evidence, evidence
from results.gate.policy import Policy, load
from results.gate.rules import Status, conclude, judge
from results.spark.ingest import ingest
from results.suite_runs import find
from results.tables.load import load as load_tables
from results.tables.manifest import Tables
from tests.docs.pages import DOCS, blocks
from tests.results.spark.conftest import Session

pytestmark = pytest.mark.spark


def test_a_suite_its_tables_and_its_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    """The policy and the suite are those of the page on gates."""
    monkeypatch.chdir(tmp_path)
    for block in blocks(DOCS / "gate.md"):
        if file := block.value("file"):
            (tmp_path / file).write_text(block.text)
    store = tmp_path / "splitbrain-runs"
    assert main.run(["suite", "release.toml", "--suite-run", "rc-1", "--jobs", "1"]) == 0
    assert main.run(["gate", "rc-1", "--policy", "gate.toml"]) == 2
    ingest(session, str(store), Tables(store / "tables"), say=lambda line: None)
    capsys.readouterr()
    assert main.run(["gate", "rc-1", "--policy", "gate.toml"]) == 0
    said = capsys.readouterr().out
    rules = [re.split(r"  +", line[2:])[0] for line in said.splitlines()[:-1]]
    (shown,) = (block for block in blocks(DOCS / "gate.md") if "shown" in block.words)
    lines = [line for line in shown.text.splitlines() if line.startswith("✓")]
    assert rules == [re.split(r"  +", line[2:])[0] for line in lines]
    policy, found = load(Path("gate.toml")), evidence(find(store, "rc-1"), load_tables(store))
    assert {one.line.verdict for one in found.runs} == {str(one.verdict) for one in found.runs} == {"valid", "invalid"}
    assert all(set(one.line.anomalies) == set(one.seen.anomalies) for one in found.runs)
    (wanted,) = policy.scenarios
    for stricter, rule in (
        (replace(wanted, outage=1), "outage survives-*"),
        (replace(wanted, broker="rabbitmq-quorum@3.10"), "broker survives-*"),
        (replace(wanted, faults=("clock",)), "faults survives-*"),
    ):
        assert shut(replace(policy, scenarios=(stricter,)), found) == [rule]
    assert shut(replace(policy, age=1), found) == ["age"]
    assert main.run(["suite", "release.toml", "--suite-run", "rc-2", "--jobs", "1", "--seeds", "2"]) == 0
    assert main.run(["gate", "latest", "--policy", "gate.toml"]) == 1
    told = capsys.readouterr().out
    assert "? tables" in told
    assert "✗ seeds survives-*" in told


def shut(policy: Policy, found: Evidence) -> list[str]:
    findings = judge(policy, found, datetime.now(UTC) + timedelta(seconds=1))
    assert conclude(findings) is Status.SHUT
    return [one.rule for one in findings if one.status is not Status.OPEN]
