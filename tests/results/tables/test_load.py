"""Tables are what the current manifest names, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.model.errors import BadInput, SplitbrainError
from results.spark.ingest import ingest
from results.tables.load import load
from results.tables.manifest import CURRENT, File, Manifest, Tables
from results.tables.schema import RUNS, SCHEMA_VERSION, VERDICTS
from tests.results.tables.made import make


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


MESSAGES = [
    {"run": run, "day": day, "scenario": scenario, "key": "q1", "id": number, "lost": number % 2 == 0}
    for run, day, scenario in (("a", "2026-11-20", "one"), ("b", "2026-11-21", "one"), ("c", "2026-11-21", "two"))
    for number in range(4)
]


def test_columns_and_rows_are_chosen_in_words(tmp_path: Path) -> None:
    make(tmp_path, messages=MESSAGES)
    messages = load(tmp_path).messages
    frame = messages.to_pandas(["run", "id"], where=["lost=true", "id>0"])
    assert frame.to_dict("records") == [{"run": run, "id": 2} for run in "abc"]
    assert len(messages.to_arrow(where="scenario=two")) == 4
    assert sum(map(len, messages.batches(["id"], where="day=2026-11-21"))) == 8
    assert list(messages.head(2)["id"]) == [0, 1]
    assert repr(messages).startswith("<table messages: 12 rows of run, day, scenario, key, id, ")
    assert repr(load(tmp_path)) == (
        "<tables: 0 runs, 0 ops, 12 messages, 0 faults, 0 leaders, 0 verdicts, 0 latency, 0 seeds, 0 rejected>"
    )
    with pytest.raises(BadInput, match="there is no column 'ids'; did you mean 'id'"):
        messages.to_arrow(["ids"])
    with pytest.raises(BadInput, match="no condition"):
        messages.to_pandas(where="lost")


def test_files_of_other_days_and_scenarios_are_not_even_opened(tmp_path: Path) -> None:
    make(tmp_path, messages=MESSAGES)
    (tmp_path / "tables/data/messages/day=2026-11-21/scenario=two/000001.parquet").write_bytes(b"not Parquet")
    messages = load(tmp_path).messages
    assert len(messages.to_arrow(where=["day=2026-11-21", "scenario=one"])) == 4
    assert len(messages.to_arrow(where="day<2026-11-21")) == 4
    with pytest.raises(SplitbrainError, match="table messages: cannot be read"):
        messages.to_arrow()
    with pytest.raises(SplitbrainError, match="table messages: cannot be read"):
        list(messages.batches())


def test_what_is_rejected_has_no_scenario(tmp_path: Path) -> None:
    make(tmp_path, rejected=[{"run": "a", "path": "a", "reason": "empty"}])
    rejected = load(tmp_path).rejected
    assert rejected.to_arrow(["path", "reason"]).to_pylist() == [{"path": "a", "reason": "empty"}]
    assert len(rejected.to_arrow(where="scenario=null")) == 1


def test_results_by_itself_is_cheap_and_has_load() -> None:
    code = (
        "import sys, results\n"
        "print([name for name in ('pandas', 'pyarrow', 'pyspark') if name in sys.modules])\n"
        "from results import load, Table\n"
        "import results.tables.load as there\n"
        "print(load is there.load and Table is there.Table and results.load is load, 'pyspark' in sys.modules)\n"
        "print('load' in dir(results), hasattr(results, 'nothing'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True False", "True False"]


def test_tables_from_before_there_were_seeds_are_read_and_written_on(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "tables")
    tables.switch(replace(generation(1, tables, "first"), schema=1))
    loaded = load(tmp_path)
    assert (loaded.manifest.schema, len(loaded.verdicts), len(loaded.seeds)) == (1, 1, 0)
    (tmp_path / "explore-ab.jsonl").write_text(JOURNAL)
    done = ingest(lambda: pytest.fail("it asked for Spark"), str(tmp_path), tables)
    assert done.explored == {"20261120-235959-explore-ab": 1}
    loaded = load(tmp_path)
    assert (loaded.manifest.schema, len(loaded.verdicts), len(loaded.seeds)) == (SCHEMA_VERSION, 1, 1)


JOURNAL = """\
{"schema": 2, "id": "20261120-235959-explore-ab", "begun": "2026-11-20T23:59:59+00:00", "swarm": true, \
"scenario": "name = \\"q\\"\\n[cluster]\\nbroker = \\"null\\"\\n", "versions": {}}
{"seed": 1, "verdict": "valid", "failures": [], "why": {}, "run": null, "coverage": {"faults": {}, \
"leader_changes": 0}, "digest": "d", "verdicts": {"messages": "valid"}, "numbers": {"lost": 0}}
"""
