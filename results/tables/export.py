"""A table as a file that other tools read, written a piece at a time: CSV, JSON lines, Parquet or an Arrow stream.

CSV has no lists or maps: there they are JSON text. Times are in UTC, missing values empty in CSV and null in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from results.store import writing
from results.tables.load import Table, Where


class Writer(Protocol):
    """Takes the pieces of a table."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """An object a row, a row a line."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._sink = sink

    def write_batch(self, batch: pa.RecordBatch) -> None:
        lines = (json.dumps(row, default=_said, ensure_ascii=False) for row in _rows(batch))
        self._sink.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Nothing is held back."""


class Csv:
    """A line a row, after a line with the names of the columns."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._schema = pa.schema(
            [pa.field(field.name, pa.string()) if pa.types.is_nested(field.type) else field for field in schema]
        )
        self._writer = pa.csv.CSVWriter(sink, self._schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        columns = [_text(there) if pa.types.is_nested(there.type) else there for there in batch.columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


FORMATS: dict[str, Callable[[IO[bytes], pa.Schema], Writer]] = {
    "csv": Csv,
    "json": JsonLines,
    "parquet": lambda sink, schema: pq.ParquetWriter(sink, schema, compression="zstd"),
    "arrow": pa.ipc.new_stream,
}
BINARY = ("parquet", "arrow")


def export(
    table: Table, sink: IO[bytes], format_: str, *, columns: Sequence[str] | None = None, where: Where | None = None
) -> int:
    """Write the rows to `sink`, in one of FORMATS: how many there were.

    Raises BadInput and SplitbrainError as `Table.batches` does, and OSError where the sink takes no more.
    """
    schema = table.schema if columns is None else pa.schema([table.schema.field(name) for name in columns])
    rows, writer = 0, FORMATS[format_](sink, schema)
    try:
        for batch in table.batches(columns, where):
            writer.write_batch(batch)
            rows += len(batch)
    finally:
        writer.close()
    return rows


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that is written aside and put in place when it is whole. Raises SplitbrainError when it cannot be."""
    aside = path.with_name(path.name + ".part")
    with writing(path):
        try:
            with aside.open("wb") as file:
                yield file
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return rows


def _text(column: pa.Array) -> pa.Array:
    values: Iterable[Any] = column.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if value is None else json.dumps(value, ensure_ascii=False) for value in values], pa.string())


def _said(value: object) -> str:
    assert isinstance(value, datetime)
    return value.isoformat()
