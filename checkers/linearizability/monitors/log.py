"""An append-only log with offsets from 0 on, without holes, of distinct values: decides in O(n), or O(n log n) where
ranks or values must be sorted.

An append [a, b] that returned is at the offset it answered; one that nobody knows about, if a fetch saw its value, at
that fetch's offset, with b infinite; other such appends are *fillers*, called at a. A fetch [s, e] saw a value at an
offset, or nothing there yet. Fetches that nobody knows about are dropped.

By offset o let A_o be the greatest of: a, of the appends at offsets up to o; s, of fetches that saw nothing at offsets
up to o. Let B_o be the least of: b, and e of fetches that saw the value, of the appends at offsets from o on.

Linearizable iff each value is at one offset, each offset has one value, and none is seen before its append (e < a);
A_o < B_o at each offset with an append; and each *hole*, an offset without one below another with one, has a filler of
its own called before B_o, for which the j-th hole is tried with the j-th filler by call.

Necessary: appends take effect in the order of offsets; one does so before a fetch that saw it returns, and after a
fetch that saw nothing there is called.

In an ordered channel appends take effect in the order of their calls although they overlap: so their offsets grow.

Sufficient: let offset o be filled at A_o, in the order of offsets, where the calls of the fillers are among the a. That
is before b: else some A_j, j <= o, is above B_o. A fetch that saw the value is at its call or that moment, whichever is
later; one that saw nothing at its call, which is before. B_o does not fall as o grows, so the j-th hole with the j-th
filler is the best choice (Hall), and a filler's call before B_o is before all later B too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.model.history import NONE
from checkers.linearizability.calls import Calls, F
from checkers.linearizability.monitors.found import Found
from checkers.linearizability.monitors.lanes import overlapping
from checkers.linearizability.monitors.matching import missed
from checkers.linearizability.monitors.ranks import Line, Ranks, Rows, line, refuse
from checkers.linearizability.monitors.values import join
from checkers.linearizability.verdict import Decision, Violation

PHANTOM, FRESH, MISMATCH, SHARED = "phantom", "fetched-before-appended", "another-value", "offset-shared"
ORDER, UNSEEN, HOLE = "offsets-out-of-order", "nothing-though-appended", "hole"


@dataclass(frozen=True, slots=True)
class _Log:
    """Rows of appends, with offsets (NONE: not known); of fetches that saw a value, and which append's; of those that
    saw nothing. pipelined: places of appends in ordered channels that overlap, a `lane` after the other."""

    line: Line
    append: Rows
    offset: Ranks
    fetch: Rows
    of: Rows
    nothing: Rows
    pipelined: Rows
    lane: Rows


def preconditions(calls: Calls) -> None:
    """Raises Refused, naming the operation: other than append and fetch, a value appended twice, an append that
    returned without an offset, an unordered history; operations of one ordered channel that overlap and are not all
    appends, or of which a filler may be in a hole."""
    _log(calls, Found())


def decide(calls: Calls) -> Decision:
    """Whether the appends and fetches of each object are those of a log, empty at first. Raises Refused."""
    found = Found()
    log = _log(calls, found)
    row, size = log.line, log.line.size
    slots = len(log.append)
    of_append = np.zeros(slots, dtype=np.intp) if row.key is None else row.key[log.append]
    room = np.bincount(of_append, minlength=len(row.starts) - 1)  # offsets there can be, an object
    base = np.cumsum(room) - room

    a, b = row.call[log.append], row.ret[log.append]
    np.minimum.at(b, log.of, row.ret[log.fetch])
    far = log.offset >= room[of_append]
    shows = np.minimum(b, size - 1)
    found.first(far, shows, lambda place: _far(calls, log, place))
    placed = np.flatnonzero((log.offset >= 0) & ~far)
    slot = base[of_append[placed]] + log.offset[placed]
    at = np.full(slots, -1, dtype=np.intp)
    at[slot] = placed
    shared = at[slot] != placed
    found.first(shared, shows[placed], lambda place: _shared(calls, log, int(placed[place]), int(at[slot[place]])))

    # what follows takes values to be at one offset each, and none to share it: it is for objects before the first that
    # breaks this
    limit = size if found.at is None else int(row.start(np.asarray([found.at]))[0])
    low, high = np.full(slots, -1, dtype=a.dtype), np.full(slots, size, dtype=a.dtype)
    low[slot], high[slot] = a[placed], b[placed]
    key = np.zeros(len(log.nothing), dtype=np.intp) if row.key is None else row.key[log.nothing]
    offset = calls.arg[log.nothing]
    inside = (offset >= 0) & (offset < room[key])
    np.maximum.at(low, base[key[inside]] + offset[inside], row.call[log.nothing[inside]])
    np.maximum.accumulate(low, out=low)
    high[::-1] = np.minimum.accumulate(high[::-1])
    late = (low[slot] > b[placed]) & (b[placed] < limit)
    found.first(late, b[placed], lambda place: _late(calls, log, int(placed[place]), int(low[slot[place]])))

    told = log.offset[log.pipelined] >= 0
    lane, sent = log.lane[told], log.pipelined[told]
    turned = np.append(False, (np.diff(log.offset[sent]) < 0) & (lane[1:] == lane[:-1]))[: len(sent)]
    if turned.any():
        both = np.maximum(shows[sent], np.roll(shows[sent], 1))
        found.first(
            turned & (both < limit), both, lambda place: _turned(calls, log, int(sent[place - 1]), int(sent[place]))
        )

    end = row.starts[1:][np.repeat(np.arange(len(room)), room)]  # of the object of each slot
    holes = np.flatnonzero((at < 0) & (high < np.minimum(end, limit)))
    if len(holes):
        fillers = np.sort(a[(row.ret[log.append] == size) & (log.offset < 0)])
        deadline = high[holes]
        of_hole = np.searchsorted(base + room, holes, side="right")
        bad = missed(row, fillers, deadline)
        loose = log.pipelined[~told]
        loose = loose[np.isin(of_append[loose], of_hole)]
        if len(loose) and not bad.any() and found.at is None:
            refuse(calls, int(log.append[loose[0]]), "may fill a hole, in an ordered channel with overlaps")
        offsets = holes - base[of_hole]
        found.first(bad, deadline, lambda place: _hole(calls, log, int(offsets[place]), b, int(deadline[place])))
    return found.decision(calls, "have an order that a log allows")


def _log(calls: Calls, found: Found) -> _Log:
    row = line(calls)
    is_append = calls.f == F.APPEND
    append, fetch = np.flatnonzero(is_append), np.flatnonzero(~is_append)
    strange = calls.f[fetch] != F.FETCH
    if strange.any():
        refuse(calls, int(fetch[np.argmax(strange)]), "is neither an append nor a fetch")
    blank = calls.arg[append] == NONE
    if blank.any():
        refuse(calls, int(append[np.argmax(blank)]), "appends no value")
    known = row.ret[append] < row.size
    offset = calls.out[append]  # NONE, which is below 0, where nobody knows
    untold = known & (offset == NONE)
    if untold.any():
        refuse(calls, int(append[np.argmax(untold)]), "is an append whose offset was not told")
    negative = known & (offset < 0)
    found.first(negative, row.ret[append], lambda place: _negative(calls, int(append[place])))
    fetch = fetch[row.ret[fetch] < row.size]
    pipelined, lane = overlapping(calls, row, np.flatnonzero(is_append | (row.ret < row.size)))
    mixed = pipelined[calls.f[pipelined] == F.FETCH]
    if len(mixed):
        refuse(calls, int(mixed[0]), "is a fetch in an ordered channel of operations that overlap")
    saw = calls.out[fetch] != NONE
    nothing, fetch = fetch[~saw], fetch[saw]
    keys = (None, None) if row.key is None else (row.key[append], row.key[fetch])
    of, twice = join(calls.arg[append], calls.out[fetch], *keys)
    if twice >= 0:
        refuse(calls, int(append[twice]), f"appends {calls.arg[append[twice]]}, which was appended before")
    unknown = of < 0
    if unknown.any():
        stray, fetch, of = fetch[unknown], fetch[~unknown], of[~unknown]
        found.first(unknown[unknown], row.ret[stray], lambda place: _phantom(calls, int(stray[place])))
    early = row.ret[fetch] < row.call[append[of]]
    found.first(early, row.ret[fetch], lambda place: _fresh(calls, int(fetch[place]), int(append[of[place]])))
    guessed = ~known[of]
    offset[of[guessed]] = calls.arg[fetch[guessed]]
    log = _Log(row, append, offset, fetch, of, nothing, np.searchsorted(append, pipelined), lane)
    other = (offset[of] != calls.arg[fetch]) | (offset[of] < 0)
    found.first(other, row.ret[fetch], lambda place: _mismatch(calls, log, place))
    return log


def _phantom(calls: Calls, row: int) -> Violation:
    text = f"process {calls.process[row]} fetched {calls.out[row]} at offset {calls.arg[row]}"
    return Violation(PHANTOM, (row,), f"{text}, which nobody ever appended")


def _negative(calls: Calls, row: int) -> Violation:
    return Violation(MISMATCH, (row,), f"value {calls.arg[row]} was appended at offset {calls.out[row]}, below 0")


def _fresh(calls: Calls, fetch: int, append: int) -> Violation:
    text = f"process {calls.process[fetch]} fetched {calls.out[fetch]}"
    return Violation(FRESH, (fetch, append), f"{text} before process {calls.process[append]} appended it")


def _mismatch(calls: Calls, log: _Log, place: int) -> Violation:
    fetch, append = int(log.fetch[place]), int(log.append[log.of[place]])
    text = f"process {calls.process[fetch]} fetched {calls.out[fetch]} at offset {calls.arg[fetch]}"
    if log.line.ret[append] < log.line.size:
        return Violation(
            MISMATCH, tuple(sorted((append, fetch))), f"{text}, but it was appended at offset {calls.out[append]}"
        )
    others = log.fetch[(log.of == log.of[place]) & (calls.arg[log.fetch] != calls.arg[fetch])]
    if len(others) == 0:
        return Violation(MISMATCH, (append, fetch), f"{text}, below 0")
    other = int(others[0])
    text += f", and process {calls.process[other]} at offset {calls.arg[other]}"
    return Violation(MISMATCH, tuple(sorted((fetch, other))), text)


def _seen(calls: Calls, log: _Log, append: int) -> int:
    """The row that tells an append's offset."""
    row = int(log.append[append])
    return row if log.line.ret[row] < log.line.size else int(log.fetch[log.of == append][-1])


