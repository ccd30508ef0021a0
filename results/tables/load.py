"""The tables as they are, without Spark: for gate and trends, for export, and for notebooks.

    from results.tables.load import load
    load("splitbrain-runs").messages.to_pandas()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from chaos.model.errors import BadInput, SplitbrainError, did_you_mean
from results.tables.manifest import FOLDER, Manifest, Tables
from results.tables.schema import TABLES


@dataclass(frozen=True)
class Table:
    """One table: nothing is read before it is asked for."""

    name: str
    dataset: ds.Dataset

    def to_arrow(self, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """Its rows (those where `where` holds), as Arrow. Raises SplitbrainError when a file cannot be read."""
        try:
            return self.dataset.to_table(columns=None if columns is None else list(columns), filter=where)
        except (OSError, pa.ArrowException) as error:
            raise SplitbrainError(f"table {self.name}: cannot be read: {error}") from None

    def to_pandas(self, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pd.DataFrame:
        """The same as a pandas frame. Whole numbers that may be missing are pandas' Int64, maps are dicts."""
        nullable = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}
        frame = self.to_arrow(columns, where).to_pandas(types_mapper=nullable.get, maps_as_pydicts="strict")
        assert isinstance(frame, pd.DataFrame)
        return frame

    def __len__(self) -> int:
        return int(self.dataset.count_rows())


class Loaded:
    """All tables of one generation, as attributes: `runs`, `ops`, `messages`, `faults`, `leaders`, `verdicts`,
    `latency`, `rejected`."""

    runs: Table
    ops: Table
    messages: Table
    faults: Table
    leaders: Table
    verdicts: Table
    latency: Table
    rejected: Table

    def __init__(self, tables: Tables, manifest: Manifest) -> None:
        self.manifest = manifest
        for name, schema in TABLES.items():
            files = [tables.path(file.path) for file in manifest.files[name]]
            setattr(self, name, Table(name, _dataset(files, schema, tables)))

    def __getitem__(self, name: str) -> Table:
        """A table by its name. Raises BadInput for one that there is not."""
        if name not in TABLES:
            raise BadInput(f"no table {name!r}; {did_you_mean(name, TABLES)}")
        found = getattr(self, name)
        assert isinstance(found, Table)
        return found


def load(store: str | Path, tables: str | Path | None = None) -> Loaded:
    """The current tables of a store; `tables` names their folder where it is not `STORE/tables`.

    Raises BadInput where there are none.
    """
    found = Tables(tables if tables is not None else f"{store}/{FOLDER}")
    manifest = found.current()
    if manifest is None:
        raise BadInput(f"{found.location}: there are no tables: make them with `splitbrain ingest {store}`")
    return Loaded(found, manifest)


def _dataset(files: list[str], schema: pa.Schema, tables: Tables) -> ds.Dataset:
    if not files:
        return ds.dataset(schema.empty_table())
    # every column is in the files themselves, so that a file says all by itself
    return ds.dataset(files, schema=schema, format="parquet", filesystem=tables.fs, partitioning=None)
