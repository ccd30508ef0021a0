"""What the monitors of queues and bags share: puts joined with takes, what is wrong with one value, empty answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chaos.model.history import NONE
from checkers.base import several
from checkers.linearizability.calls import NEVER, Calls, F
from checkers.linearizability.monitors.found import Found
from checkers.linearizability.monitors.ranks import Line, Ranks, Rows, line, narrow, refuse
from checkers.linearizability.monitors.values import join
from checkers.linearizability.verdict import Violation

DUPLICATE, PHANTOM, FRESH, EMPTY = "duplicate", "phantom", "consumed-before-published", "empty-though-not"


@dataclass(slots=True)
class Values:
    """A place a put, in the order of their calls.

    put: its row. take: rows of takes, taken: which of them took it, -1 if none was seen to. a, b: the put's call and
    return; c, d: its take's; `size` of the line where there is none. jokers: calls of takes that nobody knows about,
    sorted. empty: rows.
    """

    calls: Calls
    line: Line
    put: Rows
    take: Rows
    taken: Ranks
    a: Ranks
    b: Ranks
    c: Ranks
    d: Ranks
    jokers: Ranks
    empty: Rows

    def value(self, place: int) -> int:
        """The value put at a place."""
        return int(self.calls.arg[self.put[place]])

    def rows(self, place: int) -> tuple[int, int]:
        """The put's row and the take's, -1 if there is none."""
        return int(self.put[place]), int(self.take[self.taken[place]])

    def process(self, place: int) -> int:
        """Who took it."""
        return int(self.calls.process[self.rows(place)[1]])


def values(calls: Calls, found: Found) -> Values:
    """Join puts with takes. Raises Refused for other operations, puts of nothing, and values put twice."""
    row = line(calls)
    is_put = calls.f == F.PUT
    put, take = np.flatnonzero(is_put), np.flatnonzero(~is_put)
    strange = calls.f[take] != F.TAKE
    if strange.any():
        refuse(calls, int(take[np.argmax(strange)]), "is neither a put nor a take")
    value, out = calls.arg[put], calls.out[take]
    nothing = value == NONE
    if nothing.any():
        refuse(calls, int(put[np.argmax(nothing)]), "puts no value")
    blank = (out == NONE) | (row.ret[take] == row.size)
    jokers = empty = np.empty(0, dtype=np.intp)
    if blank.any():
        open_ = calls.ret[take] == NEVER
        jokers, empty = take[open_], take[blank & ~open_]
        take, out = take[~blank], out[~blank]
    key, of_take = (None, None) if row.key is None else (row.key[put], row.key[take])
    at, twice = join(value, out, key, of_take)
    if twice >= 0:
        refuse(calls, int(put[twice]), f"puts {value[twice]}, which was put before")
    unknown = at < 0
    if unknown.any():
        stray = take[unknown]
        found.first(unknown[unknown], row.ret[stray], lambda place: _phantom(calls, int(stray[place])))
        at, take = at[~unknown], take[~unknown]
    taken: Ranks = np.full(len(put), -1, dtype=narrow(len(calls)))
    taken[at] = np.arange(len(take), dtype=taken.dtype)
    if np.count_nonzero(taken >= 0) < len(take):
        again = taken[at] != np.arange(len(take))
        found.first(
            again, row.ret[take], lambda place: _duplicate(calls, int(take[place]), int(take[taken[at[place]]]))
        )
    size = row.call.dtype.type(row.size)  # stands last, where -1 finds it
    all_ = Values(
        calls, row, put, np.append(take, -1), taken,
        a=row.call[put], b=row.ret[put],
        c=np.append(row.call[take], size)[taken], d=np.append(row.ret[take], size)[taken],
        jokers=np.sort(row.call[jokers]), empty=empty,
    )  # fmt: skip
    found.first(all_.d < all_.a, all_.d, lambda place: _fresh(all_, place))
    return all_


def _phantom(calls: Calls, row: int) -> Violation:
    return Violation(PHANTOM, (row,), f"message {calls.out[row]} was consumed, but never published")


def _duplicate(calls: Calls, one: int, other: int) -> Violation:
    rows = (min(one, other), max(one, other))
    who = " and ".join(f"by process {calls.process[row]}" for row in rows)
    return Violation(DUPLICATE, rows, f"message {calls.out[one]} was consumed twice, {who}")


def _fresh(all_: Values, place: int) -> Violation:
    return Violation(
        FRESH,
        all_.rows(place)[::-1],
        f"message {all_.value(place)} was consumed by process {all_.process(place)} before it was published",
    )


def empties(all_: Values, found: Found, begin: Ranks, end: Ranks, owed: Ranks) -> None:
    """Empty answers that have no moment at which the queue may have been empty.

    A gap is a moment right after a rank. By place: a value is certainly there in the gaps of [begin, end); and one that
    nobody was seen to consume must be gone in gaps from `owed` on (`size`: need not). Unknown takes called by then can
    have consumed one each, so there must not be more such values than these.
    """
    if len(all_.empty) == 0:
        return
    free = covered(all_, begin, end) <= 0
    free &= surplus(all_, owed) <= 0
    before = np.concatenate(([0], np.cumsum(free, dtype=np.int32)))  # free gaps before a rank
    s, e = all_.line.call[all_.empty], all_.line.ret[all_.empty]
    found.first(before[e] == before[s], e, lambda place: _empty(all_, place, begin, end, owed))


def covered(all_: Values, begin: Ranks, end: Ranks) -> npt.NDArray[np.int32]:
    """How many values are there in the gap after each rank, that of a place in the gaps of [begin, end)."""
    change = np.zeros(all_.line.size + 1, dtype=np.int32)
    spans = begin < end
    change[begin[spans]] = 1
    np.subtract.at(change, end[spans], 1)
    return np.cumsum(change[:-1], dtype=np.int32)


def surplus(all_: Values, owed: Ranks) -> npt.NDArray[np.int32]:
    """In the gap after each rank, how many more values are owed than unknown takes were called, object by object."""
    change = np.zeros(all_.line.size + 1, dtype=np.int32)
    np.add.at(change, owed, 1)  # at `size` too, which is cut off
    change[all_.jokers] = -1
    total = np.concatenate((np.zeros(1, dtype=np.int32), np.cumsum(change[:-1], dtype=np.int32)))
    return total[1:] - np.repeat(total[all_.line.starts[:-1]], np.diff(all_.line.starts))


def _empty(all_: Values, place: int, begin: Ranks, end: Ranks, owed: Ranks) -> Violation:
    """Messages that were there one after the other, from before the answer's call until after its return."""
    row = int(all_.empty[place])
    at, until = int(all_.line.call[row]), int(all_.line.ret[row])
    over = surplus(all_, owed)
    rows, held, more, ends = [row], [], False, ""
    while at < until:
        here = np.flatnonzero((begin <= at) & (end > at))
        if len(here) == 0:  # nothing by itself: more are owed than there were unknown takes
            lost = np.flatnonzero(owed <= at)
            lost = lost[owed[lost] >= all_.line.start(np.asarray([at]))[0]]
            stop = at + int(np.argmax(over[at:] <= 0)) if (over[at:] <= 0).any() else until
            here, at, ends = lost[:1], stop, unseen(all_, until)
        else:
            here = here[np.argmax(end[here]) :][:1]
            at = int(end[here[0]])
        if len(rows) < 4:
            rows.append(int(all_.put[here[0]]))
            held.append(str(all_.value(int(here[0]))))
        else:
            more = True
    names = ", then ".join(held) + (", then others" if more else "")
    return Violation(
        EMPTY,
        tuple(sorted(rows)),
        f"process {all_.calls.process[row]} was told that the queue is empty, while it held message {names}{ends}",
    )


def unseen(all_: Values, deadline: int) -> str:
    """How a sentence ends where there were unknown takes of the same object before a deadline, but not enough."""
    start = all_.line.start(np.asarray([deadline]))[0]
    many = int(np.searchsorted(all_.jokers, deadline) - np.searchsorted(all_.jokers, start))
    if not many:
        return ""
    return f"; {several(many, 'consume')} of unknown outcome cannot account for all such messages"
