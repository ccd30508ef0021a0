"""Tables written by executors: a file a slot, by pyarrow, wherever they are. A file counts once a manifest names it."""

from __future__ import annotations

import uuid
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from chaos.model.errors import SplitbrainError
from results.spark.plan import Place
from results.spark.tasks import Batches, spark_schema
from results.tables.manifest import File, Tables, filesystem
from results.tables.schema import PARTITIONS, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUP = 1 << 18  # rows of a row group
FILE = pa.schema(
    [
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("day", pa.string()),
        ("scenario", pa.string()),
        ("first", pa.string()),
        ("last", pa.string()),
    ]
)
ORDER = {
    "runs": ("run",),
    "ops": ("run", "op"),
    "messages": ("run", "key", "id"),
    "faults": ("run", "injected"),
    "leaders": ("run", "began"),
    "verdicts": ("run", "checker"),
    "latency": ("run", "f", "phase", "began"),
}  # of those that Spark writes


def write(frame: DataFrame, table: str, tables: Tables, generation: int, parts: int | None) -> list[File]:
    """Write the rows of a frame (the columns of a table, and `slot`): those of a slot, which are of one day and
    scenario, into one file. `parts`: how many tasks the rows are to be brought together in; None where those of a slot
    are together already. A frame may have `n`, which orders its runs as their names do, and sooner."""
    schema, location, number = TABLES[table], tables.location, f"{generation:06d}"

    def each(batches: Batches) -> Batches:
        return _written(batches, table, location, number)

    order = ["n" if name == "run" and "n" in frame.columns else name for name in ORDER[table]]
    if parts is not None:
        frame = frame.repartition(parts, "slot")
    frame = frame.sortWithinPartitions("slot", *order).select("slot", *schema.names)
    rows = frame.mapInArrow(each, spark_schema(FILE)).collect()
    return sorted((File(**row.asDict()) for row in rows), key=lambda file: file.path)


def _written(batches: Batches, table: str, location: str, number: str) -> Batches:
    writer: Writer | None = None
    for batch in batches:
        slots = batch["slot"].to_numpy(zero_copy_only=False)
        cuts = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
        for start, end in pairwise(cuts):
            if start == end:
                continue
            if writer is None or writer.slot != slots[start]:
                if writer is not None:
                    yield writer.close()
                writer = Writer(table, location, number, int(slots[start]))
            writer.add(batch.slice(start, end - start))
    if writer is not None:
        yield writer.close()


class Writer:
    """One file of a table, in row groups as large as is good for reading."""

    def __init__(self, table: str, location: str, number: str, slot: int) -> None:
        self.slot = slot
        self._schema = TABLES[table]
        self._table, self._location, self._number = table, location, number
        self._fs, self._root = filesystem(location)
        self._file: pq.ParquetWriter | None = None
        self._kept: list[pa.Table] = []
        self._waiting = self._rows = 0
        self._said: dict[str, Any] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows, in order."""
        rows = pa.Table.from_batches([batch]).select(self._schema.names).cast(self._schema)
        if not self._said:
            self._said = {name: rows[name][0].as_py() for name in PARTITIONS} | {"first": rows["run"][0].as_py()}
        self._said["last"] = rows["run"][len(rows) - 1].as_py()
        self._kept.append(rows)
        self._waiting += len(rows)
        if self._waiting >= GROUP:
            self._flush()

    def _flush(self) -> None:
        rows = pa.concat_tables(self._kept)
        try:
            if self._file is None:
                folder = f"data/{self._table}/day={self._said['day']}/scenario={self._said['scenario']}"
                self._path = f"{folder}/{self._number}-{uuid.uuid4().hex[:12]}.parquet"
                if isinstance(self._fs, pafs.LocalFileSystem):
                    self._fs.create_dir(f"{self._root}/{folder}", recursive=True)
                self._file = pq.ParquetWriter(
                    f"{self._root}/{self._path}", self._schema, filesystem=self._fs, compression="zstd"
                )
            self._file.write_table(rows, row_group_size=GROUP)
        except OSError as error:
            raise SplitbrainError(f"{self._location}: cannot be written: {error}") from error
        self._rows += len(rows)
        self._kept, self._waiting = [], 0

    def close(self) -> pa.RecordBatch:
        """The file, as a row of `FILE`."""
        if self._kept:
            self._flush()
        assert self._file is not None
        try:
            self._file.close()
            size = self._fs.get_file_info(f"{self._root}/{self._path}").size
        except OSError as error:
            raise SplitbrainError(f"{self._location}: cannot be written: {error}") from error
        row = {"path": self._path, "rows": self._rows, "size": size, **self._said}
        return pa.RecordBatch.from_pylist([row], FILE)


def write_small(
    rows: pa.Table, table: str, tables: Tables, generation: int, of: Place | None = None, run: str = ""
) -> list[File]:
    """Write a small table from here, into one file; `of` a day and scenario, and a run, where all rows are."""
    if not len(rows):
        return []
    folder = f"data/{table}" if of is None else f"data/{table}/day={of[0]}/scenario={of[1]}"
    path = f"{folder}/{generation:06d}-{uuid.uuid4().hex[:12]}.parquet"
    try:
        if isinstance(tables.fs, pafs.LocalFileSystem):
            tables.fs.create_dir(tables.path(path).rpartition("/")[0], recursive=True)
        pq.write_table(rows.cast(TABLES[table]), tables.path(path), filesystem=tables.fs, compression="zstd")
        size = tables.fs.get_file_info(tables.path(path)).size
    except OSError as error:
        raise SplitbrainError(f"{tables.location}: cannot be written: {error}") from error
    return [File(path, len(rows), size, *(of or ("", "")), run, run)]
