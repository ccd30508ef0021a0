"""Histories on disk: an Arrow stream while a run is going on, Parquet when it is done.

The stream ends with a row of our own (f = "end", value = the number of rows before it). A file without it was cut off:
its controller was killed. Such a history is read up to its last whole batch and says so, since what it does not contain
may have happened.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from chaos.model.errors import BadHistory
from chaos.model.history import SCHEMA, SCHEMA_VERSION, Columns, History, to_table
from chaos.model.op import CONTROLLER, INFO

STREAM_SUFFIX = ".arrows"
PARQUET_SUFFIX = ".parquet"
END = "end"
_BUFFER = 1 << 18
_BATCH = 1 << 16  # rows that are read at a time


class HistoryWriter:
    """An Arrow stream that is appended to batch by batch, each handed to the operating system at once."""

    def __init__(self, path: Path) -> None:
        # Arrow writes a batch in dozens of pieces: into a buffer, and from there in one
        self._file = pa.output_stream(str(path), buffer_size=_BUFFER)
        self._stream = pa.ipc.new_stream(self._file, SCHEMA)
        self._rows = 0

    def append(self, table: pa.Table) -> None:
        """Add rows, in the order of the history."""
        self._stream.write_table(table)
        self._file.flush()
        self._rows += table.num_rows

    def close(self) -> None:
        """Write the end marker. Closing twice is harmless."""
        if not self._file.closed:
            row = (self._rows, 2**63 - 1, CONTROLLER, int(INFO), END, None, self._rows, *[None] * 8)
            self._stream.write_table(to_table([row]))
            self._stream.close()
            self._file.close()


def read(path: Path | str, fs: pafs.FileSystem | None = None, told: str = "") -> History:
    """Load a history from a stream or a Parquet file, validated. `fs`: where that is, if not here; `told`: what errors
    call it.

    A stream without its end marker gives what can be read, with `cut` saying why it is not whole. Raises BadHistory for
    a file that is no history at all, is of a version that this one does not read, or breaks the rules of histories.
    """
    columns = Columns()
    try:
        return columns.history(into(columns, batches(path, fs))).validate()
    except BadHistory as error:
        raise BadHistory(f"{told or path}: {error}") from error


Batches = Generator[pa.Table, None, str | None]  # in the end: why the history is not whole


def batches(path: Path | str, fs: pafs.FileSystem | None = None, only: Sequence[str] = ()) -> Batches:
    """The rows of a history, some at a time, in their order; `only` these columns of them. Raises BadHistory as `read`
    does, but for rules, which are about all rows."""
    try:
        with (fs or pafs.LocalFileSystem()).open_input_file(str(path)) as file:
            return (yield from (_of_parquet if str(path).endswith(PARQUET_SUFFIX) else _of_stream)(file, only))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error  # Arrow has more to say than people ask for
        raise BadHistory(f"cannot be read: {why}") from error


def into(columns: Columns, rows: Batches) -> str | None:
    """Add all rows. Returns why the history is not whole."""
    while True:
        try:
            columns.add(next(rows))
        except StopIteration as end:
            cut: str | None = end.value
            return cut


def write_parquet(history: History, path: Path) -> None:
    """Keep a history as Parquet, whole or not at all; that it was cut is kept too."""
    table = history.to_table()
    metadata = dict(table.schema.metadata or {})
    if history.cut:
        metadata[b"splitbrain.cut"] = history.cut.encode()
    aside = path.with_suffix(path.suffix + ".part")
    pq.write_table(table.replace_schema_metadata(metadata), aside, compression="zstd")
    aside.replace(path)


def _of_parquet(file: pa.NativeFile, only: Sequence[str]) -> Batches:
    try:
        schema = pq.read_schema(file)
        _of_our_version(schema)
        coded = [name for name in ("f", "key", "node", "error") if name in schema.names]
        for batch in pq.ParquetFile(file, read_dictionary=coded).iter_batches(_BATCH, columns=list(only) or None):
            yield pa.Table.from_batches([batch])
    except pa.ArrowException as error:
        raise BadHistory(f"not a Parquet file that can be read: {error}") from error
    cut = (schema.metadata or {}).get(b"splitbrain.cut")
    return cut.decode() if cut else None


def _of_stream(file: pa.NativeFile, only: Sequence[str]) -> Batches:
    def some(table: pa.Table) -> pa.Table:
        return table.select(list(only)) if only else table

    rows, problem = 0, ""
    last: list[pa.RecordBatch] = []  # what is not added yet: the writer's batches are small, and the last has the mark
    try:
        reader = pa.ipc.open_stream(file)
    except (pa.ArrowException, OSError) as error:
        raise BadHistory(f"not a history: {error}") from error
    _of_our_version(reader.schema)
    try:
        for batch in reader:
            if sum(map(len, last)) >= _BATCH and len(batch):
                yield some(pa.Table.from_batches(last))
                last = []
            last.append(batch)
            rows += len(batch)
    except (pa.ArrowException, OSError) as error:
        problem = f", where a batch is broken ({error})"
    table = pa.Table.from_batches(last, reader.schema)
    end = table.num_rows - 1
    if end >= 0 and table.column("f")[end].as_py() == END and table.column("value")[end].as_py() == rows - 1:
        yield some(table.slice(0, end))
        return None
    yield some(table)
    ends = f"it ends after {rows} ops without its end marker{problem}"
    return f"{ends}: the controller was stopped before it could finish"


def _of_our_version(schema: pa.Schema) -> None:
    version = (schema.metadata or {}).get(b"splitbrain.schema", b"none").decode()
    if version != str(SCHEMA_VERSION):
        raise BadHistory(f"history schema {version}; this version reads {SCHEMA_VERSION}")
