"""Histories read piece by piece: streams and Parquet, whole, cut and broken."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.model.errors import BadHistory
from chaos.model.history import History
from chaos.model.history_file import HistoryWriter, write_parquet
from chaos.model.history_pieces import Pieces, opened
from tests.results.spark.odd import history


def read(path: Path) -> tuple[History, Pieces]:
    with opened(path) as pieces:
        return History.from_table(pa.concat_tables(pieces.read()), pieces.cut), pieces


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
    with opened(tmp_path / "h.parquet") as pieces:
        rows = [sum(some.num_rows for some in pieces.read(at, at + 1)) for at in range(pieces.groups)]
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
