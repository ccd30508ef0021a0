"""A bag (unordered queue, multiset of distinct values): decides in O(n).

Put(v) = [a, b], take(v) = [c, d]; b is infinite for a put that nobody knows about, c = d = infinite for a value never
seen again. A put that nobody knows about, of a value never seen again, is dropped: had it taken effect, then to no
effect, or for a take that nobody knows about, which is dropped with it. Otherwise a take that nobody knows about,
called at p, is a joker: it takes some value from p on, or never.

Linearizable iff no value is taken twice, or unput, or with d < a, and each empty answer [s, e] holds a moment t such
that (1) no value has b < t < c < infinite, and (2) of values never seen again, not more have b < t than jokers have p
< t. Necessary: such a value is in the bag at t, unless a joker took it by then. Sufficient: choose these moments;
give the j-th of the values never seen again, by b, the j-th joker, by p, as its take (c = p, d infinite); (2) says
that then (1) holds for them too. At a chosen t put each value with b < t or d < t left of t, all others right of it.
A left one has a < t and c < t (by (1), and since c < d); a right one has b > t and d > t. What is left of a moment is
left of all later ones, so each value has its put and its take between the same two neighbouring moments, at max(a,
the earlier one) and max(a, c, the earlier one), in this order, both inside of their intervals; and the bag is empty
at each chosen t.

With ordered channels, whose operations overlap: see `channels`.
"""

from __future__ import annotations

import numpy as np

from checkers.linearizability.calls import Calls
from checkers.linearizability.monitors import channels
from checkers.linearizability.monitors.found import Found
from checkers.linearizability.monitors.queues import Values, empties, values
from checkers.linearizability.verdict import Decision


def preconditions(calls: Calls) -> None:
    """Raises Refused, naming the operation: other than put and take, a value put twice, an unordered history, or a
    channel with overlapping operations of which not all are puts, or not all takes with a value."""
    _prepare(calls, Found())


def decide(calls: Calls) -> Decision:
    """Whether the puts and takes of each object are those of a bag. Raises Refused."""
    found = Found()
    all_, chains = _prepare(calls, found)
    lost = all_.taken < 0
    if chains is not None:
        channels.bag(all_, chains, found)
    elif len(all_.empty):
        empties(all_, found, all_.b, np.where(lost, 0, all_.c), np.where(lost, all_.b, all_.line.size))
    return found.decision(calls, "have an order that a bag allows")


def _prepare(calls: Calls, found: Found) -> tuple[Values, channels.Chains | None]:
    all_ = values(calls, found)
    return all_, channels.chains(all_)
