"""When replicas catch up, from samples."""

from __future__ import annotations

from clusters.catching import Catching, Lag

S = 10**9


def looks(*seen: tuple[float, int, bool]) -> list[bool | None]:
    """What is told of looks at one replica: (seconds, life, behind)."""
    catching = Catching()
    return [catching.seen("q", "n1", life, behind, round(time * S)) for time, life, behind in seen]


def test_one_that_is_started_again_and_behind_begins_at_once_and_ends_when_it_is_not() -> None:
    assert looks((0, 1, False), (1, 2, True), (2, 2, True), (3, 2, False), (4, 2, False)) == [
        None, True, None, False, None
    ]  # fmt: skip


def test_lag_for_a_moment_is_nothing() -> None:
    assert looks((0, 1, False), (1, 1, True), (1.4, 1, True), (1.45, 1, False), (2, 1, True)) == [None] * 5


def test_lag_that_goes_on_is() -> None:
    assert looks((0, 1, False), (1, 1, True), (1.4, 1, True), (1.5, 1, True), (2, 1, False)) == [
        None, None, None, True, False
    ]  # fmt: skip


def test_at_the_first_start_there_is_nothing_to_catch_up_with() -> None:
    assert looks((0, 1, True), (0.2, 1, False)) == [None, None]


def test_one_that_dies_while_it_catches_up_is_still_at_it() -> None:
    assert looks((0, 2, True), (1, 3, True), (2, 3, False)) == [True, None, False]


def test_behind_is_what_lacks_what_the_leader_had_a_second_ago() -> None:
    lag = Lag()
    assert not lag.behind("q", 0, 0), "no leader is known"
    lag.leads("q", 10, 0)
    assert not lag.behind("q", 0, S // 2), "nothing is known of a second ago"
    lag.leads("q", 20, S)
    assert lag.behind("q", 9, 3 * S // 2)
    assert not lag.behind("q", 10, 3 * S // 2)
    lag.leads("q", 30, 2 * S)
    assert lag.behind("q", 19, 2 * S)
    assert not lag.behind("other", 0, 2 * S)
