"""Shrinking keeps the failure, and leaves nothing that could be taken away."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from random import Random

import numpy as np
import pytest

from chaos.model.history import NONE
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
    assert tried == [10_005, 4], "up to where they show it, and they alone"


def test_with_little_work_allowed_it_still_fails() -> None:
    whole = history(50, 20)
    for work in (0, len(whole), 3 * len(whole)):
        decided = [0]
        small = shrink(whole, partial(noted, decided), "fifo-queue", work=work).calls
        assert inverted(small)
        assert len(small) <= len(whole)
        assert sum(decided) <= work


def noted(decided: list[int], some: Calls) -> bool:
    """Whether it is inverted; how many operations were decided is noted."""
    decided.append(len(some))
    return inverted(some)


def test_what_is_likely_to_be_the_end_is_tried_first() -> None:
    decided: list[int] = []
    small = shrink(history(50, 3), partial(noted, decided), "fifo-queue", until=109)
    assert small.rows.tolist() == [3, 4, 53, 54]
    assert decided[0] == 55


def test_where_the_end_is_told_too_late_there_is_less_to_it() -> None:
    rows: list[Row] = [(F.PUT, 1, None, 0, 1), *((F.TAKE, None, 1, 2 * place, 2 * place + 1) for place in range(1, 5))]
    told = shrink(calls(rows), lambda part: MONITORS["bag"](part).valid is False, "bag", until=9)
    assert told.rows.tolist() == [0, 1, 2]


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


def test_offsets_close_up_over_what_is_gone_or_holes_would_be_why_it_fails() -> None:
    rows: list[Row] = [(F.APPEND, 10 + place, place, 2 * place, 2 * place + 1) for place in range(9)]
    assert _with(calls([*rows, (F.FETCH, 7, None, 40, 41)]), "log").rows.tolist() == [8, 9]


def test_reads_go_by_themselves() -> None:
    rows: list[Row] = [(F.WRITE, 1, None, 0, 1), *((F.READ, None, 1, 2 * at, 2 * at + 1) for at in range(1, 5))]
    rows += [(F.WRITE, 2, None, 20, 21), (F.READ, None, 1, 22, 23)]
    assert _with(calls(rows), "register").rows.tolist() == [0, 5, 6]


def test_the_beginning_goes_where_the_rest_fails_whatever_was_held() -> None:
    def fails(part: Calls) -> bool:
        """Of counts one after the other."""
        sums = np.cumsum(np.where(part.f == F.ADD, part.arg, 0))
        read = part.f == F.READ
        return bool((sums[read] != part.out[read]).any())

    rows: list[Row] = [(F.ADD, 1, None, 4 * place, 4 * place + 1) for place in range(20)]
    rows += [(F.READ, None, min(place + 1, 19), 4 * place + 2, 4 * place + 3) for place in range(20)]
    small = shrink(calls(rows), fails, "counter")
    assert [F(f).name for f in small.calls.f] == ["READ", "ADD", "READ"]
    assert small.calls.out[2] == 19
    assert len(small.rows) == 3
    assert [fails(one) for one in small.decided] == [True]


def test_the_beginning_stays_where_the_rest_fails_only_if_something_else_was_held() -> None:
    def fails(part: Calls) -> bool:
        """Of swaps and reads one after the other."""
        held = NONE
        for f, arg, out in zip(part.f.tolist(), part.arg.tolist(), part.out.tolist(), strict=True):
            if (f == F.CAS and held != arg) or (f == F.READ and held != out):
                return True
            held = {F.WRITE: arg, F.CAS: out}.get(f, held)
        return False

    rows: list[Row] = [(F.WRITE, 0, None, 0, 1)]
    rows += [(F.CAS, place, place + 1, 2 * place + 2, 2 * place + 3) for place in range(12)]
    small = shrink(calls([*rows, (F.READ, None, 5, 90, 91)]), fails, "cas-register")
    assert small.rows.tolist() == [12, 13]
    assert [fails(one) for one in small.decided] == [True] * 3
    assert [int(one.arg[0]) for one in small.decided] == [5, 11, 13]


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
