"""The page of trends as a reader finds it: figures, plots on one axis, and what is left out."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from results import small
from results.tables.load import load
from results.trends import trends
from results.trends_page import draw
from tests.results.page import CHROMIUM, Page, complaints
from tests.results.tables.made import Row, make
from tests.results.test_trends import S, run

EVIL = "<script>alert('from a scenario')</script>"
RUNS: list[Row] = [
    *(run(day, recovery=day * S, failover=None, duplicated=1) for day in (2, 3, 4)),
    run(8, "invalid", lost=1234, recovery=90 * S, seed=5, commit="0123456789abcdef0123456789abcdef+changes"),
    run(8, "unknown", seed=6, recovery=2 * S),
    run(8, None, seed=7, status="failed", problem=EVIL),
    run(2, scenario=EVIL, lost=None, duplicated=None),
]


def page(tmp_path: Path, runs: list[Row], rejected: tuple[Row, ...] = ()) -> str:
    make(tmp_path, runs=runs, rejected=rejected)
    return draw(trends(load(tmp_path), datetime(2026, 11, 1, tzinfo=UTC)))


def test_it_says_what_is_wrong_since_when_and_what_is_left_out(tmp_path: Path) -> None:
    shown = Page(page(tmp_path, RUNS, ({"path": "torn-run", "reason": "no end marker"},)))
    for said in (
        "1 in trouble of 2, in 6 runs",
        "invalid since 2026-11-08 , 1 night. The first: 20261108-02-s5 , seed 5, at commit 0123456789+changes",
        "the night before was at c4",
        "splitbrain show 20261108-02-s5",
        "2026-11-08 2 0 1 1 0–66 % 1,234",
        "1 left out 1: it failed: <script>",
        "Could not be read 1 run why torn-run no end marker",
    ):
        assert said in shown.text
    assert shown.count("script") == 0


def test_the_plots_tell_every_night_in_words(tmp_path: Path) -> None:
    shown = Page(page(tmp_path, RUNS))
    labels = [str(attributes["aria-label"]) for tag, attributes in shown.elements if tag == "svg"]
    assert labels == [
        "Valid runs, 4 nights; the newest, 2026-11-08: 0 % of 2 runs valid (0 to 66 %), 1 invalid, 1 unknown",
        "Lost messages, 4 nights; the newest, 2026-11-08: 1,234",
        "Duplicated messages, 4 nights; the newest, 2026-11-08: 0",
        "Recovery, 4 nights; the newest, 2026-11-08: 46 s in 2 runs, at worst 90 s",
        "Valid runs, 1 night; the newest, 2026-11-02: 100 % of 1 run valid (21 to 100 %)",
    ]
    told = [words for words in shown.pieces if re.match(r"2026-11-\d\d: ", words)]
    assert len(told) == 4 * 4 + 1
    # the axis is the same for all: 2 to 8 November
    days = [words for words in shown.pieces if re.fullmatch(r"\d+ Nov", words)]
    assert days == ["2 Nov", "4 Nov", "6 Nov", "8 Nov"] * 5


def test_nothing_judged_is_no_pass(tmp_path: Path) -> None:
    shown = Page(page(tmp_path, [run(2, None, status="running")]))
    assert "No run was judged of 1, in 0 runs" in shown.text
    assert ("body", {"class": "unknown"}) in shown.elements
    assert shown.count("svg") == 0


def test_the_axis_names_few_days_the_first_and_last_among_them() -> None:
    assert small.Days.of(["2026-11-08", "2026-11-02"]).ticks() == [date(2026, 11, day) for day in (2, 4, 6, 8)]
    assert small.Days.of(["2026-11-02", "2026-11-03"]).ticks() == [date(2026, 11, 2), date(2026, 11, 3)]
    assert small.Days.of(["2026-11-02"]).ticks() == [date(2026, 11, 2)]


def test_a_night_without_a_value_is_a_gap() -> None:
    points = [small.Point(f"2026-11-0{day}", value, "") for day, value in ((1, 1), (2, 2), (3, None), (4, 1), (5, 3))]
    plot = Page(small.plot("x", points, small.Days.of([point.day for point in points]), "s", said=str))
    lines = [str(attributes["points"]) for tag, attributes in plot.elements if tag == "polyline"]
    assert [len(line.split()) for line in lines] == [2, 2]
    heights = [float(place.split(",")[1]) for line in lines for place in line.split()]
    tall = small.BOTTOM - small.TOP
    assert heights == pytest.approx([small.BOTTOM - value / 3 * tall for value in (1, 2, 1, 3)], abs=0.1)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to open the page with")
def test_a_browser_has_nothing_to_complain_of(tmp_path: Path) -> None:
    assert complaints(page(tmp_path, RUNS), tmp_path) == []
