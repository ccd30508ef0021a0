"""What most checkers begin with: the publishes and the deliveries of a history, as columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.model.errors import BadHistory
from chaos.model.history import NONE, History, Ints, Mask
from chaos.model.op import CHANGES, CORRUPT, FOREIGN, INFO, INVOKE, OK

Rows = npt.NDArray[np.intp]
NEVER = np.iinfo(np.int64).max  # a row that never comes


@dataclass(frozen=True)
class Publishes:
    """Every publish attempt, ordered by message id.

    row: of its invocation. end: row of its completion, -1 where it has none. outcome: OK, FAIL or INFO; a publish
    that never completed is INFO. key: code of its queue (in `History.key`).
    """

    id: Ints
    row: Rows
    end: Rows
    outcome: npt.NDArray[np.int8]
    key: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.id)

    def find(self, ids: Ints) -> Rows:
        """For each id, which publish it is (a position in these columns), -1 for ids that were never published."""
        if not len(self.id):
            return np.full(len(ids), -1, dtype=np.intp)
        at = np.minimum(np.searchsorted(self.id, ids), len(self.id) - 1)
        return np.where(self.id[at] == ids, at, -1)

    def home(self, at: Rows) -> npt.NDArray[np.int32]:
        """The code of the queue that each of the publishes at these positions went to, -1 for position -1."""
        return np.append(self.key, np.int32(-1))[at]

    @property
    def confirmed(self) -> Mask:
        return np.asarray(self.outcome == OK)


def publishes(history: History) -> Publishes:
    """The publishes of a history. Raises BadHistory for one without an id, or two with the same."""
    rows = history.rows("publish", INVOKE)
    rows = rows[np.argsort(history.value[rows], kind="stable")]
    ids = history.value[rows]
    if len(ids) and ids[0] == NONE:
        raise BadHistory(f"history: op {int(history.index[rows[0]])}: a publish without a message id")
    again = np.flatnonzero(ids[1:] == ids[:-1])
    if len(again):
        first, second = (int(history.index[rows[again[0] + step]]) for step in (0, 1))
        used = f"message id {int(ids[again[0]])} was already used by op {first}"
        raise BadHistory(f"history: op {second}: {used}; ids are unique per attempt")
    end = history.completion[rows]
    outcome = np.where(end >= 0, history.type[end], np.int8(INFO)).astype(np.int8)
    return Publishes(ids, rows, end, outcome, history.key.codes[rows])


def changes(history: History) -> Publishes:
    """What a history shows progress by: its publishes; or, of one without any, the operations on objects that ask for a
    change, numbered in the order of their calls. Raises BadHistory as `publishes` does."""
    published = publishes(history)
    if len(published):
        return published
    rows = np.sort(np.concatenate([history.rows(f, INVOKE) for f in CHANGES]))
    rows = rows[history.process[rows] >= 0]
    end = history.completion[rows]
    outcome = np.where(end >= 0, history.type[end], np.int8(INFO)).astype(np.int8)
    return Publishes(np.arange(len(rows), dtype=np.int64), rows, end, outcome, history.key.codes[rows])


def deliveries(history: History) -> Rows:
    """Rows of the deliveries of intact messages of ours: neither empty answers, nor corrupt, nor foreign."""
    rows = history.rows("consume", OK)
    whole = (history.value[rows] != NONE) & ~history.error.is_(CORRUPT)[rows] & ~history.error.is_(FOREIGN)[rows]
    return np.asarray(rows[whole])


def granted(history: History, rows: Rows) -> Rows:
    """For each delivery, or answer, the row at which it was asked for: its credit granted (its own where that is not
    known)."""
    row = history.invocation[rows]
    return np.where(row >= 0, row, rows)


def acked(history: History, published: Publishes) -> Ints:
    """For each publish the row at which an ack of it was first known to have taken effect, or NEVER."""
    first_row = np.full(len(published), NEVER, dtype=np.int64)
    rows = history.rows("ack", OK)
    rows = rows[history.value[rows] != NONE]
    at = published.find(history.value[rows])
    known = (at >= 0) & (published.home(at) == history.key.codes[rows])
    np.minimum.at(first_row, at[known], rows[known])
    return first_row


def said(history: History, rows: Rows) -> list[Any]:
    """What the ops in these rows say, as it is: a whole number, else what is in `detail` as {"value": ...}, else None;
    None for row -1."""
    known: dict[str, Any] = {}
    found: list[Any] = []
    for row, number in zip(rows.tolist(), history.value[rows].tolist(), strict=True):
        text = history.detail_text[row] if row >= 0 and number == NONE else None
        if text is not None:
            if text not in known:
                known[text] = json.loads(text).get("value")
            found.append(known[text])
        else:
            found.append(None if row < 0 or number == NONE else number)
    return found


def coded(*columns: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """One number a row, from 0 without gaps: equal for two rows where all columns are equal."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        place, many = _ranked(column)
        code, _ = _ranked(code * many + place)
    return code


def _ranked(column: npt.NDArray[Any]) -> tuple[Ints, int]:
    """The place of each value among those that there are, and how many these are."""
    if not len(column):
        return np.zeros(0, dtype=np.int64), 0
    low, high = int(column.min()), int(column.max())
    if high - low > 4 * len(column):
        values, place = np.unique(column, return_inverse=True)
        return place.reshape(-1).astype(np.int64), len(values)
    at = column.astype(np.int64) - low  # close together: no need to sort them
    there = np.zeros(high - low + 1, dtype=np.bool_)
    there[at] = True
    place = np.cumsum(there) - 1
    return np.asarray(place[at]), int(place[-1]) + 1


def earliest(number: int, *columns: Rows) -> Rows:
    """Which so many findings come first (positions, in order), as `checkers.base.first` orders them by their ops: by
    the first of these rows, then by the second, and so on. `columns` hold the rows of each; -1 stands for none."""
    table = np.stack([np.where(column < 0, NEVER, column) for column in columns], axis=1).astype(np.int64)
    table.sort(axis=1)
    near = np.arange(len(table))
    if len(table) > number:  # a few of very many: those that begin late need not be put in order
        near = np.flatnonzero(table[:, 0] <= np.partition(table[:, 0], number - 1)[number - 1])
        table = table[near]
    same = np.zeros(table.shape, dtype=np.bool_)
    same[:, 1:] = table[:, 1:] == table[:, :-1]
    table[same] = NEVER
    table.sort(axis=1)
    table[table == NEVER] = -1  # what has no more ops comes before what has
    return near[np.lexsort(table.T[::-1])[:number]]


def indices(history: History, *rows: int) -> tuple[int, ...]:
    """The indices of the ops in these rows, in history order; -1 stands for an op that is not there."""
    return tuple(int(history.index[row]) for row in sorted({int(row) for row in rows}) if row >= 0)
