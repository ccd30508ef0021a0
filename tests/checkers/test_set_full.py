"""What becomes of each element of a set: literal histories, whole results, and Jepsen's own way of following them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.model.history import History
from chaos.model.op import FAIL, INFO, INVOKE, OK, OpType
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.set_full import SetFull
from tests.checkers.histories import MS, Cases, Story, judge

CASES = Cases()
case = CASES.add
KINDS = ("lost", "never-read", "stale", "duplicated", "unexpected")


def result(verdict: Verdict, reason: str, *anomalies: Anomaly, attempts: int, stable: int, **found: Any) -> Result:
    """found: the elements of each of KINDS (with _ for -), and the other metrics, where there are any."""
    metrics = {kind: found.get(kind.replace("-", "_"), []) for kind in KINDS}
    counts = {"attempts": attempts, "stable": stable, **{kind: len(some) for kind, some in metrics.items()}}
    metrics["worst_stale"] = found.get("worst_stale", [])
    for name in ("stable_latencies", "lost_latencies"):
        ns = found.get(name)
        metrics[name] = dict.fromkeys(("0", "0.5", "0.95", "0.99", "1"), ns) if isinstance(ns, int) else ns or {}
    return Result("set-full", verdict, reason, counts, anomalies, metrics)


STALE = {"element": 1, "latency": 3 * MS + 1, "known": 1, "last_absent": 4}
QUANTILES = {"0": 0, "0.5": 3 * MS + 1, "0.95": 3 * MS + 1, "0.99": 3 * MS + 1, "1": 3 * MS + 1}
FLICKERS: dict[str, Any] = {
    "attempts": 2,
    "stable": 2,
    "stale": [1],
    "worst_stale": [STALE],
    "stable_latencies": QUANTILES,
}


def flicker(story: Story) -> None:
    story.did(0, "add", 1)  # known by op 1
    story.did(9, "read", answer=[1])
    story.did(9, "read", answer=[])
    story.did(0, "add", "b")
    story.did(9, "read", answer=["b", 1])
    story.did(9, "read", answer=[], end=INFO)


@case(result(Verdict.VALID, "2 of 2 added are there to stay, none lost", **FLICKERS))
def _stale(story: Story) -> None:
    flicker(story)


MISSED = Anomaly("stale", "1 was known to be added, and a later read misses it", (0, 1, 4))


@case(result(Verdict.INVALID, "1 stale of 2 added", MISSED, **FLICKERS), linearizable=True)
def _stale_where_none_may_be(story: Story) -> None:
    flicker(story)


ADDED = Anomaly("lost", "2 was known to be added, and the last read that counts misses it", (1, 6, 7))
LOST_READ = Anomaly("lost", "1 had been read, and the last read that counts misses it", (0, 3, 4, 7))


@case(
    result(
        Verdict.INVALID, "2 lost of 2 added", LOST_READ, ADDED, attempts=2, stable=0, lost=[1, 2],
        lost_latencies={"0": 0, "0.5": MS + 1, "0.95": MS + 1, "0.99": MS + 1, "1": MS + 1},
    )
)  # fmt: skip
def _lost_after_it_was_known(story: Story) -> None:
    story.ask(0, "add", 1)  # never returns: known by the read
    other = story.ask(1, "add", 2)
    read = story.ask(9, "read")
    story.answer(read, [1])
    again = story.ask(9, "read")
    story.answer(again, [1])
    story.answer(other, 2)
    story.did(9, "read", answer=[])


UNSURE = "no read shows for certain what became of 3 added"


@case(result(Verdict.UNKNOWN, UNSURE, attempts=3, stable=0, never_read=[1, 2, 3]))
def _never_read(story: Story) -> None:
    story.did(0, "add", 1, end=INFO)
    story.did(0, "add", 2, end=FAIL)
    read = story.ask(9, "read")
    story.did(1, "add", 3)
    story.answer(read, [])


TWICE = Anomaly("duplicated", "1 is more than once in a read", (5,))
PHANTOM = Anomaly("unexpected", "2 is in a read, and no add had begun", (3,))
EARLY = Anomaly("unexpected", "3 is in a read, and no add had begun", (3,))


@case(
    result(
        Verdict.INVALID, "1 duplicated, 2 unexpected of 2 added", PHANTOM, EARLY, TWICE, attempts=2, stable=2,
        duplicated=[[1, 3]], unexpected=[2, 3], stable_latencies=0,
    )
)  # fmt: skip
def _twice_and_from_nowhere(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(9, "read", answer=[1, 2, 3])
    story.did(9, "read", answer=[1, 1, 1])
    story.did(9, "read", answer=[1, 1])
    story.did(0, "add", 3)
    story.did(9, "read", answer=[1, 3])


@case(result(Verdict.VALID, "1 of 1 added are there to stay, none lost", attempts=1, stable=1, stable_latencies=0))
def _reads_that_overlap(story: Story) -> None:
    early, long = story.ask(9, "read"), story.ask(8, "read")
    story.answer(early, [])  # before the add
    op = story.ask(0, "add", 1)
    short = story.ask(7, "read")
    story.answer(op, 1)
    story.answer(short, [1])
    story.answer(long, [])  # began before the add did, and says nothing


@case(result(Verdict.VALID, "1 of 1 added are there to stay, none lost", attempts=1, stable=1, stable_latencies=0))
def _a_read_older_than_the_add(story: Story) -> None:
    long = story.ask(8, "read")
    story.did(9, "read", answer=[])
    story.did(0, "add", 1)
    story.answer(long, [1])


@case(
    result(
        Verdict.UNKNOWN, "no read shows for certain what became of 1 added", attempts=1, stable=0, never_read=[1]
    )
)  # fmt: skip
def _two_reads_that_began_before_the_add(story: Story) -> None:
    shows, misses = story.ask(8, "read"), story.ask(9, "read")
    story.did(0, "add", 1)
    story.answer(shows, [1])
    story.answer(misses, [])


LAST = Anomaly("lost", "1 had been read, and the last read that counts misses it", (0, 1, 4, 5))


@case(
    result(
        Verdict.INVALID, "1 lost of 1 added", LAST, attempts=1, stable=0, lost=[1], lost_latencies=3 * MS + 1
    )
)  # fmt: skip
def _the_read_that_began_last_counts(story: Story) -> None:
    story.did(0, "add", 1)
    slow = story.ask(7, "read")
    story.ask(6, "read")
    shows, misses = story.ask(8, "read"), story.ask(9, "read")
    story.answer(misses, [])
    story.answer(shows, [1])
    story.answer(slow, [])


@case(result(Verdict.NOT_APPLICABLE, "nothing was added to a set", attempts=0, stable=0))
def _ours(story: Story) -> None:
    story.publish(1)


@case(
    result(
        Verdict.NOT_APPLICABLE, "its reads do not answer with elements", attempts=1, stable=0, never_read=[1]
    )
)  # fmt: skip
def _a_counter(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(9, "read", answer=1)


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(SetFull(), case.history(), case.options) == case.expected


def as_jepsen(history: History) -> dict[int, tuple[str, int]]:
    """The outcome of each element and its latency in ns, as `jepsen.checker/set-full` follows it from op to op."""
    known: dict[int, int] = {}
    present: dict[int, int] = {}
    absent: dict[int, int] = {}
    attempted: dict[int, None] = {}
    for row, op in enumerate(history):
        if op.f == "add" and op.type is INVOKE:
            attempted[op.value or 0] = None
        elif op.f == "add" and op.type is OK:
            known.setdefault(op.value or 0, row)
        elif op.f == "read" and op.type is OK:
            begun = int(history.invocation[row])
            for one in attempted:
                if one in (op.detail or {})["value"]:
                    known.setdefault(one, row)
                    present[one] = max(present.get(one, -1), begun)
                else:
                    absent[one] = max(absent.get(one, -1), begun)
    outcome = {}
    for one in attempted:
        there, gone = present.get(one, -1), absent.get(one, -1)
        since = int(history.time[known[one]]) if one in known else 0
        if there > gone:
            late = int(history.time[gone]) + 1 - since if gone >= 0 else 0
            outcome[one] = ("stable", max(0, late))
        elif one in known and gone > there and gone > known[one]:
            late = int(history.time[there]) + 1 - since if there >= 0 else 0
            outcome[one] = ("lost", max(0, late))
        else:
            outcome[one] = ("never-read", 0)
    return outcome


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.booleans(), st.sets(st.integers(0, 5)), st.sampled_from([OK, OK, FAIL, INFO])
        ),
        max_size=30,
    )
)  # fmt: skip
def test_the_outcomes_are_jepsens(steps: list[tuple[int, bool, set[int], OpType]]) -> None:
    story = Story()
    doing: dict[int, int] = {}
    fresh = 0
    for process, adds, seen, end in steps:
        if process in doing:
            op = doing.pop(process)
            begun = story.ops[op]
            story.answer(op, begun.value if begun.f == "add" else sorted(seen), end)
        elif adds and fresh < 6:
            doing[process] = story.ask(process, "add", fresh)
            fresh += 1
        else:
            doing[process] = story.ask(process, "read")
    history = story.history()
    outcome = as_jepsen(history)
    metrics = judge(SetFull(), history).metrics
    assert metrics["lost"] == sorted(one for one, (kind, _) in outcome.items() if kind == "lost")
    assert metrics["never-read"] == sorted(one for one, (kind, _) in outcome.items() if kind == "never-read")
    stale = {one: ns for one, (kind, ns) in outcome.items() if kind == "stable" and ns > 0}
    assert metrics["stale"] == sorted(stale)
    assert {told["element"]: told["latency"] for told in metrics["worst_stale"]} == stale
