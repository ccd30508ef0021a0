"""Keep a store within an age and a size: which runs go, and their rows in the tables with them.

What goes together is a run by itself, or a suite's run with all of its runs, since half of one says something else than
the whole; or an exploration, which is a journal and rows, while each run that it kept is a run by itself. What is going
on never goes.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chaos.model.errors import BadInput, SplitbrainError
from results import suite_runs
from results.store import RunDirectory, Store
from results.tables.explored import explored
from results.tables.load import Loaded
from results.tables.lock import held
from results.tables.manifest import File, Manifest, Tables
from results.tables.schema import SCHEMA_VERSION, TABLES


@dataclass
class Group:
    """What goes together. `name`: of the run, the suite's run, or the exploration. `newest`: when the last of its runs
    was made. `size`: of its folders, in bytes. `paths`: these folders; none for runs that are in the tables only."""

    name: str
    newest: datetime
    suite: bool = False
    size: int = 0
    going_on: bool = False
    runs: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)


def groups(store: Path, tables: Tables) -> list[Group]:
    """All that there is, oldest first. Raises BadInput where there is neither a store nor tables."""
    if "://" in str(store) or not store.is_dir():
        raise BadInput(f"{store}: not a folder: only a store in a folder can be pruned")
    found: dict[tuple[bool, str], Group] = {}

    def group(name: str, suite: str | None, created: datetime) -> Group:
        one = found.setdefault((suite is not None, suite or name), Group(suite or name, created, suite is not None))
        one.newest = max(one.newest, created)
        return one

    for suite in suite_runs.suite_runs(store):
        one = group(suite.id, suite.id, _moment(suite.created))
        one.going_on = suite.state == suite_runs.RUNNING
        one.paths += [part.path for part in suite.parts]
        one.size += sum(map(_size, one.paths))
    here = set()
    for directory in Store(store).runs():
        run = directory.run()
        one = group(directory.id, run.suite_run, _moment(run.created))
        one.runs.append(directory.id)
        one.paths.append(directory.path)
        one.size += _size(directory.path)
        one.going_on |= directory.running()
        here.add(directory.id)
    for journal in explored(str(store)):
        if journal.rows:
            one = group(journal.id, None, journal.rows[0]["created"])
            one.runs.append(journal.id)
            one.paths.append(store / journal.name)
            one.size += _size(store / journal.name)
            here.add(journal.id)
    manifest = tables.current()
    loaded = Loaded(tables, manifest) if manifest else None
    rows = loaded.runs.to_arrow(["run", "suite_run", "created"]).to_pylist() if loaded else []
    if loaded:
        rows += loaded.seeds.to_arrow(["run", "created"]).group_by(["run", "created"]).aggregate([]).to_pylist()
    for row in rows:
        if row["run"] not in here:
            group(row["run"], row.get("suite_run"), row["created"]).runs.append(row["run"])
    return sorted(found.values(), key=lambda one: (one.newest, one.name))


def choose(found: Iterable[Group], now: datetime, older: timedelta | None, larger: int | None) -> list[Group]:
    """What goes: all that is older than that; then the oldest, until what stays is no larger than that (bytes)."""
    free = [one for one in found if not one.going_on]
    gone = [one for one in free if older is not None and now - one.newest > older]
    if larger is not None:
        left = sum(one.size for one in found) - sum(one.size for one in gone)
        for one in free:
            if left <= larger:
                break
            if one not in gone and one.size:
                gone.append(one)
                left -= one.size
    return gone


def remove(gone: Iterable[Group], tables: Tables) -> None:
    """Remove rows, then folders: what is stopped between is read again by the next ingest. Raises SplitbrainError when
    something cannot be removed."""
    chosen = list(gone)
    if tables.current() is not None:
        with held(tables):
            _remove_rows({run for one in chosen for run in one.runs}, tables)
    for one in chosen:
        for path in one.paths:
            if (path / "run.json").exists() and RunDirectory(path).running():
                raise SplitbrainError(f"{path}: it is going on now: it stays; prune again when it has ended")
            try:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            except OSError as error:
                raise SplitbrainError(f"{path}: cannot be removed: {error.strerror or error}") from None


def _remove_rows(runs: Collection[str], tables: Tables) -> None:
    """A generation without the rows of these runs; none where there are no such rows."""
    before = tables.current()
    assert before is not None
    tables.tidy()
    number, files = before.generation + 1, {}
    for name in TABLES:
        files[name] = [one for file in before.files[name] for one in _without(file, name, runs, tables, number)]
    if files != {name: list(before.files[name]) for name in TABLES}:
        tables.switch(Manifest(number, SCHEMA_VERSION, files))


def _without(file: File, table: str, runs: Collection[str], tables: Tables, number: int) -> Iterator[File]:
    """The file; or another with the rows of others, or none where there are no others."""
    if not any(file.may_hold(run) for run in runs):
        yield file
        return
    gone = pa.array(sorted(runs), pa.string())
    try:
        with tables.fs.open_input_file(tables.path(file.path)) as source:
            reader = pq.ParquetFile(source)
            names = reader.read(["run"]).column("run").unique()
            if not pc.any(pc.is_in(names, gone)).as_py():
                yield file
                return
            stay = sorted(set(names.to_pylist()) - set(runs))
            if not stay:
                return
            path = f"{file.path.rpartition('/')[0]}/{number:06d}-{uuid.uuid4().hex[:12]}.parquet"
            rows = 0
            with pq.ParquetWriter(
                tables.path(path), reader.schema_arrow, filesystem=tables.fs, compression="zstd"
            ) as writer:
                for at in range(reader.num_row_groups):
                    part = reader.read_row_group(at)
                    part = part.filter(pc.invert(pc.is_in(part.column("run"), gone)))
                    rows += len(part)
                    if len(part):
                        writer.write_table(part)
        size = tables.fs.get_file_info(tables.path(path)).size
    except (OSError, pa.ArrowException) as error:
        raise SplitbrainError(f"{tables.location}/{file.path}: cannot be written anew: {error}") from None
    bounds = (stay[0], stay[-1]) if file.first else ("", "")
    yield File(path, rows, size, file.day, file.scenario, *bounds)


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
