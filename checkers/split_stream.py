"""A history that need not fit in memory, cut batch by batch into the very parts that `checkers.split.cut` makes of it.

It is gone through twice. A `Survey` takes of all rows what must be known before the first can be sent: the order of the
keys, the last row of each consumer's connection, and which invocations nobody answers. A `Cutter` then sends the rows.
By message an invocation goes where its completion says, so it waits for that; by key, and what is published, where it
says itself, and of it only that is kept. Neither holds more than a batch and the invocations that are open then; and
one number for each that nobody answers, for each connection, and for each key.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.model.history import NONE, SCHEMA, Columns, History, Ints, Mask
from chaos.model.op import INFO, INVOKE
from checkers.split import EVERYWHERE, Places, Split, places, shared, witnesses

LOOKED_AT = ("index", "time", "process", "type", "f", "key", "value", "op", "channel")  # by which rows are sent
COPIED = 1 << 24  # bytes of copies of rows that are made at once, unless those for one part are more
TABLES = 100  # that rows which wait are in, at most

Sent = tuple[Places, pa.Table]  # rows, and the part of each


class Survey:
    """What is known of a history once all of its rows were taken, in order. `rows`: how many."""

    def __init__(self) -> None:
        self.rows = 0
        self._ranks: dict[str | None, int] = {}  # of keys, as they come
        self._own: set[str | None] = set()  # keys that something is asked of
        self._last: dict[tuple[int, int, int], int] = {}  # key, process, channel: index
        self._open = np.empty(0, dtype=np.int64)

    def take(self, table: pa.Table) -> None:
        """More rows, at least LOOKED_AT of them. Raises BadHistory when they are not those of a history."""
        some = _looked_at(table)
        self.rows += len(some)
        self._ranks |= {word: len(self._ranks) + at for at, word in enumerate(_new(some, self._ranks))}
        asked = some.key.codes[~shared(some, Split.KEY) & (some.op == NONE)]
        self._own |= {_word(some, code) for code in np.unique(asked).tolist()}
        last = witnesses(some)
        columns = (self.ranks(some)[some.key.codes], some.process, some.channel, some.index)
        key, process, channel, index = (column[last].tolist() for column in columns)
        self._last.update(zip(zip(key, process, channel, strict=True), index, strict=True))
        begun = np.append(self._open, some.index[some.type == INVOKE])
        self._open = begun[~np.isin(begun, some.op[some.op != NONE])]

    def ranks(self, some: History) -> Ints:
        """A number for each key of some rows (by code; last, none), in the order in which they came."""
        return np.array([self._ranks.get(word, 0) for word in (*some.key.words, None)], dtype=np.int64)

    @property
    def keys(self) -> int:
        """As `checkers.split.keys`."""
        return len(self._own)

    @property
    def unanswered(self) -> Ints:
        """The indices of invocations without a completion, in order."""
        return self._open

    @property
    def witnesses(self) -> Ints:
        """The indices of the rows that `checkers.split.witnesses` finds, in order."""
        return np.array(sorted(self._last.values()), dtype=np.int64)


class Cutter:
    """Sends the rows of a history, in the order of the history, to the parts that they belong to."""

    def __init__(self, split: Split, parts: int, seen: Survey) -> None:
        """`seen`: all of them."""
        self.split = split
        self.parts = parts
        self._seen = seen
        self._unanswered = seen.unanswered
        self._witnesses = seen.witnesses if split is Split.MESSAGE else np.empty(0, dtype=np.int64)
        self._held: list[pa.Table] = []  # invocations that wait here, in order
        # invocations that were sent before their completion came: their indices, in order, and where they went
        self._gone = np.empty(0, dtype=np.int64)
        self._place = np.empty(0, dtype=np.int32)

    @property
    def waiting(self) -> int:
        """How many invocations wait for a completion, here or where they were sent."""
        return sum(map(len, self._held)) + len(self._gone)

    def send(self, table: pa.Table) -> Iterator[Sent]:
        """Rows that can be sent now that these (of SCHEMA, text plain) have come too."""
        table = pa.concat_tables([*self._begun(table), table]).combine_chunks()
        some = _looked_at(table)
        place = places(some, self.split, self.parts, self._seen.ranks(some))
        self._follow(some, place)
        waits = (some.type == INVOKE) & (some.completion < 0) & (place != EVERYWHERE)
        waits &= ~_found(some.index, self._unanswered)[0]
        held = waits & ~some.f.is_("publish") if self.split is Split.MESSAGE else np.zeros_like(waits)
        if held.any():
            self._held.append(table.filter(pa.array(held)))
        self._gone = np.append(self._gone, some.index[waits & ~held])
        self._place = np.append(self._place, place[waits & ~held])

        own = ~held & (place != EVERYWHERE)
        if own.any():
            yield place[own], table.filter(pa.array(own))
        common = place == EVERYWHERE
        strange = own & _found(some.index, self._witnesses)[0]
        copied = [table.filter(pa.array(common)), _testified(table.filter(pa.array(strange)))]
        yield from self._copies(pa.concat_tables(copied), np.append(place[common], place[strange]))

    def _begun(self, table: pa.Table) -> list[pa.Table]:
        """Of the invocations that wait here those that these rows complete; they wait no more."""
        ends = np.sort(table["op"].drop_null().to_numpy())
        begun, held = [], []
        for some in self._held:
            index = some["index"].to_numpy()
            of_these = slice(*np.searchsorted(ends, (index[0], index[-1] + 1)))
            known, at = _found(ends[of_these], index)
            answered = np.zeros(len(index), dtype=np.bool_)
            answered[at[known]] = True
            if answered.any():
                begun.append(some.filter(pa.array(answered)))
                some = some.filter(pa.array(~answered))
            if len(some):
                held.append(some)
        # so that few that wait for long do not make many tables
        self._held = held if len(held) < TABLES else [pa.concat_tables(held).combine_chunks()]
        return begun

    def _follow(self, some: History, place: Places) -> None:
        """Completions go where their invocations went, if those are not among these rows."""
        ends = np.flatnonzero((some.op != NONE) & (some.invocation < 0) & (place != EVERYWHERE))
        known, at = _found(some.op[ends], self._gone)
        place[ends[known]] = self._place[at[known]]
        self._gone, self._place = np.delete(self._gone, at[known]), np.delete(self._place, at[known])

    def _copies(self, rows: pa.Table, place: Places) -> Iterator[Sent]:
        """Rows for all parts, but for the one that has the row itself."""
        if not len(rows):
            return
        rows = rows.combine_chunks()
        many = max(COPIED // max(rows.nbytes, 1), 1)
        for first in range(0, self.parts, many):
            part = np.arange(first, min(first + many, self.parts), dtype=np.int32)
            to, row = np.repeat(part, len(rows)), np.tile(np.arange(len(rows)), len(part))
            others = to != place[row]
            if others.any():
                yield to[others], rows.take(pa.array(row[others]))


def _looked_at(table: pa.Table) -> History:
    columns = Columns(LOOKED_AT, len(table))
    columns.add(table)
    return columns.history()


def _word(some: History, code: int) -> str | None:
    return None if code < 0 else some.key.words[code]


def _new(some: History, known: dict[str | None, int]) -> list[str | None]:
    """The keys of rows that are not known, in the order in which they come."""
    codes, first = np.unique(some.key.codes, return_index=True)
    words = (_word(some, code) for code in codes[np.argsort(first)].tolist())
    return [word for word in words if word not in known]


def _found(values: Ints, among: Ints) -> tuple[Mask, npt.NDArray[np.intp]]:
    """Which values are among others, which are in order; and where they are there."""
    at = np.searchsorted(among, values)
    there = np.append(among, NONE)[at] == values  # nothing is found at the end
    return there, at


def _testified(rows: pa.Table) -> pa.Table:
    """As `checkers.split.testify` has them."""
    for name in ("value", "op", "error", "detail", "redelivered"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, SCHEMA.field(name), pa.nulls(len(rows), SCHEMA.field(name).type))
    at = rows.schema.get_field_index("type")
    return rows.set_column(at, SCHEMA.field("type"), pa.repeat(pa.scalar(int(INFO), pa.int8()), len(rows)))
