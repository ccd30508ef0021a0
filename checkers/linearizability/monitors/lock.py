"""A lock (mutex), and one with fencing tokens: decides in O(n log n), of which sorting is all but O(n).

Acquire [a, b] and the release [c, d] that follows it in the same process are a *hold*; without one c and d are
infinite. d is infinite for a release that nobody knows about. Certainly it is held in [b, c]. An acquire that nobody
knows about is the last operation of its process: if it took effect, the lock was held ever after.

Linearizable iff the intervals [b, c] are disjoint, and each refused acquire (a try) [s, e] meets one of the intervals
[a', d'], where, holds being in the order of their intervals, d' is the lesser of d and the next b, and a' the greater
of a and the c before it; and [the greater of its a and the last c, infinite] for the earliest acquire that nobody
knows about.

Necessary: at a common moment of two [b, c] both acquires have taken effect, and neither release, while no other process
released more often than it acquired: it is so whether or not the lock minds who releases it. The order of holds is then
that of the [b, c], so a release is before the next b, and an acquire after the last c. Sufficient: between a hold and
the next release at d' and acquire at a' if d' < a'; else both at one moment in [a', d'], so that it is free for no time
at all. A try meets what is then held in more than a moment, since ranks differ.

Both a' and d' grow from hold to hold, so of those with a' < e the last is the one to meet. If its d is after s, so is
the next b, for that is after the next a', which is after e.

Tokens of successive holds grow: those in between that nobody told us count one each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.model.history import NONE
from checkers.linearizability.calls import Calls, F
from checkers.linearizability.monitors.found import Found
from checkers.linearizability.monitors.lanes import take_turns
from checkers.linearizability.monitors.ranks import Line, Ranks, Rows, grouped, line, objects, refuse
from checkers.linearizability.verdict import Decision, Violation

HELD_TWICE, REFUSED_FREE, TOKEN = "held-twice", "refused-though-free", "token-not-greater"


@dataclass(frozen=True, slots=True)
class _Holds:
    """Known acquires in the order of their returns, with rows of releases (-1 for none); `ghost`: unknown acquires."""

    line: Line
    acquire: Rows
    release: Rows
    a: Ranks
    b: Ranks
    c: Ranks
    d: Ranks
    ghost: Rows


def preconditions(calls: Calls) -> None:
    """Raises Refused, naming the operation: other than acquire, try and release; a release by a process that holds
    nothing; an operation of a process, or of an ordered channel, while another of it runs, or after one that nobody
    knows about."""
    _holds(calls)


def decide(calls: Calls) -> Decision:
    """Whether the acquires, tries and releases of each object are those of a lock. Raises Refused."""
    return _decide(calls, fenced=False)


def decide_fenced(calls: Calls) -> Decision:
    """As `decide`, and each hold's fencing token must be greater than those before. Raises Refused."""
    return _decide(calls, fenced=True)


def _decide(calls: Calls, fenced: bool) -> Decision:
    found = Found()
    holds = _holds(calls)
    b, c = holds.b, holds.c
    if len(b):
        twice = np.append(False, c[:-1] > b[1:])
        found.first(twice, b, lambda place: _twice(calls, holds, place))
    # what follows takes holds to be disjoint: it is for objects before the first one where they are not
    limit = holds.line.size if found.at is None else int(holds.line.start(np.asarray([found.at]))[0])
    _tries(calls, holds, limit, found)
    if fenced and len(b):
        told = np.flatnonzero((calls.out[holds.acquire] != NONE) & (b < limit))
        token = calls.out[holds.acquire[told]] - told
        start = holds.line.start(b[told])
        low = np.append(False, (token[1:] < token[:-1]) & (start[1:] == start[:-1]))
        found.first(low, b[told], lambda place: _token(calls, holds, int(told[place - 1]), int(told[place])))
    return found.decision(calls, "have an order that a lock allows")


