"""A register in which each value is written once: decides in O(n), or O(n log n) where ranks or values must be sorted.

A value, with its write [a, b] and the reads that saw it, is a *cluster*: f is the earliest return in it, s the latest
call. Reads that nobody knows about are dropped. A write that nobody knows about has b infinite; if nobody read it, f
is infinite too, and it is as if it never took effect. The initial value (None) is a cluster with f = -infinite, whose
s is the latest call of a read that saw it.

Cluster v must be before w, v -> w, iff an operation of v precedes one of w: f_v < s_w. Linearizable iff no read saw
what nobody wrote, no read returns before its write is called, and no two clusters must be before each other.

Necessary: between a write and a read of its value there is no other write, so all of v comes before all of w or after.

Sufficient. If two never must be before each other, there is no longer cycle either. In one, let f_x be the least. For
each edge z -> u in it f_x <= f_z < s_u, so x -> u for all u but x; with the one edge that leads into x there are two
that must be before each other. So number the clusters along `->`. Write the i-th at the maximum of a_i and all s_j,
j < i; read it at the maximum of that moment and the read's own call. These moments follow the numbers, since a
cluster's last is at most the maximum of s_j, j <= i. None is before its call, and none after its return: a_i is
before the returns of the write and of its reads, and s_j before f_i, since i -> j is not so.

The check: of two clusters that must be before each other let v have the lesser f. Then f_v < min(f_w, s_w) and
f_w < s_v; a running maximum of s over f shows it. (These are Gibbons' and Korach's zones, SIAM J. Computing 26, 1997,
both kinds in one inequality.)
"""

from __future__ import annotations

import numpy as np

from chaos.model.history import NONE
from checkers.linearizability.calls import Calls, F
from checkers.linearizability.monitors.found import Found
from checkers.linearizability.monitors.lanes import take_turns
from checkers.linearizability.monitors.ranks import Line, Ranks, Rows, line, refuse
from checkers.linearizability.monitors.values import join
from checkers.linearizability.verdict import Decision, Violation

PHANTOM, FRESH, STALE = "phantom", "read-before-written", "stale"


def preconditions(calls: Calls) -> None:
    """Raises Refused, naming the operation: other than read and write, a value written twice, an unordered history,
    operations of one ordered channel that overlap."""
    _clusters(calls, Found())


def decide(calls: Calls) -> Decision:
    """Whether the reads and writes of each object are those of a register that holds None at first. Raises Refused."""
    found = Found()
    row, write, a, first, last, initial = _clusters(calls, found)
    stale = first < (initial[0] if row.key is None else initial[row.key[write]])
    found.first(stale, first, lambda place: _initial(calls, row, int(write[place])))
    latest = np.full(row.size + 2, -1, dtype=a.dtype)  # by rank, one further on: of what is before it
    latest[first + 1] = last
    np.maximum.accumulate(latest, out=latest)
    bad = latest.take(np.minimum(first, last)) > first
    found.first(bad, first, lambda place: _both_ways(calls, row, write, first, last, place))
    return found.decision(calls, "have an order that a register allows")


def _clusters(calls: Calls, found: Found) -> tuple[Line, Rows, Ranks, Ranks, Ranks, Ranks]:
    """Rows of writes, their calls, f and s of their clusters; and s of the initial value of each object."""
    row = line(calls)
    is_write = calls.f == F.WRITE
    write, read = np.flatnonzero(is_write), np.flatnonzero(~is_write)
    strange = calls.f[read] != F.READ
    if strange.any():
        refuse(calls, int(read[np.argmax(strange)]), "is neither a read nor a write")
    nothing = calls.arg[write] == NONE
    if nothing.any():
        refuse(calls, int(write[np.argmax(nothing)]), "writes no value")
    take_turns(calls, row, np.flatnonzero(is_write | (row.ret < row.size)))
    read = read[row.ret[read] < row.size]
    nil = calls.out[read] == NONE
    initial = np.full(len(row.starts) - 1, -1, dtype=row.call.dtype)
    if nil.any():
        blank, read = read[nil], read[~nil]
        np.maximum.at(initial, np.zeros_like(blank) if row.key is None else row.key[blank], row.call[blank])
    keys = (None, None) if row.key is None else (row.key[write], row.key[read])
    at, twice = join(calls.arg[write], calls.out[read], *keys)
    if twice >= 0:
        refuse(calls, int(write[twice]), f"writes {calls.arg[write[twice]]}, which was written before")
    unknown = at < 0
    if unknown.any():
        stray, read, at = read[unknown], read[~unknown], at[~unknown]
        found.first(unknown[unknown], row.ret[stray], lambda place: _phantom(calls, int(stray[place])))
    a, first = row.call[write], row.ret[write]
    last, seen = a.copy(), row.ret[read]
    early = seen < a[at]
    found.first(early, seen, lambda place: _fresh(calls, int(read[place]), int(write[at[place]])))
    np.minimum.at(first, at, seen)
    np.maximum.at(last, at, row.call[read])
    return row, write, a, first, last, initial


def _phantom(calls: Calls, read: int) -> Violation:
    return Violation(PHANTOM, (read,), f"process {calls.process[read]} read {calls.out[read]}, which nobody ever wrote")


def _fresh(calls: Calls, read: int, write: int) -> Violation:
    text = f"process {calls.process[read]} read {calls.out[read]} before it was written"
    text += f" by process {calls.process[write]}"
    return Violation(FRESH, (read, write), text)


def _same(calls: Calls, row: Line, write: int) -> Rows:
    """The rows of a value's cluster."""
    value = calls.arg[write]
    known = (calls.f == F.READ) & (calls.out == value) & (row.ret < row.size) & (calls.key == calls.key[write])
    return np.append(np.flatnonzero(known), write)


def _did(calls: Calls, row: int) -> str:
    return f"{'written' if calls.f[row] == F.WRITE else 'read'} by process {calls.process[row]}"


def _initial(calls: Calls, row: Line, write: int) -> Violation:
    cluster = _same(calls, row, write)
    there = int(cluster[np.argmin(row.ret[cluster])])
    nil = (calls.f == F.READ) & (calls.out == NONE) & (calls.key == calls.key[write]) & (row.ret < row.size)
    late = int(np.flatnonzero(nil)[-1])
    text = f"process {calls.process[late]} read the initial value"
    text += f" after {calls.arg[write]} had been {_did(calls, there)}"
    return Violation(STALE, (there, late), text)


def _both_ways(calls: Calls, row: Line, write: Rows, first: Ranks, last: Ranks, w: int) -> Violation:
    """Two values each of which was there before the other."""
    v = int(np.argmax(np.where(first < min(first[w], last[w]), last, -1)))
    one, other = _same(calls, row, int(write[v])), _same(calls, row, int(write[w]))
    before, after = int(one[np.argmin(row.ret[one])]), int(one[np.argmax(row.call[one])])
    over = int(other[np.argmin(row.ret[other])])
    begun = over if row.call[over] > row.ret[before] else int(other[np.argmax(row.call[other])])
    x, y = calls.arg[write[v]], calls.arg[write[w]]
    text = f"value {x} was {_did(calls, before)} before {y} was {_did(calls, begun)}, "
    text += f"and {y} was {_did(calls, over)} before {x} was {_did(calls, after)}"
    return Violation(STALE, tuple(sorted({before, after, begun, over})), text)