def _shared(calls: Calls, log: _Log, one: int, other: int) -> Violation:
    values = " and ".join(str(calls.arg[log.append[place]]) for place in (one, other))
    rows = tuple(sorted({_seen(calls, log, one), _seen(calls, log, other)}))
    return Violation(SHARED, rows, f"values {values} are both at offset {log.offset[one]}")


def _turned(calls: Calls, log: _Log, one: int, other: int) -> Violation:
    x, y = (calls.arg[log.append[place]] for place in (one, other))
    who = calls.process[log.append[one]]
    text = f"process {who} sent {x} before {y} in one channel, but {x} is at offset {log.offset[one]}, and {y} at"
    rows = {int(log.append[place]) for place in (one, other)} | {_seen(calls, log, place) for place in (one, other)}
    return Violation(ORDER, tuple(sorted(rows)), f"{text} {log.offset[other]}")


def _far(calls: Calls, log: _Log, append: int) -> Violation:
    text = f"value {calls.arg[log.append[append]]} is at offset {log.offset[append]}"
    return Violation(HOLE, (_seen(calls, log, append),), f"{text}, and not that many values were appended")


def _hole(calls: Calls, log: _Log, offset: int, b: Ranks, deadline: int) -> Violation:
    append = int(np.flatnonzero((b == deadline) & (log.offset >= 0))[0])
    text = f"value {calls.arg[log.append[append]]} is at offset {log.offset[append]}"
    text += f", while nothing can have been appended at offset {offset} by then"
    return Violation(HOLE, (_seen(calls, log, append),), text)


