"""Checkers on Spark: the verdicts of runs judged in process, to the letter, however large a run is held to be."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks import by_hand, pipeline
from benchmarks.store import make
from chaos.cli import check_all
from chaos.model import registry
from chaos.model.history_file import write_parquet
from chaos.model.verdict import Result, Verdict, merge
from chaos.scenario import loads
from chaos.search.trial import trial
from results.checking.apart import Judged, Limits
from results.checking.store import check_store, runs_of
from results.spark import check
from results.spark.ingest import ingest
from results.spark.session import Where
from results.spark.verdicts import row_of
from results.store import DONE, Run, RunDirectory
from results.tables.load import Loaded, load
from results.tables.manifest import Tables
from tests.checkers.test_split import LOSSY
from tests.results.checking import bad
from tests.results.spark.conftest import Session

pytestmark = pytest.mark.spark
LIMITS = Limits(time=60, memory=2 << 30)


@pytest.fixture(scope="module")
def acme(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkers that do not behave, sent along with the job."""
    folder = bad.install(tmp_path_factory.mktemp("acme") / "acme")
    archive = shutil.make_archive(str(folder.parent / "acme_bad"), "zip", folder)
    session().sparkContext.addPyFile(archive)
    return folder


@pytest.fixture(scope="module")
def store(acme: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each plant, good ones, and a simulated run of three queues that lost messages."""
    folder = tmp_path_factory.mktemp("check") / "store"
    make(folder, runs=12, ops=2000)
    _keep(folder, "20261102-000000-lossy")
    return folder


@pytest.fixture(scope="module")
def alone(store: Path) -> dict[str, Judged]:
    return {judged.run: judged for judged in check_store(str(store), runs_of(str(store)), 2, LIMITS)}


def _keep(store: Path, name: str) -> None:
    scenario = loads(LOSSY, "lossy.toml")
    run = RunDirectory(store / name)
    run.path.mkdir()
    record = Run(name, "2026-11-02T00:00:00+00:00", "lossy", 1, "rabbitmq-mirrored", "simulated", DONE)
    run.record.write_text(json.dumps(asdict(record)))
    run.scenario.write_text(scenario.dumps())
    write_parquet(trial(scenario).outcome.history, run.parquet)


def on_spark(session: Session, store: Path, runs: Sequence[str], large: int) -> dict[str, Judged]:
    rows = [{"store": str(store), "run": run, "day": "d", "scenario": "s", "rows": 2000} for run in runs]
    found: dict[str, list[dict[str, Any]]] = {run: [] for run in runs}
    for row in check.check(session(), rows, LIMITS, large).toArrow().to_pylist():
        assert row["bad"] is not None or (row["checker"], row["verdict"]) == _said(row)
        found[row["run"]].append(row)
    return {
        run: Judged(
            run,
            tuple(pickle.loads(row["result"]) for row in rows if row["bad"] is None),
            next((row["bad"] for row in rows if row["bad"] is not None), None),
        )
        for run, rows in found.items()
    }


def _said(row: dict[str, Any]) -> tuple[str, str]:
    result: Result = pickle.loads(row["result"])
    return result.checker, str(result.verdict)


def test_large_runs_are_cut_to_the_same_verdicts(session: Session, store: Path, alone: dict[str, Judged]) -> None:
    found = on_spark(session, store, list(alone), 700)
    for run, judged in alone.items():
        assert found[run] == judged
    verdicts = {result.verdict for judged in alone.values() for result in judged.results}
    assert verdicts == set(Verdict)
    assert sum(judged.bad is not None for judged in alone.values()) == 5


def test_what_was_judged_in_parts_stands_where_the_process_that_read_the_whole_died() -> None:
    died = [{"run": "a", "checker": name, "verdict": "unknown"} for name in ("messages", "order")]
    other = {"run": "b", "checker": "messages", "verdict": "unknown"}
    merged = {"run": "a", "checker": "messages", "verdict": "valid"}
    assert check.standing([*died, other, merged]) == [merged, died[1], other]


def test_what_takes_a_process_down_takes_no_job_down(
    session: Session, acme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(acme))
    monkeypatch.setattr(registry, "_entries", registry._entries.__wrapped__)  # another test may have asked before
    make(tmp_path / "store", runs=2, ops=150, plants={})
    first, second = runs_of(str(tmp_path / "store"))
    names = ("raises", "kills", "kills-parts", "raises-in-parts", "raises-in-merge")
    bad.ask(tmp_path / "store" / first, {name: {} for name in names})
    expected = {judged.run: judged for judged in check_store(str(tmp_path / "store"), [first, second], 1, LIMITS)}
    of_first = {result.checker: result for result in expected[first].results}
    assert {of_first[name].verdict for name in names} == {Verdict.UNKNOWN}
    assert of_first["messages"].verdict is Verdict.VALID
    # what is not cut is judged as small runs are
    assert on_spark(session, tmp_path / "store", [first, second], 700) == expected


@pytest.fixture(scope="module")
def tables(session: Session, store: Path, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("tables")
    done = ingest(session, str(store), Tables(folder), check.judging(LIMITS))
    steps = ["start", "read", "ops", "messages", "faults", "leaders", "latency", "verdicts", "runs"]
    assert list(done.took) == steps
    return load(store, folder)


def test_verdicts_in_the_tables(tables: Loaded, alone: dict[str, Judged]) -> None:
    found = tables
    told = {(row["run"], row["checker"]): row for row in found.verdicts.to_arrow().to_pylist()}
    for run, judged in alone.items():
        for result in judged.results:
            row = told.pop((run, result.checker))
            assert {name: row[name] for name in row_of(result)} == row_of(result)
    assert not told
    of_runs = {row["run"]: row["verdict"] for row in found.runs.to_arrow().to_pylist()}
    judged_ones = {run: judged for run, judged in alone.items() if judged.bad is None}
    assert of_runs == {run: merge(one.verdict for one in judged.results) for run, judged in judged_ones.items()}


def test_the_benchmark_by_hand_makes_the_same_tables(store: Path, tables: Loaded, tmp_path: Path) -> None:
    by_hand.Job(str(store), Tables(tmp_path)).run()
    pipeline.compare(load(store, tmp_path), tables)


def test_the_command_says_the_same_by_both_engines(
    session: Session, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def opened(where: Where) -> Iterator[Session]:
        yield session

    monkeypatch.setattr(check_all, "opened", opened)
    said = {}
    for engine in check_all.ENGINES:
        assert check_all.every_run(str(store), engine, 2, LIMITS, Where(), as_json=True) == 1
        said[engine] = json.loads(capsys.readouterr().out) | {"engine": ""}
    assert said["process"] == said["spark"]
    assert list(said["process"]["results"]) == list(said["spark"]["results"])


def test_porcupine_in_workers_that_spark_forks(session: Session) -> None:
    """Each worker has a search of its own, whatever it was forked from; and leaves none behind when it is killed."""

    def each(batches: Any) -> Any:
        from checkers.linearizability.calls import F, calls
        from checkers.linearizability.porcupine import search, worker

        for batch in batches:
            for number in batch["number"].to_pylist():
                rows: list[Any] = [(F.WRITE, 1, None, 0, 1), (F.READ, None, number % 2, 2, 3)]
                valid = search(calls(rows), "register").valid
                ours = worker._workers[None].pid
                time.sleep(0.3)  # so that both cores have some
                found = {"number": [number], "valid": [valid], "worker": [os.getpid()], "search": [ours]}
                yield pa.RecordBatch.from_pydict(found)

    numbers = [[number] for number in range(8)]
    frame = session().createDataFrame(numbers, "number long").repartition(8)
    for _ in range(2):  # workers are used again
        rows = frame.mapInArrow(each, "number long, valid boolean, worker long, search long").toArrow().to_pylist()
        assert {row["number"]: row["valid"] for row in rows} == {number: number % 2 == 1 for number in range(8)}
    pairs = {(row["worker"], row["search"]) for row in rows}
    assert len(pairs) == len({worker for worker, _ in pairs}) == len({search for _, search in pairs})
    for worker, _ in pairs:
        os.kill(worker, 9)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(_alive(search) for _, search in pairs):
        time.sleep(0.1)
    assert not any(_alive(search) for _, search in pairs)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
