"""Delta debugging against brute force, on made-up predicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from chaos.search.ddmin import ddmin


def first_of(does: Callable[[frozenset[int]], bool]) -> Callable[[Sequence[Sequence[int]]], int | None]:
    def first(candidates: Sequence[Sequence[int]]) -> int | None:
        return next((number for number, some in enumerate(candidates) if does(frozenset(some))), None)

    return first


def smallest(count: int, does: Callable[[frozenset[int]], bool]) -> int:
    """The size of the smallest part that does it, by trying all."""
    sizes = (size for size in range(count + 1) for some in combinations(range(count), size) if does(frozenset(some)))
    return next(sizes)


def test_one_that_is_needed_is_found_among_many() -> None:
    tried: list[Sequence[int]] = []

    def first(candidates: Sequence[Sequence[int]]) -> int | None:
        for number, some in enumerate(candidates):
            tried.append(some)
            if 700 in some:
                return number
        return None

    assert ddmin(range(1000), first) == [700]
    assert len(tried) < 40


def test_none_is_needed() -> None:
    assert ddmin([1, 2, 3], lambda candidates: 0) == []
    assert ddmin([], lambda candidates: None) == []


def test_all_are_needed() -> None:
    assert ddmin([3, 1, 2], first_of(lambda some: some == {1, 2, 3})) == [3, 1, 2]


WAYS = st.lists(st.frozensets(st.integers(0, 9), max_size=4), min_size=1, max_size=4)


@given(st.integers(1, 10), WAYS, st.booleans())
def test_what_is_left_does_it_and_none_of_it_can_go(count: int, ways: list[frozenset[int]], whole: bool) -> None:
    """`ways`: sets that do it, alone (`whole`) or with others beside them."""
    everything = frozenset(range(count))

    def does(some: frozenset[int]) -> bool:
        return some == everything or any((some == way) if whole else way <= some for way in ways if way <= everything)

    left = ddmin(range(count), first_of(does))
    assert left == sorted(left)
    assert does(frozenset(left))
    assert not any(does(frozenset(left) - {one}) for one in left)
    if not whole and len(ways) == 1:
        assert len(left) == smallest(count, does)


@given(st.integers(1, 12), st.frozensets(st.integers(0, 11), min_size=1, max_size=5))
def test_the_smallest_is_found_where_there_is_one_way_only(count: int, way: frozenset[int]) -> None:
    way = frozenset(number % count for number in way)
    assert ddmin(range(count), first_of(lambda some: way <= some)) == sorted(way)
