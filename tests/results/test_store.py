from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaos.model.errors import BadInput, SplitbrainError
from chaos.model.history import History
from chaos.model.op import INFO, Op
from results.store import FAILED, RunDirectory, Store
from tests.results.example import write_stream

NOW = datetime(2026, 11, 20, 23, 59, 59, tzinfo=UTC)
HISTORY = History.from_ops([Op(index=0, time=0, process=-3, type=INFO, f="phase", detail={"name": "work"})])


def make(store: Store, *, seed: int = 1, seconds: int = 0, valid: object = None) -> RunDirectory:
    now = NOW + timedelta(seconds=seconds)
    directory = store.create(name="s", broker="rabbitmq-quorum", on="simulated", seed=seed, now=now)
    if valid is not None:
        directory.write_json(directory.verdict, {"valid": valid})
    return directory


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def test_an_id_says_when_what_and_which_seed_and_is_never_given_twice(store: Store) -> None:
    ids = [make(store).id, make(store).id, make(store, seed=12).id]
    assert ids == [
        "20261120-235959-rabbitmq-quorum-s1",
        "20261120-235959-rabbitmq-quorum-s1-2",
        "20261120-235959-rabbitmq-quorum-s12",
    ]


def test_runs_are_listed_as_they_were_made(store: Store) -> None:
    second, first = make(store, seconds=2), make(store, seconds=1)
    assert [directory.id for directory in store.runs()] == [first.id, second.id]


def test_a_run_is_found_by_id_prefix_latest_and_last_invalid(store: Store) -> None:
    bad = make(store, seed=1, valid=False)
    make(store, seed=1, seconds=0, valid=True)
    other = make(store, seed=3, seconds=60, valid="unknown")
    assert store.find(bad.id).id == bad.id  # although it begins another id, too
    assert store.find("20261121").id == other.id
    assert store.find("latest").id == other.id
    assert store.find("last-invalid").id == bad.id


def test_a_store_of_many_runs_says_that_there_are_more(store: Store) -> None:
    for seed in range(1, 38):
        make(store, seed=seed)
    with pytest.raises(BadInput, match=r" and 32 more; or say latest or last-invalid$"):
        store.find("foo")
    with pytest.raises(BadInput, match=r"did you mean '20261120-235959-rabbitmq-quorum-s2'\?$"):
        store.find("20261120-235959-rabbitmq-quorum-sx2")


def test_a_run_that_cannot_be_begun_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("results.store.os.fsync", full)
    with pytest.raises(SplitbrainError, match="cannot be written: No space left on device"):
        make(store, seed=1)
    assert list(store.path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "2026",
            "'2026' begins 2 runs in STORE: 20261120-235959-rabbitmq-quorum-s2, 20261120-235959-rabbitmq-quorum-s1",
        ),
        (
            "20261120-235959-rabbitmq-quorum-s3",
            "no run '20261120-235959-rabbitmq-quorum-s3' in STORE; did you mean '20261120-235959-rabbitmq-quorum-s2'?",
        ),
        ("lastest", "no run 'lastest' in STORE; did you mean 'latest'?"),
        ("last-invalid", "none of the 2 runs in STORE is invalid"),
        (
            "",
            "no run '' in STORE; the newest are 20261120-235959-rabbitmq-quorum-s2, "
            "20261120-235959-rabbitmq-quorum-s1; or say latest or last-invalid",
        ),
        (
            "../x",
            "no run '../x' in STORE; the newest are 20261120-235959-rabbitmq-quorum-s2, "
            "20261120-235959-rabbitmq-quorum-s1; or say latest or last-invalid",
        ),
    ],
)
def test_a_name_that_finds_none_or_many_is_refused_with_candidates(store: Store, name: str, problem: str) -> None:
    make(store, seed=1)
    make(store, seed=2)
    with pytest.raises(BadInput) as refusal:
        store.find(name)
    assert str(refusal.value).replace(str(store.path), "STORE") == problem


def test_an_empty_store_says_how_to_get_a_run(store: Store) -> None:
    with pytest.raises(BadInput, match=r"there are no runs in .*: make one with `splitbrain run`"):
        store.find("latest")


@pytest.mark.parametrize("record", [None, "", "{", "[]", '{"id": "x"}', "\x00\xff"])
def test_what_is_not_or_only_half_a_run_is_passed_over(store: Store, record: str | None) -> None:
    whole = make(store)
    half = store.path / "20991231-000000-half"
    half.mkdir()
    if record is not None:
        (half / "run.json").write_text(record)
    (store.path / "a-file").write_text("")
    assert [directory.id for directory in store.runs()] == [whole.id]
    assert store.find("latest").id == whole.id


def test_a_half_written_verdict_is_none(store: Store) -> None:
    directory = make(store, valid=False)
    directory.verdict.write_text('{"valid": fal')
    assert directory.read_json(directory.verdict) == {}
    with pytest.raises(BadInput, match="none of the 1 runs"):
        store.find("last-invalid")


def test_a_full_disk_leaves_what_was_there_and_is_one_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make(store)
    before = sorted(path.name for path in directory.path.iterdir())
    record = directory.record.read_text()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SplitbrainError, match=r"run\.json: cannot be written: No space left on device"):
        directory.finish(FAILED, "x")
    assert directory.record.read_text() == record
    assert sorted(path.name for path in directory.path.iterdir()) == before


def test_a_store_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SplitbrainError, match="file/runs: cannot be written: Not a directory"):
        make(Store(tmp_path / "file" / "runs"))


def test_the_stream_goes_only_when_parquet_is_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make(store)
    write_stream(directory.stream, HISTORY)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("chaos.model.history_file.pq.write_table", full)
        with pytest.raises(SplitbrainError, match="cannot be written: No space left on device"):
            directory.keep_history(HISTORY)
    assert directory.stream.exists()
    assert directory.history().digest() == HISTORY.digest()
    directory.keep_history(HISTORY)
    assert not directory.stream.exists()
    assert directory.history().digest() == HISTORY.digest()


def test_a_run_without_a_history_says_so(store: Store) -> None:
    with pytest.raises(BadInput, match="the run has no history: it ended before anything was recorded"):
        make(store).history()


def test_a_run_is_running_while_its_controller_lives(store: Store) -> None:
    directory = make(store)
    assert not directory.running()
    with directory.held():
        ask = f"from results.store import *; print(RunDirectory(Path({str(directory.path)!r})).running())"
        asked = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
        assert asked.stdout == "True\n"
    assert not directory.running()


def test_a_run_records_how_it_ended(store: Store) -> None:
    directory = make(store, seed=4)
    directory.finish(FAILED, "no engine")
    assert json.loads(directory.record.read_text()) == {
        "id": "20261120-235959-rabbitmq-quorum-s4",
        "created": "2026-11-20T23:59:59.000000+00:00",
        "name": "s",
        "seed": 4,
        "broker": "rabbitmq-quorum",
        "on": "simulated",
        "status": "failed",
        "problem": "no engine",
        "suite_run": None,
        "cell": None,
        "attempt": 1,
    }
