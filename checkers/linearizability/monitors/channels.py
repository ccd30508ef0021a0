"""Ordered channels whose operations overlap (pipelined confirms, prefetch): they take effect in the order of calls."""

from __future__ import annotations

import numpy as np

from checkers.linearizability.monitors.queues import Values
from checkers.linearizability.monitors.ranks import grouped, objects, refuse


class Chains: ...


def chains(all_: Values) -> Chains | None:
    """Refuses overlapping operations of one channel."""
    calls = all_.calls
    rows = np.flatnonzero(calls.channel >= 0)
    if len(rows) == 0:
        return None
    order = rows[grouped(objects(calls.channel[rows]))]
    after, before = order[1:], order[:-1]
    overlap = (calls.channel[after] == calls.channel[before]) & (calls.ret[before] >= calls.call[after])
    if overlap.any():
        refuse(calls, int(after[np.argmax(overlap)]), "overlaps another one of its channel")
    return None


def bag(*_: object) -> None: ...


def fifo(*_: object) -> None: ...
