"""Trends of runs as a few nights leave them: what counts, what is left out, since when something is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.errors import BadInput
from chaos.model.verdict import Verdict
from results.tables.load import load
from results.text import brief, share
from results.trends import LeftOut, Night, Times, Trend, Trends, Trouble, trends
from results.wilson import wilson
from tests.results.tables.made import Row, make

SINCE = datetime(2026, 11, 1, tzinfo=UTC)
S = 10**9


def run(day: int, verdict: str | None = "valid", *, seed: int = 1, hour: int = 2, **more: Any) -> Row:
    created = datetime(2026, 11, day, hour, tzinfo=UTC)
    return {
        "run": f"202611{day:02}-{hour:02}-s{seed}", "day": f"2026-11-{day:02}", "scenario": "queue", "seed": seed,
        "broker": "rabbitmq-quorum", "version": "4.0", "created": created, "status": "done", "attempt": 1,
        "commit": f"c{day}", "verdict": verdict, "lost": 0, "duplicated": 0, **more,
    }  # fmt: skip


def of(tmp_path: Path, *runs: Row, rejected: tuple[Row, ...] = ()) -> Trends:
    make(tmp_path, runs=runs, rejected=rejected)
    return trends(load(tmp_path), SINCE)


def one(tmp_path: Path, *runs: Row) -> Trend:
    (trend,) = of(tmp_path, *runs).trends
    return trend


def test_a_night_sums_up_its_runs(tmp_path: Path) -> None:
    trend = one(
        tmp_path,
        run(2, "invalid", seed=1, lost=3, duplicated=1, recovery=4 * S, failover=None),
        run(2, "valid", seed=2, lost=0, duplicated=2, recovery=1 * S, failover=7),
        run(2, "unknown", seed=3, lost=None, duplicated=None, recovery=2 * S),
        run(3, "valid", lost=None, duplicated=None),
    )
    assert trend.nights == (
        Night("2026-11-02", 1, 1, 1, 3, 3, Times(2 * S, 4 * S, 3), Times(7, 7, 1), None),
        Night("2026-11-03", 1, 0, 0, None, None, None, None, None),
    )
    assert trend.total == Night("all", 2, 1, 1, 3, 3, Times(2 * S, 4 * S, 3), Times(7, 7, 1), None)
    assert (trend.nights[0].rate, trend.nights[0].interval) == (1 / 3, wilson(1, 3))
    assert trend.trouble is None


def test_each_version_of_a_broker_is_apart_and_trouble_comes_first(tmp_path: Path) -> None:
    found = of(
        tmp_path, run(2, version="3.10"), run(2, scenario="a"), run(2, "unknown", scenario="z", version=None),
        run(2, "invalid", scenario="y"), run(2, broker="lavinmq", version="2.1", scenario="a"),
    ).trends  # fmt: skip
    assert [(trend.scenario, trend.on, trend.trouble and str(trend.trouble.verdict)) for trend in found] == [
        ("y", "rabbitmq-quorum 4.0", "invalid"),
        ("z", "rabbitmq-quorum", "unknown"),
        ("a", "lavinmq 2.1", None),
        ("a", "rabbitmq-quorum 4.0", None),
        ("queue", "rabbitmq-quorum 3.10", None),
    ]


def test_trouble_goes_back_over_every_night_as_bad_as_the_newest(tmp_path: Path) -> None:
    trend = one(
        tmp_path, run(2, "invalid"), run(3), run(4), run(5, "unknown"), run(6, "valid", seed=9),
        run(7, "valid", seed=1), run(7, "invalid", seed=2, hour=3), run(7, "invalid", seed=3, hour=4),
        run(8, "valid", seed=1), run(8, "invalid", seed=2),
    )  # fmt: skip
    assert trend.trouble == Trouble("2026-11-07", 2, "20261107-03-s2", Verdict.INVALID, 2, "c7", "c6")


def test_what_is_unknown_is_trouble_and_an_invalid_night_before_is_part_of_it(tmp_path: Path) -> None:
    trend = one(tmp_path, run(3), run(4, "invalid"), run(5, "unknown"))
    assert trend.trouble == Trouble("2026-11-04", 2, "20261104-02-s1", Verdict.INVALID, 1, "c4", "c3")
    trend = one(tmp_path, run(3), run(4, "unknown"), run(5, "invalid"))
    assert trend.trouble == Trouble("2026-11-05", 1, "20261105-02-s1", Verdict.INVALID, 1, "c5", "c4")


def test_trouble_from_the_first_night_on_has_nothing_before_it(tmp_path: Path) -> None:
    trend = one(tmp_path, run(3, "invalid", commit=None))
    assert trend.trouble == Trouble("2026-11-03", 1, "20261103-02-s1", Verdict.INVALID, 1, None, None)


def test_trouble_that_is_over_is_none(tmp_path: Path) -> None:
    assert one(tmp_path, run(3, "invalid"), run(4)).trouble is None


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    trend = one(
        tmp_path, run(2), run(2, None, seed=2, status="running"), run(2, None, seed=3),
        run(2, "unknown", seed=4, status="failed", problem="no nodes"), run(2, None, seed=5, status="failed"),
    )  # fmt: skip
    assert trend.left_out == (
        LeftOut("20261102-02-s2", "it was still running, or cut off"),
        LeftOut("20261102-02-s3", "it has no verdict"),
        LeftOut("20261102-02-s4", "it failed: no nodes"),
        LeftOut("20261102-02-s5", "it failed"),
    )
    assert [(night.valid, night.runs) for night in trend.nights] == [(1, 1)]


def test_where_nothing_was_judged_there_are_no_nights(tmp_path: Path) -> None:
    trend = one(tmp_path, run(2, None, status="running"))
    assert (trend.nights, trend.total, trend.trouble, len(trend.left_out)) == ((), None, None, 1)


def test_trying_again_makes_nothing_look_better(tmp_path: Path) -> None:
    again = {"suite_run": "r", "cell": "row"}
    trend = one(
        tmp_path,
        run(2, "valid", seed=1, hour=5, attempt=2, **again), run(2, "invalid", seed=1, hour=3, attempt=1, **again),
        # an attempt that failed was none
        run(2, "valid", seed=2, hour=5, attempt=2, **again), run(2, None, seed=2, hour=3, status="failed", **again),
        # the same seed of another cell, or of no suite, is another run
        run(2, "valid", seed=1, hour=6, suite_run="r", cell="other"), run(2, "valid", seed=1, hour=7),
        run(2, "valid", seed=1, hour=8),
    )  # fmt: skip
    assert [(night.valid, night.invalid) for night in trend.nights] == [(4, 1)]
    assert trend.left_out == (
        LeftOut("20261102-03-s2", "it failed"),
        LeftOut("20261102-05-s1", "a further attempt; the first that was judged counts"),
    )


def test_a_suite_that_runs_past_midnight_is_one_night(tmp_path: Path) -> None:
    trend = one(
        tmp_path, run(2, hour=23, suite_run="r"), run(3, hour=1, suite_run="r", seed=2), run(3, hour=23, suite_run="q")
    )
    assert [(night.day, night.runs) for night in trend.nights] == [("2026-11-02", 2), ("2026-11-03", 1)]


def test_what_was_before_is_not_read_and_what_was_rejected_is_told(tmp_path: Path) -> None:
    make(
        tmp_path,
        runs=[run(2), run(5)],
        rejected=[
            {"path": "b", "day": "2026-11-06", "reason": "empty"}, {"path": "a", "reason": "no run.json"},
            {"path": "c", "day": "2026-11-01", "reason": "torn"},
        ],
    )  # fmt: skip
    found = trends(load(tmp_path), datetime(2026, 11, 4, tzinfo=UTC))
    assert [night.day for night in found.trends[0].nights] == ["2026-11-05"]
    assert found.rejected == (LeftOut("a", "no run.json"), LeftOut("b", "empty"))


@pytest.mark.parametrize(
    ("scenarios", "brokers", "found"),
    [
        (("queue",), (), ["queue"]),
        (("stream-*", "queue"), (), ["queue", "stream-a", "stream-b"]),
        ((), ("lavinmq",), ["stream-b"]),
        ((), ("rabbitmq-*@4.0",), ["queue", "stream-a"]),
        (("stream-*",), ("rabbitmq-quorum@4.0",), ["stream-a"]),
    ],
)
def test_which_are_shown(
    tmp_path: Path, scenarios: tuple[str, ...], brokers: tuple[str, ...], found: list[str]
) -> None:
    other = run(2, scenario="stream-b", broker="lavinmq", version="2.1")
    make(tmp_path, runs=[run(2), run(2, scenario="stream-a"), other])
    assert [trend.scenario for trend in trends(load(tmp_path), SINCE, scenarios, brokers).trends] == found


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"scenarios": ["queeu"]}, "--scenario queeu: no run of it; did you mean 'queue'?"),
        ({"brokers": ["rabbitmq-quorum@3.10"]}, "--broker rabbitmq-quorum@3.10: no run of it; did you mean"),
        ({"since": datetime(2026, 11, 5, tzinfo=UTC)},
         "no run since 2026-11-05; the newest is of 2026-11-02: go back further with --since"),
    ],
)  # fmt: skip
def test_nothing_to_show_is_one_line(tmp_path: Path, words: dict[str, Any], problem: str) -> None:
    make(tmp_path, runs=[run(2)])
    with pytest.raises(BadInput) as error:
        trends(load(tmp_path), **{"since": SINCE, **words})
    assert str(error.value).startswith(problem)


def test_tables_without_a_run(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(BadInput, match="there is no run in the tables"):
        trends(load(tmp_path), SINCE)


# as Newcombe (1998) and R's binom.confint give them
@pytest.mark.parametrize(
    ("successes", "tries", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611), (1, 29, 0.0061, 0.1718),
     (10, 10, 0.7225, 1)],
)  # fmt: skip
def test_the_interval_is_wilsons(successes: int, tries: int, low: float, high: float) -> None:
    assert wilson(successes, tries) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 10_000).flatmap(lambda tries: st.tuples(st.integers(0, tries), st.just(tries))))
def test_the_interval_is_a_share_about_what_was_seen(seen: tuple[int, int]) -> None:
    successes, tries = seen
    low, high = wilson(successes, tries)
    assert 0 <= low <= (successes / tries if tries else 0) <= high <= 1
    assert wilson(tries - successes, tries) == pytest.approx((1 - high, 1 - low))


def test_shares_and_counts_as_people_read_them() -> None:
    assert [share(value) for value in (0, 1, 0.975, 0.5, 0.9999, 0.0001)] == [
        "0 %", "100 %", "97.5 %", "50 %", "99.9 %", "0.1 %",
    ]  # fmt: skip
    assert [brief(number) for number in (0, 99_999, 100_000, 999_999, 12_345_678, 10**10)] == [
        "0", "99,999", "100k", "1000k", "12.3M", "10G",
    ]  # fmt: skip


@given(st.integers(0, 10**12))
def test_a_brief_count_is_brief(number: int) -> None:
    assert len(brief(number)) <= 6
