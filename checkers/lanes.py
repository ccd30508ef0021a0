"""Consumers' channels on a queue: which credit a delivery was taken for, where the broker takes messages back.

A *lane* is a channel of a consumer on one queue: (process, channel, key). What is told of a lane goes on until its end,
so a stretch of a history (see `checkers.stretches`) is told what came before it: `Before`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.model.history import NONE, History, Ints, Mask
from chaos.model.op import INVOKE, OK
from checkers.columns import NEVER, Rows, coded, deliveries, granted

Lane = tuple[int, int, str | None]
CREDITS = 1000  # of a lane that are remembered, at most


@dataclass(frozen=True)
class Before:
    """What is known of lanes besides what a stretch of a history says.

    polled: those that were ever told that there is nothing. back: of how many of their deliveries before the stretch
    the messages were taken back. credits: the last of their credits that are not in it (indices, ascending).
    """

    polled: frozenset[Lane] = frozenset()
    back: Mapping[Lane, int] = field(default_factory=lambda: MappingProxyType({}))
    credits: Mapping[Lane, Ints] = field(default_factory=lambda: MappingProxyType({}))


NOTHING = Before()


def not_before(history: History, rows: Rows, before: Before = NOTHING) -> Rows:
    """For each delivery a row before which its message was not taken for it: its credit granted, or an earlier one of
    its lane, as many earlier as were taken back from it before (see `taken_back`); -1 for one before the stretch. What
    was polled was asked for by its own poll."""
    row = granted(history, rows)
    took = deliveries(history)
    back = taken_back(history, took)
    if not back.any() and not before.back:
        return row
    earlier = np.zeros(len(history), dtype=np.int64)
    earlier[took] = _so_far(history, took, back, before)
    asked = history.rows("consume", INVOKE)
    if not len(asked):
        return row
    lane, index = _credits(history, asked, before)
    order = np.lexsort((index, lane))
    opened = np.append(True, np.diff(lane[order]) > 0)
    first = np.flatnonzero(opened)[np.cumsum(opened) - 1]  # of each credit, the first one of its lane that is known
    place = np.full(len(history), -1, dtype=np.intp)
    here = order < len(asked)
    place[asked[order[here]]] = np.flatnonzero(here)
    granting = np.where(here, asked[np.where(here, order, 0)], np.searchsorted(history.index, index[order]) - 1)
    shifted = (earlier[rows] > 0) & (place[row] >= 0) & ~_polled(history, rows, before)
    at = place[row[shifted]]
    to = at - earlier[rows[shifted]]
    known = granting[np.maximum(to, first[at])]
    row[shifted] = np.where((to < first[at]) & ~here[first[at]], -1, known)
    return row


def after(history: History, gone: Mask, before: Before) -> Before:
    """What is known after a stretch, of which the rows of `gone` are not in the next one."""
    closed = history.rows("close")
    over = set(zip(history.process[closed].tolist(), history.channel[closed].tolist(), strict=True))
    took = deliveries(history)
    back = took[taken_back(history, took)]
    many = _more(before.back, lanes_of(history, back[gone[back]]))
    credits_ = _with(before.credits, history, gone)
    kept = {lane: some for lane, some in credits_.items() if lane[:2] not in over}
    return Before(before.polled, {lane: number for lane, number in many.items() if lane in kept}, kept)


def beside(history: History, out: Mask, before: Before) -> Before:
    """What is known besides a part of some rows, which has not those of `out`."""
    return replace(before, credits=_with(before.credits, history, out))


def at_most(history: History, out: Mask, before: Before) -> Before:
    """The same, if of what was delivered in those rows all may be taken back yet."""
    took = deliveries(history)
    return replace(beside(history, out, before), back=_more(before.back, lanes_of(history, took[out[took]])))


def _more(back: Mapping[Lane, int], lanes: list[Lane]) -> dict[Lane, int]:
    found = dict(back)
    for lane in lanes:
        found[lane] = found.get(lane, 0) + 1
    return found


def _with(credits_: Mapping[Lane, Ints], history: History, out: Mask) -> dict[Lane, Ints]:
    """With the credits among these rows."""
    found = dict(credits_)
    asked = history.rows("consume", INVOKE)
    asked = asked[out[asked]]
    number = coded(history.process[asked], history.channel[asked], history.key.codes[asked])
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(number[order]) > 0)[: len(order)])
    for start, end in pairwise([*starts.tolist(), len(order)]):
        some = asked[order[max(start, end - CREDITS) : end]]
        (lane,) = lanes_of(history, some[:1])
        known = np.append(found.get(lane, np.empty(0, dtype=np.int64)), history.index[some])
        found[lane] = np.sort(known)[-CREDITS:]
    return found


def lanes_of(history: History, rows: Rows) -> list[Lane]:
    """The lane of each credit or delivery."""
    keys = [*history.key.words, None]
    columns = (history.process[rows].tolist(), history.channel[rows].tolist(), history.key.codes[rows].tolist())
    return [(process, channel, keys[code]) for process, channel, code in zip(*columns, strict=True)]


def _so_far(history: History, took: Rows, back: Mask, before: Before) -> Ints:
    """For each delivery how many of its lane before it were taken back."""
    process, channel, key = history.process[took], history.channel[took], history.key.codes[took]
    lane = coded(process, channel, key)
    order = np.lexsort((took, lane))
    all_: Ints = np.cumsum(back[order]) - back[order]  # of all lanes before too, which is taken off again
    begins = np.append(True, lane[order][1:] != lane[order][:-1])[: len(order)]
    found = np.zeros(len(took), dtype=np.int64)
    found[order] = all_ - all_[begins][np.cumsum(begins) - 1]
    codes = {word: code for code, word in enumerate(history.key.words)}
    for (who, which, word), number in before.back.items():
        code = -1 if word is None else codes.get(word, -2)
        found[(process == who) & (channel == which) & (key == code)] += number
    return found


def _credits(history: History, asked: Rows, before: Before) -> tuple[Ints, Ints]:
    """The lane of each credit, as a number, and its index: those in these rows, then those from before."""
    names = list(before.credits)
    many = [len(before.credits[lane]) for lane in names]
    codes = {None: -1} | {word: code for code, word in enumerate(history.key.words)}
    for _, _, word in names:
        codes.setdefault(word, len(codes))

    def column(here: npt.NDArray[Any], there: list[int]) -> Ints:
        return np.concatenate([here.astype(np.int64), np.repeat(np.array(there, dtype=np.int64), many)])

    lane = coded(
        column(history.process[asked], [process for process, _, _ in names]),
        column(history.channel[asked], [channel for _, channel, _ in names]),
        column(history.key.codes[asked], [codes[word] for _, _, word in names]),
    )
    return lane, np.concatenate([history.index[asked], *(before.credits[name] for name in names)])


def taken_back(history: History, took: Rows) -> Mask:
    """Which deliveries the broker took back while the consumer's channel stayed open: their message was handed out
    twice, and both channels were open at one time, with no ack known to have settled it between.

    RabbitMQ's quorum queues do so for a consumer whose node they hold for down. What was taken back counts no more
    against the prefetch, though the consumer may get it yet, when its node is back; so the channel is handed more than
    we granted, by one for each, and the credits that we see are those of later deliveries.
    """
    message = coded(history.key.codes[took], history.value[took])  # from another queue it was not handed out again
    order = np.lexsort((took, message))
    same = message[order][1:] == message[order][:-1]
    back = np.zeros(len(took), dtype=np.bool_)
    if not same.any():
        return back
    until = np.minimum(_closed(history, took), _settled(history, took))[order]
    group = np.append(0, np.cumsum(~same))
    top = len(history) + 1
    longest = np.maximum.accumulate(group * top + np.minimum(until, top - 1)) - group * top  # of those so far
    row = took[order]
    with_one_before = same & (longest[:-1] >= row[1:])
    with_next = same & (row[1:] < until[:-1])
    back[order[1:]] |= with_one_before
    back[order[:-1]] |= with_next
    return back


def _polled(history: History, rows: Rows, before: Before) -> Mask:
    """Which deliveries came on a channel that was also told that there is nothing: only a poll is told that."""
    told = history.rows("consume", OK)
    nothing = told[(history.value[told] == NONE) & (history.error.codes[told] < 0)]
    both = np.concatenate([nothing, rows])
    lane = coded(history.process[both], history.channel[both], history.key.codes[both])
    found = np.isin(lane[len(nothing) :], lane[: len(nothing)])
    if before.polled:
        found |= np.array([one in before.polled for one in lanes_of(history, rows)], dtype=np.bool_)
    return found


def _settled(history: History, took: Rows) -> Rows:
    """For each delivery the row at which an ack of it, by whom it went to, is known to have taken effect, or NEVER."""
    acks = history.rows("ack", OK)
    if not len(acks):
        return np.full(len(took), NEVER, dtype=np.int64)
    both = np.concatenate([acks, took])
    held = coded(history.process[both], history.channel[both], history.value[both])
    soonest = np.full(int(held.max()) + 1, NEVER, dtype=np.int64)
    np.minimum.at(soonest, held[: len(acks)], acks)
    return soonest[held[len(acks) :]]


def _closed(history: History, took: Rows) -> Rows:
    """For each delivery the row at which its channel closed, or NEVER."""
    closes = history.rows("close")
    if not len(closes):
        return np.full(len(took), NEVER, dtype=np.int64)
    both = np.concatenate([closes, took])
    channel = coded(history.process[both], history.channel[both])
    soonest = np.full(int(channel.max()) + 1, NEVER, dtype=np.int64)
    np.minimum.at(soonest, channel[: len(closes)], closes)
    return soonest[channel[len(closes) :]]
