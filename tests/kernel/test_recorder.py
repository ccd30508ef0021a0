"""The recorder: what is recorded, what is written before whom, and what happens when it cannot be."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pyarrow as pa

from chaos.kernel.real import RealClock
from chaos.kernel.recorder import Recorder
from chaos.kernel.virtual import VirtualLoop
from chaos.model.history_file import HistoryWriter, read
from chaos.model.op import CONTROLLER, INFO, INVOKE, OK, Op


def test_what_is_recorded_is_the_history(tmp_path: Path) -> None:
    recorder = Recorder(VirtualLoop(), HistoryWriter(tmp_path / "h.arrows"))
    op = recorder.invoke(3, "publish", key="q1", value=7, node="n1", channel=2)
    recorder.note(CONTROLLER, "phase", detail={"name": "work"})
    assert recorder.is_open(op)
    recorder.complete(op, OK)
    assert recorder.complete(op, INFO, error="too late") is None
    assert not recorder.is_open(op)
    expected = [
        Op(index=0, time=0, process=3, type=INVOKE, f="publish", key="q1", value=7, node="n1", channel=2),
        Op(index=1, time=0, process=CONTROLLER, type=INFO, f="phase", detail={"name": "work"}),
        Op(index=2, time=0, process=3, type=OK, f="publish", key="q1", value=7, node="n1", channel=2, op=0),
    ]
    assert list(recorder.close()) == expected
    assert list(read(tmp_path / "h.arrows")) == expected


def test_what_nobody_waits_for_any_more_is_info() -> None:
    recorder = Recorder(VirtualLoop())
    recorder.invoke(0, "publish", value=1)
    recorder.invoke(0, "publish", value=2)
    recorder.give_up("the run is over")
    ended = [(op.value, op.type, op.error) for op in recorder.history() if op.op is not None]
    assert ended == [(1, INFO, "the run is over"), (2, INFO, "the run is over")]


def test_in_real_time_a_row_is_in_the_file_when_written_returns(tmp_path: Path) -> None:
    async def main() -> None:
        recorder = Recorder(RealClock(), HistoryWriter(tmp_path / "h.arrows"))
        recorder.invoke(0, "consume", key="q1")
        await recorder.written()
        assert len(read(tmp_path / "h.arrows")) == 1
        recorder.invoke(0, "consume", key="q1")
        await asyncio.gather(recorder.written(), recorder.written())
        assert len(read(tmp_path / "h.arrows")) == 2
        await recorder.written()

    asyncio.run(main())


def test_rows_that_cannot_be_kept_are_never_said_to_be_written(tmp_path: Path) -> None:
    class FullDisk(HistoryWriter):
        def append(self, table: pa.Table) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> list[str | None]:
        failures: list[str | None] = []
        recorder = Recorder(RealClock(), FullDisk(tmp_path / "h.arrows"))
        recorder.on_failure = lambda error: failures.append(error.strerror)
        recorder.invoke(0, "consume", key="q1")
        waiting = asyncio.ensure_future(recorder.written())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        assert len(recorder.close()) == 1
        return failures

    assert asyncio.run(main()) == ["No space left on device"]
