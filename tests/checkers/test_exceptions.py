"""Crashes, log lines and failures of clients: literal histories, whole results."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.op import FAIL, INFO, OBSERVER
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.exceptions import Exceptions
from tests.checkers.histories import Cases, Story, judge

CASES = Cases()
case = CASES.add


def result(verdict: Verdict, reason: str, *anomalies: Anomaly, errors: Any = None, **counts: int) -> Result:
    named = dict.fromkeys(("crash", "failed-start", "log", "client"), 0) | counts
    return Result("exceptions", verdict, reason, named, anomalies, {"errors": errors or {}})


CRASH = Anomaly("crash", "the broker on n2 ended by itself: segmentation fault", (1,))
LOG = Anomaly("log", "n1 logged: ** Reason: badarg", (2,))
CLIENT = Anomaly("client", "a client of n3 failed in its publish: KeyError: 'tag'", (3, 4))
ERRORS = {"KeyError: 'tag'": 1, "no confirm in time": 2, "returned": 1}


def everything(story: Story) -> None:
    story.exit("n1", asked=True)
    story.exit("n2", asked=False, reason="segmentation fault")
    story.log("n1", "** Reason: badarg")
    op = story.begin(0, "publish", key="q", value=1, node="n3")
    story.end(op, INFO, error="KeyError: 'tag'")
    for id_ in (2, 3):
        story.end(story.begin(0, "publish", key="q", value=id_), INFO, error="no confirm in time")
    story.end(story.begin(0, "publish", key="q", value=4), FAIL, error="returned")


@case(result(Verdict.VALID, "nothing unusual"))
def _nothing_unusual(story: Story) -> None:
    story.exit("n1", asked=True)
    story.publish(1)


@case(result(Verdict.INVALID, "1 crash", CRASH, errors=ERRORS, crash=1, log=1, client=1))
def _a_crash(story: Story) -> None:
    everything(story)


@case(
    result(Verdict.VALID, "reported only: 1 crash, 1 log, 1 client", errors=ERRORS, crash=1, log=1, client=1),
    fail_on="nothing",
)
def _only_reported(story: Story) -> None:
    everything(story)


@case(
    result(
        Verdict.INVALID, "1 crash, 1 log, 1 client", CRASH, LOG, CLIENT, errors=ERRORS, crash=1, log=1, client=1
    ),
    fail_on=["crash", "log", "client"],
)  # fmt: skip
def _all_held_against_it(story: Story) -> None:
    everything(story)


def a_start_that_failed(story: Story) -> None:
    story.belief("n1", "leader", 1)
    story.exit("n2", asked=False, reason="exit code 1")
    story.row(OBSERVER, INFO, "leader", node="n2", incarnation=1, error="nobody answers")


@case(result(Verdict.VALID, "reported only: 1 failed-start", **{"failed-start": 1}))
def _one_that_had_not_served_yet_gave_up(story: Story) -> None:
    a_start_that_failed(story)


@case(
    result(
        Verdict.INVALID,
        "1 failed-start",
        Anomaly("failed-start", "the broker on n2 ended by itself before it served: exit code 1", (1,)),
        **{"failed-start": 1},
    ),
    fail_on="failed-start",
)
def _held_against_it_where_that_is_asked(story: Story) -> None:
    a_start_that_failed(story)


@case(result(Verdict.INVALID, "1 crash", Anomaly("crash", "the broker on n1 ended by itself: killed", (1,)), crash=1))
def _one_that_had_served(story: Story) -> None:
    story.belief("n1", "follower", 1)
    story.exit("n1", asked=False)


@case(result(Verdict.VALID, "reported only: 1 log", log=1))
def _a_line_in_the_log_alone(story: Story) -> None:
    story.log("n1", "** Reason: badarg")


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(Exceptions(), case.history(), case.options) == case.expected
