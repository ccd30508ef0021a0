"""Whether one consumer at a time was served: literal histories, whole results."""

from __future__ import annotations

import pytest

from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.single_active import SingleActive
from tests.checkers.histories import SECOND, Cases, Story, judge

CASES = Cases()
case = CASES.add
VALID, INVALID, NONE = Verdict.VALID, Verdict.INVALID, Verdict.NOT_APPLICABLE
TWICE = "1 time another consumer was served while the active one was there"


def result(verdict: Verdict, reason: str, *anomalies: Anomaly, counts: tuple[int, int, int]) -> Result:
    deliveries, consumers, changes = counts
    known = {"deliveries": deliveries, "consumers": consumers, "changes": changes, "two-active": len(anomalies)}
    return Result("single-active", verdict, reason, known, anomalies)


def two(first: int, second: int, *ops: int) -> Anomaly:
    said = f"q was consumed by process {second} while process {first}, which it had served before, was still there"
    return Anomaly("two-active", said, ops)


@case(result(VALID, "2 messages to one consumer of a queue at a time", counts=(2, 1, 0)))
def _one_is_served(story: Story) -> None:
    story.credit(process=11)
    story.deliver(1)
    story.deliver(2)


@case(result(INVALID, TWICE, two(10, 11, 1, 3), counts=(2, 2, 1)))
def _two_are_served(story: Story) -> None:
    story.deliver(1)
    story.deliver(2, process=11)


@case(result(VALID, "2 messages to one consumer of a queue at a time", counts=(2, 2, 1)))
def _the_other_takes_over_when_the_first_is_gone(story: Story) -> None:
    story.deliver(1)
    story.close(10)
    story.deliver(2, process=11)


@case(result(INVALID, TWICE, two(10, 11, 1, 3), counts=(2, 2, 1)))
def _the_first_goes_too_late(story: Story) -> None:
    story.deliver(1)
    story.deliver(2, process=11)
    story.close(10)


@case(result(VALID, "2 messages to one consumer of a queue at a time", counts=(2, 2, 0)))
def _each_queue_has_its_own(story: Story) -> None:
    story.deliver(1, "a")
    story.deliver(2, "b", process=11)


@case(result(VALID, "2 messages to one consumer of a queue at a time", counts=(2, 1, 0)))
def _what_comes_again_may_have_been_on_its_way(story: Story) -> None:
    story.deliver(1)
    story.deliver(3, process=11, redelivered=True)
    story.deliver(2)


@case(result(NONE, "nothing was delivered but amid faults", counts=(0, 0, 0)), settle="2s")
def _amid_a_fault_and_soon_after_it_nobody_is_judged(story: Story) -> None:
    story.inject("kill-1", "n1")
    story.deliver(1)
    story.deliver(2, process=11)
    story.undo("kill-1")
    story.at(SECOND).deliver(3)
    story.deliver(4, process=11)


@case(result(VALID, "2 messages to one consumer of a queue at a time", counts=(2, 2, 0)), settle="2s")
def _after_a_fault_it_may_be_another(story: Story) -> None:
    story.deliver(1)
    story.inject("kill-1", "n1")
    story.undo("kill-1")
    story.at(3 * SECOND).deliver(2, process=11)


@case(result(INVALID, TWICE, two(11, 10, 7, 9), counts=(3, 2, 1)), settle="2s")
def _after_a_fault_it_is_one_again(story: Story) -> None:
    story.deliver(1)
    story.inject("kill-1", "n1")
    story.undo("kill-1")
    story.at(3 * SECOND).deliver(2, process=11)
    story.deliver(3)


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(SingleActive(), case.history(), case.options) == case.expected
