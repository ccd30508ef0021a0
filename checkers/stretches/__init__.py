"""A long history in stretches of time, judged one after the other, so that what is judged always fits in memory.

A stretch has all that there is about its messages, and is broken iff they are: see `cuts` for where one may end. What
is kept from one to the next is what is in the queue, what is under way, takes of unknown outcome, and what is told of
channels (`checkers.lanes`). A history is read twice: for what must be known of it first (`facts`), and to be cut. Where
the stretches end depends on its rows only, not on the pieces that it comes in, so whoever reads it finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chaos.model.history import Columns, History, Mask
from chaos.model.op import INVOKE
from checkers.lanes import NOTHING, Before, after, at_most, beside
from checkers.stretches.cuts import ALWAYS, Rule, Sides, sides
from checkers.stretches.facts import Facts
from checkers.stretches.keys import shares
from checkers.stretches.read import Read, pieces_of, whole

__all__ = [
    "ALWAYS",
    "LONG",
    "Facts",
    "Read",
    "Rule",
    "Stretch",
    "Stretches",
    "facts_of",
    "pieces_of",
    "shares",
    "whole",
]

LONG = 1_000_000  # rows: a history with no more is one stretch; at least as many new ones begin each of a longer one
_TOLD = ("publish", "consume", "ack", "close")


@dataclass(frozen=True)
class Stretch:
    """history: its rows, or all rows where there is one stretch only (`alone`). before: what was told of lanes before
    it. early: it is only a part of what is known so far, which however must not be broken."""

    history: History
    before: Before = NOTHING
    alone: bool = False
    early: bool = False


class Stretches:
    """The stretches of a history, in order. While it goes on, `anywhere` may be set: from then on only what there is
    about single messages counts, and not where they were in the queue."""

    def __init__(self, read: Read, facts: Facts, rule: Rule, size: int | None = None) -> None:
        self.anywhere = False
        self._read, self._facts, self._rule = read, facts, rule
        self._size = LONG if size is None else size

    def __iter__(self) -> Iterator[Stretch]:
        if not self._facts.plain or self._facts.rows <= self._size:
            yield Stretch(whole(self._read), alone=True)
            return
        before = Before(self._facts.polled)
        kept, due = Columns(), self._size
        for some in self._read():
            rest = some.select(_told(some))
            while len(rest) >= due:
                kept.join(rest.take(np.arange(due)))
                rest = rest.take(np.arange(due, len(rest)))
                history = kept.history()
                cut = sides(history, self._facts, self._rule, anywhere=self.anywhere)
                yield from self._stretches(history, cut, before)
                before = after(history, cut.left & ~cut.right, before)
                kept = Columns()
                kept.join(history.select(cut.right))
                due = max(self._size, len(kept))
            kept.join(rest)
            due -= len(rest)
        yield Stretch(kept.history(), before)

    def _stretches(self, history: History, cut: Sides, before: Before) -> Iterator[Stretch]:
        if (cut.left & ~cut.right).any():
            yield Stretch(history.select(cut.left), beside(history, ~cut.left, before))
        if self.anywhere or not cut.lost.any() or np.count_nonzero(cut.right) <= self._size:
            return
        # it grows, for a message that was lost, and may be broken by now, whatever those took who wait
        part = cut.lost | (sides(history, self._facts, self._rule, anywhere=True).left & cut.right)
        asked = history.rows("consume", INVOKE)
        part[asked[history.completion[asked] < 0]] = True
        yield Stretch(history.select(part), at_most(history, ~part, before), early=True)


def facts_of(read: Read) -> Facts:
    """What must be known of a history first."""
    facts = Facts()
    for some in read():
        facts.take(some)
    return facts


def _told(history: History) -> Mask:
    """What is of messages, or of channels."""
    known = np.array([word in _TOLD for word in history.f.words] + [False], dtype=np.bool_)
    return np.asarray(known[history.f.codes])
