"""A history in columns: what happened, a row an op, as NumPy arrays.

Text columns are coded (an int32 code a row into a list of words, -1 for none). Whole-number columns that may be empty
hold NONE there. Completions find their invocations by `op`, never by process, since pipelined confirms and prefetched
deliveries overlap within a process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.model.errors import BadHistory
from chaos.model.op import INVOKE, Op, OpType

SCHEMA_VERSION = 1
NONE = -(2**63)

SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("process", pa.int32(), nullable=False),
        pa.field("type", pa.int8(), nullable=False),
        pa.field("f", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("value", pa.int64()),
        pa.field("node", pa.string()),
        pa.field("error", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("op", pa.int64()),
        pa.field("channel", pa.int32()),
        pa.field("redelivered", pa.bool_()),
        pa.field("term", pa.int64()),
        pa.field("incarnation", pa.int64()),
    ],
    metadata={"splitbrain.schema": str(SCHEMA_VERSION)},
)
_ROW = pa.struct(list(SCHEMA))

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Words:
    """A text column: `codes[row]` is an index into `words`, or -1."""

    codes: npt.NDArray[np.int32]
    words: tuple[str, ...]

    def __getitem__(self, row: int) -> str | None:
        code = self.codes[row]
        return None if code < 0 else self.words[code]

    def is_(self, word: str) -> Mask:
        """Where the column holds the word."""
        if word not in self.words:
            return np.zeros(len(self.codes), dtype=np.bool_)
        return np.asarray(self.codes == self.words.index(word))


@dataclass(frozen=True)
class History:
    """Columns of one run. `cut`: why the history is known not to be whole (the controller was killed), or None."""

    index: Ints
    time: Ints
    process: npt.NDArray[np.int32]
    type: npt.NDArray[np.int8]
    f: Words
    key: Words
    value: Ints
    node: Words
    error: Words
    detail_text: Sequence[str | None]
    op: Ints
    channel: Ints
    redelivered: npt.NDArray[np.int8]  # 1, 0, or -1 where not said
    term: Ints
    incarnation: Ints
    cut: str | None = field(default=None)

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Op]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, row: int) -> Op:
        """The op in a row (not: of an index; they differ where the history is a selection)."""

        def whole(column: Ints) -> int | None:
            number = int(column[row])
            return None if number == NONE else number

        redelivered = int(self.redelivered[row])
        return Op(
            index=int(self.index[row]),
            time=int(self.time[row]),
            process=int(self.process[row]),
            type=OpType(int(self.type[row])),
            f=self.f[row] or "",
            key=self.key[row],
            value=whole(self.value),
            node=self.node[row],
            error=self.error[row],
            detail=self.detail(row) or None,
            op=whole(self.op),
            channel=whole(self.channel),
            redelivered=None if redelivered < 0 else bool(redelivered),
            term=whole(self.term),
            incarnation=whole(self.incarnation),
        )

    def detail(self, row: int) -> dict[str, Any]:
        """The JSON detail of a row, empty where there is none."""
        text = self.detail_text[row]
        return json.loads(text) if text else {}

    def rows(self, f: str, *types: OpType) -> npt.NDArray[np.intp]:
        """The rows of an operation, of the given types or of all."""
        mask = self.f.is_(f)
        if types:
            mask &= np.logical_or.reduce([self.type == int(type_) for type_ in types])
        return np.flatnonzero(mask)

    @cached_property
    def invocation(self) -> npt.NDArray[np.intp]:
        """For each row that completes an operation, the row of its invocation; -1 for all others."""
        found = np.full(len(self), -1, dtype=np.intp)
        ends = np.flatnonzero(self.op != NONE)
        of = self.op[ends]
        last = max(len(self) - 1, 0)
        if len(ends) and self.index[last] - self.index[0] == last:  # as a rule indices have no gaps
            at = np.clip(of - self.index[0], 0, last)
        else:
            at = np.minimum(np.searchsorted(self.index, of), last)
        known = self.index[at] == of
        found[ends[known]] = at[known]
        return found

    @cached_property
    def completion(self) -> npt.NDArray[np.intp]:
        """For each invocation, the row of its completion; -1 where it has none, and for all other rows."""
        found = np.full(len(self), -1, dtype=np.intp)
        ends = np.flatnonzero(self.invocation >= 0)
        found[self.invocation[ends]] = ends
        return found

    def select(self, mask: Mask) -> History:
        """The rows where the mask holds, with their own indices."""
        return self.take(np.flatnonzero(mask))

    def take(self, rows: npt.NDArray[np.intp]) -> History:
        """These rows (ascending), with their own indices."""

        def words(column: Words) -> Words:
            return Words(column.codes[rows], column.words)

        return History(
            index=self.index[rows],
            time=self.time[rows],
            process=self.process[rows],
            type=self.type[rows],
            f=words(self.f),
            key=words(self.key),
            value=self.value[rows],
            node=words(self.node),
            error=words(self.error),
            detail_text=_picked(self.detail_text, rows.tolist()),
            op=self.op[rows],
            channel=self.channel[rows],
            redelivered=self.redelivered[rows],
            term=self.term[rows],
            incarnation=self.incarnation[rows],
            cut=self.cut,
        )

    def validate(self) -> History:
        """The history itself, if it keeps the rules.

        Raises BadHistory naming the first op that breaks one: times running backwards, an index twice, a completion
        without an invocation, of another operation, or of one already completed.
        """

        def refuse(row: int, problem: str) -> None:
            raise BadHistory(f"history: op {int(self.index[row])}: {problem}")

        for rows, problem in (
            (np.flatnonzero(np.diff(self.index) <= 0) + 1, "its index is not above the one before"),
            (np.flatnonzero(np.diff(self.time) < 0) + 1, "its time is before that of the op before it"),
            (np.flatnonzero((self.type < 0) | (self.type > 3)), "its type is none of invoke, ok, fail, info"),
            (
                np.flatnonzero((self.op != NONE) & (self.invocation < 0)),
                "it completes an op that is not in the history",
            ),
        ):
            if len(rows):
                refuse(int(rows[0]), problem)
        ends = np.flatnonzero(self.op != NONE)
        starts = self.invocation[ends]
        for bad, problem in (
            ((self.type[ends] == INVOKE), "an invocation cannot complete another op"),
            ((self.type[starts] != INVOKE), "it completes an op that is not an invocation"),
            ((self.index[starts] >= self.index[ends]), "it completes an op that comes after it"),
            ((self.f.codes[starts] != self.f.codes[ends]), "it completes an op of another kind (f)"),
            ((self.process[starts] != self.process[ends]), "it completes an op of another process"),
        ):
            if bad.any():
                refuse(int(ends[np.flatnonzero(bad)[0]]), problem)
        completed = np.zeros(len(self), dtype=np.bool_)
        completed[starts] = True
        if np.count_nonzero(completed) != len(starts):
            _, first = np.unique(starts, return_index=True)
            again = np.setdiff1d(np.arange(len(starts)), first)
            refuse(int(ends[again[0]]), f"op {int(self.op[ends[again[0]]])} was already completed")
        return self

    def digest(self) -> str:
        """A digest of the rows: equal histories, and only they, have the same one, on any machine."""
        total = hashlib.blake2b(digest_size=16)

        def add(part: bytes) -> None:
            total.update(len(part).to_bytes(8, "little"))
            total.update(part)

        for ints in (
            self.index,
            self.time,
            self.process,
            self.type,
            self.value,
            self.op,
            self.channel,
            self.redelivered,
            self.term,
            self.incarnation,
        ):
            add(np.ascontiguousarray(ints, dtype="<i8").tobytes())
        for column in (self.f, self.key, self.node, self.error):
            # codes renumbered by first appearance, so that the digest sees words, not codes
            first = np.full(len(column.words) + 1, len(self), dtype=np.int64)
            np.minimum.at(first, column.codes, np.arange(len(self)))
            seen = np.argsort(first[:-1], kind="stable")[: np.count_nonzero(first[:-1] < len(self))]
            number = np.full(len(column.words) + 1, -1, dtype=np.int64)
            number[seen] = np.arange(len(seen))
            add(number[column.codes].astype("<i8").tobytes())
            add("\x1f".join(column.words[code] for code in seen.tolist()).encode())
        add("\x1f".join([text or "" for text in self.detail_text]).encode())
        return total.hexdigest()

    def to_table(self) -> pa.Table:
        """As an Arrow table of `SCHEMA`."""

        def whole(column: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
            wide = column.astype(np.int64)
            return pa.array(wide, mask=wide == NONE).cast(type_)

        def words(column: Words) -> pa.Array:
            codes = pa.array(column.codes, mask=column.codes < 0)
            return pa.DictionaryArray.from_arrays(codes, pa.array(column.words, pa.string())).cast(pa.string())

        return pa.Table.from_arrays(
            [
                pa.array(self.index),
                pa.array(self.time),
                pa.array(self.process),
                pa.array(self.type),
                words(self.f),
                words(self.key),
                whole(self.value, pa.int64()),
                words(self.node),
                words(self.error),
                pa.array(self.detail_text, pa.string()),
                whole(self.op, pa.int64()),
                whole(self.channel, pa.int32()),
                pa.array(self.redelivered == 1, mask=self.redelivered < 0),
                whole(self.term, pa.int64()),
                whole(self.incarnation, pa.int64()),
            ],
            schema=SCHEMA,
        )

    @staticmethod
    def from_table(table: pa.Table, cut: str | None = None) -> History:
        """From an Arrow table of `SCHEMA`. Raises BadHistory when columns are missing or of another type."""
        try:
            table = table.select(SCHEMA.names)
            # text may come coded, as files keep it
            coded = [
                pa.types.is_dictionary(field.type) and field.type.value_type == pa.string() for field in table.schema
            ]
            kept = [
                there if is_coded else field for field, there, is_coded in zip(SCHEMA, table.schema, coded, strict=True)
            ]
            table = table.cast(pa.schema(kept))
        except (KeyError, pa.ArrowException, ValueError) as error:
            raise BadHistory(f"history: not the columns of a history: {error}") from error

        def column(name: str) -> Any:
            return table.column(name).combine_chunks()

        def whole(name: str) -> Ints:
            return np.asarray(
                column(name).cast(pa.int64()).fill_null(NONE).to_numpy(zero_copy_only=False), dtype=np.int64
            )

        def words(name: str) -> Words:
            coded = table.column(name)
            if not pa.types.is_dictionary(coded.type):
                coded = coded.dictionary_encode()
            coded = coded.unify_dictionaries().combine_chunks()
            if isinstance(coded, pa.ChunkedArray):  # of no chunks
                coded = pa.concat_arrays(coded.chunks) if coded.num_chunks else pa.array([], coded.type)
            codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
            return Words(codes, tuple(coded.dictionary.to_pylist()))

        return History(
            index=whole("index"),
            time=whole("time"),
            process=whole("process").astype(np.int32),
            type=whole("type").astype(np.int8),
            f=words("f"),
            key=words("key"),
            value=whole("value"),
            node=words("node"),
            error=words("error"),
            detail_text=column("detail").to_pylist(),
            op=whole("op"),
            channel=whole("channel"),
            redelivered=column("redelivered")
            .cast(pa.int8())
            .fill_null(-1)
            .to_numpy(zero_copy_only=False)
            .astype(np.int8),
            term=whole("term"),
            incarnation=whole("incarnation"),
            cut=cut,
        )

    @staticmethod
    def from_ops(ops: Iterable[Op], cut: str | None = None) -> History:
        """From ops, as tests and small tools write them."""
        return History.from_table(to_table([row_of(op) for op in ops]), cut)


def _picked(texts: Sequence[str | None], rows: list[int]) -> Sequence[str | None]:
    if len(rows) < 2:
        return [texts[row] for row in rows]
    picked: tuple[str | None, ...] = itemgetter(*rows)(texts)
    return picked


class Growing:
    """Numbers that come some at a time, in one array: parts to be put together in the end would all be here twice.

    Of an array that is made larger than it needs to be, the system gives no memory for what is not written.
    """

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._all: npt.NDArray[Any] | None = None
        self._size = 0

    def add(self, some: npt.NDArray[Any]) -> None:
        """More of them, of one type."""
        size = self._size + len(some)
        if self._all is None or size > len(self._all):
            wider = np.empty(max(self._room, size, 2 * self._size), dtype=some.dtype)
            wider[: self._size] = self.all()
            self._all = wider
        self._all[self._size : size] = some
        self._size = size

    def all(self) -> npt.NDArray[Any]:
        """All that came."""
        return np.empty(0) if self._all is None else self._all[: self._size]


class Columns:
    """Takes a history as its rows come, batch by batch, and holds about 100 bytes of each.

    Add Arrow tables of `SCHEMA`, in the order of the history, and ask for it once, at the end.
    """

    _TEXT = ("f", "key", "node", "error")
    _NUMBERS = ("index", "time", "process", "type", "value", "op", "channel", "redelivered", "term", "incarnation")

    def __init__(self, only: Sequence[str] = (), rows: int = 0) -> None:
        """`only`: the columns that come; the others are empty. `rows`: how many are expected."""
        self._only = only
        self._numbers = {name: Growing(rows) for name in self._NUMBERS}
        self._codes = {name: Growing(rows) for name in self._TEXT}
        self._words: dict[str, dict[str, int]] = {name: {} for name in self._TEXT}
        self._detail: list[str | None] = []

    def __len__(self) -> int:
        return len(self._detail)

    def add(self, table: pa.Table) -> None:
        """More rows. Raises BadHistory when they are not those of a history."""
        if self._only:
            empty = {field.name: pa.nulls(len(table), field.type) for field in SCHEMA if field.name not in self._only}
            table = pa.table({name: empty[name] if name in empty else table[name] for name in SCHEMA.names})
        self.join(History.from_table(table))

    def join(self, some: History) -> None:
        """More rows, in columns already."""
        for name, numbers in self._numbers.items():
            numbers.add(getattr(some, name))
        for name, known in self._words.items():
            column: Words = getattr(some, name)
            renamed = [known.setdefault(word, len(known)) for word in column.words]
            self._codes[name].add(np.append(np.array(renamed, dtype=np.int32), np.int32(-1))[column.codes])
        self._detail += some.detail_text

    def history(self, cut: str | None = None) -> History:
        """All of them."""
        if not len(self):
            return History.from_table(SCHEMA.empty_table(), cut)

        columns: dict[str, Any] = {name: numbers.all() for name, numbers in self._numbers.items()}
        columns |= {name: Words(self._codes[name].all(), tuple(self._words[name])) for name in self._TEXT}
        columns["detail_text"], self._detail = self._detail, []
        return History(**columns, cut=cut)


Row = tuple[Any, ...]


def row_of(op: Op) -> Row:
    """An op as a row in the order of `SCHEMA`."""
    detail = json.dumps(op.detail, sort_keys=True, separators=(",", ":")) if op.detail else None
    return (
        op.index,
        op.time,
        op.process,
        int(op.type),
        op.f,
        op.key,
        op.value,
        op.node,
        op.error,
        detail,
        op.op,
        op.channel,
        op.redelivered,
        op.term,
        op.incarnation,
    )


def to_table(rows: Sequence[Row]) -> pa.Table:
    """Rows in the order of `SCHEMA` as an Arrow table."""
    # every few ms of a real run: one call for all columns takes half as long as one a column
    return pa.Table.from_arrays(pa.array(rows, _ROW).flatten(), schema=SCHEMA)
