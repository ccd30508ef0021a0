"""Shrinking keeps the failure, and leaves nothing that could be taken away."""

from __future__ import annotations

from random import Random

import numpy as np

from checkers.linearizability.calls import NEVER, Calls, F, calls
from checkers.linearizability.shrink import prefix, shrink, units


def inverted(some: Calls) -> bool:
    """Whether two values were put one after the other and taken one after the other, the other way round."""
    puts = {int(some.arg[row]): row for row in np.flatnonzero(some.f == F.PUT)}
    takes = {int(some.out[row]): row for row in np.flatnonzero((some.f == F.TAKE) & (some.ret != NEVER))}
    both = [value for value in puts if value in takes]
    return any(
        some.ret[puts[one]] < some.call[puts[two]] and some.ret[takes[two]] < some.call[takes[one]]
        for one in both
        for two in both
    )


def history(values: int, swapped: int) -> Calls:
    """Values put and taken one at a time, in order but for one and the next."""
    order = list(range(values))
    order[swapped], order[swapped + 1] = order[swapped + 1], order[swapped]
    rows: list[tuple[F, int | None, int | None, int, int | None]] = []
    for place in range(values):
        rows.append((F.PUT, place, None, 2 * place, 2 * place + 1))
    for place, value in enumerate(order):
        at = 2 * (values + place)
        rows.append((F.TAKE, None, value, at, at + 1))
    return calls(rows)


def test_two_values_are_left_of_many() -> None:
    for seed in range(20):
        values = Random(seed).randrange(2, 60)
        swapped = Random(seed + 1).randrange(values - 1)
        small = shrink(history(values, swapped), inverted)
        assert inverted(small)
        assert sorted(small.arg[small.f == F.PUT].tolist()) == [swapped, swapped + 1]
        assert sorted(small.out[small.f == F.TAKE].tolist()) == [swapped, swapped + 1]


def test_what_comes_after_the_failure_is_gone() -> None:
    small = shrink(history(50, 3), inverted)
    assert int(small.ret[small.ret != NEVER].max()) == 2 * (50 + 4) + 1


def test_with_little_work_allowed_it_still_fails() -> None:
    whole = history(50, 20)
    for work in (0, len(whole), 3 * len(whole)):
        small = shrink(whole, inverted, work)
        assert inverted(small)
        assert len(small) <= len(whole)


def test_a_prefix_leaves_later_returns_open() -> None:
    some = calls([(F.PUT, 1, None, 0, 5), (F.TAKE, None, 1, 1, 3), (F.PUT, 2, None, 4, 6)])
    early = prefix(some, 3)
    assert early.call.tolist() == [0, 1]
    assert early.ret.tolist() == [NEVER, 3]
    assert early.out[1] == 1


def test_units_are_values_and_holders() -> None:
    some = calls([(F.PUT, 7, None, 0, 1), (F.PUT, 8, None, 2, 3), (F.TAKE, None, 7, 4, 5), (F.TAKE, None, None, 6, 7)])
    assert units(some).tolist() == [0, 1, 0, 3]
