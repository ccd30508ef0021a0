"""What was seen, seed by seed, against what was expected: literal cases in, the whole judgement out."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chaos.expectation import Expectation, Judgement, Seen, measured, seen
from chaos.model.verdict import Anomaly, Result, Verdict

VALID, INVALID, UNKNOWN = Verdict.VALID, Verdict.INVALID, Verdict.UNKNOWN
GOOD = Seen(1, VALID)
LOST = Seen(2, INVALID, ("messages.lost",), "messages: 3 lost")
DUAL = Seen(3, INVALID, ("leaders.two-leaders",))
VAGUE = Seen(4, UNKNOWN)
LOSES = Expectation(INVALID, ("messages.lost",))


@pytest.mark.parametrize(
    ("expected", "found", "judgement"),
    [
        (Expectation(VALID), [GOOD, GOOD], Judgement(True, "2 of 2")),
        (Expectation(VALID), [GOOD, VAGUE], Judgement(False, "1 of 2: 1 unknown", (VAGUE,))),
        (Expectation(VALID, at_least=0.5), [GOOD, LOST], Judgement(True, "1 of 2: 1 messages.lost", (LOST,))),
        (LOSES, [LOST, LOST], Judgement(True, "2 of 2")),
        # invalid, but not for the reason that was to be
        (LOSES, [LOST, DUAL], Judgement(False, "1 of 2: 1 leaders.two-leaders", (DUAL,))),
        # the anomaly is there, but the run is unknown
        (
            LOSES, [Seen(1, UNKNOWN, ("messages.lost",))],
            Judgement(False, "0 of 1: 1 messages.lost", (Seen(1, UNKNOWN, ("messages.lost",)),)),
        ),
        (Expectation(INVALID, ("messages.lost", "leaders.two-leaders")), [LOST, DUAL], Judgement(True, "2 of 2")),
        (Expectation(VALID, at_least=2), [GOOD, GOOD, LOST], Judgement(True, "2 of 3: 1 messages.lost", (LOST,))),
        (Expectation(VALID, at_least=3), [GOOD, GOOD, LOST], Judgement(False, "2 of 3: 1 messages.lost", (LOST,))),
        (Expectation(UNKNOWN), [VAGUE], Judgement(True, "1 of 1")),
    ],
)  # fmt: skip
def test_verdicts(expected: Expectation, found: list[Seen], judgement: Judgement) -> None:
    assert expected.judge(found) == judgement


def run(value: float | None, versus: float | None = None, verdict: Verdict = VALID) -> Seen:
    return Seen(1, verdict, measured=value, versus=versus)


GAP = "availability.longest_gap"


@pytest.mark.parametrize(
    ("expected", "found", "met", "observed"),
    [
        (Expectation(measure="leaders.changes", between=(1, 1)), [run(1), run(1)], True, "2 of 2: 1"),
        (
            Expectation(measure="leaders.changes", between=(1, 2)), [run(1), run(2), run(4)], False,
            "2 of 3: 1 to 4, median 2",
        ),
        (Expectation(measure=GAP, between=(0, 2e9)), [run(1.5e9), run(None)], False, "1 of 2: 1.5s"),
        (Expectation(measure=GAP, between=(0, 2e9)), [run(None)], False, "0 of 1: none has it"),
        (Expectation(VALID, measure=GAP, between=(0, 2e9)), [run(1e9, verdict=INVALID)], False, "0 of 1: 1s"),
        (Expectation(measure=GAP, between=(1, float("inf"))), [run(3e9)], True, "1 of 1: 3s"),
        (
            Expectation(measure=GAP, ratio=(0.4, 0.6)), [run(1e9, 2e9), run(2e9, 4e9), run(9e9, 4e9)], True,
            "ratio 0.50 (medians 2s, 4s)",
        ),
        (Expectation(measure=GAP, ratio=(0, 0.4)), [run(1e9, 2e9)], False, "ratio 0.50 (medians 1s, 2s)"),
        (Expectation(measure=GAP, ratio=(0, 9)), [run(1e9, 2e9), run(1e9)], False, f"1 of 2 have no {GAP}"),
        (Expectation(measure=GAP, ratio=(0, 9)), [run(1e9, 0)], False, "median 1s against 0"),
    ],
)  # fmt: skip
def test_measures(expected: Expectation, found: list[Seen], met: bool, observed: str) -> None:
    judgement = expected.judge(found)
    assert (judgement.met, judgement.observed) == (met, observed)


@example(55, 20, 11)  # 0.55 * 20 is a little above 11
@given(st.integers(1, 100), st.integers(1, 40), st.integers(0, 40))
def test_a_share_is_met_by_as_many_and_not_by_one_fewer(percent: int, seeds: int, good: int) -> None:
    good = min(good, seeds)
    judged = Expectation(VALID, at_least=percent / 100).judge([GOOD] * good + [LOST] * (seeds - good))
    assert judged.met == (good * 100 >= percent * seeds)


RESULTS = {
    "messages": Result("messages", INVALID, "2 lost", {"lost": 2}, (Anomaly("lost", "", ()),) * 2, {"most": 7}),
    "order": Result("order", VALID, "fine"),
}


def test_what_is_seen_of_a_run() -> None:
    assert seen(5, RESULTS, "messages.lost") == Seen(5, INVALID, ("messages.lost",), "messages: 2 lost", 2.0)
    assert seen(5, {"order": RESULTS["order"]}, None) == Seen(5, VALID)


@pytest.mark.parametrize(
    ("name", "value"), [("messages.lost", 2.0), ("messages.most", 7.0), ("messages.no", None), ("no.lost", None)]
)
def test_a_measure_is_a_count_or_a_metric(name: str, value: float | None) -> None:
    assert measured(RESULTS, name) == value


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (Expectation(VALID), "valid in all seeds"),
        (Expectation(INVALID, ("a.b", "c.d"), 0.5), "a.b or c.d in 50% of the seeds"),
        (Expectation(VALID, (), 3, "leaders.changes", (1, 1)), "valid and leaders.changes = 1 in 3 seeds"),
        (Expectation(None, (), 1.0, GAP, (1e9, float("inf"))), f"{GAP} at least 1s in all seeds"),
        (Expectation(measure=GAP, ratio=(0, 0.8)), f"median {GAP}, ratio at most 0.80"),
    ],
)
def test_in_words(expected: Expectation, said: str) -> None:
    assert expected.says() == said
