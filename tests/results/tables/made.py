"""Tables written straight by their schemas, as an ingest would leave them: a file for each day and scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from results.tables.manifest import FOLDER, File, Manifest, Tables
from results.tables.schema import PARTITIONS, TABLES

Row = Mapping[str, Any]


def make(store: Path, **rows: Sequence[Row]) -> Tables:
    """The tables of a store, with these rows; what a row does not say is null."""
    tables = Tables(store / FOLDER)
    before = tables.current() or Manifest()
    generation = before.generation + 1
    files: dict[str, tuple[File, ...]] = {}
    for name, schema in TABLES.items():
        parts: dict[tuple[str, str], list[Row]] = {}
        for row in rows.get(name, ()):
            day, scenario = (str(row.get(key) or "") for key in PARTITIONS)
            parts.setdefault((day, scenario), []).append(row)
        made = []
        for (day, scenario), part in parts.items():
            path = f"data/{name}/day={day}/scenario={scenario}/{generation:06d}.parquet"
            Path(tables.path(path)).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist([dict(row) for row in part], schema=schema), tables.path(path))
            made.append(File(path, len(part), Path(tables.path(path)).stat().st_size, day, scenario))
        files[name] = tuple(made)
    tables.switch(Manifest(generation, files=files))
    return tables
