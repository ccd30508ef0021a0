"""Histories on disk: an Arrow stream while a run is going on, Parquet when it is done.

The stream ends with a row of our own (f = "end", value = the number of rows before it). A file without it was cut off:
its controller was killed. Such a history is read up to its last whole batch and says so, since what it does not contain
may have happened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
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


def read(path: Path) -> History:
    """Load a history from a stream or a Parquet file, validated.

    A stream without its end marker gives what can be read, with `cut` saying why it is not whole. Raises BadHistory for
    a file that is no history at all, is of a version that this one does not read, or breaks the rules of histories.
    """
    columns = Columns()
    try:
        cut = _read_parquet(path, columns.add) if path.suffix == PARQUET_SUFFIX else _read_stream(path, columns.add)
        return columns.history(cut).validate()
    except OSError as error:
        raise BadHistory(f"{path}: cannot be read: {error.strerror or error}") from error
    except BadHistory as error:
        raise BadHistory(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error


def write_parquet(history: History, path: Path) -> None:
    """Keep a history as Parquet, whole or not at all; that it was cut is kept too."""
    table = history.to_table()
    metadata = dict(table.schema.metadata or {})
    if history.cut:
        metadata[b"splitbrain.cut"] = history.cut.encode()
    aside = path.with_suffix(path.suffix + ".part")
    pq.write_table(table.replace_schema_metadata(metadata), aside, compression="zstd")
    aside.replace(path)


def _read_parquet(path: Path, add: Callable[[pa.Table], None]) -> str | None:
    """Its rows, batch by batch. Returns why the history is not whole."""
    try:
        schema = pq.read_schema(path)
        _of_our_version(path, schema)
        coded = [name for name in ("f", "key", "node", "error") if name in schema.names]
        with pq.ParquetFile(path, read_dictionary=coded) as file:
            for batch in file.iter_batches(_BATCH):
                add(pa.Table.from_batches([batch]))
    except pa.ArrowException as error:
        raise BadHistory(f"{path}: not a Parquet file that can be read: {error}") from error
    cut = (schema.metadata or {}).get(b"splitbrain.cut")
    return cut.decode() if cut else None


def _read_stream(path: Path, add: Callable[[pa.Table], None]) -> str | None:
    """The same of a stream."""
    rows, problem = 0, ""
    last: list[pa.RecordBatch] = []  # what is not added yet: the writer's batches are small, and the last has the mark
    with path.open("rb") as file:
        try:
            reader = pa.ipc.open_stream(file)
        except (pa.ArrowException, OSError) as error:
            raise BadHistory(f"{path}: not a history: {error}") from error
        _of_our_version(path, reader.schema)
        try:
            for batch in reader:
                if sum(map(len, last)) >= _BATCH and len(batch):
                    add(pa.Table.from_batches(last))
                    last = []
                last.append(batch)
                rows += len(batch)
        except (pa.ArrowException, OSError) as error:
            problem = f", where a batch is broken ({error})"
    table = pa.Table.from_batches(last, reader.schema)
    end = table.num_rows - 1
    if end >= 0 and table.column("f")[end].as_py() == END and table.column("value")[end].as_py() == rows - 1:
        add(table.slice(0, end))
        return None
    add(table)
    return (
        f"it ends after {rows} ops without its end marker{problem}: the controller was stopped before it could finish"
    )


def _of_our_version(path: Path, schema: pa.Schema) -> None:
    version = (schema.metadata or {}).get(b"splitbrain.schema", b"none").decode()
    if version != str(SCHEMA_VERSION):
        raise BadHistory(f"{path}: history schema {version}; this version reads {SCHEMA_VERSION}")
