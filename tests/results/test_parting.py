"""Where histories part: the first row that an op by op comparison finds as well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.history import History
from chaos.model.op import INFO, INVOKE, OK, Op
from results.parting import parting

OPS = [
    Op(index=0, time=0, process=0, type=INVOKE, f="publish", key="q", value=1, node="n1"),
    Op(index=1, time=5, process=0, type=OK, f="publish", key="q", value=1, node="n1", op=0, term=3),
    Op(index=2, time=9, process=1, type=INVOKE, f="consume", key="r", channel=0),
    Op(index=3, time=9, process=1, type=INFO, f="consume", key="r", op=2, error="gone", detail={"a": 1}),
]
OTHERWISE: dict[str, Any] = {
    "time": 9, "process": 7, "type": INFO, "f": "nemesis", "key": "other", "value": 99, "node": "n3", "error": "no",
    "detail": {"a": 2}, "op": None, "channel": 4, "redelivered": True, "term": 4, "incarnation": 1,
}  # fmt: skip


def history(ops: list[Op]) -> History:
    return History.from_ops(ops)


def slowly(one: list[Op], other: list[Op]) -> int | None:
    """The same, an op at a time."""
    for row in range(max(len(one), len(other))):
        if row >= len(one) or row >= len(other) or one[row] != other[row]:
            return row
    return None


@pytest.mark.parametrize("name", list(OTHERWISE))
@pytest.mark.parametrize("row", range(4))
def test_any_column_of_any_row_is_seen(name: str, row: int) -> None:
    ops = [replace(op, **{name: OTHERWISE[name]}) if at == row else op for at, op in enumerate(OPS)]
    assert parting(history(OPS), history(ops)) == slowly(OPS, ops)
    assert parting(history(ops), history(OPS)) == slowly(OPS, ops)


def test_one_that_ends_sooner_parts_there_and_the_same_do_not() -> None:
    assert parting(history(OPS), history(OPS)) is None
    assert parting(history([]), history([])) is None
    assert parting(history(OPS), history(OPS[:2])) == 2
    assert parting(history([]), history(OPS)) == 0


OP = st.builds(
    Op, index=st.just(0), time=st.just(0), process=st.integers(0, 1), type=st.just(INVOKE),
    f=st.sampled_from(["publish", "consume", "ack"]), key=st.sampled_from([None, "a", "b"]),
    value=st.sampled_from([None, 1, 2]), error=st.sampled_from([None, "x"]),
    detail=st.sampled_from([None, {"a": 1}]),
)  # fmt: skip


def numbered(ops: list[Op]) -> list[Op]:
    return [replace(op, index=at) for at, op in enumerate(ops)]


@given(st.lists(OP, max_size=6), st.lists(OP, max_size=4), st.lists(OP, max_size=4))
def test_it_is_what_a_slow_comparison_finds(common: list[Op], one: list[Op], other: list[Op]) -> None:
    ours, theirs = numbered(common + one), numbered(common + other)
    assert parting(history(ours), history(theirs)) == slowly(ours, theirs)
