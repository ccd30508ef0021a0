"""A FIFO queue of distinct values: decides in O(n), or O(n log n) where ranks or values must be sorted.

Put(v) = [a, b], take(v) = [c, d]; b is infinite for a put that nobody knows about, c = d = infinite for a value never
seen again. A put that nobody knows about, of a value never seen again, is dropped; other takes that nobody knows about
are jokers (see `bag`).

As a value is put before it is taken, nothing changes with b' = min(b, d) for b, and c' = max(a, c) for c. `x -> y`, x
must be before y in the queue, iff b'_x < a_y or d_x < c'_y (or by a channel: see `channels`).

Without jokers and empty answers: linearizable iff no value is taken twice, unput, or with d < a (FRESH), and `->` has
no cycle. Necessary: the order of puts is that of takes. Sufficient: number the values along `->`; let the i-th be put
at the greatest a_j, and taken at the greatest c'_j, over j <= i. That is in order, the put before the take, and not
before their calls; nor after their returns, for b'_i < a_j, or d_i < c'_j, would mean i -> j.

A shortest cycle has two values. Of two edges of one kind in it, x -> y and z -> u by b'_x < a_y, b'_z < a_u, either
b'_x < a_u or b'_z < a_y (whichever of b'_x, b'_z is less), which is a chord; so it has one edge of each kind at the
most. One kind alone has none, as a <= b' and c' <= d. So the cycles are b'_v < a_w with d_w < c'_v, where b'_v is b_v
and c'_v is c_v (else d_v < a_w <= d_w < c'_v <= d_v, or a_w <= d_w < a_v <= b_v < a_w): INVERSION if v was taken, found
from the running maximum of c_v over b_v; and OVERTAKEN if it was not, since then c_v is infinite.

Jokers. Let D_u be the least d_w over b_u < a_w. A value u never seen again with finite D_u needs a joker p < D_u of
its own; D_u does not fall as b_u grows, so it suffices to try the j-th such u by b with the j-th joker by p (Hall).
Then no cycle appears: u has d infinite, so edges by takes lead into it only, w -> u iff d_w < p; and with c_u = p <
D_u there is no u -> w -> u.

Empty answers: as for a bag. At a moment t as chosen there no edge leads from right to left: b'_x < a_y, or d_x < c'_y,
with b_x > t, d_x > t and a_y < t, c_y < t. So the numbering can take the left ones first, and points are moved to t at
the least for those right of it. The j-th joker by p serves the j-th value by b for both needs.
"""

from __future__ import annotations

import numpy as np

from checkers.linearizability.calls import Calls
from checkers.linearizability.monitors import channels
from checkers.linearizability.monitors.found import Found, of_first_object
from checkers.linearizability.monitors.matching import missed
from checkers.linearizability.monitors.queues import Values, empties, unseen, values
from checkers.linearizability.monitors.ranks import Rows
from checkers.linearizability.verdict import Decision, Violation

INVERSION, OVERTAKEN = "inversion", "overtaken"


def preconditions(calls: Calls) -> None:
    """Raises Refused, naming the operation: other than put and take, a value put twice, an unordered history, or a
    channel with overlapping operations of which not all are puts, or not all takes with a value."""
    channels.chains(values(calls, Found()))


def decide(calls: Calls) -> Decision:
    """Whether the puts and takes of each object are those of a FIFO queue. Raises Refused."""
    decision, in_turn = _decide(calls)
    if not in_turn:
        return decision
    return of_first_object(calls, decision, lambda rows: _decide(calls.select(rows))[0])


def _decide(calls: Calls) -> tuple[Decision, bool]:
    """The decision, and whether rules were tried in turn, so that it may not be about the first object."""
    found = Found()
    all_ = values(calls, found)
    chains = channels.chains(all_)
    if chains is not None:
        channels.fifo(all_, chains, found)
        return found.decision(calls, "have a FIFO order"), True
    # a place for `size` at the end, which is not looked at
    latest = np.full(all_.line.size + 1, -1, dtype=all_.c.dtype)
    lost = all_.taken < 0
    latest[all_.b] = np.where(lost, -1, all_.c)
    np.maximum.accumulate(latest, out=latest)
    bad = latest.take(all_.a) > all_.d
    del latest
    found.first(bad, all_.d, lambda place: _inversion(all_, place))
    late = np.flatnonzero(lost & (all_.b < all_.line.size))
    if len(late):
        _overtaken(all_, late, found)
    if len(all_.empty):
        empties(all_, found, all_.b, np.where(lost, 0, all_.c), np.where(lost, all_.b, all_.line.size))
    return found.decision(calls, "have a FIFO order"), False


def _overtaken(all_: Values, lost: Rows, found: Found) -> None:
    """Values never seen again (their places) that were overtaken, unless a joker took them in time."""
    earliest = np.full(all_.line.size + 1, all_.line.size, dtype=all_.d.dtype)
    earliest[all_.a] = all_.d
    earliest[::-1] = np.minimum.accumulate(earliest[::-1])
    lost = lost[np.argsort(all_.b[lost])]
    due = earliest[all_.b[lost]]
    must = due < all_.line.end(all_.b[lost])
    lost, due = lost[must], due[must]
    bad = missed(all_.line, all_.jokers, due)
    found.first(bad, due, lambda place: _told_overtaken(all_, int(lost[place]), int(due[place])))


def _inversion(all_: Values, later: int) -> Violation:
    """One value published later than another that was taken only after it: the last of these."""
    earlier = int(np.argmax(np.where((all_.b < all_.a[later]) & (all_.taken >= 0), all_.c, -1)))
    v, w = all_.value(earlier), all_.value(later)
    return Violation(
        INVERSION,
        tuple(sorted(all_.rows(earlier) + all_.rows(later))),
        f"message {v} was confirmed before {w} was published, yet {w} was consumed first, by process "
        f"{all_.process(later)}, and {v} only then, by process {all_.process(earlier)}",
    )


def _told_overtaken(all_: Values, earlier: int, deadline: int) -> Violation:
    """A value never seen again, put before another one whose take returned at the deadline."""
    later = int(np.flatnonzero(all_.d == deadline)[0])
    v, w = all_.value(earlier), all_.value(later)
    text = f"message {v} was confirmed before {w} was published, yet {w} was consumed, by process "
    text += f"{all_.process(later)}, and {v} never was{unseen(all_, deadline)}"
    return Violation(OVERTAKEN, tuple(sorted((all_.rows(earlier)[0], *all_.rows(later)))), text)
