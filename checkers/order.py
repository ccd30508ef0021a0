"""Did each producer's messages leave each queue in the order in which it published them?

First in, first out, over the *first* time that each message is taken from its queue: a message that is returned and
delivered again may come at any time, and nothing is said of messages of different producers. A producer is one channel:
what it publishes, pipelined or not, is enqueued in that order.

When was a message first taken? Not after its first delivery that we saw. If that delivery is not marked as
redelivered it was the first taking itself, so not before its credit was granted; and among the deliveries of one
channel, which come in the order of taking, after all those before it. So a message is *overtaken* by one that was
published after it, on the same channel, if that one was delivered before this one's credit was granted, or earlier on
the same consumer's channel.

What may be late. A message first seen as redelivered (or by a broker that does not say) may have been taken unseen at
any time. A consumer's channel that drops leaves credits that were granted and never answered; each of them may have
taken one message unseen, which comes again later, marked or not. So overtaken messages first seen after such a drop
are excused if each can be given a credit of its own, granted before the delivery that overtook it, whose drop came
before its own delivery. That is a matching of points in the plane by dominance, for which the greedy choice by
deadline is the best one. What is left over is out of order however the drops went; that two values suffice to show it
is from Henzinger, Sezgin and Vafeiadis (CONCUR 2013), here with one producer's publishes in a total order.

Assumed: deliveries of one channel are recorded in the order in which they came, and a channel does not mix polling with
a subscription. Priorities, and consumers that reject, are not modelled.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chaos.model.history import History, Ints
from chaos.model.op import FAIL, INVOKE, OK
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers import stretches
from checkers.base import Part, Parted, Split, Streamed, added, first, several
from checkers.columns import Rows, coded, deliveries, granted, indices, publishes
from checkers.lanes import not_before
from checkers.stretches import Read, Rule, Stretch, Stretches, facts_of


class Order(Parted, Streamed):
    """Overtaken messages, by producer and queue.

    Counts: `messages` delivered; `pairs` of them whose order of leaving the queue is known and was compared, of each
    stretch of a long history by itself (none: not applicable); `overtaken`; `excused` by a dropped channel;
    `redelivered`: first seen as such, so never late.
    """

    name = "order"
    split = Split.KEY

    def part(self, history: History, options: Mapping[str, Any]) -> Part:
        if len(history) > stretches.LONG:
            return self.stream(stretches.pieces_of(history), options)
        return _judged(Stretch(history), set())

    def stream(self, read: Read, options: Mapping[str, Any]) -> Part:
        spent: set[int] = set()
        found = [_judged(one, spent) for one in Stretches(read, facts_of(read), Rule())]
        counts, anomalies = added(found)
        return Part(counts, anomalies)

    def merge(self, parts: Sequence[Part], options: Mapping[str, Any]) -> Result:
        counts, anomalies = added(parts)
        if counts["overtaken"]:
            reason = f"{counts['overtaken']:,} of {counts['messages']:,} messages overtaken"
            return Result(self.name, Verdict.INVALID, reason, counts, anomalies)
        if not counts["pairs"]:
            return Result(self.name, Verdict.NOT_APPLICABLE, "no two deliveries whose order is known", counts)
        return Result(self.name, Verdict.VALID, f"{several(counts['pairs'], 'pair')} of deliveries in order", counts)


def _judged(stretch: Stretch, spent: set[int]) -> Part:
    """What there is to find in a stretch. spent: credits by which other messages were excused; those that are used are
    added."""
    history = stretch.history
    published = publishes(history)
    took = deliveries(history)
    at = published.find(history.value[took])
    took, at = took[at >= 0], at[at >= 0]  # a part is one queue: what was published to another is not found
    judged = published.outcome[at] != FAIL  # a failed publish has no place in the queue; `messages` tells of it
    took, at = took[judged], at[judged]

    sent = published.row[at]  # the later in the history, the later in its producer's order
    producer = coded(history.process[sent], history.channel[sent])
    lane = coded(producer, history.process[took], history.channel[took])
    _, firsts = np.unique(at, return_index=True)
    firsts.sort()
    marked = history.redelivered[took[firsts]] != 0
    late = firsts[~marked]
    credit = not_before(history, took[late], stretch.before)

    in_lane, in_all = _Taken(lane, took, sent), _Taken(producer, took, sent)
    overtaker = np.maximum(
        in_lane.newest(lane[late], took[late], sent[late]), in_all.newest(producer[late], credit, sent[late])
    )
    # one delivery may be seen twice over: count first deliveries only, and each pair by one rule
    ours, others = (
        _Taken(lane[firsts], took[firsts], sent[firsts]),
        _Taken(producer[firsts], took[firsts], sent[firsts]),
    )
    pairs = int(
        (
            ours.before(lane[late], took[late])
            + others.before(producer[late], credit)
            - ours.before(lane[late], credit)
        ).sum()
    )

    suspects = np.flatnonzero(overtaker >= 0)
    deadline = _deadlines(producer[firsts], sent[firsts], took[firsts])[~marked][suspects]
    guilty = suspects[_unexcused(history, took[late[suspects]], deadline, spent)]
    counts = {
        "messages": len(firsts),
        "pairs": pairs,
        "overtaken": len(guilty),
        "excused": len(suspects) - len(guilty),
        "redelivered": int(marked.sum()),
    }
    anomalies = first(
        _tell(history, sent, took, int(late[place]), int(overtaker[place]))
        for place in guilty[np.argsort(sent[late[guilty]])][:ANOMALIES_KEPT]
    )
    return Part(counts, anomalies)


class _Taken:
    """Deliveries by group, in the order of their rows, to be asked what came before a row."""

    def __init__(self, group: Ints, row: Rows, sent: Rows) -> None:
        self._size = int(max(row.max(initial=0), sent.max(initial=0))) + 2
        self._order = np.lexsort((row, group))
        self._group = group[self._order]
        self._place = self._group * self._size + row[self._order]
        # groups ascend, so the running maximum never reaches into the next one
        latest = self._group * self._size + sent[self._order]
        record = np.where(latest == np.maximum.accumulate(latest), np.arange(len(latest)), 0)
        self._record = np.maximum.accumulate(record)
        self._sent = sent

    def before(self, group: Ints, row: Rows) -> Ints:
        """How many of a group came before a row."""
        return self._reach(group, row) - np.searchsorted(self._place, group * self._size)

    def newest(self, group: Ints, row: Rows, sent: Rows) -> Ints:
        """Of those of a group that came before a row, the one that was sent last, if that was after `sent`; else -1."""
        if not len(self._place):
            return np.full(len(group), -1)
        last = np.maximum(self._reach(group, row) - 1, 0)
        found = self._order[self._record[last]]
        return np.where((self.before(group, row) > 0) & (self._sent[found] > sent), found, -1)

    def _reach(self, group: Ints, row: Rows) -> Ints:
        return np.searchsorted(self._place, group * self._size + row)


def _deadlines(producer: Ints, sent: Rows, took: Rows) -> Ints:
    """For each first delivery, the earliest row at which a later message of its producer and queue was delivered."""
    size = int(max(took.max(initial=0), 0)) + 2
    order = np.lexsort((sent, producer))[::-1]
    group = producer.max(initial=0) - producer[order]
    earliest = size - 1 - (np.maximum.accumulate(group * size + size - 1 - took[order]) - group * size)
    deadline = np.full(len(took), size, dtype=np.int64)
    same = group[1:] == group[:-1]
    deadline[order[1:][same]] = earliest[:-1][same]
    return deadline


def _unexcused(history: History, took: Rows, deadline: Ints, spent: set[int]) -> Rows:
    """Which of these overtaken messages cannot each be given an unanswered credit of its own (positions, ascending)."""
    left = []
    seen, before = took.tolist(), deadline.tolist()
    drops = [drop for drop in _dropped_credits(history) if drop[2] not in spent] if len(took) else []
    free: list[tuple[int, int]] = []  # credits granted before the deadline at hand: row dropped, index
    for place in sorted(range(len(took)), key=before.__getitem__):
        while drops and drops[-1][0] < before[place]:
            insort(free, drops.pop()[1:])
        best = bisect_left(free, (seen[place], -1)) - 1  # the last drop before it was seen
        if best < 0:
            left.append(place)
        else:
            spent.add(free.pop(best)[1])
    return np.asarray(sorted(left), dtype=np.intp)


def _dropped_credits(history: History) -> list[tuple[int, int, int]]:
    """(row granted, row dropped, index) of each credit that nothing answered, the latest granted first."""
    rows = history.rows("consume", INVOKE)
    end = history.completion[rows]
    open_ = (end < 0) | ~np.isin(history.type[end], [OK, FAIL])
    closed = {_channel(history, row): row for row in reversed(history.rows("close").tolist())}
    found = []
    for row, gone in zip(rows[open_].tolist(), end[open_].tolist(), strict=True):
        dropped = gone if gone >= 0 else closed.get(_channel(history, row))
        if dropped is not None:
            found.append((row, dropped, int(history.index[row])))
    return found[::-1]


def _channel(history: History, row: int) -> tuple[int, int]:
    return int(history.process[row]), int(history.channel[row])


def _tell(history: History, sent: Rows, took: Rows, late: int, overtaker: int) -> Anomaly:
    queue = history.key[int(took[late])]
    slow, fast = int(history.value[took[late]]), int(history.value[took[overtaker]])
    said = f"message {slow} was first delivered from {queue} after message {fast}, which its producer published later"
    credit = int(granted(history, took[late : late + 1])[0])
    return Anomaly(
        "overtaken", said, indices(history, sent[late], sent[overtaker], took[overtaker], credit, took[late])
    )
