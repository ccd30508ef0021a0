"""Rows that come once, kept to be read more than once: in memory while they are few, else in a file without a name."""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from chaos.model.errors import SplitbrainError
from chaos.model.history import SCHEMA, History
from checkers.split import Split, shared
from checkers.split_stream import Survey
from results.checking import wire

IN_MEMORY = 64 << 20  # bytes


class Spool:
    """Arrow streams of rows, in order. seen: what is known of all of them. first: the index of the first one that is
    of a key; 0 if there is none. cut: why they are not all, once that is known."""

    def __init__(self) -> None:
        self.seen = Survey()
        self.first = 0
        self.cut: str | None = None
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (it lives as long as this does)

    def add(self, stream: bytes) -> None:
        """More rows. Raises OSError where there is no room for them."""
        table = pa.ipc.open_stream(stream).read_all()
        own = self.seen.keys > 0
        self.seen.take(table)
        if not own and self.seen.keys:
            some = History.from_table(table)
            self.first = int(some.index[np.argmin(shared(some, Split.KEY))])
        self._file.write(wire.HEAD.pack(len(stream)) + stream)

    def fill(self, requests: queue.Queue[Any], run: str) -> None:
        """Take ("rows", stream), ... and ("end", cut), whatever happens. Raises SplitbrainError where there is no
        room."""
        trouble: OSError | None = None
        while (came := requests.get())[0] != "end":
            try:
                if trouble is None:
                    self.add(came[1])
            except OSError as error:
                trouble = error
        self.cut = came[1]
        if trouble is not None:
            raise SplitbrainError(f"{run}: no room here for a part of it: {trouble}")

    def read(self) -> Iterator[History]:
        """All rows, from the first one on."""
        self._file.seek(0)
        while head := self._file.read(wire.HEAD.size):
            at = self._file.tell()
            body = self._file.read(wire.HEAD.unpack(head)[0])
            yield History.from_table(pa.ipc.open_stream(body).read_all())
            self._file.seek(at + len(body))  # another may have read meanwhile
        yield History.from_table(SCHEMA.empty_table(), self.cut)

    def close(self) -> None:
        """Give the room back."""
        self._file.close()
