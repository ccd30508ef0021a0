"""A history read piece by piece, held to the rules as it goes: for one that need not fit in memory.

The same files as `chaos.model.history_file`, from any place that Arrow can open.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.model.errors import BadHistory
from chaos.model.history import NONE, SCHEMA, SCHEMA_VERSION, Ints
from chaos.model.history_file import END
from chaos.model.op import INVOKE

READ = frozenset({"1"})  # schema versions of histories that are still read
assert str(SCHEMA_VERSION) in READ
ROWS = 1 << 16  # of a piece
_REQUIRED = [field.name for field in SCHEMA if not field.nullable]


class Pieces:
    """A history's file, open. `cut`, once all was read: why it is not whole, or None. `groups`: how many parts of it
    can be read each by itself."""

    def __init__(self, file: pa.NativeFile, parquet: bool) -> None:
        """Raises BadHistory for a file that is no history, or of a version that is not read."""
        self.cut: str | None = None
        self.groups = 1
        self._parquet: pq.ParquetFile | None = None
        try:
            if parquet:
                self._parquet = pq.ParquetFile(file)
                schema, self.groups = self._parquet.schema_arrow, self._parquet.num_row_groups
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

    def read(self, first: int = 0, last: int | None = None) -> Iterator[pa.RecordBatch]:
        """Its rows in order, in batches of `SCHEMA`; of the groups from `first` to before `last` only. Raises
        BadHistory where they cannot be read."""
        try:
            if self._parquet is None:
                yield from self._of_stream()
                return
            groups = list(range(first, self.groups if last is None else last))
            for batch in self._parquet.iter_batches(ROWS, row_groups=groups, columns=SCHEMA.names):
                yield from _cast(batch)
        except (pa.ArrowException, OSError) as error:
            raise BadHistory(f"cannot be read: {_short(error)}") from error

    def _of_stream(self) -> Iterator[pa.RecordBatch]:
        """A stream without its end marker, or with a broken batch, is read as far as it goes."""
        rows, problem, ended = 0, "", False
        while True:
            try:
                batch = self._stream.read_next_batch()
            except StopIteration:
                break
            except (pa.ArrowException, OSError) as error:
                problem = f", where a batch is broken ({_short(error)})"
                break
            last = batch.num_rows - 1
            ended = last >= 0 and batch["f"][last].as_py() == END and batch["value"][last].as_py() == rows + last
            rows += batch.num_rows
            yield from _cast(batch.slice(0, last) if ended else batch)
        if not ended:
            self.cut = (
                f"it ends after {rows} ops without its end marker{problem}: the controller was stopped before it could "
                "finish"
            )


def _cast(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    try:
        table = pa.Table.from_batches([batch]).select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, ValueError) as error:
        raise BadHistory(f"not the columns of a history: {error}") from error
    yield from table.to_batches(ROWS)


def _short(error: Exception) -> str:
    """What was wrong, in a line, without Arrow's own names for where."""
    return " ".join(str(error).split())[:300]


class Rules:
    """Holds the batches of a history to the rules that `History.validate` has, and remembers no more of it than the
    invocations that wait for a completion. `rows`: how many; `first`, `last`: indices; `begun`, `ended`: times."""

    def __init__(self) -> None:
        self.rows = 0
        self.first = self.last = self.begun = self.ended = 0
        self._open = np.zeros((3, 0), dtype=np.int64)  # index, code of f, process; in order
        self._codes: dict[str, int] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """The next batch. Raises BadHistory naming the first op that breaks a rule."""
        if not batch.num_rows:
            return
        for name in _REQUIRED:
            if batch[name].null_count:
                raise BadHistory(f"history: an op without {name}")
        index, time, process, type_, op = (
            np.asarray(batch[name].cast(pa.int64()).fill_null(NONE).to_numpy(zero_copy_only=False))
            for name in ("index", "time", "process", "type", "op")
        )
        before, then = (self.last, self.ended) if self.rows else (int(index[0]) - 1, int(time[0]))
        for bad, problem in (
            (np.diff(index, prepend=before) <= 0, "its index is not above the one before"),
            (np.diff(time, prepend=then) < 0, "its time is before that of the op before it"),
            ((type_ < 0) | (type_ > 3), "its type is none of invoke, ok, fail, info"),
            ((type_ == INVOKE) & (op != NONE), "an invocation cannot complete another op"),
        ):
            if bad.any():
                raise BadHistory(f"history: op {int(index[np.flatnonzero(bad)[0]])}: {problem}")
        if not self.rows:
            self.first, self.begun = int(index[0]), int(time[0])
        self.rows += len(index)
        self.last, self.ended = int(index[-1]), int(time[-1])
        self._pair(index, self._coded(batch["f"]), process, type_, op)

    def _coded(self, words: pa.Array) -> Ints:
        coded = words.dictionary_encode()
        codes = [self._codes.setdefault(word, len(self._codes)) for word in coded.dictionary.to_pylist()]
        return np.asarray(np.asarray(codes, dtype=np.int64)[coded.indices.to_numpy(zero_copy_only=False)])

    def _pair(self, index: Ints, f: Ints, process: Ints, type_: Ints, op: Ints) -> None:
        begun = type_ == INVOKE
        waiting = np.concatenate([self._open, np.stack([index[begun], f[begun], process[begun]])], axis=1)
        ends = np.flatnonzero(op != NONE)
        # one that waits for ever, so that there is always one to look at
        guarded = np.concatenate([waiting, np.full((3, 1), np.iinfo(np.int64).max)], axis=1)
        at = np.searchsorted(waiting[0], op[ends])
        known = guarded[0, at] == op[ends]
        again = np.ones(len(ends), dtype=np.bool_)
        again[np.unique(at, return_index=True)[1]] = False
        for bad, problem in (
            (~known | again, "it completes op {of}, which does not wait for it: there is none, or it was completed"),
            (op[ends] >= index[ends], "it completes an op that comes after it"),
            (guarded[1, at] != f[ends], "it completes an op of another kind (f)"),
            (guarded[2, at] != process[ends], "it completes an op of another process"),
        ):
            if bad.any():
                row = ends[np.flatnonzero(bad)[0]]
                raise BadHistory(f"history: op {int(index[row])}: {problem.format(of=int(op[row]))}")
        self._open = np.delete(waiting, at, axis=1)
