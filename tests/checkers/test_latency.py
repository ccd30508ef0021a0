"""Quantiles by the nearest rank, by phase and window, and limits on them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.op import INFO
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.latency import Latency
from tests.checkers.histories import MS, SECOND, Story, judge


def run() -> Story:
    """Confirms after 1, 2 and 3 ms; one after 500 ms under a fault; first deliveries 10 ms after each publish."""
    story = Story()

    def publish(id_: int, at: int, took: int) -> None:
        op = story.at(at).begin(0, "publish", key="q", value=id_)
        story.at(at + took).end(op)
        story.at(at + took + 9 * MS).deliver(id_)

    publish(1, 0, 1 * MS)
    publish(2, 100 * MS, 2 * MS)
    publish(3, 2 * SECOND, 3 * MS)
    story.deliver(3, redelivered=True)  # the first counts
    story.publish(4, end=INFO)
    story.at(3 * SECOND).inject("f1", "n1")
    publish(5, 3100 * MS, 500 * MS)
    story.at(4 * SECOND).undo("f1")
    return story


def summary(*ms: int) -> dict[str, int | None]:
    p50, p95, p99, most = ms[1:]
    return {"count": ms[0], "p50": p50 * MS, "p95": p95 * MS, "p99": p99 * MS, "max": most * MS}


METRICS: dict[str, Any] = {
    "confirm": {
        "all": summary(4, 2, 500, 500, 500), "quiet": summary(3, 2, 3, 3, 3), "faulted": summary(1, *[500] * 4),
    },
    "delivery": {
        "all": summary(4, 12, 510, 510, 510), "quiet": summary(3, 12, 13, 13, 13), "faulted": summary(1, *[510] * 4),
    },
    "series": {
        "start": 0, "window": SECOND,
        "confirm": {
            "p50": [1 * MS, None, 3 * MS, 500 * MS], "p95": [2 * MS, None, 3 * MS, 500 * MS],
            "p99": [2 * MS, None, 3 * MS, 500 * MS], "max": [2 * MS, None, 3 * MS, 500 * MS],
        },
        "delivery": {
            "p50": [11 * MS, None, 13 * MS, 510 * MS], "p95": [12 * MS, None, 13 * MS, 510 * MS],
            "p99": [12 * MS, None, 13 * MS, 510 * MS], "max": [12 * MS, None, 13 * MS, 510 * MS],
        },
    },
}  # fmt: skip
SLOW = "confirm p99 was 3.000 ms, over the limit of 2ms"
VERY_SLOW = "delivery max was 510.000 ms, over the limit of 500ms"


@pytest.mark.parametrize(
    ("options", "verdict", "reason", "anomalies"),
    [
        ({}, Verdict.NOT_APPLICABLE, "measured only: no limit is set", ()),
        ({"confirm_p99": "3ms", "delivery_max": "13ms"}, Verdict.VALID, "within limits: confirm_p99, delivery_max", ()),
        ({"confirm_p99": "2ms"}, Verdict.INVALID, SLOW, (Anomaly("confirm_p99", SLOW, (8, 9)),)),
        (
            {"delivery_max": "500ms", "phase": "all"}, Verdict.INVALID, VERY_SLOW,
            (Anomaly("delivery_max", VERY_SLOW, (18, 21)),),
        ),
        (
            {"delivery_max": "500ms", "phase": "faulted"}, Verdict.INVALID, VERY_SLOW,
            (Anomaly("delivery_max", VERY_SLOW, (18, 21)),),
        ),
    ],
)  # fmt: skip
def test_limits(options: dict[str, Any], verdict: Verdict, reason: str, anomalies: tuple[Anomaly, ...]) -> None:
    said = judge(Latency(), run().history(), options)
    assert said == Result("latency", verdict, reason, {"confirm": 4, "delivery": 4}, anomalies, METRICS)


def test_what_happened_across_a_stall_is_not_held_against_the_broker() -> None:
    story = Story()
    for id_, took in ((1, 1 * MS), (2, 400 * MS)):
        op = story.begin(0, "publish", key="q", value=id_)
        if took > 100 * MS:
            story.now += 200 * MS
            story.stall(150 * MS)
        story.now += took
        story.end(op)
    options = {"confirm_max": "100ms"}
    assert judge(Latency(), story.history(), options).verdict is Verdict.UNKNOWN
    op = story.begin(0, "publish", key="q", value=3)
    story.now += 300 * MS
    story.end(op)
    said = judge(Latency(), story.history(), options)
    assert (said.verdict, said.anomalies[0].ops) == (Verdict.INVALID, (5, 6))


def test_each_window_has_its_own_quantiles() -> None:
    story = Story()
    for id_, at, took in ((1, 0, 5 * MS), (2, 100 * MS, 9 * MS), (3, SECOND, 1 * MS), (4, 1100 * MS, 7 * MS)):
        op = story.at(at).begin(0, "publish", key="q", value=id_)
        story.at(at + took).end(op)
    series = judge(Latency(), story.history()).metrics["series"]["confirm"]
    assert (series["p50"], series["max"]) == ([5 * MS, 1 * MS], [9 * MS, 7 * MS])


def test_no_latencies_in_the_phase() -> None:
    story = Story()
    story.inject("f1", "n1")
    story.publish(1)
    said = judge(Latency(), story.history(), {"confirm_p99": "1s"})
    assert (said.verdict, said.reason) == (
        Verdict.NOT_APPLICABLE,
        "nothing to measure by: no latencies in phase 'quiet'",
    )


def test_nothing_at_all() -> None:
    said = judge(Latency(), Story().history())
    assert said.metrics["confirm"]["all"] == {"count": 0, "p50": None, "p95": None, "p99": None, "max": None}
    assert said.metrics["series"]["confirm"]["p50"] == []


@given(st.lists(st.tuples(st.integers(0, 5 * SECOND), st.integers(0, SECOND)), min_size=1, max_size=40))
def test_quantiles_by_their_definition(times: list[tuple[int, int]]) -> None:
    """The nearest rank: the smallest latency that at least so many in a hundred do not exceed."""
    story = Story()
    events = [(at, 0, id_) for id_, (at, _) in enumerate(times)]
    events += [(at + took, 1, id_) for id_, (at, took) in enumerate(times)]
    begun: dict[int, int] = {}
    for time, ends, id_ in sorted(events):
        story.at(time)
        if ends:
            story.end(begun[id_])
        else:
            begun[id_] = story.begin(0, "publish", key="q", value=id_)
    said = judge(Latency(), story.history())
    start = min(at for at, _ in times)

    def nearest_rank(some: list[int], percent: int) -> int | None:
        enough = [ns for ns in some if 100 * sum(other <= ns for other in some) >= percent * len(some)]
        return min(enough) if some else None

    series = said.metrics["series"]["confirm"]
    for name, percent in (("p50", 50), ("p95", 95), ("p99", 99), ("max", 100)):
        assert said.metrics["confirm"]["all"][name] == nearest_rank([ns for _, ns in times], percent)
        windows = [[ns for at, ns in times if (at - start) // SECOND == place] for place in range(len(series[name]))]
        assert series[name] == [nearest_rank(window, percent) for window in windows]
        assert sum(map(len, windows)) == len(times)
