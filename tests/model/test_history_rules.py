"""Histories read piece by piece are held to the same rules as whole ones."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.errors import BadHistory
from chaos.model.history import SCHEMA, History, to_table
from chaos.model.history_rules import Rules
from tests.results.spark.odd import history

# What can be wrong with a row, and rows that are right by themselves.
_rows = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 1, 1, 1, 2]),  # steps of the index
        st.sampled_from([-1, 0, 1, 1, 1]),  # of time
        st.sampled_from([1, 1, 1, 2]),  # process
        st.sampled_from([0, 0, 1, 2, 3, 4]),  # type
        st.sampled_from(["publish", "publish", "ack"]),
        st.sampled_from([None, None, 1, 2, 3, 4]),  # op: so many rows back
    ),
    max_size=12,
)


@given(_rows, st.integers(1, 5))
def test_they_are_refused_when_the_whole_is(drawn: list[tuple[int, int, int, int, str, int | None]], size: int) -> None:
    rows, index, time = [], 5, 10
    for step, later, process, type_, f, back in drawn:
        index, time = index + step, time + later
        op = None if back is None else index - back
        rows.append((index, time, process, type_, f, None, None, None, None, None, op, None, None, None, None))
    table = to_table(rows) if rows else SCHEMA.empty_table()
    assert _refused(lambda: History.from_table(table).validate()) == _refused(lambda: _in_pieces(table, size))


@given(st.integers(0, 300), st.integers(1, 20))
def test_they_pass_when_the_whole_does(seed: int, size: int) -> None:
    whole = history(seed)
    whole.validate()
    rules = _in_pieces(whole.to_table(), size)
    assert (rules.rows, rules.first, rules.last, rules.begun, rules.ended) == (
        len(whole), int(whole.index[0]), int(whole.index[-1]), int(whole.time[0]), int(whole.time[-1])
    )  # fmt: skip


def _in_pieces(table: pa.Table, size: int) -> Rules:
    rules = Rules()
    for batch in table.to_batches(size):
        rules.take(batch)
    return rules


def _refused(read: object) -> bool:
    assert callable(read)
    try:
        read()
    except BadHistory:
        return True
    return False
