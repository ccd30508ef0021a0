"""Whether fencing tokens grow: literal histories, whole results."""

from __future__ import annotations

import pytest

from chaos.model.op import FAIL, INFO, OK
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.fencing import Fencing
from tests.checkers.histories import Cases, Story, judge

CASES = Cases()
case = CASES.add


def result(
    verdict: Verdict, reason: str, *anomalies: Anomaly, tokens: int = 0, repeated: int = 0, low: int = 0
) -> Result:
    counts = {"tokens": tokens, "repeated": repeated, "not-greater": low}
    return Result("fencing", verdict, reason, counts, anomalies)


def hold(story: Story, process: int, token: int, key: str | None = None) -> None:
    story.did(process, "acquire", answer=token, key=key)
    story.did(process, "release", key=key)


@case(result(Verdict.VALID, "3 tokens, each greater than those before", tokens=3))
def _each_greater(story: Story) -> None:
    hold(story, 0, 3)
    story.did(1, "acquire", end=FAIL)
    story.did(2, "acquire", end=INFO)
    hold(story, 3, 4)
    hold(story, 0, 9)


@case(
    result(
        Verdict.INVALID,
        "0 repeated and 2 not greater than before, of 4 tokens",
        Anomaly("not-greater", "token 7 was given after 9 had been", (5, 8, 9)),
        Anomaly("not-greater", "token 8 was given after 9 had been", (5, 12, 13)),
        tokens=4,
        low=2,
    )
)
def _less_than_before(story: Story) -> None:
    for token in (3, 9, 7, 8):
        hold(story, token, token)


@case(
    result(
        Verdict.INVALID,
        "1 repeated and 0 not greater than before, of 2 tokens",
        Anomaly("repeated", "token 5 was given twice", (1, 5)),
        tokens=2,
        repeated=1,
    )
)
def _the_same_again(story: Story) -> None:
    hold(story, 0, 5)
    hold(story, 1, 5)


@case(result(Verdict.VALID, "2 tokens, each greater than those before", tokens=2))
def _at_the_same_time_in_any_order(story: Story) -> None:
    first, second = story.ask(0, "acquire"), story.ask(1, "acquire")
    story.answer(second, 6)
    story.answer(first, 5)


@case(result(Verdict.VALID, "a: 1 token, each greater than those before", tokens=2))
def _of_each_lock_its_own(story: Story) -> None:
    hold(story, 0, 9, "a")
    hold(story, 1, 3, "b")


@case(result(Verdict.NOT_APPLICABLE, "no acquire answers with a token"))
def _no_tokens(story: Story) -> None:
    story.did(0, "acquire", end=OK)


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(Fencing(), case.history(), case.options) == case.expected
