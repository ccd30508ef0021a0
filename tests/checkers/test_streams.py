"""What logs do with what is sent to them: the literal histories of `transactions` and `entries`, and more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.model.errors import BadHistory
from chaos.model.op import FAIL, INFO, OK
from chaos.model.verdict import Verdict
from checkers.streams import Streams
from tests.checkers import entries, transactions
from tests.checkers.histories import MS, Cases, Story, judge
from tests.checkers.transactions import poll, send

CASES = Cases({**entries.CASES, **transactions.CASES})


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(Streams(), case.history(), case.options) == case.expected


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (7, "its value is no list"),
        ([["send", "x"]], r"\['send', 'x'\] is no micro-operation: "),
        ([["read", "x"]], r"\['read', 'x'\] is no micro-operation: "),
        ([["send", "x", [-1, 2]]], "-1 is no offset"),
        ([["poll", {"x": [7]}]], r"7 is polled: \[offset value\] was meant"),
    ],
)
def test_what_is_no_micro_operation_is_refused(value: Any, problem: str) -> None:
    story = Story()
    poll(story, 9)
    story.did(9, "txn", [["poll"]], value)
    with pytest.raises(BadHistory, match=rf"history: op 3 \(txn\): {problem}"):
        judge(Streams(), story.history())


def test_where_two_values_have_one_offset_the_one_without_another_stands_there() -> None:
    story = Story()
    send(story, 0, ("x", 1, 0))
    send(story, 1, ("x", 2, 1))
    send(story, 2, ("x", 3, 1))
    send(story, 1, ("x", 2, 3))
    poll(story, 9, x=[[0, 1], [3, 2]])
    anomalies = judge(Streams(), story.history()).anomalies
    assert [anomaly.detail["skipped"] for anomaly in anomalies if anomaly.kind == "int-poll-skip"] == [[3]]


@pytest.mark.parametrize("name", entries.TOLD)
def test_what_is_said_of_our_own(name: str) -> None:
    write, reason, messages = entries.TOLD[name]
    story = Story()
    write(story)
    found = judge(Streams(), story.history())
    assert (found.reason, tuple(f"{one.kind}: {one.message}" for one in found.anomalies)[: len(messages)]) == (
        reason, messages
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "since", "waited", "limited"),
    [("handed", 7, 101, True), ("closed", 7, 100, False), ("asks again", 7, 102, True)],
)
def test_how_long_a_reader_waits(ends: str, since: int, waited: int, limited: bool) -> None:
    story = Story()
    entries.seek(story, entries.N1, "first")  # 0, 1
    entries.append(story, 1)  # 2, 3
    entries.read(story, entries.N1, 0, 1)  # 4, 5
    entries.append(story, 2)  # confirmed at 7
    story.at(107 * MS)
    if ends == "asks again":
        entries.seek(story, entries.N1, 1)
        story.at(story.now - 2 * MS)
        story.now += MS
    if ends == "closed":
        story.close(entries.N1)
        entries.seek(story, entries.N2, 1)
        entries.read(story, entries.N2, 1, 2)
    else:
        entries.read(story, entries.N1, 1, 2)
    found = judge(Streams(), story.history(), {"max_lag": "100ms"})
    lag = found.metrics["worst_realtime_lag"]
    assert (lag["time"] // MS, lag["process"], lag["lag"] // MS) == (since, entries.N1, waited)
    assert (found.verdict is Verdict.INVALID, found.counts["max_lag"]) == (limited, int(limited))


def test_what_lies_before_an_entry_that_is_there_is_there_too() -> None:
    story = Story()
    entries.seek(story, entries.N1, "first")  # 0, 1
    entries.append(story, 1, INFO)  # 2, 3
    late = story.begin(1, "publish", key="x", value=2)  # 4
    entries.seek(story, entries.N2, 1)  # 5, 6
    entries.read(story, entries.N2, 1, 2)  # 7, 8: so offset 0 is there as well
    entries.append(story, 3)  # 9, 10
    entries.read(story, entries.N2, 2, 3)  # 11, 12
    story.end(late)  # 13: confirmed, and seen before
    entries.read(story, entries.N1, 0, 1)  # 14, 15
    found = judge(Streams(), story.history()).metrics
    assert found["worst_realtime_lag"] == {"time": 8 * MS, "process": entries.N1, "key": "x", "lag": 7 * MS}
    assert found["most_unseen"] == 1


def test_a_queue_is_no_log() -> None:
    story = Story()
    story.publish(1)
    story.deliver(1)
    assert judge(Streams(), story.history()).verdict is Verdict.NOT_APPLICABLE


def test_two_appends_of_one_id_are_no_history() -> None:
    story = Story()
    entries.append(story, 1)
    entries.append(story, 1)
    entries.seek(story, entries.N1, "first")
    with pytest.raises(BadHistory, match="an append without an id, or two with the same"):
        judge(Streams(), story.history())


@st.composite
def ours(draw: st.DrawFn) -> list[tuple[str, int, int, int]]:
    """Appends (id, whether confirmed) and reads (process, offset, id) of a log that may do anything to them."""
    steps = []
    for id_ in range(1, draw(st.integers(1, 6)) + 1):
        steps.append(("append", draw(st.integers(0, 1)), id_, draw(st.sampled_from([0, 1, 2]))))
    for _ in range(draw(st.integers(0, 12))):
        steps.append(("read", draw(st.integers(8, 9)), draw(st.integers(0, 5)), draw(st.integers(1, 7))))
    return draw(st.permutations(steps))


@given(ours())
@settings(deadline=None)
def test_our_columns_and_jepsens_rules_agree(steps: list[tuple[str, int, int, int]]) -> None:
    """The same log told both ways: with one `seek` a reader here, and an `assign` there."""
    mine, theirs = Story(), Story()
    for process in (8, 9):
        op = mine.begin(process, "seek", key="x", detail={"from": "next"})
        mine.end(op, detail={"from": "next"})
    for what, process, one, other in steps:
        if what == "append":
            entries.append(mine, one, (OK, FAIL, INFO)[other], process)
            send(theirs, process, ("x", one), end=(OK, FAIL, INFO)[other])
        else:
            mine.end(mine.credit("x", process), value=other, detail={"offset": one})
            poll(theirs, process, x=[[one, other]])
    here, there = judge(Streams(), mine.history()).counts, judge(Streams(), theirs.history()).counts
    same = ["inconsistent-offsets", "duplicate", "unseen", "polled", "sent", "acknowledged"]
    if not here["inconsistent-offsets"] and not here["duplicate"]:  # else it depends on which place is taken
        same += ["poll-skip", "nonmonotonic-poll"]
    assert {kind: here[kind] for kind in same} == {kind: there[kind] for kind in same}
    assert bool(here["G1a"]) == bool(there["G1a"])  # there by reader, here by value
