"""A store kept within an age and a size: what goes, what stays, and the tables with it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from chaos.cli.prune import command
from chaos.model.errors import BadInput
from results.store import PartOf, RunDirectory, Store
from results.tables.load import load
from results.tables.manifest import File, Manifest, Tables
from results.tables.prune import Group, choose
from results.tables.schema import OPS, RUNS

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Runs of 1 kB, made so many days ago: two by themselves, two of a suite's run; and tables of them, in two files,
    with one run more that is gone."""
    path = tmp_path / "store"
    made: list[tuple[str, datetime, str | None]] = []
    for days, suite in ((40, None), (50, "nightly"), (5, "nightly"), (2, None)):
        created = NOW - days * DAY
        part = PartOf(suite, "cell") if suite else None
        run = Store(path).create(name="s", broker="null", on="simulated", seed=days, now=created, part_of=part)
        (run.path / "history.parquet").write_bytes(b"x" * (1000 - run.record.stat().st_size))
        made.append((run.id, created, suite))
    made.append(("gone", NOW - 90 * DAY, None))
    tables = Tables(path / "tables")
    made.sort()
    files: dict[str, list[File]] = {"runs": [], "ops": []}
    for number, some in enumerate((made[:2], made[2:])):
        for name, schema in (("runs", RUNS), ("ops", OPS)):
            rows = [{"run": run, "created": at, "suite_run": suite, "op": 1} for run, at, suite in some]
            rows = [{key: value for key, value in row.items() if key in schema.names} for row in rows]
            file = f"data/{name}/{number}.parquet"
            (path / "tables" / file).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows, schema), tables.path(file))
            files[name].append(File(file, len(rows), 1, "d", "s", some[0][0], some[-1][0]))
    empty = Manifest()
    tables.switch(replace(empty, generation=1, files={**empty.files, **files}))
    return path


def prune(store: Path, *words: str) -> str:
    done = CliRunner().invoke(command, [str(store), *words], catch_exceptions=False, standalone_mode=False)
    assert done.exception is None
    return done.output


def seeds(store: Path) -> list[int]:
    return sorted(run.run().seed for run in Store(store).runs())


def test_it_only_says_what_would_go_unless_told_to_do_it(store: Path) -> None:
    told = prune(store, "--older", "30d")
    assert "would remove 2 runs, 1 kB; 3 kB stay; --yes removes them" in told
    assert seeds(store) == [2, 5, 40, 50]
    assert len(load(store).runs) == 5


def test_old_runs_go_with_their_rows_and_a_suite_run_stays_whole(store: Path) -> None:
    told = prune(store, "--older", "30d", "--yes")
    assert "removed 2 runs, 1 kB; 3 kB stay" in told
    assert seeds(store) == [2, 5, 50]
    loaded = load(store)
    here = sorted(run.id for run in Store(store).runs())
    for table in (loaded.runs, loaded.ops):
        assert sorted(table.to_arrow()["run"].to_pylist()) == here
    assert loaded.manifest.generation == 2
    # the file that holds none of them is as it was, the other's bounds are those of who stays
    assert all(file.first in here and file.last in here for file in loaded.manifest.files["ops"])
    assert "nothing to remove: 3 kB in 3 runs" in prune(store, "--older", "30d", "--yes")


def test_the_oldest_go_until_the_rest_fits(store: Path) -> None:
    prune(store, "--larger", "3.5kB", "--yes")
    assert seeds(store) == [2, 5, 50]
    prune(store, "--larger", "2kB", "--yes")
    assert seeds(store) == [2]


def test_what_is_going_on_stays(store: Path) -> None:
    running = next(run for run in Store(store).runs() if run.run().seed == 5)
    with RunDirectory(running.path).held():
        said = json.loads(prune(store, "--older", "1h", "--yes", "--json"))
    assert seeds(store) == [5, 50]
    assert said["stays"] == 2000


def test_a_large_one_that_is_young_goes_only_for_size() -> None:
    old, new = Group("old", NOW - 9 * DAY, size=1), Group("new", NOW, size=10)
    assert choose([old, new], NOW, 5 * DAY, None) == [old]
    assert choose([old, new], NOW, 5 * DAY, 10) == [old]
    assert choose([old, new], NOW, None, 5) == [old, new]
    assert choose([old, new], NOW, None, 11) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--older", "soon"], "--older soon: not an age"),
        (["--older", "-3h"], "an age is not below zero"),
        (["--larger", "much"], "--larger: 'much' is not a size"),
    ],
)
def test_what_cannot_be_meant(store: Path, words: list[str], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        prune(store, *words)


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a folder"):
        prune(tmp_path / "nowhere", "--older", "1d")