def _late(calls: Calls, log: _Log, append: int, low: int) -> Violation:
    """An append over, or seen, before one with a lesser offset began, or before a fetch found nothing there."""
    row, end = log.line, int(log.line.ret[log.append[append]])
    fetches = log.fetch[log.of == append]
    over, value = int(log.append[append]), calls.arg[log.append[append]]
    text = f"value {value} was appended at offset {log.offset[append]}, by process {calls.process[over]},"
    if len(fetches) and int(row.ret[fetches].min()) < end:
        over = int(fetches[np.argmin(row.ret[fetches])])
        text = f"value {value} was fetched at offset {log.offset[append]}, by process {calls.process[over]},"
    nothing = log.nothing[row.call[log.nothing] == low]
    if len(nothing):
        other = int(nothing[0])
        text += f" before process {calls.process[other]} found nothing yet at offset {calls.arg[other]}"
        return Violation(UNSEEN, tuple(sorted((over, other))), text)
    place = int(np.flatnonzero(row.call[log.append] == low)[0])
    other = _seen(calls, log, place)
    begun = int(log.append[place])
    text += f" before the append of {calls.arg[begun]} was called, by process {calls.process[begun]}, at offset "
    return Violation(ORDER, tuple(sorted({over, other, begun})), f"{text}{log.offset[place]}")
