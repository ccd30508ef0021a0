"""Empty answers where unknown takes may have emptied the queue: which moments to choose for them.

Each empty answer needs a moment at which nothing is in the queue. A value never seen again is there from `begin` on,
unless an unknown take had it: a moment chosen after that needs one, called by then. It may need one anyway, called
before `due`, because it was overtaken; with ordered channels those that begin first need not fall due first. As an
unknown take can serve any value after its call, all are served iff at no time more are needed than were called (Hall).

So pass over time, and keep for each moment that may be the last one chosen so far the least number of unknown takes
needed (the future depends on nothing else): a value that began after the last moment, and so is not served yet, needs
one if it falls due, or if another moment is chosen. A last moment is given up when more are needed than were called,
when an empty answer ends that began after it, and when a later one needs no more than it. So of what is kept the later
ones need more, and there are not more of them than unknown takes.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple

import numpy as np

from checkers.linearizability.monitors.found import Found
from checkers.linearizability.monitors.queues import EMPTY, Values, covered, unseen
from checkers.linearizability.monitors.ranks import Ranks, Rows
from checkers.linearizability.verdict import Violation

ASKED, DUE, GONE, ENDED, THERE, CHOOSE = range(6)  # what happens at a rank, in this order


class Last(NamedTuple):
    """The moment chosen last, and how many unknown takes are needed up to now."""

    moment: int
    need: int


class Lost(NamedTuple):
    """Values never seen again: their places, and for each the rank from which on it is there if no unknown take had it,
    and the rank at which it must have been taken (`size`: need not)."""

    place: Rows
    begin: Ranks
    due: Ranks


def empties(all_: Values, found: Found, begin: Ranks, until: Ranks, lost: Lost) -> None:
    """Empty answers for which no moments can be chosen, given that all that falls due can be served without them.

    A moment is a gap right after a rank. By place: a value is there in the gaps of [begin, until) whatever unknown
    takes did."""
    row, (s, e) = all_.line, (all_.line.call[all_.empty], all_.line.ret[all_.empty])
    asked = np.zeros(row.size + 1, dtype=np.int32)
    np.add.at(asked, s, 1)
    np.subtract.at(asked, e, 1)
    may = np.flatnonzero((covered(all_, begin, until) <= 0) & (np.cumsum(asked[:-1]) > 0))
    some = lost.begin < lost.due
    events = [
        (all_.jokers, ASKED, all_.jokers),
        (lost.due, DUE, lost.begin),
        (lost.due[some], GONE, lost.begin[some]),
        (e, ENDED, s),
        (lost.begin[some], THERE, lost.begin[some]),
        (may, CHOOSE, may),
    ]
    at = np.concatenate([ranks for ranks, _, _ in events])
    kind = np.concatenate([np.full(len(ranks), kind) for ranks, kind, _ in events])
    what = np.concatenate([what for _, _, what in events])
    order = np.lexsort((kind, at))
    order = order[at[order] < row.size]
    starts = np.searchsorted(at[order], row.starts)
    stuck = None
    for low, high, start in zip(starts, starts[1:], row.starts.tolist(), strict=False):
        mine = order[low:high]
        stuck = _stuck(at[mine].tolist(), kind[mine].tolist(), what[mine].tolist(), start - 1)
        if stuck is not None:
            break
    if stuck is not None:
        answer = int(all_.empty[np.argmax(np.where(e <= stuck, e, -1))])  # the last that ended
        found.first(np.ones(1, dtype=np.bool_), np.asarray([stuck]), lambda _: _told(all_, answer, begin, until, lost))


def _stuck(ranks: list[int], kinds: list[int], whats: list[int], before: int) -> int | None:
    """The rank at which there is no way to go on, for one object, which begins after `before`."""
    called, there, lasts = 0, list[int](), [Last(before, 0)]
    for rank, kind, what in zip(ranks, kinds, whats, strict=True):
        if kind == ASKED:
            called += 1
        elif kind == THERE:
            insort(there, what)
        elif kind == GONE:
            there.pop(bisect_right(there, what) - 1)
        elif kind == ENDED:
            lasts = [last for last in lasts if last.moment >= what]
        elif kind == DUE:
            lasts = [Last(last.moment, last.need + (last.moment < what)) for last in lasts]
            lasts = [last for last in lasts if last.need <= called]
        else:
            need = min(last.need + len(there) - bisect_right(there, last.moment) for last in lasts)
            if need <= called:
                lasts = [*(last for last in lasts if last.need < need), Last(rank, need)]
        if not lasts:
            return rank
    return None


def _told(all_: Values, row: int, begin: Ranks, until: Ranks, lost: Lost) -> Violation:
    """Up to three messages that were there during an empty answer."""
    s, e = int(all_.line.call[row]), int(all_.line.ret[row])
    sure = np.flatnonzero((begin < until) & (begin < e) & (until > s))
    start = int(all_.line.start(np.asarray([s]))[0])
    maybe = lost.place[(lost.begin >= start) & (lost.begin < e)]
    places = np.unique(np.concatenate((sure, maybe)))[:3]
    names = ", ".join(str(all_.value(int(place))) for place in places)
    return Violation(
        EMPTY,
        tuple(sorted((row, *(int(all_.put[place]) for place in places)))),
        f"process {all_.calls.process[row]} was told that the queue is empty, while it held message {names}"
        f"{unseen(all_, e)}",
    )
