"""Whether ids are unique: literal histories, whole results."""

from __future__ import annotations

import pytest

from chaos.model.op import INFO
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.unique_ids import UniqueIds
from tests.checkers.histories import Cases, Story, judge

CASES = Cases()
case = CASES.add


def result(
    verdict: Verdict, reason: str, *anomalies: Anomaly, counts: tuple[int, int, int], duplicated: list[list[object]],
    range: list[object],  # noqa: A002
) -> Result:  # fmt: skip
    names = ("attempts", "acknowledged", "duplicated")
    metrics = {"duplicated": duplicated, "range": range}
    return Result("unique-ids", verdict, reason, dict(zip(names, counts, strict=True)), anomalies, metrics)


@case(result(Verdict.VALID, "each of 3 ids is returned once", counts=(4, 3, 0), duplicated=[], range=[-5, "b"]))
def _each_once(story: Story) -> None:
    for value in ("b", 10, -5):
        story.did(0, "generate", answer=value)
    story.did(0, "generate", end=INFO)


TWICE = Anomaly("duplicated", "7 was returned 2 times", (1, 5))
ALIKE = Anomaly("duplicated", "'x' was returned 2 times", (7, 9))


@case(
    result(
        Verdict.INVALID, "2 ids returned more than once", TWICE, ALIKE,
        counts=(5, 5, 2), duplicated=[[7, 2], ["x", 2]], range=[7, "x"],
    )
)  # fmt: skip
def _two_of_them_twice(story: Story) -> None:
    for value in (7, "7", 7, "x", "x"):
        story.did(0, "generate", answer=value)


@case(result(Verdict.UNKNOWN, "no id was returned", counts=(1, 0, 0), duplicated=[], range=[]))
def _none_was_returned(story: Story) -> None:
    story.did(0, "generate", end=INFO)


@case(result(Verdict.NOT_APPLICABLE, "no ids were generated", counts=(0, 0, 0), duplicated=[], range=[]))
def _none_were_asked_for(story: Story) -> None:
    story.publish(1)
    story.row(-1, INFO, "generate")


@case(result(Verdict.VALID, "a: each of 1 id is returned once", counts=(2, 2, 0), duplicated=[], range=[7, 7]))
def _two_generators(story: Story) -> None:
    story.did(0, "generate", answer=7, key="a")
    story.did(0, "generate", answer=7, key="b")


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(UniqueIds(), case.history(), case.options) == case.expected
