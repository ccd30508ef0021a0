"""Where a history of messages may be cut in time, so that what is left of the cut and what is right of it can be judged
each by itself.

Left of a cut are messages of which nothing more will be heard but acks. A queue's order is a relation x -> y between
messages (x must be before y in the queue: see `checkers.linearizability.monitors.channels`), and it is broken iff that
has a cycle, or one message contradicts itself. So if there is no edge from right to left, every cycle is on one side.
There is an edge only if x was confirmed, or first delivered, before y was published; if x was published before y in one
channel; or if x was delivered before y was asked for, or before y in one channel. Of x on the right and y on the left
that is, in rows: no cut from the row on at which y was last heard of until x was. And none

- between the first and the last that is heard of a message from its first delivery on. So no delivery on the left is of
  a message on the right: the last two kinds of edges have no other way;
- within a poll that finds the queue empty, or before such a one of which a message on the right was confirmed before it
  was over: so what was there during it is known on its side.

A message that is never delivered is left where its publish ends, if it may be left out; then its confirm still shows
that those before it in its channel had been published. If it may not, because it was lost, nothing right of it can
ever be left: whoever is to excuse it can have come at any time.

A bag has no such edges but those of consumers' channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from chaos.model.history import History, Ints, Mask
from chaos.model.op import FAIL, INVOKE, OK
from checkers.columns import Rows, coded, deliveries
from checkers.lanes import lanes_of
from checkers.stretches.facts import MANY, Facts

ALWAYS = np.iinfo(np.int64).max  # after any index


@dataclass(frozen=True)
class Rule:
    """What is judged. ordered: whether the queue hands out its messages in order. lost: by queue, the index before
    which a message must be confirmed for that it may not be left out though nobody ever saw it; `otherwise`: of other
    queues."""

    ordered: bool = True
    lost: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    otherwise: int = -1


@dataclass(frozen=True)
class Sides:
    """Rows of a history. left: what is to be judged now. right: what goes on. On both are takes of which nobody will
    ever know what they took, and channels that closed; on none what is of no matter any more. lost: those on the right
    of messages that are lost."""

    left: Mask
    right: Mask
    lost: Mask


def sides(history: History, facts: Facts, rule: Rule, *, anywhere: bool = False) -> Sides:
    """Cut the rows that are known so far (of publishes, consumes, acks and closes), each queue where it may be cut
    last. `anywhere`: no matter where."""
    those = _Messages(history, facts, rule)
    credits_ = _Credits(history, facts, those.never)
    if anywhere:
        cut = np.full(those.keys, those.never - 1, dtype=np.int64)  # all that is over
    else:
        cut = _last(those, credits_, rule)
    gone = those.over <= cut[those.key]
    left, right = np.zeros(len(history), dtype=np.bool_), np.zeros(len(history), dtype=np.bool_)
    known = those.of >= 0
    left[known] = gone[those.of[known]]
    right[known] = ~gone[those.of[known]]
    past = credits_.settled & (credits_.end <= cut[credits_.key])
    for rows in (credits_.row, credits_.end):
        here = rows < those.never
        left[rows[here]] = (past | credits_.blank)[here]
        right[rows[here]] = (~past | credits_.blank)[here]
    closed = history.rows("close")
    left[closed] = right[closed] = True
    return Sides(left, right, np.append(those.lost, False)[those.of])


class _Messages:
    """The messages of some rows, and what is heard of each: rows, `never` for what does not come.

    of: for each row of the history its message, -1 for none. By message: key: code of its queue; put, ended: its
    publish, and the end of that; confirmed: whether that was ok; first: its first delivery; over: the last that is
    heard of it but acks, `never` while more may come. unseen: never delivered. lost: nor to be left out.
    """

    def __init__(self, history: History, facts: Facts, rule: Rule) -> None:
        self.never = never = len(history)
        self.keys = len(history.key.words) + 1  # the last, none
        puts, took = history.rows("publish", INVOKE), deliveries(history)
        about = np.concatenate([puts, took])
        code = coded(history.key.codes[about], history.value[about])
        many = int(code.max(initial=-1)) + 1
        put_of, took_of = code[: len(puts)], code[len(puts) :]
        self.key = np.zeros(many, dtype=np.int64)
        self.key[code] = history.key.codes[about]
        id_ = np.zeros(many, dtype=np.int64)
        id_[code] = history.value[about]
        self.put, self.channel = np.full(many, never), np.full(many, -1)
        self.put[put_of] = puts
        self.channel[put_of] = coded(history.key.codes[puts], history.process[puts], history.channel[puts])
        ended = np.full(many, -1)
        ended[put_of] = history.completion[puts]
        self.confirmed = (ended >= 0) & (history.type[ended] == OK)
        self.ended = np.where(ended >= 0, ended, never)
        self.first, last = np.full(many, never), np.full(many, -1)
        np.minimum.at(self.first, took_of, took)
        np.maximum.at(last, took_of, took)

        expected = np.zeros(many, dtype=np.int64)
        for one in np.unique(self.key).tolist():
            mine = self.key == one
            if (tally := facts.delivered.get(history.key.words[one] if one >= 0 else None)) is not None:
                expected[mine] = tally.of(id_[mine])
        self.unseen = expected == 0
        waits = np.zeros(many, dtype=np.bool_)  # for more of it
        waits[put_of] = (ended[put_of] < 0) & ~np.isin(history.index[puts], facts.open)
        waits |= (self.put == never) & (facts.published.of(id_) > 0)
        waits |= (np.bincount(took_of, minlength=many) < expected) | (expected >= MANY)
        limit = np.array([rule.lost.get(word, rule.otherwise) for word in (*history.key.words, None)], dtype=np.int64)
        self.lost = self.unseen & self.confirmed & (history.index[ended] < limit[self.key])
        put = np.where(self.put < never, self.put, -1)
        self.over = np.where(waits | self.lost, never, np.maximum(np.maximum(put, ended), last))
        self.of = self._rows(history, puts, put_of, took, took_of, id_)

    def _rows(self, history: History, puts: Rows, put_of: Ints, took: Rows, took_of: Ints, id_: Ints) -> Ints:
        of = np.full(self.never, -1, dtype=np.int64)
        of[puts], of[took] = put_of, took_of
        ended, asked = history.completion[puts], history.invocation[took]
        of[ended[ended >= 0]] = put_of[ended >= 0]
        of[asked[asked >= 0]] = took_of[asked >= 0]
        acks = history.rows("ack")
        order = np.lexsort((id_, self.key))
        both = coded(
            np.concatenate([self.key[order], history.key.codes[acks]]),
            np.concatenate([id_[order], history.value[acks]]),
        )
        of_code = np.full(int(both.max(initial=-1)) + 1, -1, dtype=np.int64)
        of_code[both[: len(order)]] = order
        of[acks] = of_code[both[len(order) :]]
        return of


class _Credits:
    """Credits that brought no message: rows, the end `never` while it is to come. blank: nobody will know what it took.
    settled: failed, or told that there is nothing; poll: may be, or was, told so."""

    def __init__(self, history: History, facts: Facts, never: int) -> None:
        rows = history.rows("consume", INVOKE)
        end = history.completion[rows]
        brought = np.isin(end, deliveries(history))
        self.row, end = rows[~brought], end[~brought]
        self.key = history.key.codes[self.row].astype(np.int64)
        known = end >= 0
        blank = known & (history.type[end] != OK) & (history.type[end] != FAIL)
        blank |= known & (history.type[end] == OK) & (history.error.codes[end] >= 0)
        self.blank = blank | (~known & np.isin(history.index[self.row], facts.open))
        self.settled = known & ~self.blank
        self.empty = self.settled & (history.type[end] == OK)
        self.end = np.where(known, end, never)
        waits = ~known & ~self.blank
        self.poll = self.empty.copy()
        if facts.polled:
            self.poll[waits] = [lane in facts.polled for lane in lanes_of(history, self.row[waits])]


def _last(those: _Messages, credits_: _Credits, rule: Rule) -> Ints:
    """By queue, the last row after which it may be cut; -1 for none."""
    never = those.never
    seen = ~those.unseen
    spans = [(those.key, np.where(seen, those.first, never), those.over)]
    # x: what may be left of a cut; y: what is right of it, and would have to come before
    x_key = [credits_.key[credits_.empty]]
    x_from, x_over = [credits_.end[credits_.empty]], [credits_.end[credits_.empty]]
    if rule.ordered:
        x_key.append(those.key[seen])
        x_from.append(those.put[seen])
        x_over.append(those.over[seen])
    sure = np.minimum(np.where(those.confirmed, those.ended, never), those.first)
    x = np.concatenate(x_key), np.concatenate(x_from), np.concatenate(x_over)
    spans.append((those.key, _soonest(*x, those.key, sure, never), those.over))
    spans.append((those.key, _behind(those, rule), those.over))
    poll = credits_.poll
    spans.append((credits_.key[poll], credits_.row[poll], credits_.end[poll]))

    key, begin, end = (np.concatenate(column) for column in zip(*spans, strict=True))
    real = begin < end
    wide = never + 2
    begins, ends = np.sort(key[real] * wide + begin[real]), np.sort(key[real] * wide + end[real])
    at_key = np.concatenate([those.key, credits_.key[credits_.settled]])
    at = np.concatenate([those.over, credits_.end[credits_.settled]])
    at_key, at = at_key[at < never], at[at < never]
    place = at_key * wide + at
    free = np.searchsorted(begins, place, side="right") == np.searchsorted(ends, place, side="right")
    cut = np.full(those.keys, -1, dtype=np.int64)
    np.maximum.at(cut, at_key[free], at[free])
    return cut


def _soonest(x_key: Ints, x_from: Rows, x_over: Rows, key: Ints, sure: Rows, never: int) -> Rows:
    """For each y the first row at which an x is over that began after y was sure to be there."""
    wide = never + 2
    order = np.lexsort((x_from, x_key))
    begun = x_key[order] * wide + x_from[order]
    # backwards from the last queue, so that the least so far never reaches into the next one
    over = np.minimum.accumulate((x_key[order] * wide + x_over[order])[::-1])[::-1]
    at = np.searchsorted(begun, key * wide + sure, side="right")
    found = np.append(over, np.iinfo(np.int64).max)[at] - key * wide
    return np.where((sure < never) & (found <= never), found, never)


def _behind(those: _Messages, rule: Rule) -> Rows:
    """For each message the first row at which a later one of its producer's channel is over: one that was delivered (in
    a queue), or that was confirmed and may be left out."""
    never = those.never
    wide = never + 2
    shows = those.unseen & those.confirmed & ~those.lost
    if rule.ordered:
        shows |= ~those.unseen
    order = np.lexsort((those.put, those.channel))
    channel = those.channel[order]
    over = np.where(shows, those.over, never)[order]
    least = np.minimum.accumulate((channel * wide + over)[::-1])[::-1] - channel * wide
    found = np.full(len(order), never)
    same = channel[1:] == channel[:-1]
    found[order[:-1][same]] = least[1:][same]
    return np.where(those.put < never, found, never)
