"""A history keeps what was put in, finds completions by op, and refuses what breaks its rules."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.errors import BadHistory
from chaos.model.history import History
from chaos.model.op import FAIL, INFO, INVOKE, OBSERVER, OK, Op

PIPELINED = [
    Op(index=0, time=10, process=0, type=INVOKE, f="publish", key="q1", value=1, node="n1", channel=0),
    Op(index=1, time=20, process=0, type=INVOKE, f="publish", key="q1", value=2, node="n1", channel=0),
    Op(
        index=2,
        time=30,
        process=OBSERVER,
        type=INFO,
        f="belief",
        key="q1",
        node="n1",
        term=3,
        detail={"role": "leader"},
    ),
    Op(index=3, time=40, process=0, type=OK, f="publish", key="q1", value=2, node="n1", channel=0, op=1),
    Op(
        index=4,
        time=50,
        process=0,
        type=FAIL,
        f="publish",
        key="q1",
        value=1,
        node="n1",
        channel=0,
        op=0,
        error="returned",
    ),
    Op(index=5, time=60, process=1, type=INVOKE, f="consume", key="q1", node="n2", channel=0),
    Op(
        index=6,
        time=70,
        process=1,
        type=OK,
        f="consume",
        key="q1",
        value=2,
        node="n2",
        channel=0,
        op=5,
        redelivered=True,
    ),
]


def test_ops_survive_the_columns() -> None:
    assert list(History.from_ops(PIPELINED)) == PIPELINED


def test_completions_are_found_by_op_although_they_overlap_within_a_process() -> None:
    history = History.from_ops(PIPELINED).validate()
    assert history.completion.tolist() == [4, 3, -1, -1, -1, 6, -1]
    assert history.invocation.tolist() == [-1, -1, -1, 1, 0, -1, 5]


def test_a_selection_keeps_indices_and_pairs() -> None:
    history = History.from_ops(PIPELINED)
    publishes = history.select(history.f.is_("publish"))
    assert publishes.index.tolist() == [0, 1, 3, 4]
    assert publishes.completion.tolist() == [3, 2, -1, -1]
    assert list(publishes) == [PIPELINED[row] for row in (0, 1, 3, 4)]
    assert len(history.select(np.zeros(len(history), dtype=np.bool_)).completion) == 0


@pytest.mark.parametrize(
    ("row", "change", "problem"),
    [
        (3, {"time": 5}, "op 3: its time is before that of the op before it"),
        (3, {"index": 2}, "op 2: its index is not above the one before"),
        (3, {"op": 99}, "op 3: it completes an op that is not in the history"),
        (4, {"op": 1}, "op 4: op 1 was already completed"),
        (4, {"op": 3}, "op 4: it completes an op that is not an invocation"),
        (4, {"process": 1}, "op 4: it completes an op of another process"),
        (6, {"f": "ack"}, "op 6: it completes an op of another kind"),
        (1, {"op": 0}, "op 1: an invocation cannot complete another op"),
        (3, {"op": 5, "f": "consume", "process": 1}, "op 3: it completes an op that comes after it"),
    ],
)
def test_a_broken_rule_is_named_with_its_op(row: int, change: dict[str, Any], problem: str) -> None:
    ops = list(PIPELINED)
    ops[row] = replace(ops[row], **change)
    with pytest.raises(BadHistory, match=problem):
        History.from_ops(ops).validate()


def test_the_digest_sees_every_column() -> None:
    digest = History.from_ops(PIPELINED).digest()
    changes: list[dict[str, Any]] = [
        {"time": 69}, {"process": 2}, {"type": INFO}, {"f": "ack"}, {"key": "q2"}, {"value": 3}, {"node": "n3"},
        {"error": "x"}, {"detail": {"a": 1}}, {"op": 0}, {"channel": 1}, {"redelivered": False}, {"term": 1},
        {"incarnation": 1}, {"value": None}, {"redelivered": None},
    ]  # fmt: skip
    changed = [History.from_ops([*PIPELINED[:6], replace(PIPELINED[6], **change)]).digest() for change in changes]
    assert len({digest, *changed}) == len(changes) + 1


def test_the_digest_is_the_same_in_every_process() -> None:
    code = (
        "from tests.model.test_history import PIPELINED; from chaos.model.history import History;"
        "print(History.from_ops(PIPELINED).digest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert digests == {History.from_ops(PIPELINED).digest()}


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.integers(-5, 5)))))
def test_the_digest_does_not_depend_on_how_words_are_coded(rows: list[tuple[str | None, int | None]]) -> None:
    ops = [
        Op(index=index, time=index, process=0, type=INFO, f="x", key=key, value=value)
        for index, (key, value) in enumerate(rows)
    ]
    whole = History.from_ops([*ops, Op(index=len(ops), time=len(ops), process=0, type=INFO, f="y", key="c")])
    part = whole.select(whole.f.is_("x"))
    assert part.digest() == History.from_ops(ops).digest()
