"""The shortest history that still fails, found by taking things away and deciding again.

The end goes first: a prefix of a linearizable history is linearizable (what had not returned by then is open). Then
whole units (see `units`), by delta debugging (Zeller, Hildebrandt 2002); where an engine has named operations that show
the failure, theirs alone are tried before all. What is left was decided again and fails, and the whole fails for the
same reason, whatever the engine said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F
from checkers.linearizability.units import KEPT, Labels, closed, excused, looks, units

WORK = 30_000_000  # operations decided in all, at the most
TRIES = 2_000  # parts decided in all, at the most
UNDECIDED = 5  # of these without an answer, at the most: each may have taken all the time that a search has

Fails = Callable[[Calls], bool | None]  # None: not decided
Rows = npt.NDArray[np.intp]


class _Tired(Exception):
    """The work allowed is done."""


@dataclass(frozen=True)
class Part:
    """Some rows of a history, up to a rank. `decided`: as it was decided; `calls`: as it was recorded (they differ in
    the offsets of a log of which something is gone)."""

    rows: Rows
    decided: Calls
    calls: Calls


def shrink(
    calls: Calls, fails: Fails, model: str, around: Sequence[int] = (), until: int | None = None, work: int = WORK
) -> Part:
    """A small part of `calls` that fails, given that `calls` does. around: rows that show why; they stay, and are tried
    alone before others are. until: a rank at which it is likely to fail already. `work` bounds how many operations are
    decided."""
    search = _Search(calls, fails, model, work)
    near = np.asarray(sorted(around), dtype=np.intp)
    try:
        search.cut(int(calls.ret[near].max(initial=-1)) if until is None else until)
        for labels in (units, looks, units):
            search.take_away(labels, near)
        if not len(near):
            search.cut()
        search.excuse()
    except _Tired:
        pass
    return search.best


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
        self.best = Part(np.arange(len(calls)), calls, calls)
        self._rank = NEVER
        self._gone: Rows = np.empty(0, dtype=np.intp)

    def _fail(self, decided: Calls) -> bool:
        self._work -= len(decided)
        self._tries -= 1
        if self._work < 0 or self._tries < 0 or self._undecided <= 0:
            raise _Tired
        answer = self._fails(decided)
        self._undecided -= answer is None
        return bool(answer)

    def _keep(self, rows: Rows, rank: int, gone: Rows | None = None) -> bool:
        """Whether these rows, up to that rank, fail; then they are the best there is. gone: units taken away so far."""
        gone = self._gone if gone is None else gone
        left = self._calls.select(rows)
        shown = decided = prefix(left, rank)
        if self._model == "log" and len(gone):
            decided = prefix(closed(left, self._calls.select(gone)), rank)
        if not self._fail(decided):
            return False
        self.best, self._rank, self._gone = Part(rows[left.call <= rank], decided, shown), rank, gone
        return True

    def cut(self, likely: int = -1) -> None:
        """The shortest prefix, by halving; or up to a rank that is likely to do."""
        rows = self.best.rows
        if 0 <= likely < NEVER and self._keep(rows, likely):
            return
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
                rest = np.setdiff1d(kept, chunk)
                if only(rest):
                    kept, parts = rest, max(parts - 1, 2)
                    break
            else:
                if parts >= len(kept):
                    break
                parts = min(parts * 2, len(kept))

    def excuse(self) -> None:
        """Without what must stay, if it is shown to make no difference."""
        best = self.best
        left = np.flatnonzero(units(best.decided, self._model) != KEPT)
        freed = excused(best.decided, self._model)
        if freed is None or len(left) == len(best.rows) or not self._fail(freed):
            return
        decided = freed if self._model == "log" else best.decided.select(left)
        if self._fail(decided):
            self.best = Part(best.rows[left], decided, best.calls.select(left))
