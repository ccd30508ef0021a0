"""A pass must be earned: literal histories, whole results."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.op import CONTROLLER, FAIL, INFO
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.earned import Earned
from tests.checkers.histories import MS, SECOND, Cases, Story, judge

CASES = Cases()
case = CASES.add


def result(verdict: Verdict, reason: str, *anomalies: Anomaly, **counts: int) -> Result:
    zero = dict.fromkeys(("confirmed", "faults", "bit", "untraced", "unresolved", "forbidden-progress"), 0)
    named = {name.replace("_", "-"): count for name, count in counts.items()}
    return Result("earned", verdict, reason, zero | named, anomalies)


def unknown(kind: str, message: str, *ops: int, **counts: int) -> Result:
    return result(Verdict.UNKNOWN, message, Anomaly(kind, message, ops), **counts)


@case(result(Verdict.VALID, "1 confirmed under 1 fault", confirmed=1, faults=1, bit=1))
def _earned(story: Story) -> None:
    story.inject("f1", "n1")
    story.publish(1)
    story.undo("f1")
    story.serve()


@case(result(Verdict.VALID, "1 confirmed under 2 faults", confirmed=1, faults=2, bit=1, untraced=1, unresolved=1))
def _some_leave_no_trace_and_some_found_nobody(story: Story) -> None:
    story.inject("f1", "n1")
    story.inject("f2", end=INFO)
    story.inject("f3", "n2")
    story.publish(1)
    story.undo("f1")
    story.undo("f3", bit=None)


@case(
    unknown("untraced", "of no fault is it known that it had an effect", 0, 1, 4, 5, confirmed=1, faults=1, untraced=1)
)
def _nothing_but_what_leaves_no_trace(story: Story) -> None:
    story.inject("f1", "n1")
    story.publish(1)
    story.undo("f1", bit=None)


@case(unknown("did-not-bite", "fault f1 had no effect", 0, 1, 4, 5, confirmed=1, faults=1))
def _did_not_bite(story: Story) -> None:
    story.inject("f1", "n1")
    story.publish(1)
    story.undo("f1", bit=False)


@case(unknown("not-undone", "fault f1 was not undone, so nobody knows whether it bit", 0, 1, 4, confirmed=1, faults=1))
def _not_undone(story: Story) -> None:
    story.inject("f1", "n1")
    story.publish(1)
    story.undo("f1", end=INFO)


@case(unknown("no-fault", "no fault took place", confirmed=1))
def _no_fault(story: Story) -> None:
    story.publish(1)


@case(unknown("no-fault", "no fault took place (nobody to hurt)", 1, confirmed=1, unresolved=1))
def _no_fault_found_anybody(story: Story) -> None:
    story.inject("f1", end=INFO)
    story.publish(1)


@case(result(Verdict.VALID, "1 confirmed under 0 faults", confirmed=1), faults="none")
def _none_expected(story: Story) -> None:
    story.publish(1)


@case(
    unknown("unasked-fault", "fault f1 took place, and none was expected", 1, confirmed=1, faults=1, bit=1),
    faults="none",
)
def _a_fault_that_nobody_expected(story: Story) -> None:
    story.inject("f1", "n1")
    story.publish(1)
    story.undo("f1")


@case(result(Verdict.VALID, "1 confirmed under 1 fault", confirmed=1, faults=1), faults="any")
def _whatever_the_faults_did(story: Story) -> None:
    story.inject("f1", "n1")
    story.publish(1)
    story.undo("f1", bit=False)


@case(unknown("nothing-confirmed", "no publish was confirmed in the whole run", faults=1, bit=1))
def _nothing_confirmed(story: Story) -> None:
    story.inject("f1", "n1")
    story.publish(1, end=INFO)
    story.undo("f1")


@case(result(Verdict.VALID, "0 confirmed under 1 fault", faults=1, bit=1), progress="any")
def _progress_or_none(story: Story) -> None:
    story.inject("f1", "n1")
    story.publish(1, end=INFO)
    story.undo("f1")


@case(unknown("not-serving", "the cluster did not come back: n2 refuses", 6, confirmed=1, faults=1, bit=1))
def _not_serving(story: Story) -> None:
    story.inject("f1", "n1")
    story.publish(1)
    story.undo("f1")
    story.serve(INFO, "n2 refuses")


@case(unknown("cut", "the history is cut: killed", confirmed=1, faults=1, bit=1))
def _cut(story: Story) -> str:
    story.inject("f1", "n1")
    story.publish(1)
    story.undo("f1")
    return "killed"


@case(unknown("controller-failed", "the run itself failed: KeyError", 6, confirmed=1, faults=1, bit=1))
def _the_controller_failed(story: Story) -> None:
    story.inject("f1", "n1")
    story.publish(1)
    story.undo("f1")
    story.row(CONTROLLER, INFO, "error", error="KeyError")


@case(
    result(
        Verdict.UNKNOWN,
        "the history is cut: killed; no fault took place; no publish was confirmed in the whole run",
        Anomaly("cut", "the history is cut: killed"),
        Anomaly("no-fault", "no fault took place"),
        Anomaly("nothing-confirmed", "no publish was confirmed in the whole run"),
    )
)
def _several_doubts(story: Story) -> str:
    story.publish(1, end=INFO)
    return "killed"


def majority_down(story: Story, *, publish_at: int | None, end_at: int = 0) -> None:
    """A confirm, then two nodes down from 1 s to 5 s, and a publish that begins and ends at the given times."""
    story.publish(1)
    story.at(1 * SECOND - 2 * MS).inject("f1", "n1", "n2")
    if publish_at is not None:
        op = story.at(publish_at).begin(0, "publish", key="q", value=2, node="n3")
        if end_at < 5 * SECOND:
            story.at(end_at).end(op)
    story.at(5 * SECOND).undo("f1")
    if publish_at is not None and end_at >= 5 * SECOND:
        story.at(end_at).end(op)


@case(
    result(
        Verdict.INVALID, "1 publishes confirmed while that was forbidden",
        Anomaly(
            "forbidden-progress",
            "message 2 was published through n3 and confirmed at 3.000 s, while faults were in force that forbid it",
            (4, 5),
        ),
        confirmed=2, faults=1, bit=1, forbidden_progress=1,
    ),
    progress="forbidden",
)  # fmt: skip
def _forbidden_progress(story: Story) -> None:
    majority_down(story, publish_at=2 * SECOND, end_at=3 * SECOND)


NOTHING_ASKED = unknown(
    "nothing-asked", "nothing was published while progress was forbidden", confirmed=2, faults=1, bit=1
)


@case(NOTHING_ASKED, progress="forbidden")
def _within_the_grace(story: Story) -> None:
    majority_down(story, publish_at=2 * SECOND - 2 * MS, end_at=3 * SECOND)


@case(result(Verdict.VALID, "2 confirmed under 1 fault", confirmed=2, faults=1, bit=1), progress="forbidden")
def _confirmed_once_the_fault_was_being_undone(story: Story) -> None:
    majority_down(story, publish_at=3 * SECOND, end_at=5 * SECOND + 3 * MS)


@case(NOTHING_ASKED, progress="forbidden", grace="3s")
def _within_a_longer_grace(story: Story) -> None:
    majority_down(story, publish_at=3 * SECOND, end_at=4 * SECOND)


@case(
    unknown("nothing-asked", "nothing was published while progress was forbidden", confirmed=1, faults=1, bit=1),
    progress="forbidden",
)
def _nothing_asked(story: Story) -> None:
    majority_down(story, publish_at=None)


@case(result(Verdict.VALID, "1 confirmed under 1 fault", confirmed=1, faults=1, bit=1), progress="forbidden")
def _nobody_let_in_to_ask(story: Story) -> None:
    story.publish(1)
    story.at(SECOND).inject("f1", "n1")
    op = story.at(3 * SECOND).begin(0, "open", node="n1")
    story.end(op, INFO, error="refused")
    story.at(5 * SECOND).undo("f1")


@case(unknown("nothing-confirmed", "no publish was confirmed in the whole run", faults=1, bit=1), progress="forbidden")
def _nothing_ever_confirmed(story: Story) -> None:
    story.inject("f1", "n1")
    story.at(3 * SECOND).publish(1, end=None)
    story.at(5 * SECOND).undo("f1")


@case(result(Verdict.VALID, "2 confirmed under 1 fault", confirmed=2, faults=1, bit=1))
def _objects_that_are_changed(story: Story) -> None:
    story.inject("f1", "n1")
    story.did(0, "write", 1, key="x")
    story.did(0, "read", key="x")
    story.did(0, "cas", [1, 2], key="x")
    story.did(0, "cas", [1, 3], key="x", end=FAIL)
    story.did(0, "write", 4, key="x", end=INFO)
    story.undo("f1")


@case(unknown("nothing-confirmed", "no acquire was confirmed in the whole run", faults=1, bit=1))
def _no_lock_was_ever_had(story: Story) -> None:
    story.inject("f1", "n1")
    story.did(0, "acquire", key="l", end=INFO)
    story.did(1, "read", 1, key="x")
    story.undo("f1")


@case(
    result(
        Verdict.INVALID,
        "1 of write confirmed while that was forbidden",
        Anomaly(
            "forbidden-progress",
            "write of x was asked for through n2 and confirmed at 3.001 s, while faults were in force that forbid it",
            (2, 3),
        ),
        confirmed=1, faults=1, bit=1, **{"forbidden-progress": 1},
    ),
    progress="forbidden",
)  # fmt: skip
def _a_forbidden_change(story: Story) -> None:
    story.at(SECOND).inject("f1", "n1")
    story.at(3 * SECOND).did(0, "write", 1, key="x", node="n2")
    story.at(3 * SECOND + 2 * MS).did(0, "read", key="x", node="n2")
    story.at(5 * SECOND).undo("f1")


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(Earned(), case.history(), case.options) == case.expected


def test_in_force_counts_from_the_last_node() -> None:
    """A fault forbids only once it holds on all of its nodes."""
    times: dict[str, Any] = {"n1": SECOND, "n2": 3 * SECOND}
    story = Story()
    story.publish(1)
    story.inject("f1", "n1", "n2", in_force=times)
    story.at(int(2.5 * SECOND)).publish(2)
    story.at(5 * SECOND).publish(3, end=None)
    story.at(6 * SECOND).undo("f1")
    assert judge(Earned(), story.history(), {"progress": "forbidden"}).verdict is Verdict.VALID
