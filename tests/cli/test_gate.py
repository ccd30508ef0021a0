"""`splitbrain gate`: its exit codes, what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaos.cli import main
from tests.results.gate import night
from tests.results.gate.night import Night, write

POLICY = night.POLICY.replace('age = "36h"\n', "")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gate.toml").write_text(POLICY)
    return tmp_path / "splitbrain-runs"


def gate(*words: str) -> int:
    return main.run(["gate", *words, "--policy", "gate.toml"])


def not_read(night: Night) -> None:
    del night.runs["steady [nodes=5]", 6]


def one_lost(night: Night) -> None:
    for seed in (1, 2):
        night.verdict("steady [nodes=5]", seed, "invalid", "lost")


def test_an_open_gate(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(store)
    for name in ("night", "latest", "nig"):
        assert gate(name) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "OPEN: night: 19 of 19 rules open"
    assert len(lines) == 60
    assert all(line.startswith("✓ ") for line in lines[-20:-1])


def test_a_shut_one_says_why_to_everybody(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(store, one_lost)
    assert gate("latest", "--junit", "gate.xml", "--markdown", "gate.md", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    (bad,) = (rule for rule in told["rules"] if rule["status"] != "open")
    assert (told["suite_run"], told["status"], bad["rule"]) == ("night", "shut", "expected")
    assert bad["says"].startswith("2 of 3 cells as expected: steady [nodes=5]: valid in 80% of the seeds, and")
    suite = ET.parse("gate.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("19", "1", "0")
    (failure,) = suite.iter("failure")
    assert failure.get("message") == bad["says"]
    markdown = Path("gate.md").read_text().splitlines()
    assert markdown[0] == "### SHUT: night: 1 of 19 rules shut"
    assert markdown[4].startswith("| ✗ | expected | 2 of 3 cells as expected: ")
    assert gate("latest") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "SHUT: night: 1 of 19 rules shut"


def test_what_cannot_be_decided_is_not_open(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(store, not_read)
    assert gate("latest") == 2
    assert "1 run not in the tables as they ended: `splitbrain ingest` first" in capsys.readouterr().out


def test_a_suite_that_was_never_ingested_is_undecided(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Night("before", datetime(2026, 11, 1, tzinfo=UTC)).record(store)
    Night().record(store)
    assert gate("latest") == 2
    assert "there are no tables in " in capsys.readouterr().out


def test_an_empty_store_is_shut(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.mkdir()
    assert gate("latest") == 1
    assert "there is no suite's run in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "change", "problem"),
    [
        (["nigth"], "", "no suite's run 'nigth'"),
        (["latest", "--store", "nowhere"], "", "nowhere: there is no such store: say where with --store"),
        (["latest"], 'suite_run = "befor3"', "baseline.suite_run: no suite's run 'befor3' in splitbrain-runs; did you"),
        (["latest"], 'suite_run = "night"', "baseline.suite_run: night is not earlier than night"),
        (["latest"], 'suit_run = "night"', "gate.toml:24: baseline.suit_run: unknown rule 'suit_run'; did you"),
    ],
)
def test_bad_input_is_one_line(
    store: Path, capsys: pytest.CaptureFixture[str], words: list[str], change: str, problem: str
) -> None:
    write(store)
    Path("gate.toml").write_text(POLICY.replace('suite_run = "before"', change) if change else POLICY)
    assert gate(*words) == 254
    out, err = capsys.readouterr()
    assert problem in err
    assert (out, err.count("\n")) == ("", 1)


def test_an_old_night_is_shut(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(store)
    age = datetime.now(UTC) - night.NOW + timedelta(hours=10)
    Path("gate.toml").write_text(night.POLICY)
    assert gate("latest") == (1 if age > timedelta(hours=36) else 0)


def test_no_jvm_no_pyspark_and_no_broker(store: Path) -> None:
    write(store)
    code = (
        "import sys; from chaos.cli import main; code = main.run(sys.argv[1:]);"
        "print(sorted(n for n in ('pyspark', 'py4j', 'docker', 'paramiko', 'aio_pika') if n in sys.modules), code)"
    )
    words = ["gate", "latest", "--policy", "gate.toml"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"


def test_tables_may_be_elsewhere(store: Path, tmp_path: Path) -> None:
    write(store)
    (store / "tables").rename(tmp_path / "elsewhere")
    assert gate("latest") == 2
    assert gate("latest", "--tables", "elsewhere") == 0