def _holds(calls: Calls) -> _Holds:
    row = line(calls)
    is_try = calls.f == F.TRY
    rows = np.flatnonzero(~is_try)
    strange = (calls.f[rows] != F.ACQUIRE) & (calls.f[rows] != F.RELEASE)
    if strange.any():
        refuse(calls, int(rows[np.argmax(strange)]), "is neither an acquire, a try nor a release")
    take_turns(calls, row, np.flatnonzero(~is_try | (row.ret < row.size)))
    rows = rows[grouped(objects(calls.process[rows]))]
    if row.key is not None:
        rows = rows[grouped(row.key[rows])]
    acquires = calls.f[rows] == F.ACQUIRE
    known = row.ret[rows] < row.size
    same = calls.process[rows][1:] == calls.process[rows][:-1]
    if row.key is not None:
        same &= row.key[rows][1:] == row.key[rows][:-1]
    follows = np.append(False, same)[: len(rows)]
    overlap = np.append(False, row.ret[rows][:-1] > row.call[rows][1:])[: len(rows)] & follows
    if overlap.any():
        at = int(np.argmax(overlap))
        running, unknown = "begins while another of its process runs", "follows one of its process of unknown outcome"
        refuse(calls, int(rows[at]), running if known[at - 1] else unknown)
    stray = ~acquires & ~(follows & np.append(False, acquires[:-1])[: len(rows)])
    if stray.any():
        refuse(calls, int(rows[np.argmax(stray)]), "releases what its process did not acquire")
    mine = np.flatnonzero(acquires & known)
    released = np.append(~acquires[1:], False)[mine]
    release = np.where(released, np.append(rows, -1)[mine + 1], -1)
    acquire = rows[mine]
    order = np.argsort(row.ret[acquire])
    acquire, release = acquire[order], release[order]
    b = row.ret[acquire]
    end = row.end(b)
    c = np.where(release < 0, end, row.call[release])
    d = np.where(release < 0, end, np.minimum(row.ret[release], end))
    return _Holds(row, acquire, release, row.call[acquire], b, c, d, rows[acquires & ~known])


def _tries(calls: Calls, holds: _Holds, limit: int, found: Found) -> None:
    row, a, b, c, d = holds.line, holds.a, holds.b, holds.c, holds.d
    tries = np.flatnonzero((calls.f == F.TRY) & (row.ret < limit))
    if len(tries) == 0:
        return
    s, e = row.call[tries], row.ret[tries]
    held = np.zeros(len(tries), dtype=np.bool_)
    if len(b):
        begin = np.append(a[:1], np.maximum(a[1:], c[:-1]))
        at = np.searchsorted(begin, e) - 1
        held = (at >= 0) & (d[at] > s)
    if len(holds.ghost):
        ghost = np.sort(row.call[holds.ghost])
        first = np.append(ghost, row.size)[np.searchsorted(ghost, row.start(s))]
        last = np.append(c, 0)[np.searchsorted(b, row.end(s)) - 1] if len(b) else np.zeros(len(s), dtype=s.dtype)
        held |= np.maximum(first, last) < e
    found.first(~held, e, lambda place: _free(calls, holds, int(tries[place])))


def _twice(calls: Calls, holds: _Holds, place: int) -> Violation:
    first, second = int(holds.acquire[place - 1]), int(holds.acquire[place])
    release = int(holds.release[place - 1])
    text = f"process {calls.process[second]} acquired the lock while process {calls.process[first]} held it"
    text += ", which released it only later" if release >= 0 else ", which never released it"
    return Violation(HELD_TWICE, tuple(sorted((first, second, *((release,) if release >= 0 else ())))), text)


def _free(calls: Calls, holds: _Holds, row: int) -> Violation:
    start, s = int(holds.line.start(holds.line.call[row : row + 1])[0]), int(holds.line.call[row])
    before = np.flatnonzero((holds.d < s) & (holds.b >= start))
    text = f"process {calls.process[row]} was refused the lock, which nobody can have held"
    if len(before) == 0:
        return Violation(REFUSED_FREE, (row,), f"{text} by then")
    release = int(holds.release[before[-1]])
    return Violation(REFUSED_FREE, (release, row), f"{text} since process {calls.process[release]} had released it")


def _token(calls: Calls, holds: _Holds, one: int, other: int) -> Violation:
    first, second = int(holds.acquire[one]), int(holds.acquire[other])
    text = f"process {calls.process[second]} acquired the lock with fencing token {calls.out[second]}, after process "
    text += f"{calls.process[first]} with {calls.out[first]}"
    if other - one > 1:
        text += f" and {other - one - 1} more holds without a token"
    return Violation(TOKEN, tuple(sorted((first, second))), text)
