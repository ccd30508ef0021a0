"""Tables are what the current manifest names, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.model.errors import BadInput, SplitbrainError
from results.tables.load import load
from results.tables.manifest import CURRENT, File, Manifest, Tables
from results.tables.schema import RUNS, VERDICTS


def generation(number: int, tables: Tables, run: str) -> Manifest:
    path = f"data/verdicts/{number}.parquet"
    Path(tables.path(path)).parent.mkdir(parents=True, exist_ok=True)
    row = {"run": run, "checker": "messages", "verdict": "invalid", "counts": [("lost", 2)], "kinds": []}
    pq.write_table(pa.Table.from_pylist([row], schema=VERDICTS), tables.path(path))
    return Manifest(number, files={"verdicts": (File(path, 1, 1, "2026-11-21", "s"),)})


def test_what_is_current_is_read_and_a_generation_that_is_only_written_is_not(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "tables")
    assert tables.current() is None
    tables.switch(generation(1, tables, "first"))
    generation(2, tables, "second")
    loaded = load(tmp_path)
    assert loaded.manifest.generation == 1
    assert len(loaded.runs) == 0
    assert loaded["runs"].to_arrow().schema == RUNS
    frame = loaded.verdicts.to_pandas(["run", "counts"])
    assert frame.to_dict("records") == [{"run": "first", "counts": {"lost": 2}}]


@pytest.mark.parametrize(
    ("pointer", "problem"),
    [
        ("{", "cannot be read"),
        ("[]", "not an object"),
        ('{"schema": 1}', "not the pointer to a manifest"),
        ('{"schema": 1, "generation": "000009"}', "points to manifest 000009, which is not there"),
        ('{"schema": 99, "generation": "000001"}', "the tables are of schema 99"),
    ],
)
def test_a_pointer_that_is_none(tmp_path: Path, pointer: str, problem: str) -> None:
    tables = Tables(tmp_path / "tables")
    tables.switch(generation(1, tables, "first"))
    (tmp_path / "tables" / CURRENT).write_text(pointer)
    with pytest.raises(SplitbrainError, match=problem):
        load(tmp_path)


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "tables")
    tables.switch(generation(1, tables, "first"))
    (tmp_path / "tables" / "manifests" / "000001.json").write_text(json.dumps({"files": {"runs": [{"no": 1}]}}))
    with pytest.raises(SplitbrainError, match="not a manifest"):
        load(tmp_path)


def test_a_store_without_tables(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="make them with `splitbrain ingest"):
        load(tmp_path)
    with pytest.raises(BadInput, match="not a place to keep tables in"):
        load(tmp_path, "nowhere://tables")
