"""When two failures are the same one."""

from __future__ import annotations

import pytest

from chaos.model.verdict import Anomaly, Result, Verdict
from chaos.search.coverage import Coverage
from chaos.search.explore import Exploration, Found, Seed
from chaos.search.failures import Failure, failures
from tests.checkers.histories import SECOND, Story


def story() -> tuple[Story, dict[str, int]]:
    """A cut from 1 to 5 s, a kill from 4 to 6 s; publishes at 0.5, 2, 4.5, 9 s, a drain at 20 s."""
    told, ops = Story(), {}
    ops["before"] = told.at(SECOND // 2).publish(1)
    told.at(SECOND).inject("p", "n1")
    ops["cut"] = told.at(2 * SECOND).publish(2)
    told.at(4 * SECOND).inject("k", "n2", nemesis="kill", kind="kill")
    ops["both"] = told.at(4 * SECOND + SECOND // 2).publish(3)
    told.at(5 * SECOND).undo("p")
    told.at(6 * SECOND).undo("k")
    ops["after"] = told.at(9 * SECOND).publish(4)
    ops["drain"] = told.at(20 * SECOND).drain()
    return told, ops


@pytest.mark.parametrize(
    ("named", "shape"),
    [
        (("cut",), ("partition halves",)),
        (("both",), ("kill", "partition halves")),
        (("before",), ("partition halves",)),  # the nearest in time, before or after
        (("after",), ("kill",)),
        (("before", "cut"), ("partition halves",)),
        (("before", "both"), ("kill", "partition halves")),  # those in force at the last of them
        (("cut", "drain"), ("partition halves",)),  # the drain shows it, and has not done it
        (("drain",), ()),
        ((), ()),
    ],
)
def test_the_shape_is_the_faults_in_force_when_it_shows(named: tuple[str, ...], shape: tuple[str, ...]) -> None:
    told, ops = story()
    anomaly = Anomaly("lost", "message 7 is lost", tuple(ops[name] for name in named))
    results = {"messages": Result("messages", Verdict.INVALID, "1 lost", anomalies=(anomaly,))}
    assert failures(told.history(), results) == (Failure("messages", "lost", shape, "message 7 is lost"),)


def test_without_faults_there_is_no_shape() -> None:
    told = Story()
    op = told.publish(1)
    results = {"messages": Result("messages", Verdict.INVALID, "", anomalies=(Anomaly("lost", "1", (op,)),))}
    assert failures(told.history(), results) == (Failure("messages", "lost", (), "1"),)


def test_of_each_kind_the_first_and_of_invalid_results_only() -> None:
    told, ops = story()
    cut, both = Anomaly("lost", "2", (ops["cut"],)), Anomaly("lost", "3", (ops["both"],))
    results = {
        "messages": Result("messages", Verdict.INVALID, "", anomalies=(cut, both, Anomaly("corrupt", "4", ()))),
        "order": Result("order", Verdict.INVALID, "nobody knows which"),
        "earned": Result("earned", Verdict.UNKNOWN, "", anomalies=(Anomaly("did-not-bite", "p", ()),)),
    }
    assert failures(told.history(), results) == (
        Failure("messages", "lost", ("partition halves",), "2"),
        Failure("messages", "corrupt", (), "4"),
        Failure("order", "invalid", (), "nobody knows which"),
    )


def test_the_same_failure_is_counted_once() -> None:
    lost = Failure("messages", "lost", ("kill",), "message 1 is lost")
    again = Failure("messages", "lost", ("kill",), "message 9 is lost")
    other = Failure("messages", "lost", ("kill", "pause"), "message 2 is lost")
    so_far = Exploration()
    for seed, run in (
        (Seed(1, Verdict.VALID, coverage=Coverage(runs=1)), None),
        (Seed(2, Verdict.INVALID, (lost,), coverage=Coverage(runs=1)), "run-2"),
        (Seed(3, Verdict.INVALID, (again,), coverage=Coverage(runs=1)), None),
        (Seed(4, Verdict.UNKNOWN, why={"earned": "no fault took place"}), None),
        (Seed(5, Verdict.INVALID, (again, other), coverage=Coverage(runs=1)), "run-5"),
    ):
        assert [failure.key for failure in so_far.new(seed)] == {2: [lost.key], 5: [other.key]}.get(seed.seed, [])
        so_far.add(seed, run)
    assert list(so_far.found.values()) == [Found(lost, 2, 3, "run-2"), Found(other, 5, 1, "run-5")]
    assert so_far.to_json() == {
        "valid": False,
        "seeds": 5,
        "verdicts": {"valid": 1, "invalid": 3, "unknown": 1},
        "failures": [
            {"checker": "messages", "anomaly": "lost", "shape": ["kill"], "message": "message 1 is lost",
             "first": 2, "seeds": 3, "run": "run-2"},
            {"checker": "messages", "anomaly": "lost", "shape": ["kill", "pause"], "message": "message 2 is lost",
             "first": 5, "seeds": 1, "run": "run-5"},
        ],
        "unknowns": [{"seed": 4, "why": {"earned": "no fault took place"}}],
        "coverage": Coverage(runs=4).to_json(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ((), Verdict.UNKNOWN),
        ((Verdict.UNKNOWN, Verdict.UNKNOWN), Verdict.UNKNOWN),
        ((Verdict.UNKNOWN, Verdict.VALID), Verdict.VALID),
        ((Verdict.VALID, Verdict.INVALID, Verdict.UNKNOWN), Verdict.INVALID),
    ],
)
def test_only_unknowns_are_unknown(verdicts: tuple[Verdict, ...], expected: Verdict) -> None:
    so_far = Exploration()
    for number, verdict in enumerate(verdicts):
        so_far.add(Seed(number, verdict), None)
    assert so_far.verdict is expected
