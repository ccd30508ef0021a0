"""How a history is cut into parts that can be judged apart, perhaps on many machines.

What a row goes by is said by `cut`, on whole histories; rows that come in batches are sent there without all the others
at hand (`checkers.split_stream`). A completion goes wherever its invocation goes.

By message: a bucket has some of the message ids, of *all* keys, for a message may be delivered from another queue than
it was published to. It has every row about them: publishes, deliveries with their credits, acks. Of each consumer's
connection every bucket that has not its last row has a *witness* of it, of no message and unknown outcome: until when
the connection was there.

By key: a part has some of the keys, and all rows of clients about them, also what the replicas of a queue hold and
whether it was drained.

What is of no message and no key, every part has: faults, beliefs about leadership, phases, connections, stalls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from chaos.model.history import NONE, History, Mask, Words
from chaos.model.op import INFO

EVERYWHERE = -1
OF_CONNECTIONS = ("open", "close")
OF_KEYS = ("replica", "drain")  # rows of ours about a key

Places = npt.NDArray[np.int32]
Rows = npt.NDArray[np.intp]


class Split(StrEnum):
    """How a history may be cut so that each part can be judged by itself."""

    MESSAGE = "message"  # by bucket of message ids
    KEY = "key"  # by key (queue, register), all of it in order
    RUN = "run"  # not at all


def cut(history: History, split: Split, number: int) -> list[History]:
    """The history in so many parts, each in history order; some may have no row of their own."""
    if split is Split.RUN:
        return [history]
    place = places(history, split, number)
    last = witnesses(history) if split is Split.MESSAGE else np.empty(0, dtype=np.intp)
    parts = []
    for part in range(number):
        rows = np.flatnonzero((place == part) | (place == EVERYWHERE))
        strange = last[place[last] != part]
        parts.append(testify(history.take(np.union1d(rows, strange)), history.index[strange]))
    return parts


def places(history: History, split: Split, number: int, ranks: npt.NDArray[np.int64] | None = None) -> Places:
    """For each row the part that it belongs to (0 to number - 1), EVERYWHERE for those that all parts need. `ranks`: of
    keys (by code; last, none), where these rows are not the first of their history."""
    start = history.invocation
    if split is Split.MESSAGE:
        said = _messages(history)
        # credits that brought no message are of none: wherever they go, they go with their ends
        own = np.where(said == NONE, np.where(start >= 0, history.index[start], history.index), said)
        place = _spread(own, number)
    else:
        at = np.where(start >= 0, start, np.arange(len(history)))
        ranks = _ranks(history) if ranks is None else ranks
        place = (ranks[history.key.codes] % number).astype(np.int32)[at]
    place[shared(history, split)] = EVERYWHERE
    return place


def witnesses(history: History) -> Rows:
    """The last row about consuming of each consumer's connection (channel of a process, queue)."""
    rows = history.rows("consume")
    rows = rows[history.process[rows] >= 0]
    order = np.lexsort((rows, history.channel[rows], history.process[rows], history.key.codes[rows]))
    rows = rows[order]
    columns = (history.key.codes[rows], history.process[rows], history.channel[rows])
    ends = np.ones(len(rows), dtype=np.bool_)
    ends[:-1] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.sort(rows[ends])


def testify(part: History, index: npt.NDArray[np.int64]) -> History:
    """The part, with the rows of these indices as witnesses of rows of others."""
    if not len(index):
        return part
    at = np.searchsorted(part.index, index)

    def without(column: npt.NDArray[np.int64], value: int) -> npt.NDArray[np.int64]:
        column = column.copy()
        column[at] = value
        return column

    codes = part.error.codes.copy()
    codes[at] = -1
    detail = list(part.detail_text)
    for row in at.tolist():
        detail[row] = None
    type_, redelivered = part.type.copy(), part.redelivered.copy()
    type_[at], redelivered[at] = INFO, -1
    return replace(
        part,
        type=type_,
        value=without(part.value, NONE),
        op=without(part.op, NONE),
        error=Words(codes, part.error.words),
        detail_text=detail,
        redelivered=redelivered,
    )


def by_key(history: History) -> Iterator[tuple[int, History]]:
    """Each key by itself, by first appearance: the index of its first row, and all its rows, with those of no key."""
    of_all = shared(history, Split.KEY)
    if not len(history) or of_all.all():
        yield 0, history
        return
    start = history.invocation
    key = history.key.codes[np.where(start >= 0, start, np.arange(len(history)))]
    own = np.flatnonzero(~of_all)
    order = own[np.argsort(key[own], kind="stable")]
    begins = np.flatnonzero(np.append(True, key[order[1:]] != key[order[:-1]]))
    if len(begins) == 1:
        yield int(history.index[own[0]]), history
        return
    ends = np.append(begins[1:], len(order))
    common = np.flatnonzero(of_all)
    for place in np.argsort(order[begins]).tolist():
        rows = order[begins[place] : ends[place]]
        yield int(history.index[rows[0]]), history.take(np.sort(np.concatenate([rows, common])))


def keys(history: History) -> int:
    """Of how many keys the history is, for checkers that are cut by key."""
    own = ~shared(history, Split.KEY)
    start = history.invocation
    return len(np.unique(history.key.codes[np.where(start >= 0, start, np.arange(len(history)))[own]]))


def _messages(history: History) -> npt.NDArray[np.int64]:
    """For each row the id of the message that it is about, NONE where it is about none. What was published is said by
    the invocation; what was delivered, or acked, by the completion if it says anything."""
    start = history.invocation
    said = history.value.copy()
    done = np.flatnonzero(start >= 0)
    begun = start[done]
    asked = history.value[begun]
    by_end = (said[done] != NONE) & ~history.f.is_("publish")[done]
    said[done] = np.where(by_end, said[done], asked)
    said[begun] = said[done]
    return said


def _spread(values: npt.NDArray[np.int64], number: int) -> Places:
    """A bucket for each value, whatever the pattern of the values."""
    mixed = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(33)) % np.uint64(number)).astype(np.int32)


def _ranks(history: History) -> npt.NDArray[np.int64]:
    """A number for each key (by code; last, none), in the order in which they come."""
    first = np.full(len(history.key.words) + 1, len(history), dtype=np.int64)
    np.minimum.at(first, history.key.codes, np.arange(len(history)))
    return np.argsort(np.argsort(first, kind="stable"))


def shared(history: History, split: Split) -> Mask:
    """Which rows are needed by all parts."""

    def among(fs: tuple[str, ...]) -> Mask:
        known = np.array([word in fs for word in history.f.words] + [False], dtype=np.bool_)
        return np.asarray(known[history.f.codes])

    ours = history.process < 0
    return (ours & ~among(OF_KEYS) if split is Split.KEY else ours) | among(OF_CONNECTIONS)
