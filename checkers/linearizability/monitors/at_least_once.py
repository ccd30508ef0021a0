"""A FIFO queue that delivers at least once: its messages are taken in order for the first time; repeats are free.

What is judged is the *first taking* of each message. A delivery is marked as redelivered or not. If one that is not
marked was seen, the first taking is one of those; else it is one of the marked ones, or was never seen: a consume that
nobody knows about (a credit of a channel that dropped before it was answered) may have been it. Any delivery after the
first taking is a repeat, which may come at any time. That is what brokers promise that return what a dropped channel
held, with a mark.

So the first taking is at the least of the returns of all deliveries, at the latest; and at the least of the calls of
those that it may be, at the earliest: linearizable iff the queue of first takings is, in which a value with marked
deliveries only is `loose` (see `fifo`). For any moment in that interval is in the interval of one that it may be, or
before the first return of a repeat that then is it. If not marked deliveries begin only after another one returned,
none can be the first: UNMARKED.

Ordered channels: the order of a channel is promised for messages that it was the only one to deliver unmarked.
Repeats and unseen takes have no place in it. Not modelled: time to live, maximum length, dead letters, priorities,
consumers that reject, and delivery limits, which take messages out of the queue in another way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F
from checkers.linearizability.monitors import fifo
from checkers.linearizability.monitors.found import ENGINE, of_first_object, renamed
from checkers.linearizability.monitors.ranks import Rows, objects
from checkers.linearizability.monitors.values import numbers
from checkers.linearizability.verdict import Decision, Violation

UNMARKED = "not-marked-though-redelivered"
Mask = npt.NDArray[np.bool_]


def decide(calls: Calls, marked: Mask) -> Decision:
    """Whether messages were taken for the first time in FIFO order. marked: by row, deliveries marked as redelivered.
    Raises Refused as `fifo` does, and for an empty answer where messages may have been taken unseen."""
    decision = _decide(calls, marked)
    return of_first_object(calls, decision, lambda rows: _decide(calls.select(rows), marked[rows]))


def _decide(calls: Calls, marked: Mask) -> Decision:
    early = _unmarked(calls, marked)
    if early is not None:
        return Decision(False, ENGINE, early.sentence, early)
    takings, rows, loose = first_takings(calls, marked)
    return renamed(fifo.decide(takings, loose), rows)


def first_takings(calls: Calls, marked: Mask) -> tuple[Calls, Rows, Mask]:
    """Deliveries as one take a value: the queue of first takings, the row each of its rows comes from (of a value, the
    delivery that returned first), and which are loose."""
    seen, value, many, begin, end, plain = _deliveries(calls, marked)
    here = calls.ret[seen] == end[value]
    first = np.zeros(len(calls), dtype=np.bool_)
    one = np.full(many, -1, dtype=np.intp)
    one[value[here]] = seen[here]
    first[one[one >= 0]] = True
    other = np.ones(len(calls), dtype=np.bool_)
    other[seen] = False
    of = np.full(len(calls), -1, dtype=np.intp)
    of[seen] = value
    alone = np.full(many, -1, dtype=np.int64)  # the channel of a value's only delivery not marked
    mine = seen[~marked[seen]]
    alone[of[mine]] = calls.channel[mine]
    alone[plain != 1] = -1

    rows = np.flatnonzero(first | other)
    taken = first[rows]
    call, ret, channel = calls.call[rows], calls.ret[rows], calls.channel[rows]
    call[taken], ret[taken], channel[taken] = begin[of[rows[taken]]], end[of[rows[taken]]], alone[of[rows[taken]]]
    channel[(ret == NEVER) & (calls.f[rows] == F.TAKE)] = -1
    order = np.argsort(call, kind="stable")
    rows = rows[order]
    loose = first[rows] & (plain[np.maximum(of[rows], 0)] == 0) if many else np.zeros(len(rows), dtype=np.bool_)
    return replace(calls.select(rows), call=call[order], ret=ret[order], channel=channel[order]), rows, loose


def _deliveries(calls: Calls, marked: Mask) -> tuple[Rows, Rows, int, Rows, Rows, Rows]:
    """Rows of deliveries, the number of the value of each, and how many there are; by value: when the first taking
    began at the earliest, and was over at the latest, and how many deliveries were not marked."""
    seen = np.flatnonzero((calls.f == F.TAKE) & (calls.ret != NEVER) & (calls.out != NONE))
    value, many = numbers(calls.out[seen], objects(calls.key)[seen])
    plain = np.bincount(value[~marked[seen]], minlength=many)
    begin, end = np.full(many, NEVER, dtype=np.int64), np.full(many, NEVER, dtype=np.int64)
    may = ~marked[seen] | (plain[value] == 0)
    np.minimum.at(begin, value[may], calls.call[seen[may]])
    np.minimum.at(end, value, calls.ret[seen])
    return seen, value, many, begin, end, plain


def _unmarked(calls: Calls, marked: Mask) -> Violation | None:
    seen, value, _, begin, end, _ = _deliveries(calls, marked)
    late = (begin > end)[value] & ~marked[seen]
    if not late.any():
        return None
    row = int(seen[np.flatnonzero(late)[0]])
    same = seen[calls.out[seen] == calls.out[row]]
    same = same[calls.key[same] == calls.key[row]]
    before = int(same[np.argmin(calls.ret[same])])
    text = f"message {calls.out[row]} was delivered to process {calls.process[row]} without a mark after it had been "
    text += f"delivered, marked as redelivered, to process {calls.process[before]}"
    return Violation(UNMARKED, tuple(sorted((before, row))), text)
