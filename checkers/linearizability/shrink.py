"""The shortest history that still fails, found by taking things away and deciding again.

The end goes first: a prefix of a linearizable history is linearizable (what had not returned by then is open). Then
whole units (see `units`), by delta debugging (Zeller, Hildebrandt 2002); where an engine has named operations that show
the failure, theirs alone are tried before all. Then the beginning, if the rest fails whatever the object held then (see
`starts`). What is left was decided again and fails, and the whole fails for the same reason, whatever the engine said
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F
from checkers.linearizability.starts import MODELS as STARTS
from checkers.linearizability.starts import rest, starts
from checkers.linearizability.units import KEPT, Labels, closed, excused, looks, units

FEW = 8  # operations that are shown from the very beginning, rather than fewer from later on
WORK = 30_000_000  # operations decided in all, at the most
TRIES = 2_000  # parts decided in all, at the most
UNDECIDED = 5  # of these without an answer, at the most: each may have taken all the time that a search has

Fails = Callable[[Calls], bool | None]  # None: not decided
Rows = npt.NDArray[np.intp]


class _Tired(Exception):
    """The work allowed is done."""


@dataclass(frozen=True)
class Part:
    """Some rows of a history, up to a rank. `calls`: as it was recorded. `decided`: as it was decided: with other
    offsets, for a log of which something is gone; and, if its beginning is gone, what was open then of unknown outcome,
    and once for each thing that the object may have held, said by an operation in front (but for its initial value)."""

    rows: Rows
    decided: tuple[Calls, ...]
    calls: Calls


def shrink(
    calls: Calls, fails: Fails, model: str, around: Sequence[int] = (), until: int | None = None, work: int = WORK
) -> Part:
    """A small part of `calls` that fails, given that `calls` does. around: rows that show why; they stay, and are tried
    alone before others are. until: a rank at which it is likely to fail already. `work` bounds how many operations are
    decided."""
    near = np.asarray(sorted(around), dtype=np.intp)
    search = _Search(calls, fails, model, work)
    with suppress(_Tired):
        if len(near):
            search.cut_at(int(np.where(calls.ret[near] < NEVER, calls.ret[near], calls.call[near]).max()))
        elif until is None or not search.cut_at(until):
            search.cut()
    later = copy(search)
    search.reduce(near)
    several = len(calls) > 0 and bool((calls.key != calls.key[0]).any())
    if len(near) or len(search.best.rows) <= FEW or several or model not in STARTS:
        return search.best
    with suppress(_Tired):
        later.begin()
        later.reduce(near)
    return min(search.best, later.best, key=lambda part: len(part.rows))


def prefix(calls: Calls, rank: int) -> Calls:
    """What was known at a rank: later calls are not there, later returns are open."""
    early = calls.select(np.flatnonzero(calls.call <= rank))
    open_ = early.ret > rank
    return replace(
        early,
        out=np.where(open_ & (early.f != F.CAS), NONE, early.out),  # a cas keeps its new value there
        ret=np.where(open_, NEVER, early.ret),
        end=np.where(open_, -1, early.end),
    )


class _Search:
    def __init__(self, calls: Calls, fails: Fails, model: str, work: int) -> None:
        self._calls, self._fails, self._model = calls, fails, model
        self._work, self._tries, self._undecided = work, TRIES, UNDECIDED
        self.best = Part(np.arange(len(calls)), (calls,), calls)
        self._start, self._rank = -1, NEVER
        self._gone: Rows = np.empty(0, dtype=np.intp)

    def _fail(self, decided: Calls) -> bool:
        self._work -= len(decided)
        self._tries -= 1
        if self._work < 0 or self._tries < 0 or self._undecided <= 0:
            raise _Tired
        answer = self._fails(decided)
        self._undecided -= answer is None
        return bool(answer)

    def _keep(self, rows: Rows, rank: int, gone: Rows | None = None, start: int | None = None) -> bool:
        """Whether these rows, up to that rank, fail; then they are the best there is. gone: units taken away so far.
        start: the rank by which the beginning is gone."""
        gone = self._gone if gone is None else gone
        start = self._start if start is None else start
        left = self._calls.select(rows)
        shown = prefix(left, rank)
        decided = [shown]
        if self._model == "log" and len(gone):
            decided = [prefix(closed(left, self._calls.select(gone)), rank)]
        if start >= 0:
            decided = starts(rest(shown, start), self._model)
            shown = shown.select(np.flatnonzero(shown.ret > start))
        if not decided or not all(self._fail(one) for one in decided):
            return False
        rows = rows[(left.call <= rank) & (left.ret > start)]
        self.best = Part(rows, tuple(decided), shown)
        self._start, self._rank, self._gone = start, rank, gone
        return True

    def cut_at(self, rank: int) -> bool:
        """Up to a rank, if that fails."""
        return self._keep(self.best.rows, rank)

    def cut(self) -> None:
        """The shortest prefix, by halving."""
        rows = self.best.rows
        ret = self._calls.ret[rows]
        returns = np.sort(ret[ret <= min(self._rank, NEVER - 1)])
        low, high = -1, len(returns) - 1  # it fails up to the return at `high`
        if high >= 0 and self._rank == NEVER and not self._keep(rows, int(returns[high])):
            return
        while high - low > 1:
            middle = (low + high) // 2
            if self._keep(rows, int(returns[middle])):
                high = middle
            else:
                low = middle

    def reduce(self, near: Rows) -> None:
        """Without all that can be taken away."""
        with suppress(_Tired):
            for labels in (units, looks, units):
                self.take_away(labels, near)
            if not len(near):
                self.cut()
            self.excuse()

    def begin(self) -> None:
        """Without as much of the beginning as can be: by doubling what is left, then by halving."""
        rows, ret = self.best.rows, self._calls.ret[self.best.rows]
        returns = np.sort(ret[ret <= min(self._rank, NEVER - 1)])[::-1]  # latest first
        few, many = 0, 1  # it fails with those of the `many` latest returns, and not of `few`
        while many < len(returns) and not self._keep(rows, self._rank, start=int(returns[many])):
            few, many = many, 2 * many
        many = min(many, len(returns))
        while many - few > 1:
            middle = (few + many) // 2
            if self._keep(rows, self._rank, start=int(returns[middle])):
                many = middle
            else:
                few = middle

    def take_away(self, labels: Callable[[Calls, str], Labels], near: Rows) -> None:
        """The fewest units, beside what must stay."""
        rows = self.best.rows
        label = labels(self._calls.select(rows), self._model)
        names, unit = np.unique(label, return_inverse=True)
        stays = names == KEPT
        before = self._gone

        def only(chosen: Rows) -> bool:
            stay = stays.copy()
            stay[chosen] = True
            here = stay[unit]
            away = np.concatenate((before, rows[~here])) if labels is units else before
            return self._keep(rows[here], self._rank, away)

        stays[unit[np.isin(rows, near)]] = True
        kept = np.flatnonzero(~stays)
        if len(near) and len(kept) and only(kept[:0]):
            return
        parts = 2
        while len(kept):
            for chunk in np.array_split(kept, min(parts, len(kept))):
                others = np.setdiff1d(kept, chunk)
                if only(others):
                    kept, parts = others, max(parts - 1, 2)
                    break
            else:
                if parts >= len(kept):
                    break
                parts = min(parts * 2, len(kept))

    def excuse(self) -> None:
        """Without what must stay, if it is shown to make no difference."""
        best = self.best
        whole = best.decided[0]
        left = np.flatnonzero(units(whole, self._model) != KEPT)
        freed = excused(whole, self._model)
        if freed is None or len(left) == len(best.rows) or not self._fail(freed):
            return
        decided = freed if self._model == "log" else whole.select(left)
        if self._fail(decided):
            self.best = Part(best.rows[left], (decided,), best.calls.select(left))
