"""The tests against values that are known, and against counting out every way."""

from __future__ import annotations

from itertools import combinations
from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.gate import statistics
from results.gate.statistics import fisher, least_fisher, least_mann_whitney, mann_whitney


@pytest.mark.parametrize(
    ("table", "p"),
    [
        ((1, 4, 3, 4), 17 / 70),  # Fisher's lady tasting tea, of whom 3 of 4 were right: 0.243
        ((0, 4, 4, 4), 1 / 70),
        ((2, 17, 10, 13), 0.0004651809),  # convictions of twins, in Fisher's Statistical Methods: 2 of 17, 10 of 13
        ((5, 5, 5, 5), 1.0),
        ((0, 5, 0, 5), 1.0),
    ],
)
def test_fisher_as_it_is_known(table: tuple[int, int, int, int], p: float) -> None:
    assert fisher(*table) == pytest.approx(p, rel=1e-4)


@given(st.integers(1, 7), st.integers(1, 7), st.data())
def test_fisher_counted_out(runs: int, before: int, data: st.DataObject) -> None:
    passed, old = data.draw(st.integers(0, runs)), data.draw(st.integers(0, before))
    ways = [len([one for one in chosen if one < runs]) for chosen in combinations(range(runs + before), passed + old)]
    assert isclose(fisher(passed, runs, old, before), sum(way <= passed for way in ways) / len(ways))
    assert least_fisher(runs, old, before) <= fisher(passed, runs, old, before) + 1e-12 or passed + old != old


VALUES = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=6)


@given(VALUES, VALUES)
def test_ranks_counted_out_with_ties(ours: list[float], before: list[float]) -> None:
    both = [*ours, *before]
    rank = {value: sum(other < value for other in both) + (both.count(value) + 1) / 2 for value in both}
    seen = sum(rank[value] for value in ours)
    ways = [sum(rank[both[place]] for place in chosen) for chosen in combinations(range(len(both)), len(ours))]
    expected = sum(way >= seen - 1e-9 for way in ways) / len(ways)
    assert isclose(mann_whitney(ours, before), expected)
    assert least_mann_whitney(len(ours), len(before)) <= expected + 1e-12


@settings(max_examples=30)
@given(st.lists(st.integers(0, 1000).map(float), min_size=16, max_size=20, unique=True), st.integers(0, 300))
def test_the_approximation_is_near_what_is_counted_out(before: list[float], shift: int) -> None:
    ours = [value + shift for value in reversed(before)]
    exact = mann_whitney(ours, before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "EXACT", 0)
        assert mann_whitney(ours, before) == pytest.approx(exact, abs=0.03)


def test_all_alike_show_nothing_and_who_confirms_nothing_is_slowest() -> None:
    assert mann_whitney([1.0] * 30, [1.0] * 30) == 1.0
    assert mann_whitney([float("inf")] * 3, [1.0, 2.0, 3.0]) == 1 / 20
    assert mann_whitney([2.0] * 50, [1.0] * 50) < 1e-9
