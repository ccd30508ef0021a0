"""Rates, gaps and recovery: one literal run, measured and then held against limits."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.history import History
from chaos.model.op import INFO
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.availability import Availability
from tests.checkers.histories import MS, SECOND, Story, judge


def run(story: Story | None = None) -> Story:
    """Confirms at 1, 2, 3 s; a fault in force from 4 to 8 s with one at 5 s; from 9 s on all is well, to 12 s."""
    story = story or Story()

    def publish(id_: int, ms: int, **columns: Any) -> None:
        story.at(ms * MS - MS).publish(id_, **columns)

    story.at(0).publish(1, end=INFO)
    for id_, second in ((2, 1), (3, 2), (4, 3)):
        publish(id_, second * 1000)
    story.at(4 * SECOND - MS).inject("f1", "n1")
    publish(5, 5000)
    story.deliver(5)
    story.at(8 * SECOND).undo("f1")
    for id_, ms in ((6, 9500), (7, 10000), (8, 11000), (9, 12000)):
        publish(id_, ms)
    return story


COUNTS = {"confirmed": 8, "delivered": 1, "confirmed-under-faults": 1, "windows": 4}
COUNTS |= {"windows-with-progress": 1, "nodes": 1}
METRICS: dict[str, Any] = {
    "rate": 8 / 12,
    "longest_gap": 4500 * MS,
    "longest_gap_at": 5 * SECOND,
    "longest_recovery": 1499 * MS,
    "recovery": [{"fault": "f1", "ns": 1499 * MS, "recovered": True}],
    "series": {
        "start": 0,
        "window": SECOND,
        "confirmed": [0, 1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1],
        "delivered": [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    },
}
GAP = "no publish was confirmed for 4.500 s from 5.000 s on (limit 4s)"
SLOW = "after fault f1 was undone it took 1.499 s to a new confirm (limit 1s)"
RATE = "0.7 publishes a second were confirmed, fewer than 0.8"
STILL = "1 of 4 windows under faults had a confirm, less than 0.5"


def indices(history: History, f: str) -> list[int]:
    return [op.index for op in history if op.f == f]


@pytest.mark.parametrize(
    ("options", "verdict", "reason", "anomalies"),
    [
        ({}, Verdict.NOT_APPLICABLE, "measured only: no limit is set", ()),
        ({"longest_gap": "4500ms"}, Verdict.VALID, "within limits: longest_gap", ()),
        ({"longest_gap": "4s"}, Verdict.INVALID, GAP, (Anomaly("longest_gap", GAP, (11, 17)),)),
        ({"recovery": "1499ms"}, Verdict.VALID, "within limits: recovery", ()),
        ({"recovery": "1s"}, Verdict.INVALID, SLOW, (Anomaly("recovery", SLOW, (8, 9, 14, 15, 17)),)),
        ({"min_rate": 0.6}, Verdict.VALID, "within limits: min_rate", ()),
        ({"min_rate": 0.8}, Verdict.INVALID, RATE, (Anomaly("min_rate", RATE),)),
        ({"min_progress": 0.25}, Verdict.VALID, "within limits: min_progress", ()),
        ({"min_progress": 0.5}, Verdict.INVALID, STILL, (Anomaly("min_progress", STILL),)),
        (
            {"min_progress": 0.25, "recovery": "2s", "min_rate": 0, "longest_gap": "5s"},
            Verdict.VALID,
            "within limits: longest_gap, min_rate, min_progress, recovery",
            (),
        ),
    ],
)
def test_limits(options: dict[str, Any], verdict: Verdict, reason: str, anomalies: tuple[Anomaly, ...]) -> None:
    said = judge(Availability(), run().history(), options)
    assert said == Result("availability", verdict, reason, COUNTS, anomalies, METRICS)


@pytest.mark.parametrize(
    ("options", "at", "verdict"),
    [
        ({"longest_gap": "4s"}, 7, Verdict.UNKNOWN),
        ({"longest_gap": "4s"}, 11, Verdict.INVALID),
        ({"longest_gap": "5s"}, 7, Verdict.VALID),
        ({"recovery": "1s"}, 9, Verdict.UNKNOWN),
        ({"recovery": "1s"}, 11, Verdict.INVALID),
        ({"min_rate": 0.8}, 2, Verdict.UNKNOWN),
        ({"min_progress": 0.3}, 7, Verdict.VALID),  # one window fewer is judged: 1 of 3
    ],
)
def test_nothing_is_judged_across_a_stall(options: dict[str, Any], at: int, verdict: Verdict) -> None:
    """A stall of 200 ms that ended half a second after `at`."""
    whole = run()
    story = Story()
    place = sum(op.time <= at * SECOND + 500 * MS for op in whole.ops)
    for op in whole.ops[:place]:
        story.ops.append(op)
    story.at(at * SECOND + 500 * MS).stall(200 * MS)
    for op in whole.ops[place:]:
        shifted = {"index": op.index + 1} | ({"op": op.op + (op.op >= place)} if op.op is not None else {})
        story.ops.append(type(op)(**{name: getattr(op, name) for name in op.__slots__} | shifted))
    said = judge(Availability(), story.history(), options)
    assert said.verdict is verdict
    if verdict is Verdict.UNKNOWN:
        assert said.reason.startswith("the controller stalled meanwhile: ")


def test_recovery_is_not_judged_under_another_fault() -> None:
    story = Story()
    story.publish(1)
    story.at(1 * SECOND).inject("f1", "n1")
    story.at(2 * SECOND).inject("f2", "n2")
    story.at(3 * SECOND).undo("f1")  # f2 is still in force
    story.at(4 * SECOND).undo("f2")
    story.at(6 * SECOND).inject("f3", "n3")  # the time to recover from f2 ends here
    story.at(7 * SECOND).publish(2)
    story.at(8 * SECOND).undo("f3", end=INFO)
    story.at(9 * SECOND).publish(3)
    history = story.history()
    said = judge(Availability(), history, {"recovery": "1s"})
    assert said.metrics["recovery"] == [{"fault": "f2", "ns": 2 * SECOND - MS, "recovered": False}]
    assert [anomaly.message for anomaly in said.anomalies] == [
        "after fault f2 was undone it took at least 1.999 s to a new confirm (limit 1s)"
    ]
    lenient = judge(Availability(), history, {"recovery": "3s"})
    assert (lenient.verdict, lenient.reason) == (Verdict.NOT_APPLICABLE, "nothing to measure recovery by")


def test_a_publish_invoked_before_the_undoing_is_no_recovery() -> None:
    story = Story()
    story.inject("f1", "n1")
    early = story.at(1 * SECOND).begin(0, "publish", key="q", value=1)
    story.at(2 * SECOND - MS).undo("f1")
    story.at(3 * SECOND).end(early)
    story.at(5 * SECOND - MS).publish(2)
    recovery = judge(Availability(), story.history()).metrics["recovery"]
    assert recovery == [{"fault": "f1", "ns": 3 * SECOND, "recovered": True}]


def test_who_cannot_even_connect_waits_too() -> None:
    """No publish after the fault, because no connection opens: attempts at work count, those of the drain do not."""
    story = Story()
    story.publish(1)
    story.at(1 * SECOND - 2 * MS).inject("f1", "n1")
    story.at(2 * SECOND - MS).undo("f1")
    story.at(5 * SECOND).begin(0, "open", node="n1")
    story.at(6 * SECOND).phase("undo")
    story.at(9 * SECOND).begin(1, "open", node="n1")
    said = judge(Availability(), story.history(), {"recovery": "2s"})
    assert said.verdict is Verdict.INVALID
    assert said.metrics["recovery"] == [{"fault": "f1", "ns": 3 * SECOND, "recovered": False}]
    assert said.metrics["longest_gap"] == 5 * SECOND - MS


@pytest.mark.parametrize(("options", "verdict"), [({}, Verdict.NOT_APPLICABLE), ({"min_rate": 1}, Verdict.UNKNOWN)])
def test_nothing_published(options: dict[str, Any], verdict: Verdict) -> None:
    said = judge(Availability(), Story().history(), options)
    assert (said.verdict, said.reason) == (verdict, "nothing was published")


def test_nothing_confirmed() -> None:
    story = Story()
    for second in range(3):
        story.at(second * SECOND).publish(second, end=None)
    said = judge(Availability(), story.history(), {"longest_gap": "1s", "min_rate": 0.1})
    assert [anomaly.kind for anomaly in said.anomalies] == ["longest_gap", "min_rate"]
    assert said.verdict is Verdict.INVALID
