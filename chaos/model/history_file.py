"""Histories on disk: an Arrow stream while a run is going on, Parquet when it is done.

The stream ends with a row of our own (f = "end", value = the number of rows before it). A file without it was cut off:
its controller was killed. Such a history is read up to its last whole batch and says so, since what it does not contain
may have happened.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from chaos.model.errors import BadHistory
from chaos.model.history import SCHEMA, Columns, History, to_table
from chaos.model.history_pieces import END, opened
from chaos.model.op import CONTROLLER, INFO

_BUFFER = 1 << 18


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
    try:
        with opened(path, fs) as pieces:
            columns = Columns(rows=pieces.rows)
            for rows in pieces.read():
                columns.add(rows)
            return columns.history(pieces.cut).validate()
    except BadHistory as error:
        raise BadHistory(f"{told or path}: {error}") from error


def write_parquet(history: History, path: Path) -> None:
    """Keep a history as Parquet, whole or not at all; that it was cut is kept too."""
    table = history.to_table()
    metadata = dict(table.schema.metadata or {})
    if history.cut:
        metadata[b"splitbrain.cut"] = history.cut.encode()
    aside = path.with_suffix(path.suffix + ".part")
    pq.write_table(table.replace_schema_metadata(metadata), aside, compression="zstd")
    aside.replace(path)
