"""A history held to its rules as it comes, piece by piece."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chaos.model.errors import BadHistory
from chaos.model.history import NONE, SCHEMA, Ints
from chaos.model.op import INVOKE

_REQUIRED = [field.name for field in SCHEMA if not field.nullable]


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
