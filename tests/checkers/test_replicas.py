"""Whether replicas hold the same: literal histories, whole results."""

from __future__ import annotations

import pytest

from chaos.model.op import INFO, OBSERVER
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.replicas import Replicas
from tests.checkers.histories import Cases, Story, judge

CASES = Cases()
case = CASES.add


def held(story: Story, queue: str, node: str, messages: int, digest: str) -> None:
    story.row(OBSERVER, INFO, "replica", key=queue, node=node, value=messages, detail={"digest": digest})


def result(
    verdict: Verdict, reason: str, *anomalies: Anomaly, replicas: int, queues: int, span: tuple[int, int]
) -> Result:
    counts = {"queues": queues, "replicas": replicas, "differ": len(anomalies)}
    return Result("replicas", verdict, reason, counts, anomalies, {"fewest": span[0], "most": span[1]})


@case(result(Verdict.VALID, "3 replicas hold the same as the others of their queue", replicas=3, queues=2, span=(4, 4)))
def _the_same(story: Story) -> None:
    held(story, "a", "n1", 2, "x")
    held(story, "b", "n1", 4, "y")
    held(story, "b", "n2", 4, "y")


DIFFER = "the replicas of b hold different messages: 4 messages on n1, 1 message on n2"


@case(result(Verdict.INVALID, DIFFER, Anomaly("differ", DIFFER, (1, 2)), replicas=4, queues=2, span=(1, 4)))
def _fewer_on_one(story: Story) -> None:
    held(story, "a", "n1", 2, "x")
    held(story, "b", "n1", 4, "y")
    held(story, "b", "n2", 1, "z")
    held(story, "a", "n2", 2, "x")


OTHERS = "the replicas of q hold different messages: 3 messages on n1, 3 messages on n2"


@case(result(Verdict.INVALID, OTHERS, Anomaly("differ", OTHERS, (0, 1)), replicas=2, queues=1, span=(3, 3)))
def _as_many_and_others(story: Story) -> None:
    held(story, "q", "n1", 3, "x")
    held(story, "q", "n2", 3, "y")


@case(result(Verdict.NOT_APPLICABLE, "nobody looked into the replicas", replicas=0, queues=0, span=(0, 0)))
def _nobody_looked(story: Story) -> None:
    story.publish(1)


@case(result(Verdict.NOT_APPLICABLE, "nobody looked into the replicas", replicas=1, queues=1, span=(5, 5)))
def _one_alone(story: Story) -> None:
    held(story, "q", "n1", 5, "x")


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(Replicas(), case.history(), case.options) == case.expected
