"""Histories that are read piece by piece: the same results as of those in memory."""

from __future__ import annotations

import errno
import queue
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from benchmarks.store import make
from chaos.model.errors import BadHistory, SplitbrainError
from chaos.model.history import History
from checkers import stretches
from checkers.base import Streamed
from checkers.split import by_key
from checkers.stretches import whole
from results.checking import child, judge, spool
from results.checking.spool import Spool
from results.checking.store import runs_of


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "store"
    make(folder, runs=6, ops=1500, plants={"lost": 1, "duplicated": 1, "cut": 1, "truncated": 1})
    return folder


def readable(source: judge.Source) -> History | None:
    try:
        return source.history()
    except BadHistory:
        return None


def test_what_is_read_in_stretches_is_judged_as_what_is_in_memory(store: Path) -> None:
    judged = 0
    for run in runs_of(str(store)):
        source, wanted = judge.Source(str(store), run), judge.asked(str(store), run)
        if not (history := readable(source)):
            continue
        for name in ("order", "linearizable"):
            one = judge.ready({name: {}})[name] if name not in wanted else wanted[name]
            assert isinstance(one.checker, Streamed)
            with patch.object(stretches, "LONG", 300):
                found = one.checker.streamed(source.read, one.options)
                assert found == one.checker.check(history, one.options)
            judged += found.verdict is one.checker.check(history, one.options).verdict
    assert judged == 2 * 5


def test_what_is_read_is_all_there_is(store: Path) -> None:
    for run in runs_of(str(store)):
        source = judge.Source(str(store), run)
        if not (history := readable(source)):
            with pytest.raises(BadHistory) as at_once:
                source.history()
            with pytest.raises(BadHistory) as in_pieces:
                source.survey()
            assert str(in_pieces.value) == str(at_once.value)
            continue
        seen = source.survey()
        assert (seen.rows, seen.keys) == (len(history), 1)
        assert source.rows() in (0, len(history))  # of a stream nobody knows
        found = whole(source.read)
        assert (found.digest(), found.cut) == (history.digest(), history.cut)


@pytest.mark.parametrize("in_memory", [1, 1 << 20])
def test_a_spool_is_read_again_and_again(store: Path, in_memory: int) -> None:
    history = judge.Source(str(store), runs_of(str(store))[0]).history()
    with patch.object(spool, "IN_MEMORY", in_memory):
        kept = Spool()
    for batch in history.to_table().to_batches(max_chunksize=700):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        kept.add(sink.getvalue().to_pybytes())
    kept.cut = "it was cut"
    one, other = kept.read(), kept.read()
    assert History.digest(next(one)) == next(other).digest()
    for _ in range(2):
        found = whole(kept.read)
        assert (found.digest(), found.cut) == (history.digest(), "it was cut")
    assert kept.seen.keys == 1
    assert [at for at, _ in by_key(history)] == [kept.first]
    kept.close()


@pytest.mark.parametrize("run", ["there", "not-there"])
def test_where_a_part_cannot_be_judged_all_that_came_with_it_is_taken(store: Path, run: str) -> None:
    requests: queue.Queue[Any] = queue.Queue()
    for message in (("rows", b"1"), ("rows", b"2"), ("end", None)):
        requests.put(message)
    name = runs_of(str(store))[0] if run == "there" else run
    full = OSError(errno.ENOSPC, "No space left on device")
    with patch.object(Spool, "add", side_effect=full), pytest.raises(SplitbrainError) as told:
        child._part((str(store), name, "key"), requests, lambda *message: None)
    assert str(told.value) == f"{name}: no room here for a part of it: [Errno 28] No space left on device"
    assert requests.empty()
