"""Shrinking keeps the failure, and leaves nothing that could be taken away."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from checkers.linearizability.calls import NEVER, Calls, F, calls
from checkers.linearizability.monitors import MONITORS
from checkers.linearizability.shrink import Part, prefix, shrink
from checkers.linearizability.verdict import Refused
from tests.linearizability.monitors.agree import CASES
from tests.linearizability.monitors.small import columns

Row = tuple[F, int | None, int | None, int, int | None]


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
    rows: list[Row] = []
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
        small = shrink(history(values, swapped), inverted, "fifo-queue").calls
        assert inverted(small)
        assert sorted(small.arg[small.f == F.PUT].tolist()) == [swapped, swapped + 1]
        assert sorted(small.out[small.f == F.TAKE].tolist()) == [swapped, swapped + 1]


def test_what_comes_after_the_failure_is_gone() -> None:
    small = shrink(history(50, 3), inverted, "fifo-queue").calls
    assert small.call.tolist() == [6, 8, 106, 108]
    assert small.ret.tolist() == [7, 9, 107, 109]
    assert small.op.tolist() == [3, 4, 53, 54]


def test_operations_that_show_it_are_tried_first() -> None:
    tried: list[int] = []

    def fails(some: Calls) -> bool:
        tried.append(len(some))
        return inverted(some)

    small = shrink(history(10_000, 3), fails, "fifo-queue", around=[3, 4, 10_003, 10_004])
    assert small.rows.tolist() == [3, 4, 10_003, 10_004]
    assert sum(tried) < 3 * 20_000


def test_with_little_work_allowed_it_still_fails() -> None:
    whole = history(50, 20)
    for work in (0, len(whole), 3 * len(whole)):
        small = shrink(whole, inverted, "fifo-queue", work=work).calls
        assert inverted(small)
        assert len(small) <= len(whole)


def test_one_that_never_answers_is_not_asked_for_ever() -> None:
    asked: list[Calls] = []

    def silent(some: Calls) -> None:
        asked.append(some)

    whole = history(50, 20)
    assert shrink(whole, silent, "fifo-queue").calls is whole
    assert len(asked) == 5


def test_a_prefix_leaves_later_returns_open() -> None:
    some = calls([(F.PUT, 1, None, 0, 5), (F.TAKE, None, 1, 1, 3), (F.PUT, 2, None, 4, 6), (F.CAS, 1, 2, 2, 9)])
    early = prefix(some, 3)
    assert early.call.tolist() == [0, 1, 2]
    assert early.ret.tolist() == [NEVER, 3, NEVER]
    assert early.out[1:].tolist() == [1, 2]
    assert early.end.tolist() == [-1, 1, -1]


def test_takes_of_nobody_knows_what_stay_only_where_they_matter() -> None:
    """Two values are owed, one unknown take may have been either: the take is part of why. Not so of an inversion."""
    unknown: Row = (F.TAKE, None, None, 5, None)
    lost: list[Row] = [(F.PUT, 1, None, 0, 1), (F.PUT, 2, None, 2, 3), unknown, (F.TAKE, None, None, 6, 7)]
    assert _with(calls(lost), "fifo").calls.f.tolist() == [F.PUT, F.PUT, F.TAKE, F.TAKE]
    turned: list[Row] = [*lost[:2], unknown, (F.TAKE, None, 2, 6, 7), (F.TAKE, None, 1, 8, 9)]
    assert _with(calls(turned), "fifo").rows.tolist() == [0, 1, 3, 4]


def test_offsets_of_a_log_are_shown_as_recorded_and_decided_without_what_is_gone() -> None:
    rows: list[Row] = [(F.APPEND, 10 + place, place, 2 * place, 2 * place + 1) for place in range(9)]
    rows += [(F.APPEND, 50, None, 30, None), (F.FETCH, 7, None, 40, 41)]
    small = _with(calls(rows), "log", around=[7, 10])
    assert small.rows.tolist() == [7, 10]
    assert (small.calls.out[0], small.calls.arg[1]) == (7, 7)
    assert (small.decided[0].out[0], small.decided[0].arg[1]) == (0, 0)


def _with(some: Calls, monitor: str, around: Sequence[int] = ()) -> Part:
    model = {"fifo": "fifo-queue", "lock": "mutex"}.get(monitor, monitor)
    return shrink(some, lambda part: MONITORS[monitor](part).valid is False, model, around)


@pytest.mark.parametrize("name", ["fifo", "bag", "register", "lock", "fenced-lock", "set", "log"])
def test_what_is_left_of_small_histories_fails(name: str) -> None:
    draw, case, tried = Random(f"shrink {name}"), CASES[name], 0
    while tried < 40:
        ops = case.make(draw)
        if case.allows(ops):
            continue
        whole = columns([ops])
        with contextlib.suppress(Refused):
            if not case.decide(whole).valid:
                small = _with(whole, name)
                assert case.decide(small.decided[0]).valid is False
                assert len(small.decided[0]) == len(small.rows) == len(small.calls)
                assert small.calls.op.tolist() == whole.op[small.rows].tolist()
                tried += 1
