"""Trends by what suites expected: a control that fails as it is to fail is no trouble, one that does not is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.cli import main
from chaos.expectation import Expectation
from chaos.model.verdict import Verdict
from results.suite_runs import suite_runs
from results.tables.load import load
from results.trends import Trend, Trouble, trends
from tests.results.gate.night import SEEDS, Change, Night, cell, drop, write
from tests.results.tables.made import Row, make

SINCE = datetime(2026, 11, 1, tzinfo=UTC)
TODAY, LAST_WEEK = "2026-11-21", "2026-11-14"


def of(store: Path, name: str, change: Change | None = None, before: Change | None = None) -> Trend:
    write(store, change, before)
    (trend,) = trends(load(store), SINCE, [name], (), suite_runs(store)).trends
    return trend


def test_a_control_that_failed_as_it_was_to_fail_is_fulfilled(tmp_path: Path) -> None:
    trend = of(tmp_path, "loses")
    assert trend.trouble is None
    assert trend.expected == ("messages.lost in 2 seeds",)
    assert [(night.day, night.invalid, night.rate, night.worst) for night in trend.nights] == [
        (LAST_WEEK, 6, 0.0, Verdict.VALID), (TODAY, 6, 0.0, Verdict.VALID)
    ]  # fmt: skip


def test_without_the_suites_record_it_is_to_be_valid(tmp_path: Path) -> None:
    write(tmp_path)
    (trend,) = trends(load(tmp_path), SINCE, ["loses"]).trends
    assert trend.expected == ()
    assert trend.trouble is not None
    assert (trend.trouble.verdict, trend.trouble.day, trend.trouble.expected) == (Verdict.INVALID, LAST_WEEK, None)


@pytest.mark.parametrize(
    ("verdict", "kinds", "stands"),
    [
        ("valid", (), Verdict.INVALID),
        ("invalid", ("duplicated",), Verdict.INVALID),  # for another reason
        ("unknown", (), Verdict.UNKNOWN),
    ],
)
def test_a_control_that_did_not_fail_so_is_trouble(
    tmp_path: Path, verdict: str, kinds: tuple[str, ...], stands: Verdict
) -> None:
    def spoil(night: Night) -> None:
        for seed in SEEDS[1:]:
            night.verdict("loses", seed, verdict, *kinds)

    trend = of(tmp_path, "loses", spoil)
    run = "20261121-night-loses-s2"
    commit = "3ba4bb8c2a" + "0" * 30
    assert trend.trouble == Trouble(TODAY, 1, run, stands, 2, commit, commit, "messages.lost in 2 seeds")
    assert trend.expected == ()


def test_as_many_as_may_fail_are_no_trouble_and_one_more_is(tmp_path: Path) -> None:
    def fail(*names: tuple[str, int]) -> Change:
        def change(night: Night) -> None:
            for name, seed in names:
                night.verdict(name, seed, "invalid", "lost")

        return change

    three, five = "steady [nodes=3]", "steady [nodes=5]"  # each: valid in 80 % of six seeds
    assert of(tmp_path / "a", "steady", fail((three, 1), (five, 1))).trouble is None
    trouble = of(tmp_path / "b", "steady", fail((three, 3), (five, 1), (five, 2))).trouble
    assert trouble is not None
    assert (trouble.run, trouble.verdict, trouble.expected) == ("20261121-night-steady[nodes=5]-s1", "invalid", None)


@pytest.mark.parametrize(("low", "trouble"), [(5.0, None), (7.0, "availability.longest_gap 7ns to 10ns in all seeds")])
def test_a_number_is_looked_up(tmp_path: Path, low: float, trouble: str | None) -> None:
    slow = cell("slow", "", Expectation(None, (), 1.0, "availability.longest_gap", (low, 10.0)))
    night = Night(cells=[slow])
    night.record(tmp_path)
    rows = night.tables()
    measured = {"checker": "availability", "metrics": '{"longest_gap": 6}', "kinds": []}
    make(tmp_path, runs=rows["runs"], verdicts=[{**row, **measured} for row in rows["verdicts"]])
    (trend,) = trends(load(tmp_path), SINCE, (), (), suite_runs(tmp_path)).trends
    assert (trend.trouble.expected if trend.trouble else None) == trouble


def test_repetitions_of_a_seed_are_not_attempts_at_it(tmp_path: Path) -> None:
    def twice(night: Night) -> None:
        drop(night, "steady [nodes=3]", *SEEDS)
        for seed in SEEDS:
            one = night.lines["loses", seed]
            night.lines["loses again", seed] = replace(one, repetition=2, run=f"{one.run}-r2")
            night.runs["loses again", seed] = {**night.runs["loses", seed], "run": f"{one.run}-r2"}
            night.kinds["loses again", seed] = ["lost"]
            night.bit["loses again", seed] = []

    trend = of(tmp_path, "loses", twice)
    assert [night.runs for night in trend.nights] == [6, 12]
    assert trend.left_out == ()


def test_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(night: Night) -> None:
        drop(night, "loses", 1, 2, 3, 4)
        night.verdict("loses", 5, "valid")

    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ["trends", "--store", ".", "--since", "2026-11-01", "--scenario", "loses", "--html", "page.html"]
    said = CliRunner().invoke(main.group(), words, standalone_mode=False).stdout.splitlines()
    assert said[0] == "✓ loses  rabbitmq-quorum 4.0.5"
    assert said[-2:] == ["  ✓ as expected: messages.lost in 2 seeds", "page: page.html"]
    assert "As expected: messages.lost in 2 seeds." in (tmp_path / "page.html").read_text()
    write(tmp_path / "bad", spoil)
    monkeypatch.chdir(tmp_path / "bad")
    said = CliRunner().invoke(main.group(), words, standalone_mode=False).stdout.splitlines()
    assert said[0] == "✗ loses  rabbitmq-quorum 4.0.5"
    assert "  ✗ not as expected since 2026-11-21, 1 night; first 20261121-night-loses-s5" in said
    assert "    expected: messages.lost in 2 seeds" in said
    assert "Expected: messages.lost in 2 seeds." in (tmp_path / "bad" / "page.html").read_text()


def seed(number: int, verdict: str, **more: Any) -> Row:
    return {
        "run": "20261120-020000-explore-ab", "day": "2026-11-20", "scenario": "queue", "seed": number, "lost": 0,
        "broker": "rabbitmq-quorum", "version": "4.0", "created": datetime(2026, 11, 20, 2, tzinfo=UTC),
        "verdict": verdict, "commit": "c", **more,
    }  # fmt: skip


def test_seeds_of_an_exploration_are_a_trend_of_their_own_and_their_runs_are_not_counted_twice(tmp_path: Path) -> None:
    run = seed(3, "invalid", run="kept", status="done", lost=7)
    kept = seed(3, "invalid", lost=7, kept="kept")
    make(
        tmp_path,
        seeds=[seed(1, "valid"), seed(2, "valid"), kept, seed(10, "invalid", lost=1)],
        runs=[run, {**run, "run": "another", "verdict": "valid", "lost": 0}],
    )
    explored, usual = trends(load(tmp_path), SINCE).trends
    assert (explored.name, usual.name) == ("queue, explored", "queue")
    assert [(night.valid, night.invalid, night.lost) for night in explored.nights] == [(2, 2, 8)]
    assert explored.trouble == Trouble("2026-11-20", 1, "kept", Verdict.INVALID, 3, "c", None)
    assert [(night.valid, night.invalid) for night in usual.nights] == [(1, 0)]


def test_a_seed_that_was_not_kept_is_named_by_its_exploration(tmp_path: Path) -> None:
    make(tmp_path, seeds=[seed(12, "valid"), seed(9, "unknown")])
    (trend,) = trends(load(tmp_path), SINCE).trends
    assert trend.trouble is not None
    assert trend.trouble.run == "20261120-020000-explore-ab seed 9"
