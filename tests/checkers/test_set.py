"""Whether what was added is in the final read: literal histories, whole results."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.errors import BadHistory
from chaos.model.op import FAIL, INFO
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.set import Set
from tests.checkers.histories import Cases, Story, judge

CASES = Cases()
case = CASES.add
KINDS = ("lost", "unexpected", "recovered", "unread")


def result(verdict: Verdict, reason: str, *anomalies: Anomaly, counts: tuple[int, int, int], **found: Any) -> Result:
    """found: the elements of each of KINDS, where there are any."""
    metrics = {kind: found.get(kind, []) for kind in KINDS}
    all_counts = dict(zip(("attempts", "acknowledged", "ok"), counts, strict=True))
    all_counts |= {kind: len(some) for kind, some in metrics.items()}
    return Result("set", verdict, reason, all_counts, anomalies, metrics)


@case(result(Verdict.VALID, "none lost of 2 added", counts=(4, 2, 3), recovered=[3]))
def _the_last_read_counts(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(9, "read", answer=[])
    story.did(0, "add", "b")
    story.did(1, "add", 3, end=INFO)
    story.did(2, "add", 4, end=FAIL)
    story.did(9, "read", answer=[3, "b", 1, 1])
    story.did(9, "read", answer=[], end=INFO)
    story.did(9, "read")


LOST = Anomaly("lost", "1 was added, and is not in the final read", (0, 1, 2, 3))
STRANGE = Anomaly("unexpected", "[7] is in the final read, and was never added", (2, 3))


@case(
    result(
        Verdict.INVALID, "1 lost and 1 unexpected of 1 added", LOST, STRANGE,
        counts=(1, 1, 0), lost=[1], unexpected=[[7]],
    )
)  # fmt: skip
def _lost_and_unexpected(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(9, "read", answer=[[7]])


@case(
    result(Verdict.UNKNOWN, "1 element added after the final read had begun", counts=(2, 2, 1), unread=[2])
)  # fmt: skip
def _added_too_late(story: Story) -> None:
    story.did(0, "add", 1)
    late = story.ask(0, "add", 2)
    read = story.ask(9, "read")
    story.answer(late, 2)
    story.answer(read, [1])


@case(result(Verdict.UNKNOWN, "the set was never read", counts=(1, 1, 0)))
def _never_read(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(9, "read", end=FAIL)


@case(result(Verdict.NOT_APPLICABLE, "nothing was added to a set", counts=(0, 0, 0)))
def _ours(story: Story) -> None:
    story.publish(1)


@case(result(Verdict.NOT_APPLICABLE, "its reads do not answer with elements", counts=(1, 1, 0)))
def _a_counter(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(9, "read", answer=1)


@case(result(Verdict.NOT_APPLICABLE, "of an object with the operation remove", counts=(0, 0, 0)))
def _a_set_that_shrinks(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(0, "remove", 1)
    story.did(9, "read", answer=[])


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(Set(), case.history(), case.options) == case.expected


def test_reads_answer_with_one_kind_of_value() -> None:
    story = Story()
    story.did(9, "read", answer=[1])
    story.did(9, "read", answer=1)
    with pytest.raises(BadHistory, match="op 3: a read that does not answer with elements"):
        judge(Set(), story.history())
