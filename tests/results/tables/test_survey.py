"""What of a store has changed, and what its small files say."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from chaos.model.errors import BadInput, SplitbrainError
from results.store import RunDirectory
from results.tables.manifest import File, Manifest, Tables
from results.tables.record import describe
from results.tables.survey import survey

RUN = {
    "id": "r1",
    "created": "2026-11-21T23:30:00-02:00",
    "name": "s",
    "seed": 7,
    "broker": "lavinmq",
    "on": "simulated",
}


def store(path: Path) -> Path:
    for name in ("r1", "r2", "tables", "suite-runs", ".hidden"):
        (path / name).mkdir()
    (path / "r1" / "run.json").write_text(json.dumps(RUN))
    (path / "r1" / "history.parquet").write_bytes(b"x" * 10)
    (path / "explore-1.jsonl").write_text("")
    return path


def test_runs_are_told_from_what_is_beside_them_and_changes_by_size_and_time(tmp_path: Path) -> None:
    found = survey(str(store(tmp_path)))
    assert [(one.name, one.history, sum(one.sizes.values())) for one in found] == [
        ("r1", "history.parquet", 10 + len(json.dumps(RUN))),
        ("r2", None, 0),
    ]
    assert survey(str(tmp_path)) == found
    os.utime(tmp_path / "r1" / "history.parquet", ns=(1, 1))
    again = survey(str(tmp_path))
    assert again[0].fingerprint != found[0].fingerprint
    assert again[1] == found[1]


def test_a_run_that_is_going_on_is_told(tmp_path: Path) -> None:
    with RunDirectory(store(tmp_path) / "r1").held():
        assert [one.going_on for one in survey(str(tmp_path))] == [True, False]


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nowhere: there is no such store"):
        survey(str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match="there are no runs"):
        survey(str(tmp_path))
    with pytest.raises(BadInput, match="this is one run; name the store that it is in"):
        survey(str(store(tmp_path) / "r1"))
    with pytest.raises(BadInput, match="a file, not a store"):
        survey(str(tmp_path / "explore-1.jsonl"))


def test_a_folder_of_other_things_is_no_store(tmp_path: Path) -> None:
    for name in ("bin", "etc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "passwd").write_text("")
    with pytest.raises(BadInput, match="not a store of runs: nothing of a run is in its folders, such as bin"):
        survey(str(tmp_path))


def test_a_run_by_its_files() -> None:
    files = {
        "run.json": json.dumps(RUN).encode(),
        "scenario.toml": b'[cluster]\nbroker = "lavinmq@2.1"\n[checkers.messages]\ndelivery_limit = 3\n',
        "versions.json": b'{"splitbrain": "0.1.0", "broker": "lavinmq 2.0, simulated"}',
        "verdict.json": b'{"digest": "d1',  # not whole
    }
    said = describe(files)
    wanted = {"day": "2026-11-22", "scenario": "s", "version": "2.1", "asked": True, "limit": 3, "digest": None}
    assert {name: said[name] for name in wanted} == wanted
    assert describe({"run.json": files["run.json"], "versions.json": files["versions.json"]})["version"] == "2.0"
    assert not describe(files | {"scenario.toml": b"[checkers.streams]"})["asked"]


@pytest.mark.parametrize(
    ("record", "problem"),
    [(None, "no run.json"), (b"{", "not the record"), (b"[]", "not the record"), (b'{"id": "x"}', "not the record")],
)
def test_a_run_without_its_record(record: bytes | None, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        describe({} if record is None else {"run.json": record})


def test_what_no_generation_needs_is_tidied_but_that_before_stays(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    for number in (1, 2, 3):
        path = tmp_path / "data" / "ops" / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        tables.switch(Manifest(number, files={"ops": (File(f"data/ops/{number}.parquet", 1, 1, "d", "s"),)}))
    (tmp_path / "data" / "ops" / "half.parquet").write_text("")
    assert tables.tidy() == 3  # of the first generation, and of a job that was killed; and the first manifest
    assert sorted(path.name for path in tmp_path.glob("data/ops/*")) == ["2.parquet", "3.parquet"]
    with pytest.raises(SplitbrainError, match="another job has written generation 000003 meanwhile"):
        tables.switch(Manifest(3))
