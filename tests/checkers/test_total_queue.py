"""Whether all that goes in comes out: literal histories, whole results."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.errors import BadHistory
from chaos.model.op import FAIL, INFO
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.total_queue import TotalQueue
from tests.checkers.histories import Cases, Story, judge

CASES = Cases()
case = CASES.add
KINDS = ("lost", "unexpected", "duplicated", "recovered")


def result(verdict: Verdict, reason: str, *anomalies: Anomaly, counts: tuple[int, int, int], **found: Any) -> Result:
    """found: the elements of each of KINDS, where there are any."""
    metrics = {kind: found.get(kind, []) for kind in KINDS}
    all_counts = dict(zip(("attempts", "acknowledged", "ok"), counts, strict=True))
    all_counts |= {kind: len(some) for kind, some in metrics.items()}
    return Result("total-queue", verdict, reason, all_counts, anomalies, metrics)


@case(result(Verdict.VALID, "none lost of 2 acknowledged", counts=(3, 2, 3), recovered=[3]))
def _all_come_out(story: Story) -> None:
    story.did(0, "enqueue", 1)
    story.did(0, "enqueue", "b")
    story.did(1, "enqueue", 3, end=INFO)
    story.did(2, "dequeue", answer="b")
    story.did(2, "dequeue")  # empty
    story.did(2, "drain", answer=[3, 1])


LOST = Anomaly("lost", "1 was enqueued, and never dequeued", (0, 1))
STRANGE = Anomaly("unexpected", "9 was dequeued, and never enqueued", (11,))
PATHOLOGICAL = "1 lost and 1 unexpected of 3"


@case(
    result(
        Verdict.INVALID, PATHOLOGICAL, LOST, STRANGE,
        counts=(3, 3, 2), lost=[1], unexpected=[9], duplicated=[2],
    )
)  # fmt: skip
def _lost_and_unexpected(story: Story) -> None:
    for value in (1, 2, 2):
        story.did(0, "enqueue", value)
    story.did(2, "dequeue", answer=2)
    story.did(2, "dequeue", 2, end=FAIL)
    story.did(2, "dequeue", answer=9)
    story.did(2, "drain", answer=[2, 2])


AGAIN = Anomaly("lost", "5 was enqueued, and never dequeued", (0, 1, 2, 3))


@case(result(Verdict.INVALID, "1 lost and 0 unexpected of 2", AGAIN, counts=(2, 2, 1), lost=[5]))
def _enqueued_twice_and_dequeued_once(story: Story) -> None:
    story.did(0, "enqueue", 5)
    story.did(0, "enqueue", 5)
    story.did(1, "dequeue", answer=5)


MISSING = "1 element missing, and nobody knows what a drain took"


@case(result(Verdict.UNKNOWN, MISSING, counts=(1, 1, 0), lost=[5]))
def _a_drain_crashed(story: Story) -> None:
    story.did(0, "enqueue", 5)
    story.did(1, "drain", end=INFO)


@case(result(Verdict.UNKNOWN, MISSING, counts=(1, 1, 0), lost=[5]))
def _a_drain_never_returned(story: Story) -> None:
    story.did(0, "enqueue", 5)
    story.ask(1, "drain")
    story.did(0, "dequeue")


FAILED = Anomaly("lost", "5 was enqueued, and never dequeued", (0, 1))


@case(result(Verdict.INVALID, "1 lost and 0 unexpected of 1", FAILED, counts=(1, 1, 0), lost=[5]))
def _a_drain_failed(story: Story) -> None:
    story.did(0, "enqueue", 5)
    story.did(1, "drain", end=FAIL)


@case(result(Verdict.UNKNOWN, "1 element missing, and the history is not whole: killed", counts=(1, 1, 0), lost=[5]))
def _cut(story: Story) -> str:
    story.did(0, "enqueue", 5)
    return "killed"


@case(result(Verdict.UNKNOWN, "nothing was acknowledged, and nothing dequeued", counts=(1, 0, 0)))
def _nothing_is_known(story: Story) -> None:
    story.did(0, "enqueue", 5, end=INFO)
    story.did(1, "dequeue")


@case(result(Verdict.NOT_APPLICABLE, "nothing was enqueued or dequeued", counts=(0, 0, 0)))
def _ours(story: Story) -> None:
    story.publish(1)
    story.deliver(1)
    story.drain()


@case(
    result(
        Verdict.INVALID, "b: 1 lost and 0 unexpected of 1",
        Anomaly("lost", "b: 5 was enqueued, and never dequeued", (2, 3)), counts=(2, 2, 1), lost=[5],
    )
)  # fmt: skip
def _two_queues(story: Story) -> None:
    story.did(0, "enqueue", 5, key="a")
    story.did(0, "enqueue", 5, key="b")
    story.did(0, "dequeue", answer=5, key="a")


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(TotalQueue(), case.history(), case.options) == case.expected


def test_a_drain_answers_with_elements() -> None:
    story = Story()
    story.did(0, "drain", answer=5)
    with pytest.raises(BadHistory, match="op 1: a drain that does not answer with elements"):
        judge(TotalQueue(), story.history())
