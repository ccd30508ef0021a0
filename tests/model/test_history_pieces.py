"""Histories read piece by piece are held to the same rules as whole ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.errors import BadHistory
from chaos.model.history import SCHEMA, History, to_table
from chaos.model.history_file import HistoryWriter, write_parquet
from chaos.model.history_pieces import Pieces, Rules
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


def read(path: Path) -> tuple[History, Pieces]:
    with pa.OSFile(str(path)) as file:
        pieces = Pieces(file, path.suffix == ".parquet")
        return History.from_table(pa.Table.from_batches(list(pieces.read()), SCHEMA), pieces.cut), pieces


def test_a_stream_and_a_parquet_file_give_the_rows_that_were_written(tmp_path: Path) -> None:
    whole = history(3)
    write_parquet(whole, tmp_path / "h.parquet")
    writer = HistoryWriter(tmp_path / "h.arrows")
    for batch in whole.to_table().to_batches(7):
        writer.append(pa.Table.from_batches([batch]))
    writer.close()
    for name in ("h.parquet", "h.arrows"):
        found, pieces = read(tmp_path / name)
        assert (found.digest(), pieces.cut) == (whole.digest(), None)
    broken = (tmp_path / "h.arrows").read_bytes()
    (tmp_path / "h.arrows").write_bytes(broken[: len(broken) * 2 // 3])
    found, pieces = read(tmp_path / "h.arrows")
    assert 0 < len(found) < len(whole)
    assert f"it ends after {len(found)} ops without its end marker" in (pieces.cut or "")


def test_groups_are_read_each_by_itself(tmp_path: Path) -> None:
    table = history(4).to_table()
    pq.write_table(table, tmp_path / "h.parquet", row_group_size=10)
    with pa.OSFile(str(tmp_path / "h.parquet")) as file:
        pieces = Pieces(file, True)
        rows = [sum(batch.num_rows for batch in pieces.read(at, at + 1)) for at in range(pieces.groups)]
    assert sum(rows) == len(table)
    assert set(rows[:-1]) == {10}


@pytest.mark.parametrize(
    ("content", "problem"), [(b"", "not a history"), (b"nonsense" * 9, "not a history"), (None, "value missing")]
)
def test_what_is_no_history(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "h.arrows"
    if content is None:
        table = history(4).to_table().drop_columns(["value"])
        with pa.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table)
    else:
        path.write_bytes(content)
    with pytest.raises(BadHistory, match=problem):
        read(path)
