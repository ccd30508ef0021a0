"""The page as a browser would read it: by its elements and text, never by its markup's looks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos.model.errors import SplitbrainError
from chaos.model.history import History
from chaos.model.verdict import Anomaly, Result, Verdict
from results import plots, publish, report
from results.store import Store
from tests.results.example import SCRIPT, results, script, stored, whole_run, write_stream
from tests.results.page import CHROMIUM, Page, complaints

WHOLE = script(rate=40).history()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def drawn(store: Store, history: History | None, found: Sequence[Result], problem: str | None = None) -> Page:
    return Page(report.draw(stored(store, WHOLE), history, found, problem=problem))


def test_it_says_the_verdict_and_why(store: Store) -> None:
    page = drawn(store, WHOLE, results(whole_run()))
    for said in (
        "invalid messages: 3 confirmed messages were lost",
        "3 of 4 faults that bit",
        "3 leader changes",
        "Broker rabbitmq-quorum@4.0",
        "Workload queue, 120 publishes/s, 45s",
        "Faults partition (leader, halves), kill, pause",
        "Seed 7",
        "rabbitmq 4.0.9",
        "messages.lost message 913 was confirmed and never delivered",
        "partition-1 partition leader leader n1 | n2 n3 16.000 s 24.009 s 8.01 s yes",
        "pause-1 pause one n3 34.000 s 35.209 s 1.21 s no",
        "splitbrain run",
    ):
        assert said in page.text
    assert page.count("svg") == 4


def test_the_lost_message_has_its_journey(store: Store) -> None:
    whole = whole_run()
    page = drawn(store, whole, results(whole))
    assert "What became of message 913" in page.text
    assert "q1 was read until nothing was left, and the message had never come: it is lost" in page.text


def test_nothing_a_broker_said_becomes_an_element(store: Store) -> None:
    whole = whole_run()
    evil = [
        Result(
            f"x{SCRIPT}", Verdict.INVALID, SCRIPT, {SCRIPT: 1}, (Anomaly(SCRIPT, SCRIPT, (0, 1), {SCRIPT: [SCRIPT]}),)
        )
    ]
    page = drawn(store, whole, [*results(whole), *evil], problem=SCRIPT)
    assert page.count("script") == 0
    assert SCRIPT in page.text
    assert all(not name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_it_asks_for_nothing_from_anywhere(store: Store) -> None:
    page = drawn(store, WHOLE, results(WHOLE))
    fetched = [
        value
        for _, attributes in page.elements
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href")
    ]
    assert fetched == ["data:,"]
    assert not re.search(r"url\(|@import", page.text)


def test_a_cut_history_is_drawn_and_said_to_be_cut(store: Store) -> None:
    cut = script(rate=40).history("it ends after 900 ops without its end marker", until=30)
    page = drawn(store, cut, [Result("messages", Verdict.UNKNOWN, "the history was cut")])
    assert "The history was cut off. it ends after 900 ops without its end marker." in page.text
    assert "not undone" in page.text or "partition-1" in page.text
    assert page.count("svg") == 4


def test_it_is_drawn_of_a_run_that_has_no_history_at_all(store: Store) -> None:
    page = drawn(store, None, (), problem="n2 never came up")
    assert "unknown n2 never came up" in page.text
    assert page.count("svg") == 0


def test_it_is_drawn_of_a_directory_that_has_nothing_else(store: Store) -> None:
    directory = stored(store, WHOLE)
    for path in (directory.record, directory.scenario, directory.versions):
        path.write_text("{half")
    assert "unknown" in Page(report.draw(directory, WHOLE, ())).text


@pytest.mark.parametrize("history", [History.from_ops([]), script(rate=40).history(until=0)])
def test_it_is_drawn_of_a_history_with_next_to_nothing_in_it(store: Store, history: History) -> None:
    assert "No checker has judged this run." in drawn(store, history, ()).text


def test_a_part_that_cannot_be_drawn_does_not_take_the_rest_with_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by <nothing>")

    for part in ("throughput", "latency", "leaders", "faults"):
        monkeypatch.setattr(plots, part, broken)
    for part in ("timeline", "journey", "_facts", "_figures", "_op_counts", "_logs"):
        monkeypatch.setattr(report, part, broken)
    page = drawn(store, WHOLE, results(WHOLE))
    assert "3 confirmed messages were lost" in page.text
    assert "This plot could not be drawn: ZeroDivisionError: by <nothing>" in page.text


def test_what_is_concluded_is_kept(store: Store) -> None:
    directory = stored(store, WHOLE)
    assert publish.publish(directory, WHOLE, results(WHOLE)) is Verdict.INVALID
    kept = directory.read_json(directory.verdict)
    assert (kept["valid"], kept["run"], kept["seed"], kept["digest"]) == (False, directory.id, 7, WHOLE.digest())
    assert kept["checkers"]["messages"]["counts"]["lost"] == 3
    assert kept["checkers"]["order"]["valid"] == "not applicable"
    assert directory.junit.read_text().count("<testcase") == 7
    assert directory.report.read_text().startswith("<!DOCTYPE html>")


def test_the_report_is_written_in_a_plain_form_when_the_full_one_cannot_be(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> str:
        raise ZeroDivisionError(SCRIPT)

    monkeypatch.setattr(report, "draw", broken)
    directory = stored(store, WHOLE)
    publish.publish(directory, WHOLE, results(WHOLE))
    page = Page(directory.report.read_text())
    assert "3 confirmed messages were lost" in page.text
    assert page.count("script") == 0


def test_without_room_for_the_verdict_there_is_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = stored(store, WHOLE)

    def full(*_: object) -> None:
        raise SplitbrainError("cannot be written: No space left on device")

    monkeypatch.setattr(directory, "write", full)
    with pytest.raises(SplitbrainError):
        publish.publish(directory, WHOLE, results(WHOLE))
    assert not directory.verdict.exists()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to open the report with")
def test_a_browser_has_nothing_to_complain_of(store: Store, tmp_path: Path) -> None:
    page = report.draw(stored(store, WHOLE), WHOLE, results(WHOLE))
    assert complaints(page, tmp_path) == []


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to open the report with")
@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", '<img src="https://broker.invalid/x.png">'])
def test_were_something_not_escaped_the_page_would_still_forbid_it(store: Store, tmp_path: Path, evil: str) -> None:
    page = report.draw(stored(store, WHOLE), WHOLE, ()).replace("</main>", f"{evil}</main>")
    (complaint,) = complaints(page, tmp_path)
    assert "violates the following Content Security Policy directive" in complaint


def test_a_stream_is_read_as_it_was_written(tmp_path: Path, store: Store) -> None:
    directory = stored(store, WHOLE)
    assert directory.history().digest() == WHOLE.digest()
    write_stream(directory.stream, WHOLE, end=False)
    assert directory.history().cut is not None
