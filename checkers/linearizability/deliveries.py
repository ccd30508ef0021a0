"""What a queue promises, made into operations of a queue that hands out each message once.

At least once: what is judged is the *first taking* of each message. A delivery is marked as redelivered or not. One
that is not marked is the first; marked ones are repeats, and come at any time. So a message that was seen without a
mark is taken between the earliest call among its unmarked deliveries and the earliest return of all of them: any
moment in between is within one that it may be, or before the return of a repeat that then is it. A message that was
seen with marks only was taken before, unseen: on a credit of a channel that dropped, or for a consumer whose node the
broker held for down, and gave the message to another, while its client's credit stayed open. So that may have been at
any time since its put was called.

If all unmarked deliveries of a message begin after another one of it returned, none can be the first, and no moment is
left for its first taking. That is a contradiction of the message's own, whatever the others did, and `unmarked` tells
it. The others are judged without that message: an order of all, without all that concerns one message, is an order of
the rest, so what is wrong with the rest is wrong with the whole.

A message that was never seen may be in the hands of such a consumer. It is judged only where it cannot be: the queue
was drained after its put, and so was seen to hold nothing back.

Ordered channels: a channel's order is promised for the messages that it alone delivered unmarked. Repeats and unseen
takes have no place in it. Not modelled: time to live, maximum length, dead letters, priorities, and consumers that
reject, which take messages out of the queue in another way.

At most once: a message may vanish. One that was never seen may have done so right after its put, so it is left out,
and with it the takes that nobody knows about, which may have been of such, or never happened.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from chaos.model.history import NONE, Mask
from checkers.linearizability.calls import NEVER, Calls, F
from checkers.linearizability.monitors.values import numbers
from checkers.linearizability.verdict import Violation

UNMARKED = "not-marked-though-redelivered"
Rows = npt.NDArray[np.intp]


def at_least_once(calls: Calls, marked: Mask, drained: Mask) -> Calls:
    """Puts, and the first taking of each message, as far as it is known. marked: by row, deliveries marked as
    redelivered. drained: by row, puts after which the queue was seen to be empty.

    Of a message's deliveries that which returned first stands for them. Messages of which none can be the first (see
    `unmarked`) are left out, so a taking never returns before its call."""
    value = _numbered(calls)
    many = int(value.max(initial=-1)) + 1
    put, seen = np.flatnonzero(calls.f == F.PUT), _seen(calls)
    begin, end = _span(calls, value, seen, marked, many)
    plain = np.bincount(value[seen[~marked[seen]]], minlength=many)
    unseen, impossible = end == NEVER, begin > end
    of_put = value[put]
    only_marked = (plain[of_put] == 0) & ~unseen[of_put]
    np.minimum.at(begin, of_put[only_marked], calls.call[put[only_marked]])

    soonest = seen[calls.ret[seen] == end[value[seen]]]
    first = np.zeros(len(calls), dtype=np.bool_)
    first[soonest[np.unique(value[soonest], return_index=True)[1]]] = True  # one, should some return at once
    alone = np.full(many, -1, dtype=np.int64)  # the channel of a message's only delivery without a mark
    mine = seen[~marked[seen]]
    alone[value[mine]] = calls.channel[mine]
    alone[plain != 1] = -1

    keep = np.ones(len(calls), dtype=np.bool_)
    keep[seen] = first[seen] & ~impossible[value[seen]]
    keep[put] = (drained[put] | ~unseen[of_put]) & ~impossible[of_put]
    rows = np.flatnonzero(keep)
    taken = first[rows]
    call, ret, channel = calls.call[rows], _over(calls, put[~keep[put]])[rows], calls.channel[rows]
    of = value[rows[taken]]
    call[taken], ret[taken], channel[taken] = begin[of], end[of], alone[of]
    channel[(ret == NEVER) & (calls.f[rows] == F.TAKE)] = -1
    order = np.argsort(call, kind="stable")
    return replace(calls.select(rows[order]), call=call[order], ret=ret[order], channel=channel[order])


def unmarked(calls: Calls, marked: Mask) -> Violation | None:
    """A message delivered without a mark after another delivery of it, which was marked, returned: none can have been
    the first."""
    value = _numbered(calls)
    seen = _seen(calls)
    begin, end = _span(calls, value, seen, marked, int(value.max(initial=-1)) + 1)
    late = seen[(begin > end)[value[seen]] & ~marked[seen]]
    if not len(late):
        return None
    row = int(late[0])
    same = seen[value[seen] == value[row]]
    before = int(same[np.argmin(calls.ret[same])])
    text = f"message {calls.out[row]} was delivered to process {calls.process[row]} without a mark after it had been "
    text += f"delivered, marked as redelivered, to process {calls.process[before]}"
    return Violation(UNMARKED, tuple(sorted((before, row))), text)


def at_most_once(calls: Calls) -> Calls:
    """Puts of messages that were seen, and takes of which it is known what they took."""
    value = _numbered(calls)
    taken = np.zeros(int(value.max(initial=-1)) + 1, dtype=np.bool_)
    taken[value[_seen(calls)]] = True
    put = calls.f == F.PUT
    gone = put.copy()
    gone[put] = ~taken[value[put]]
    known = np.flatnonzero(~gone & (put | (calls.ret != NEVER)))
    return replace(calls, ret=_over(calls, np.flatnonzero(gone))).select(known)


def _over(calls: Calls, gone: Rows) -> npt.NDArray[np.int64]:
    """When each operation is over, also where it shows only in a put that is left out: those before it in its channel
    took effect before it did."""
    ret = calls.ret.copy()
    rows = np.flatnonzero((calls.f == F.PUT) & (calls.channel >= 0))
    if not len(gone) or not len(rows):
        return ret
    rows = rows[np.lexsort((rows, calls.channel[rows], calls.key[rows]))][::-1]
    key, channel, top = calls.key[rows], calls.channel[rows], int(calls.call[-1]) + 1
    shows = np.where(np.isin(rows, gone), np.minimum(ret[rows], top), top)
    drop = np.append(0, np.cumsum((key[1:] != key[:-1]) | (channel[1:] != channel[:-1]))) * (top + 1)
    soonest = np.minimum.accumulate(shows - drop) + drop  # what a channel shows does not reach into the next one
    ret[rows] = np.where(soonest < top, np.minimum(ret[rows], soonest), ret[rows])
    return ret


def _seen(calls: Calls) -> Rows:
    """Rows of deliveries."""
    return np.flatnonzero((calls.f == F.TAKE) & (calls.ret != NEVER) & (calls.out != NONE))


def _numbered(calls: Calls) -> Rows:
    """A number from 0 on for each message of each object, by row; -1 for a take of nothing, or of nobody knows what."""
    what = np.where(calls.f == F.PUT, calls.arg, np.where(calls.ret != NEVER, calls.out, NONE))
    some = np.flatnonzero(what != NONE)
    _, key = np.unique(calls.key[some], return_inverse=True)
    found = np.full(len(calls), -1, dtype=np.intp)
    found[some] = numbers(what[some], key)[0]
    return found


def _span(calls: Calls, value: Rows, seen: Rows, marked: Mask, many: int) -> tuple[npt.NDArray[np.int64], ...]:
    """Of each message: when the first taking began at the earliest (of one with marks only: as they say), and when it
    was over at the latest; NEVER for one that was never seen."""
    begin, end = np.full(many, NEVER, dtype=np.int64), np.full(many, NEVER, dtype=np.int64)
    plain = np.bincount(value[seen[~marked[seen]]], minlength=many)
    may = seen[~marked[seen] | (plain[value[seen]] == 0)]
    np.minimum.at(begin, value[may], calls.call[may])
    np.minimum.at(end, value[seen], calls.ret[seen])
    return begin, end
