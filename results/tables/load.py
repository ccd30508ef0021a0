"""The tables as they are, without Spark: for gate and trends, for export, and for notebooks.

import results
results.load("splitbrain-runs").messages.to_pandas(["run", "key", "id"], where="lost=true")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from chaos.model.errors import BadInput, SplitbrainError, did_you_mean
from results.tables.manifest import FOLDER, File, Manifest, Tables
from results.tables.schema import TABLES
from results.tables.where import column, expression
from results.text import count, plural

BATCH = 65_536  # rows
Where: TypeAlias = str | Sequence[str] | pc.Expression


@dataclass(frozen=True)
class Table:
    """One table: nothing is read before it is asked for.

    `columns` are those wanted, all by default. `where` says which rows: conditions in words, as `results.tables.where`
    has them, or an expression of Arrow's. What is not wanted is not read, as far as Parquet allows.
    """

    name: str
    dataset: ds.Dataset

    @property
    def schema(self) -> pa.Schema:
        """The columns with their types; `results/tables/schema.py` says what each means."""
        return self.dataset.schema

    def to_arrow(self, columns: Sequence[str] | None = None, where: Where | None = None) -> pa.Table:
        """The rows as Arrow.

        Raises BadInput for a column that there is not or a condition that is none, SplitbrainError when a file cannot
        be read.
        """
        with self._reading():
            return self.dataset.to_table(columns=self._columns(columns), filter=self._filter(where))

    def to_pandas(self, columns: Sequence[str] | None = None, where: Where | None = None) -> pd.DataFrame:
        """The same as a pandas frame. Whole numbers that may be missing are pandas' Int64, maps are dicts."""
        nullable = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}
        frame = self.to_arrow(columns, where).to_pandas(types_mapper=nullable.get, maps_as_pydicts="strict")
        assert isinstance(frame, pd.DataFrame)
        return frame

    def batches(self, columns: Sequence[str] | None = None, where: Where | None = None) -> Iterator[pa.RecordBatch]:
        """The same a piece at a time: a table of any size takes no more memory than a few pieces of it."""
        with self._reading():
            scanner = self.dataset.scanner(
                columns=self._columns(columns), filter=self._filter(where),
                batch_size=BATCH, batch_readahead=1, fragment_readahead=1,
            )  # fmt: skip
            for batch in scanner.to_batches():
                if len(batch):
                    yield batch

    def head(self, rows: int = 5) -> pd.DataFrame:
        """The first few rows."""
        with self._reading():
            frame = self.dataset.head(rows).to_pandas(maps_as_pydicts="strict")
            assert isinstance(frame, pd.DataFrame)
            return frame

    def __len__(self) -> int:
        with self._reading():
            return int(self.dataset.count_rows())

    def __repr__(self) -> str:
        return f"<table {self.name}: {plural(len(self), 'row')} of {', '.join(self.schema.names)}>"

    def _columns(self, columns: Sequence[str] | None) -> list[str] | None:
        for name in columns or ():
            column(self.schema, name)
        return None if columns is None else list(columns)

    def _filter(self, conditions: Where | None) -> pc.Expression | None:
        if isinstance(conditions, str):
            return expression(self.schema, [conditions])
        if isinstance(conditions, Sequence):
            return expression(self.schema, conditions)
        return conditions

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise SplitbrainError(f"table {self.name}: cannot be read: {error}") from None


class Loaded:
    """All tables of one generation, as attributes: `runs`, `ops`, `messages`, `faults`, `leaders`, `verdicts`,
    `latency`, `seeds`, `rejected`."""

    runs: Table
    ops: Table
    messages: Table
    faults: Table
    leaders: Table
    verdicts: Table
    latency: Table
    seeds: Table
    rejected: Table

    def __init__(self, tables: Tables, manifest: Manifest) -> None:
        self.manifest = manifest
        for name, schema in TABLES.items():
            setattr(self, name, Table(name, _dataset(manifest.files.get(name, ()), schema, tables)))

    def __getitem__(self, name: str) -> Table:
        """A table by its name. Raises BadInput for one that there is not."""
        if name not in TABLES:
            raise BadInput(f"no table {name!r}; {did_you_mean(name, TABLES)}")
        found = getattr(self, name)
        assert isinstance(found, Table)
        return found

    def __repr__(self) -> str:
        rows = {name: sum(file.rows for file in self.manifest.files.get(name, ())) for name in TABLES}
        return f"<tables: {', '.join(f'{count(number)} {name}' for name, number in rows.items())}>"


def load(store: str | Path, tables: str | Path | None = None) -> Loaded:
    """The current tables of a store; `tables` names their folder where it is not `STORE/tables`.

    Raises BadInput where there are none.
    """
    found = Tables(tables if tables is not None else f"{store}/{FOLDER}")
    manifest = found.current()
    if manifest is None:
        raise BadInput(f"{found.location}: there are no tables: make them with `splitbrain ingest {store}`")
    return Loaded(found, manifest)


def _dataset(files: Sequence[File], schema: pa.Schema, tables: Tables) -> ds.Dataset:
    if not files:
        return ds.dataset(schema.empty_table())
    # every column is in the files themselves, so that a file says all by itself; what the manifest knows of a file
    # spares opening it where another day or scenario is asked for
    return ds.FileSystemDataset.from_paths(
        [tables.path(file.path) for file in files],
        schema=schema,
        format=ds.ParquetFileFormat(),
        filesystem=tables.fs,
        partitions=[_known(file) for file in files],
    )


def _known(file: File) -> pc.Expression:
    known = pc.scalar(True)
    for name, value in (("day", file.day), ("scenario", file.scenario)):
        if value:
            known &= pc.field(name) == value
    return known
