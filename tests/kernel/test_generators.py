"""Generators: literal sequences, and what holds for all of them."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from chaos.kernel.clock import SECOND
from chaos.kernel.generators import (
    Intent,
    always,
    each_key,
    limit,
    merge,
    mix,
    per_process,
    phases,
    rate,
    round_robin,
    stagger,
    time_limit,
)

MS = 1_000_000
rates = st.floats(0.1, 1e6)


def test_rate_is_evenly_spaced_from_nought() -> None:
    assert list(limit(rate(always("publish"), 4), 3)) == [
        Intent(0, "publish"),
        Intent(250 * MS, "publish"),
        Intent(500 * MS, "publish"),
    ]


def test_rate_does_not_drift() -> None:
    thirds = [intent.at for intent in limit(rate(always("publish"), 3), 7)]
    assert thirds == [0, 333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333, 1_666_666_666, 2_000_000_000]


@given(rates, st.integers(0, 1000))
def test_stagger_stays_within_twice_the_mean(per_second: float, seed: int) -> None:
    times = [0, *(intent.at for intent in limit(stagger(always("publish"), per_second, Random(seed)), 50))]
    assert all(0 <= after - before <= 2 * SECOND / per_second + 1 for before, after in pairwise(times))


def test_stagger_keeps_the_rate_on_average() -> None:
    assert 9_800 < len(list(time_limit(stagger(always("publish"), 1000, Random(1)), 10 * SECOND))) < 10_200


def test_stagger_is_the_same_for_the_same_seed() -> None:
    def times(seed: int) -> list[int]:
        return [intent.at for intent in limit(stagger(always("publish"), 10, Random(seed)), 20)]

    assert times(1) == times(1) != times(2)


def test_mix_follows_the_weights_and_outlives_a_source() -> None:
    chosen = Counter(intent.f for intent in limit(mix([(3, always("a")), (1, always("b"))], Random(7)), 4000))
    assert 2900 < chosen["a"] < 3100
    left = list(mix([(1, limit(always("a"), 2)), (1, limit(always("b"), 3))], Random(7)))
    assert Counter(intent.f for intent in left) == {"a": 2, "b": 3}


def test_merge_is_by_time_and_then_by_source() -> None:
    merged = merge(limit(rate(always("a"), 2), 3), limit(rate(always("b"), 1), 2))
    assert [(intent.at // MS, intent.f) for intent in merged] == [
        (0, "a"),
        (0, "b"),
        (500, "a"),
        (1000, "a"),
        (1000, "b"),
    ]


def test_phases_follow_one_another() -> None:
    both = phases((SECOND, rate(always("fill"), 2)), (2 * SECOND, rate(always("read"), 1)))
    assert [(intent.at // MS, intent.f) for intent in both] == [
        (0, "fill"),
        (500, "fill"),
        (1000, "read"),
        (2000, "read"),
    ]


def test_time_limit_leaves_out_what_falls_due_at_the_limit() -> None:
    assert [intent.at for intent in time_limit(rate(always("a"), 2), SECOND)] == [0, SECOND // 2]


def test_each_key_and_round_robin_take_turns() -> None:
    intents = limit(round_robin(each_key(always("publish"), ["q1", "q2"]), 3), 4)
    assert list(intents) == [
        Intent(0, "publish", "q1", 0),
        Intent(0, "publish", "q2", 1),
        Intent(0, "publish", "q1", 2),
        Intent(0, "publish", "q2", 0),
    ]


def test_each_process_has_its_own_source() -> None:
    intents = per_process(lambda worker: rate(always(f"f{worker}"), worker + 1), 2)
    assert list(time_limit(intents, SECOND)) == [
        Intent(0, "f0", None, 0),
        Intent(0, "f1", None, 1),
        Intent(SECOND // 2, "f1", None, 1),
    ]


@given(st.lists(rates, min_size=1, max_size=4), st.integers(0, 1000))
def test_whatever_is_merged_is_in_order(many: list[float], seed: int) -> None:
    random = Random(seed)
    sources = [stagger(always("a"), each, random) for each in many]
    assert all(one.at <= next_.at for one, next_ in pairwise(islice(merge(*sources), 100)))
