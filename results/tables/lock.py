"""One writer of a store's tables at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs as pafs

from chaos.model.errors import SplitbrainError
from results.tables.manifest import Tables

LOCK = ".lock"


@contextmanager
def held(tables: Tables) -> Iterator[None]:
    """The tables are ours to write for as long as this lasts, and no longer, whatever ends this process.

    Raises SplitbrainError where somebody else writes them, or they cannot be written. In an object store nobody can be
    kept out: there the switch refuses where another generation came meanwhile (`Tables.switch`).
    """
    if not isinstance(tables.fs, pafs.LocalFileSystem):
        yield
        return
    try:
        Path(tables.root).mkdir(parents=True, exist_ok=True)
        handle = os.open(tables.path(LOCK), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise SplitbrainError(f"{tables.location}: cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            who = os.pread(handle, 100, 0).decode(errors="replace").strip()
            raise SplitbrainError(
                f"{tables.location}: another job is writing these tables{f' ({who})' if who else ''}: wait for its end"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
