"""A FIFO queue of distinct values: decides in O(n), or O(n log n) where ranks or values must be sorted.

Put(v) = [a, b], take(v) = [c, d]; b is infinite for a put that nobody knows about, c = d = infinite for a value never
seen again. A put that nobody knows about, of a value never seen again, is dropped; other takes that nobody knows about
are jokers (see `bag`). `x -> y`, x must be before y in the queue, iff b_x < a_y or d_x < c_y (or by a channel: see
`channels`).

Without jokers and empty answers: linearizable iff no value is taken twice, unput, or with d < a (FRESH), and `->` has
no cycle. Necessary: the order of puts is that of takes. Sufficient: number the values along `->`; let the i-th be put
at the maximum of a_j, and taken at the maximum of a_j and c_j, over j <= i. That is in order, the put before the
take, and not before their calls. Nor after their returns: b_i < a_j, or d_i < c_j, or d_i < a_j, would mean i -> j
(the last since then b_j >= a_j > d_i puts i's take before j's put: with c_j' = max(a_j, c_j) and b_i' = min(b_i,
d_i), which change no answer, it is d_i < c_j').

A shortest cycle has two values. Of two edges of one kind in it, x -> y and z -> u by b_x < a_y, b_z < a_u, either
b_x < a_u or b_z < a_y (whichever of b_x, b_z is less), which is a chord; so it has one edge of each kind at the most.
And one kind alone has none, as a <= b. So the cycles are b_v < a_w with d_w < c_v: INVERSION if v was taken, found from
the running maximum of c_v over b_v; and OVERTAKEN if it was not, since then c_v is infinite.

Jokers. Let D_u be the least d_w over b_u < a_w. A value u never seen again with finite D_u needs a joker p < D_u of
its own; D_u does not fall as b_u grows, so it suffices to try the j-th such u by b with the j-th joker by p (Hall).
Then no cycle appears: u has d infinite, so edges by takes lead into it only, w -> u iff d_w < p; and with c_u = p <
D_u there is no u -> w -> u.

Values first seen as redelivered (`loose`, see `at_least_once`) may have been taken by a joker before: they need one iff
c_u > D_u, and are then tried with the others. Every cycle through a loose value's take then has one that needs a joker:
of the loose ones on it take that with the greatest c. Its own D is at most the d which leads on into the next loose
one's c, and so less than its own c.

Empty answers: as for a bag. At a moment t as chosen there no edge leads from right to left: b_x < a_y, or d_x < c_y,
with b_x > t, d_x > t and a_y < t, c_y < t. So the numbering can take the left ones first, and points are moved to t at
the least for those right of it. The j-th joker by p serves the j-th value by b for both needs. With loose values this
fails: not those with the least b need a joker, so a history with both is refused.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from checkers.linearizability.calls import Calls
from checkers.linearizability.monitors import channels
from checkers.linearizability.monitors.found import Found, of_first_object
from checkers.linearizability.monitors.matching import missed
from checkers.linearizability.monitors.queues import Values, empties, values
from checkers.linearizability.monitors.ranks import Ranks, refuse
from checkers.linearizability.verdict import Decision, Violation

INVERSION, OVERTAKEN = "inversion", "overtaken"
Mask = npt.NDArray[np.bool_]


def preconditions(calls: Calls) -> None:
    """Raises Refused, naming the operation: other than put and take, a value put twice, an unordered history, or a
    channel with overlapping operations of which not all are puts, or not all takes with a value."""
    _prepare(calls, Found(), None)


def decide(calls: Calls, loose: Mask | None = None) -> Decision:
    """Whether the puts and takes of each object are those of a FIFO queue. Raises Refused.

    loose: by row, takes of values that a take which nobody knows about may have taken before.
    """
    decision = _decide(calls, loose)
    return of_first_object(
        calls, decision, lambda rows: _decide(calls.select(rows), None if loose is None else loose[rows])
    )


def _decide(calls: Calls, loose: Mask | None) -> Decision:
    found = Found()
    all_, chains, may_be_late = _prepare(calls, found, loose)
    lost = all_.taken < 0
    if chains is not None:
        channels.fifo(all_, chains, lost if may_be_late is None else lost | may_be_late, found)
        return found.decision(calls, "have a FIFO order")
    # a place for `size` at the end, which is not looked at
    latest = np.full(all_.line.size + 1, -1, dtype=all_.c.dtype)
    skip = lost if may_be_late is None else lost | may_be_late
    latest[all_.b] = np.where(skip, -1, all_.c)
    np.maximum.accumulate(latest, out=latest)
    bad = latest.take(all_.a) > all_.d
    del latest
    found.first(bad, all_.d, lambda place: _inversion(all_, place, skip))
    late = np.flatnonzero(skip & (all_.b < all_.line.size))
    if len(late):
        _overtaken(all_, late, found)
    if len(all_.empty):
        empties(all_, found, all_.b, np.where(lost, 0, all_.c), np.where(lost, all_.b, all_.line.size))
    return found.decision(calls, "have a FIFO order")


def _prepare(calls: Calls, found: Found, loose: Mask | None) -> tuple[Values, channels.Chains | None, Mask | None]:
    all_ = values(calls, found)
    may_be_late = None
    if loose is not None and loose.any():
        may_be_late = np.append(loose[all_.take[:-1]], False)[all_.taken]
        if len(all_.empty) and len(all_.jokers):
            refuse(calls, int(all_.empty[0]), "is an empty answer where messages may have been delivered unseen")
    return all_, channels.chains(all_), may_be_late


def _overtaken(all_: Values, late: Ranks, found: Found) -> None:
    """Values that were overtaken, unless a joker took them in time: late are their places."""
    earliest = np.full(all_.line.size + 1, all_.line.size, dtype=all_.d.dtype)
    earliest[all_.a] = all_.d
    earliest[::-1] = np.minimum.accumulate(earliest[::-1])
    deadline = earliest[all_.b[late]]
    must = np.flatnonzero((deadline < all_.c[late]) & (deadline < all_.line.end(all_.b[late])))
    late, deadline = late[must], deadline[must]
    order = np.argsort(all_.b[late])
    late, deadline = late[order], deadline[order]
    bad = missed(all_.line, all_.jokers, deadline)
    found.first(bad, deadline, lambda place: overtaken(all_, int(late[place]), int(deadline[place])))


def _inversion(all_: Values, later: int, skip: Mask) -> Violation:
    """One value published later than another that was taken only after it: the last of these."""
    earlier = int(np.argmax(np.where((all_.b < all_.a[later]) & ~skip, all_.c, -1)))
    v, w = all_.value(earlier), all_.value(later)
    return Violation(
        INVERSION,
        tuple(sorted(all_.rows(earlier) + all_.rows(later))),
        f"message {v} was confirmed before {w} was published, yet {w} was consumed first, by process "
        f"{all_.process(later)}, and {v} only then, by process {all_.process(earlier)}",
    )


def overtaken(all_: Values, earlier: int, deadline: int) -> Violation:
    """A value that must be taken before a deadline, which is the return of a later one's take, and was not."""
    later = int(np.flatnonzero(all_.d == deadline)[0])
    v, w = all_.value(earlier), all_.value(later)
    put, take = all_.rows(earlier)
    text = f"message {v} was confirmed before {w} was published, yet {w} was consumed, by process "
    text += f"{all_.process(later)}, and " + (f"{v} was not consumed before" if take >= 0 else f"{v} never was")
    start = all_.line.start(all_.d[later : later + 1])
    early = int(np.searchsorted(all_.jokers, deadline) - np.searchsorted(all_.jokers, start)[0])
    if early:
        text += f"; the {early} consumes of unknown outcome cannot account for all such messages"
    return Violation(OVERTAKEN, tuple(sorted((put, *all_.rows(later)) + ((take,) if take >= 0 else ()))), text)
