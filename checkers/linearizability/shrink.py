"""The shortest history that still fails, found by taking things away and deciding again.

First the end: a prefix of a linearizable history is linearizable, so the shortest prefix that fails is found by halving
(what had not returned by then is open). Then whole *units*, the operations that make sense only together (a value's put
and its take, a write and the reads of it), by delta debugging (Zeller, Hildebrandt 2002). What is left was decided
again and fails, so it is a counterexample by itself, whatever the engine said of the whole.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chaos.model.history import NONE, Ints
from checkers.linearizability.calls import NEVER, Calls, F

WORK = 30_000_000  # operations decided in all, at the most

Fails = Callable[[Calls], bool]


class _Tired(Exception):
    """The work allowed is done."""


def shrink(calls: Calls, fails: Fails, work: int = WORK) -> Calls:
    """A small part of `calls` that fails, given that `calls` does. `work` bounds how many operations are decided."""
    judge = _Judge(fails, work)
    best = calls
    try:
        best = _shortest_prefix(calls, judge)
        best = _fewest_units(best, judge)
    except _Tired:
        best = judge.best or best
    return best


class _Judge:
    def __init__(self, fails: Fails, work: int) -> None:
        self._fails = fails
        self._left = work
        self.best: Calls | None = None

    def __call__(self, calls: Calls) -> bool:
        self._left -= len(calls)
        if self._left < 0:
            raise _Tired
        if not self._fails(calls):
            return False
        if self.best is None or len(calls) < len(self.best):
            self.best = calls
        return True


def prefix(calls: Calls, rank: int) -> Calls:
    """What was known at a rank: later calls are not there, later returns are open."""
    early = calls.select(np.flatnonzero(calls.call <= rank))
    open_ = early.ret > rank
    return Calls(
        early.f,
        early.arg,
        np.where(open_ & (early.f != F.CAS), NONE, early.out),  # a cas keeps its new value there
        early.call,
        np.where(open_, NEVER, early.ret),
        early.key,
        early.process,
        early.channel,
        early.op,
        np.where(open_, -1, early.end),
    )


def _shortest_prefix(calls: Calls, judge: _Judge) -> Calls:
    returns = np.sort(calls.ret[calls.ret != NEVER])
    low, high = -1, len(returns) - 1  # fails up to the return at `high`, if it fails at all with all of them
    if high < 0 or not judge(prefix(calls, int(returns[high]))):
        return calls
    while high - low > 1:
        middle = (low + high) // 2
        if judge(prefix(calls, int(returns[middle]))):
            high = middle
        else:
            low = middle
    return prefix(calls, int(returns[high]))


def units(calls: Calls) -> Ints:
    """A label for each operation; those of one label are kept or taken away together."""
    label = np.arange(len(calls), dtype=np.int64)
    value = np.full(len(calls), NONE, dtype=np.int64)
    for f, column in (
        (F.PUT, calls.arg), (F.TAKE, calls.out), (F.WRITE, calls.arg), (F.READ, calls.out),
        (F.ADD, calls.arg), (F.REMOVE, calls.arg), (F.CONTAINS, calls.arg), (F.APPEND, calls.arg), (F.FETCH, calls.out),
    ):  # fmt: skip
        rows = calls.f == f
        value[rows] = column[rows]
    known = np.flatnonzero(value != NONE)
    if len(known):
        pairs = np.stack([calls.key[known], value[known]], axis=1)
        _, first, inverse = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        label[known] = known[first][inverse.reshape(-1)]
    holders = np.flatnonzero((calls.f == F.ACQUIRE) | (calls.f == F.RELEASE))
    held: dict[tuple[int, int], int] = {}
    for row in holders.tolist():  # an acquire and the release of the same process that follows it
        who = (int(calls.key[row]), int(calls.process[row]))
        if calls.f[row] == F.ACQUIRE:
            held[who] = row
        else:
            label[row] = held.pop(who, row)
    return label


def _fewest_units(calls: Calls, judge: _Judge) -> Calls:
    label = units(calls)
    _, groups = np.unique(label, return_inverse=True)
    kept = list(range(int(groups.max(initial=-1)) + 1))
    parts = 2

    def only(chosen: list[int]) -> Calls:
        mask = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.bool_)
        mask[chosen] = True
        return calls.select(np.flatnonzero(mask[groups]))

    while len(kept) > 1:
        size = -(-len(kept) // parts)
        chunks = [kept[start : start + size] for start in range(0, len(kept), size)]
        for chunk in chunks:
            if len(chunk) < len(kept) and judge(only(chunk)):
                kept, parts = chunk, 2
                break
        else:
            for place in range(len(chunks)):
                rest = [unit for other, chunk in enumerate(chunks) if other != place for unit in chunk]
                if rest and len(rest) < len(kept) and judge(only(rest)):
                    kept, parts = rest, max(parts - 1, 2)
                    break
            else:
                if parts >= len(kept):
                    break
                parts = min(parts * 2, len(kept))
    return only(kept)
