"""What an exploration found of each seed, as a table: whoever ran it, kept or not, gone on with or begun anew."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.cli import main
from chaos.model.errors import BadInput
from chaos.model.verdict import Result, Verdict
from results.checking.store import runs_of
from results.spark.ingest import Ingested, ingest
from results.tables.explored import numbers, read
from results.tables.load import load
from results.tables.manifest import Tables

UNSOUND = (
    "explore", "--broker", "rabbitmq-quorum", "--set", "cluster.settings.mutation=confirm-before-commit",
    "--nemesis", "partition,kill", "--time", "10s", "--rate", "30", "--jobs", "1", "--store", "store",
)  # fmt: skip
SOUND = ("explore", "--broker", "null", "--nemesis", "none", "--time", "1s", "--jobs", "1", "--store", "store")


def splitbrain(*words: str) -> Any:
    done = CliRunner().invoke(main.group(), words, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value


def taken(store: str = "store") -> Ingested:
    """Without Spark: there is no run to be read."""
    return ingest(lambda: pytest.fail("it asked for Spark"), store, Tables(f"{store}/tables"))


def rows(*columns: str) -> list[dict[str, Any]]:
    found = load("store").seeds.to_arrow(list(columns) or None).to_pylist()
    return sorted(found, key=lambda row: (row.get("run", ""), row["seed"]))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_seed_has_a_row_though_no_run_was_kept() -> None:
    assert splitbrain(*UNSOUND, "--seeds", "5..6", "--all", "--keep", "none") == 1
    done = taken()
    ((name, seeds),) = done.explored.items()
    assert (seeds, done.generation, done.new) == (2, 1, [])
    valid, invalid = rows()
    assert (valid["seed"], valid["verdict"], valid["kinds"], valid["why"]) == (5, "valid", [], [])
    assert (invalid["seed"], invalid["verdict"], invalid["kept"]) == (6, "invalid", None)
    assert "messages.lost" in invalid["kinds"]
    assert dict(invalid["verdicts"])["messages"] == "invalid"
    assert json.loads(invalid["failures"])[0]["shape"] == ["partition leader"]
    assert (invalid["broker"], invalid["version"], invalid["swarm"]) == ("rabbitmq-quorum", "4.0", True)
    assert (invalid["run"], invalid["day"]) == (name, f"{invalid['created']:%Y-%m-%d}")
    assert invalid["confirmed"] >= invalid["lost"] > 0 == valid["lost"]
    assert invalid["outage"] > 0
    assert invalid["faults"] > 0
    assert taken() == Ingested(1)  # nothing is new


def test_what_was_gone_on_with_is_read_anew_and_what_was_begun_anew_is_another() -> None:
    splitbrain(*SOUND, "--seeds", "2")
    (first,) = taken().explored
    splitbrain(*SOUND, "--seeds", "3", "--resume")
    assert taken().explored == {first: 3}
    splitbrain(*SOUND, "--seeds", "1")
    (second,) = taken().explored
    assert [(row["run"], row["seed"]) for row in rows("run", "seed")] == sorted(
        [(first, 1), (first, 2), (first, 3), (second, 1)]
    )
    assert {path.stem for path in Path("store").glob("*-explore-*.jsonl")} == {first}


def test_what_goes_on_is_left_and_what_is_no_journal_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    splitbrain(*SOUND, "--seeds", "1")
    (path,) = Path("store").glob("explore-*.jsonl")
    Path("store/explore-old.jsonl").write_text('{"schema": 1, "scenario": ""}\n')
    Path("store/explore-empty.jsonl").write_text("")
    with monkeypatch.context() as going_on:
        going_on.setattr("results.tables.explored.held", lambda which: which.name == path.name)
        done = taken()
    assert (done.explored, done.going_on) == ({}, [path.name])
    assert done.rejected == {
        "explore-old": "not the journal of an exploration: schema 1; this version reads 2",
        "explore-empty": "not the journal of an exploration: list index out of range",
    }
    assert list(taken().explored.values()) == [1]
    assert set(taken().rejected) == {"explore-old", "explore-empty"}
    Path("store/explore-old.jsonl").unlink()
    assert set(taken().rejected) == {"explore-empty"}


def test_it_is_pruned_with_its_journal() -> None:
    splitbrain(*SOUND, "--seeds", "1")
    taken()
    assert splitbrain("prune", "store", "--older", "0s", "--yes") == 0
    assert not list(Path("store").glob("*.jsonl"))
    assert rows() == []


def test_there_is_nothing_to_check_in_it() -> None:
    splitbrain(*SOUND, "--seeds", "1")
    with pytest.raises(BadInput, match=r"store: there are no runs: of what was explored here, no histories were kept"):
        runs_of("store")


def test_a_journal_as_rows() -> None:
    head = {
        "schema": 2, "id": "20261120-235959-explore-ab", "begun": "2026-11-20T23:59:59.5+00:00", "swarm": False,
        "scenario": 'name = "q"\n[cluster]\nbroker = "lavinmq@2.1"\n', "versions": {"commit": "c"},
    }  # fmt: skip
    failed = {
        "seed": 7, "verdict": "unknown", "failures": [], "why": {"run": "the run failed: no room"}, "run": "r7",
        "coverage": {"faults": {"kill of one": 2, "pause of any": 1}, "leader_changes": 3},
        "digest": None, "verdicts": {}, "numbers": {},
    }  # fmt: skip
    text = "\n".join(map(json.dumps, (head, failed))) + '\n{"seed": 8, "verd'
    found = read("explore-ab.jsonl", text.encode())
    (row,) = found.rows
    assert (found.id, found.day, found.scenario, found.reason) == (head["id"], "2026-11-20", "q", None)
    assert row == {
        "run": head["id"], "day": "2026-11-20", "scenario": "q", "seed": 7, "kept": "r7",
        "created": datetime.fromisoformat(str(head["begun"])), "broker": "lavinmq", "version": "2.1", "swarm": False,
        "verdict": "unknown", "verdicts": [], "kinds": [], "failures": "[]",
        "why": [("run", "the run failed: no room")], "faults": 3, "leader_changes": 3, "digest": None,
        "splitbrain": None, "commit": "c", "python": None, "fingerprint": found.fingerprint, "schema": 2,
    }  # fmt: skip


def test_what_nobody_measured_is_no_number() -> None:
    def result(name: str, **told: Any) -> dict[str, Result]:
        return {name: Result(name, Verdict.VALID, "", metrics=told)}

    assert numbers({}) == {}
    assert numbers(result("messages", lost=0, confirmed=2)) == {"lost": 0, "confirmed": 2}
    once, twice = [{"key": "q1"}, {"key": "q2"}], [{"key": "q1"}, {"key": "q1"}]
    assert numbers(result("leaders", longest_vacancy=0, claims=once)) == {}
    assert numbers(result("leaders", longest_vacancy=0, claims=twice)) == {"failover": 0}
    gap = result("availability", longest_gap=9, longest_recovery=0, recovery=[])
    assert numbers(gap) == {"outage": 9}
    assert numbers(result("availability", longest_recovery=0, recovery=[{"ns": 0}])) == {"recovery": 0}
    assert numbers(gap | result("messages", confirmed=0)) == {"confirmed": 0}


def test_without_space_the_tables_are_as_they_were() -> None:
    splitbrain(*SOUND, "--seeds", "2")
    taken()
    before, there = rows(), {path: path.read_bytes() for path in Path("store/tables").rglob("*.*") if path.suffix}
    splitbrain(*SOUND, "--seeds", "3", "--resume")
    # a disk on which a file of 4 kB has no room, also not for what Python keeps of modules: it would cut that off
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
    code += "from chaos.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-B", "-c", code, "ingest", "store"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr.splitlines()[-1].startswith("splitbrain: error: store/tables: cannot be written: ")
    assert rows() == before
    assert {path: path.read_bytes() for path in there} == there
    assert list(taken().explored.values()) == [3]  # and what was left of it is gone
    assert len(list(Path("store/tables/data").rglob("*.parquet"))) == 2  # of this generation and the one before
