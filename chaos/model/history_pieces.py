"""A history read piece by piece: an Arrow stream or Parquet, from any place that Arrow can open.

For all who read one: one that need not fit in memory, and the whole of one (`chaos.model.history_file`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from chaos.model.errors import BadHistory
from chaos.model.history import SCHEMA, SCHEMA_VERSION

STREAM_SUFFIX = ".arrows"
PARQUET_SUFFIX = ".parquet"
END = "end"  # f of the row that a whole stream ends with; its value is the number of rows before it
ROWS = 1 << 16  # of a piece, about
READ = frozenset({"1"})  # schema versions of histories that are still read
assert str(SCHEMA_VERSION) in READ
_CODED = ("f", "key", "node", "error")  # text of few words


@contextmanager
def opened(path: Path | str, fs: pafs.FileSystem | None = None, only: Sequence[str] = ()) -> Iterator[Pieces]:
    """A history's file; `fs`: where it is, if not here. Raises BadHistory where it cannot be read, or as `Pieces`."""
    try:
        with (fs or pafs.LocalFileSystem()).open_input_file(str(path)) as file:
            yield Pieces(file, str(path).endswith(PARQUET_SUFFIX), only)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error  # Arrow has more to say than people ask for
        raise BadHistory(f"cannot be read: {why}") from error


class Pieces:
    """A history's file, open. `cut`, once all was read: why it is not whole, or None. `groups`: how many parts of it
    can be read each by itself. `rows`: how many it has; 0: that is not known."""

    def __init__(self, file: pa.NativeFile, parquet: bool, only: Sequence[str] = ()) -> None:
        """`only`: the columns that are wanted. Raises BadHistory for a file that is no history, or of a version that is
        not read."""
        self.cut: str | None = None
        self.groups = 1
        self.rows = 0
        self._columns = list(only or SCHEMA.names)
        self._parquet: pq.ParquetFile | None = None
        try:
            if parquet:
                about = pq.read_metadata(file)
                coded = [name for name in about.schema.names if name in _CODED]
                self._parquet = pq.ParquetFile(file, metadata=about, read_dictionary=coded)
                schema, self.groups, self.rows = self._parquet.schema_arrow, about.num_row_groups, about.num_rows
            else:
                self._stream = pa.ipc.open_stream(file)
                schema = self._stream.schema
        except (pa.ArrowException, OSError) as error:
            what = "a Parquet file" if parquet else "a history"
            raise BadHistory(f"not {what} that can be read: {_short(error)}") from error
        metadata = schema.metadata or {}
        version = metadata.get(b"splitbrain.schema", b"none").decode()
        if version not in READ:
            raise BadHistory(f"history schema {version}; this version reads {', '.join(sorted(READ))}")
        if missing := [name for name in SCHEMA.names if name not in schema.names]:
            raise BadHistory(f"not the columns of a history: {', '.join(missing)} missing")
        if parquet and (cut := metadata.get(b"splitbrain.cut")):
            self.cut = cut.decode()

    def read(self, first: int = 0, last: int | None = None) -> Iterator[pa.Table]:
        """Its rows in order, some at a time, text coded where the file has it so; of the groups from `first` to before
        `last` only. Raises BadHistory where they cannot be read."""
        if self._parquet is None:
            yield from self._of_stream()
            return
        try:
            # Arrow keeps what it has read of a file until it has read all that it was asked for
            for group in range(first, self.groups if last is None else last):
                for batch in self._parquet.iter_batches(ROWS, row_groups=[group], columns=self._columns):
                    yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as error:
            raise BadHistory(f"cannot be read: {_short(error)}") from error

    def _of_stream(self) -> Iterator[pa.Table]:
        """A stream without its end marker, or with a broken batch, is read as far as it goes."""
        rows, problem = 0, ""
        kept: list[pa.RecordBatch] = []  # a writer's batches are small, and the last has the mark
        try:
            for batch in self._stream:
                if sum(map(len, kept)) >= ROWS and len(batch):
                    yield pa.Table.from_batches(kept).select(self._columns)
                    kept = []
                kept.append(batch)
                rows += len(batch)
        except (pa.ArrowException, OSError) as error:
            problem = f", where a batch is broken ({_short(error)})"
        last = pa.Table.from_batches(kept, self._stream.schema)
        end = last.num_rows - 1
        if end >= 0 and last["f"][end].as_py() == END and last["value"][end].as_py() == rows - 1:
            last = last.slice(0, end)
        else:
            self.cut = (
                f"it ends after {rows} ops without its end marker{problem}: the controller was stopped before it could "
                "finish"
            )
        yield last.select(self._columns)


def plain(rows: pa.Table) -> pa.RecordBatch:
    """Rows as one batch of `SCHEMA`, to the letter. Raises BadHistory where they are of other types."""
    try:
        (batch,) = rows.cast(SCHEMA).combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], SCHEMA)]
    except (pa.ArrowException, ValueError) as error:
        raise BadHistory(f"not the columns of a history: {_short(error)}") from error
    return batch


def _short(error: Exception) -> str:
    """What was wrong, in a line, without Arrow's own names for where."""
    return " ".join(str(error).split())[:300]
