"""From a store to its tables: they say what the checkers say, whatever was in the store, however often it is read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.store import REJECTED, make
from chaos import scenario
from chaos.model import history_file
from chaos.model.errors import SplitbrainError
from chaos.search.keep import keep
from chaos.search.trial import trial
from results.spark import plan
from results.spark.ingest import Ingested, ingest
from results.store import DONE, Run, RunDirectory, Store
from results.tables.load import Loaded, load
from results.tables.lock import held
from results.tables.manifest import Tables
from results.tables.schema import TABLES
from tests.results.spark.conftest import QUICK, Session
from tests.results.spark.held import hold
from tests.results.spark.odd import history

pytestmark = pytest.mark.spark

ODD = 40
LIMITED = 10  # of these, with a delivery limit
SIMULATED = (
    ("rabbitmq-mirrored@3.10", "partition", 3),
    ("rabbitmq-quorum@4.0", "partition,kill", 1),
    ("lavinmq@2.1", "pause", 2),
)
KEYS = {
    "runs": ("run",),
    "ops": ("run", "op"),
    "messages": ("run", "key", "id"),
    "faults": ("run", "fault"),
    "leaders": ("run", "scope", "node", "began", "exact"),
    "verdicts": ("run", "checker"),
    "latency": ("run", "f", "phase", "began"),
    "seeds": ("run", "seed"),
    "rejected": ("run",),
}


def options(path: Path) -> dict[str, Any]:
    return dict(scenario.load(RunDirectory(path).scenario).checkers)


def odd_run(store: Path, seed: int) -> None:
    directory = RunDirectory(store / f"odd-{seed:02d}")
    directory.path.mkdir(parents=True)
    run = Run(directory.id, "2026-11-02T03:00:00+00:00", "odd", seed, "null", "simulated", DONE)
    directory.record.write_text(json.dumps({name: getattr(run, name) for name in run.__slots__}))
    if seed < LIMITED:
        directory.scenario.write_text(f"[checkers.messages]\ndelivery_limit = {1 + seed % 3}\n")
    if seed % 2:
        history_file.write_parquet(history(seed), directory.parquet)
    else:  # in several groups, as that of a large run
        pq.write_table(history(seed).to_table(), directory.parquet, row_group_size=20)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    for broker, nemesis, seed in SIMULATED:
        text = f'schema = 1\nname = "simulated"\nseed = {seed}\n[cluster]\nbroker = "{broker}"\non = "simulated"\n'
        text += '[workload]\nname = "queue"\ntime = "12s"\nrate = 40\n'
        text += "".join(f'[[nemesis]]\nname = "{name}"\nevery = "5s"\nfor = "3s"\n' for name in nemesis.split(","))
        (path / ".scenario.toml").write_text(text)
        keep(Store(path), trial(scenario.load(path / ".scenario.toml")))
    for seed in range(ODD):
        odd_run(path, seed)
    make(path, runs=12, ops=300, scenarios=2)
    return path


@pytest.fixture(scope="module")
def done(store: Path, session: Session) -> Ingested:
    return ingest(session, str(store), Tables(store / "tables"))


def rows(loaded: Loaded) -> dict[str, list[dict[str, Any]]]:
    """Every table, sorted by key; no key is there twice."""
    found = {}
    for name, keys in KEYS.items():
        table = loaded[name].to_arrow().to_pylist()
        table.sort(key=lambda row: tuple(str(row[key]) for key in keys))
        if name not in ("leaders",):
            assert len({tuple(row[key] for key in keys) for row in table}) == len(table), name
        found[name] = table
    return found


def test_tables_say_what_the_checkers_say(store: Path, done: Ingested) -> None:
    loaded = load(store)
    names = loaded.runs.to_arrow()["run"].to_pylist()
    assert sorted(names) == sorted(done.new)
    assert len(names) == len(SIMULATED) + ODD + 12 - len(REJECTED)
    for name in names:
        directory = RunDirectory(store / name)
        if name.startswith("odd"):
            limit = 1 + int(name[-2:]) % 3 if int(name[-2:]) < LIMITED else 0
            hold(loaded, name, directory.history(), {"messages": {"delivery_limit": limit}})
        else:
            hold(loaded, name, directory.history(), options(directory.path))
    for name in TABLES:
        assert loaded[name].to_arrow().schema.equals(TABLES[name])


def test_verdicts_are_those_of_the_runs(store: Path, done: Ingested) -> None:
    loaded = load(store)
    of_runs = {row["run"]: row["verdict"] for row in loaded.runs.to_arrow().to_pylist()}
    for path in store.glob("*/verdict.json"):
        said = json.loads(path.read_text())
        assert of_runs[path.parent.name] == {True: "valid", False: "invalid"}.get(said["valid"], "unknown")
        mine = [row for row in loaded.verdicts.to_arrow().to_pylist() if row["run"] == path.parent.name]
        assert {row["checker"]: row["reason"] for row in mine} == {
            name: result["reason"] for name, result in said["checkers"].items()
        }
    assert of_runs["odd-00"] == "unknown"


def test_what_cannot_be_read_is_rejected_with_the_reason_and_a_cut_history_is_read_as_cut(
    store: Path, done: Ingested
) -> None:
    loaded = load(store)
    reasons = [row["reason"] for row in loaded.rejected.to_arrow().to_pylist()]
    wanted = ("not a Parquet file", "history schema 99", "an empty directory", "no history", "not the record of a run")
    assert len(reasons) == len(wanted)
    assert all(any(want in reason for reason in reasons) for want in wanted)
    cut = [row for row in loaded.runs.to_arrow().to_pylist() if row["cut"]]
    assert [row["status"] for row in cut] == ["running"]


def test_nothing_new_is_nothing_done_and_a_changed_run_is_replaced(
    store: Path, done: Ingested, session: Session, tmp_path: Path
) -> None:
    def never() -> Any:
        raise AssertionError("a session was asked for")

    again = ingest(never, str(store), Tables(store / "tables"))
    assert (again.generation, again.new, again.changed) == (done.generation, [], [])
    assert again.unchanged == len(done.new) + len(done.rejected)
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    before = rows(load(copy))
    # one is another now, one is gone, one can no longer be read, and one is new
    history_file.write_parquet(history(99), copy / "odd-07" / "history.parquet")
    shutil.rmtree(copy / "odd-08")
    (copy / "odd-09" / "history.parquet").write_bytes(b"PAR1")
    odd_run(copy, 41)
    changed = ingest(session, str(copy), Tables(copy / "tables"))
    assert (changed.new, changed.changed, changed.gone) == (["odd-41"], ["odd-07"], ["odd-08"])
    assert "odd-09" in changed.rejected
    loaded = load(copy)
    hold(loaded, "odd-07", history(99), {"messages": {"delivery_limit": 2}})
    hold(loaded, "odd-41", history(41), {})
    touched = ("odd-07", "odd-09", "odd-41")
    after = rows(loaded)
    for name in set(TABLES) - {"rejected"}:
        # all others are as they were
        assert [row for row in after[name] if row["run"] not in touched] == [
            row for row in before[name] if row["run"] not in touched
        ]
        assert not [row for row in after[name] if row["run"] == "odd-09"]


def test_a_job_that_is_killed_changes_nothing_and_the_next_gives_the_same_rows(
    store: Path, done: Ingested, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tmp_path / "tables"
    command = [sys.executable, "-c", "from chaos.cli.main import main; main()", "ingest", str(store)]
    command += ["--tables", str(tables), "--master", "local[1]"]
    command += [f"--conf={key}={value}" for key, value in QUICK.items()]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "ops are written" in line:
                break
        os.killpg(process.pid, signal.SIGKILL)
    assert "ops are written" in said, said
    assert list(tables.glob("data/ops/**/*.parquet"))
    assert Tables(tables).current() is None
    # and in small parts, as large runs are cut
    for name, value in (("SLOT", 400), ("MESSAGES", 500), ("SMALL", 0)):
        monkeypatch.setattr(plan, name, value)
    again = ingest(session, str(store), Tables(tables))
    assert again.tidied > 0
    assert len(load(store, tables).manifest.files["ops"]) > 2 * len(load(store).manifest.files["ops"])
    assert rows(load(store, tables)) == rows(load(store))


def test_one_job_at_a_time(store: Path, tmp_path: Path) -> None:
    tables = Tables(tmp_path / "tables")
    with held(tables), pytest.raises(SplitbrainError, match="another job is writing these tables"):
        ingest(lambda: pytest.fail("it went on"), str(store), tables)


def test_tables_of_an_older_schema_are_read(store: Path, done: Ingested, tmp_path: Path) -> None:
    copy = tmp_path / "tables"
    shutil.copytree(store / "tables", copy)
    for path in copy.glob("data/runs/**/*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["attempt"]), path)
    found = load(store, copy).runs.to_arrow()
    assert found["attempt"].null_count == len(found) == len(done.new)
    assert pa.types.is_int32(found["attempt"].type)
