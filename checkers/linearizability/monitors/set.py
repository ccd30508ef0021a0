"""A set to which each element is added once at the most, and removed once at the most: decides in O(n), or O(n log n)
where ranks or elements must be sorted.

A set is one yes-or-no object an element, each judged by itself. Its add is [a, b], its remove [c, d], all infinite
where there is none, b or d infinite where nobody knows about it. To remove what is not there is no error, and does
nothing. A *present* or an *absent* is the answer [s, e] of a contains; those that nobody knows about are dropped. Let
X be the lesser of b and the earliest return of a present, Y the greater of c and the latest call of a present.

Linearizable iff no present returns before the add is called, and, where there is an add, one of two holds:
- added, then removed: a < d, the latest call of a present is before d, and no absent [s, e] has X < s and e < Y;
- removed, then added: c < X, and no absent has X < s.

Necessary and sufficient, by the order of the two. The add takes effect at a moment in [a, X]: by b, and before a
present returns. Added first, the element is there until a moment in [Y, d]: not before the remove is called, nor
before a present is. If X < Y these are best at X and at Y, so that it is there for as short as can be; then a present
finds a moment inside, and an absent one outside iff it is not wholly inside (X, Y). If Y < X both can be at one
moment, in [a, X] and in [Y, d]: a present contains it, and no absent is that short. Removed first, it is there from
the add on; this is best at X, and the remove at c, which must be before. A remove that nobody knows about has d
infinite: that it never took effect is as good as that it did at the very end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.model.history import NONE
from checkers.linearizability.calls import Calls, F
from checkers.linearizability.monitors.found import Found
from checkers.linearizability.monitors.lanes import take_turns
from checkers.linearizability.monitors.ranks import Line, Rows, line, refuse
from checkers.linearizability.monitors.values import numbers
from checkers.linearizability.verdict import Decision, Violation

PHANTOM, FRESH, LOST, RISEN = "phantom", "present-before-added", "absent-though-present", "present-though-removed"


@dataclass(frozen=True, slots=True)
class _Elements:
    """Rows of adds and removes by element (-1: none), and the element of each row of the Calls."""

    line: Line
    add: Rows
    remove: Rows
    element: Rows


def preconditions(calls: Calls) -> None:
    """Raises Refused, naming the operation: other than add, remove and contains; an element added or removed twice; an
    unordered history; operations of one ordered channel that overlap."""
    _elements(calls)


def decide(calls: Calls) -> Decision:
    """Whether the adds, removes and contains of each object are those of a set, empty at first. Raises Refused."""
    found = Found()
    those = _elements(calls)
    row, size = those.line, those.line.size
    call, ret = np.append(row.call, size), np.append(row.ret, size)  # where -1 finds them
    a, b, c, d = call[those.add], ret[those.add], call[those.remove], ret[those.remove]
    asked = calls.f == F.CONTAINS
    present, absent = np.flatnonzero(asked & (calls.out == 1)), np.flatnonzero(asked & (calls.out == 0))

    of = those.element[present]
    early = row.ret[present] < a[of]
    found.first(early, row.ret[present], lambda place: _early(calls, those, int(present[place])))
    x, y, seen = b.copy(), c.copy(), np.full(len(a), -1, dtype=a.dtype)
    np.minimum.at(x, of, row.ret[present])
    np.maximum.at(seen, of, row.call[present])
    y = np.maximum(y, seen)

    of = those.element[absent]
    s, e = row.call[absent], row.ret[absent]
    after = s > x[of]
    added_first, removed_first = (a > d) | (seen > d), c >= x
    added_first[of[after & (e < y[of])]] = True
    removed_first[of[after]] = True
    bad = added_first & removed_first
    found.first(bad, x, lambda place: _explain(calls, those, place, int(x[place]), int(y[place])))
    return found.decision(calls, "have an order that a set allows")


def _elements(calls: Calls) -> _Elements:
    row = line(calls)
    strange = (calls.f != F.ADD) & (calls.f != F.REMOVE) & (calls.f != F.CONTAINS)
    if strange.any():
        refuse(calls, int(np.argmax(strange)), "is neither an add, a remove nor a contains")
    nothing = calls.arg == NONE
    if nothing.any():
        refuse(calls, int(np.argmax(nothing)), "names no element")
    answer = (calls.f == F.CONTAINS) & (row.ret < row.size) & (calls.out != 0) & (calls.out != 1)
    if answer.any():
        refuse(calls, int(np.argmax(answer)), "answers neither present (1) nor absent (0)")
    take_turns(calls, row, np.flatnonzero((calls.f != F.CONTAINS) | (row.ret < row.size)))
    element, many = numbers(calls.arg, row.key)
    writers = []
    for f, did in ((F.ADD, "adds"), (F.REMOVE, "removes")):
        rows = np.flatnonzero(calls.f == f)
        one = np.full(many, -1, dtype=np.intp)
        one[element[rows]] = rows
        again = one[element[rows]] != rows
        if again.any():
            late = int(one[element[rows[np.argmax(again)]]])
            refuse(calls, late, f"{did} {calls.arg[late]} for the second time")
        writers.append(one)
    return _Elements(row, writers[0], writers[1], element)


def _early(calls: Calls, those: _Elements, present: int) -> Violation:
    add, element = int(those.add[those.element[present]]), calls.arg[present]
    text = f"process {calls.process[present]} found {element} present"
    if add < 0:
        return Violation(PHANTOM, (present,), f"{text}, which nobody ever added")
    return Violation(FRESH, (present, add), f"{text} before process {calls.process[add]} added it")


def _explain(calls: Calls, those: _Elements, element: int, x: int, y: int) -> Violation:
    """Neither order of add and remove does."""
    row = those.line
    mine = (those.element == element) & (calls.f == F.CONTAINS)
    present, absent = np.flatnonzero(mine & (calls.out == 1)), np.flatnonzero(mine & (calls.out == 0))
    remove, name = int(those.remove[element]), calls.arg[those.add[element]]
    from_ = next(int(there) for there in (those.add[element], *present) if row.ret[there] == x)
    text = f"{name} was {'added' if calls.f[from_] == F.ADD else 'found present'} by process {calls.process[from_]}"
    gone = absent[(row.call[absent] > x)]
    inside = gone[row.ret[gone] < y]
    if len(inside):
        missing = int(inside[0])
        text += f", then absent for process {calls.process[missing]}"
        if y == row.size:
            return Violation(LOST, (from_, missing), f"{text}, and nobody ever removed it")
        again = [int(there) for there in present if row.call[there] == y]
        if again:
            text += f", then found present by process {calls.process[again[0]]}, though added only once"
        else:
            again = [remove]
            text += f", before process {calls.process[remove]} began to remove it"
        return Violation(LOST, tuple(sorted((from_, missing, *again))), text)
    text += f", and removed by process {calls.process[remove]}"
    rows = {from_, remove}
    late = present[row.call[present] > row.ret[remove]]
    if len(late):
        rows.add(int(late[-1]))
        text += f", after which process {calls.process[late[-1]]} still found it present"
    else:
        text += " before it was added"
    if len(gone) and row.call[remove] < x:  # else it was removed too late to be removed first
        rows.add(int(gone[0]))
        text += f", while it was absent for process {calls.process[gone[0]]}"
    return Violation(RISEN, tuple(sorted(rows)), text)
