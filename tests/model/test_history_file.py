"""Histories on disk: a stream while it grows, Parquet when done; one that was cut says so, and what could be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.model.errors import BadHistory
from chaos.model.history import History, row_of, to_table
from chaos.model.history_file import HistoryWriter, read, write_parquet
from tests.model.test_history import PIPELINED


def write_stream(path: Path, *, end: bool = True) -> HistoryWriter:
    writer = HistoryWriter(path)
    for op in PIPELINED:
        writer.append(to_table([row_of(op)]))
    if end:
        writer.close()
    return writer


def test_a_whole_stream_reads_back(tmp_path: Path) -> None:
    write_stream(tmp_path / "h.arrows")
    history = read(tmp_path / "h.arrows")
    assert (list(history), history.cut) == (PIPELINED, None)


def test_a_stream_without_its_end_is_read_and_said_to_be_cut(tmp_path: Path) -> None:
    write_stream(tmp_path / "h.arrows", end=False)
    history = read(tmp_path / "h.arrows")
    assert list(history) == PIPELINED
    assert (
        history.cut == "it ends after 7 ops without its end marker: the controller was stopped before it could finish"
    )


def test_every_truncation_reads_up_to_the_last_whole_batch(tmp_path: Path) -> None:
    write_stream(tmp_path / "h.arrows")
    whole = (tmp_path / "h.arrows").read_bytes()
    readable = next(size for size in range(len(whole)) if _is_history(tmp_path / "t.arrows", whole[:size]))
    lengths = []
    for size in (*range(readable, len(whole), 37), len(whole) - 1):
        (tmp_path / "t.arrows").write_bytes(whole[:size])
        history = read(tmp_path / "t.arrows")
        lengths.append(len(history))
        assert list(history) == PIPELINED[: len(history)]
        assert history.cut is not None or len(history) == len(PIPELINED)
    assert sorted(set(lengths)) == list(range(len(PIPELINED) + 1))
    assert lengths == sorted(lengths)


def _is_history(path: Path, content: bytes) -> bool:
    path.write_bytes(content)
    try:
        read(path)
    except BadHistory:
        return False
    return True


def test_parquet_keeps_the_rows_and_that_they_were_cut(tmp_path: Path) -> None:
    history = History.from_ops(PIPELINED, cut="killed")
    write_parquet(history, tmp_path / "h.parquet")
    again = read(tmp_path / "h.parquet")
    assert (list(again), again.cut, again.digest()) == (PIPELINED, "killed", history.digest())


@pytest.mark.parametrize("name", ["h.arrows", "h.parquet"])
@pytest.mark.parametrize("content", [b"", b"hello", b"PAR1", b"\xff" * 4096])
def test_what_is_no_history_is_refused_by_name(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadHistory, match=name):
        read(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match=r"h\.arrows: cannot be read: No such file"):
        read(tmp_path / "h.arrows")


def test_another_version_and_other_columns_are_refused(tmp_path: Path) -> None:
    table = History.from_ops(PIPELINED).to_table()
    pq.write_table(table.replace_schema_metadata({"splitbrain.schema": "99"}), tmp_path / "h.parquet")
    with pytest.raises(BadHistory, match="history schema 99; this version reads 1"):
        read(tmp_path / "h.parquet")
    pq.write_table(table.drop_columns(["time"]), tmp_path / "h.parquet")
    with pytest.raises(BadHistory, match="not the columns of a history"):
        read(tmp_path / "h.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "h.parquet")
    with pytest.raises(BadHistory, match="history schema none"):
        read(tmp_path / "h.parquet")
