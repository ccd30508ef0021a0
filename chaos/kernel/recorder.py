"""Where a run's history is written down, op by op, as it happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from chaos.kernel.clock import MILLISECOND, Clock
from chaos.model.history import History, Row, to_table
from chaos.model.history_file import HistoryWriter
from chaos.model.op import INFO, INVOKE, OpType

GROUP_COMMIT = 2 * MILLISECOND
FLUSH_ROWS = 4096


class Recorder:
    """Appends ops to a history, in memory batches that go to `writer` (if there is one) soon after.

    In real time a batch is written at most GROUP_COMMIT after its first row, and `written` waits for that, so that a
    delivery is in the file before its ack is sent. In virtual time nobody can be killed between two events, and rows
    are written when FLUSH_ROWS are waiting.
    """

    def __init__(self, clock: Clock, writer: HistoryWriter | None = None) -> None:
        self._clock = clock
        self._writer = writer
        self._rows: list[Row] = []
        self._batches: list[Any] = []
        self._next = 0
        self._open: dict[int, tuple[int, str, str | None, int | None, str | None, int | None]] = {}
        self._flush: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self.closed = False
        self.on_op: Callable[[str, OpType, int], None] | None = None
        self.on_failure: Callable[[OSError], None] | None = None

    def invoke(
        self,
        process: int,
        f: str,
        *,
        key: str | None = None,
        value: int | None = None,
        node: str | None = None,
        channel: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> int:
        """An operation begins. Returns its index, with which `complete` names it."""
        index = self._append(process, INVOKE, f, key, value, node, None, detail, None, channel, None, None, None)
        self._open[index] = (process, f, key, value, node, channel)
        return index

    def complete(
        self,
        op: int,
        type_: OpType,
        *,
        value: int | None = None,
        error: str | None = None,
        detail: Mapping[str, Any] | None = None,
        redelivered: bool | None = None,
        term: int | None = None,
        incarnation: int | None = None,
    ) -> int | None:
        """An operation ended ok, fail or info; who did what to which key is taken from its invocation.

        A second completion is dropped (an answer that comes after its time-out): the first stands. Returns the index.
        """
        begun = self._open.pop(op, None)
        if begun is None:
            return None
        process, f, key, asked, node, channel = begun
        return self._append(
            process,
            type_,
            f,
            key,
            asked if value is None else value,
            node,
            error,
            detail,
            op,
            channel,
            redelivered,
            term,
            incarnation,
        )

    def note(
        self,
        process: int,
        f: str,
        *,
        type_: OpType = INFO,
        key: str | None = None,
        value: int | None = None,
        node: str | None = None,
        error: str | None = None,
        detail: Mapping[str, Any] | None = None,
        channel: int | None = None,
        term: int | None = None,
        incarnation: int | None = None,
    ) -> int:
        """Something that has no beginning and end: an observation, a phase, a stall."""
        return self._append(process, type_, f, key, value, node, error, detail, None, channel, None, term, incarnation)

    def is_open(self, op: int) -> bool:
        """Whether the operation has not ended yet."""
        return op in self._open

    def give_up(self, why: str) -> None:
        """Every operation still open ends as info, because nobody waits for it any more."""
        for op in list(self._open):
            self.complete(op, INFO, error=why)

    async def written(self) -> None:
        """Returns when all that was recorded so far is in the file. At once in virtual time."""
        if self._clock.virtual or self._writer is None or not self._rows:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def close(self) -> History:
        """Write the rest and the end marker; the whole history. Nothing can be recorded afterwards."""
        self._write()
        self.closed = True
        if self._writer is not None:
            self._writer.close()
        return self.history()

    def history(self) -> History:
        """All that was recorded so far."""
        tables = [*self._batches, to_table(self._rows)]
        return History.from_table(pa.concat_tables(tables))

    def _append(
        self,
        process: int,
        type_: OpType,
        f: str,
        key: str | None,
        value: int | None,
        node: str | None,
        error: str | None,
        detail: Mapping[str, Any] | None,
        op: int | None,
        channel: int | None,
        redelivered: bool | None,
        term: int | None,
        incarnation: int | None,
    ) -> int:
        index = self._next
        self._next = index + 1
        now = self._clock.now()
        text = json.dumps(detail, sort_keys=True, separators=(",", ":")) if detail else None
        self._rows.append(
            (
                index,
                now,
                process,
                int(type_),
                f,
                key,
                value,
                node,
                error,
                text,
                op,
                channel,
                redelivered,
                term,
                incarnation,
            )
        )
        if self.on_op is not None:
            self.on_op(f, type_, now)
        if len(self._rows) >= FLUSH_ROWS:
            self._write()
        elif self._flush is None and not self._clock.virtual and self._writer is not None:
            self._flush = asyncio.get_running_loop().call_later(GROUP_COMMIT / 1e9, self._write)
        return index

    def _write(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._rows:
            table = to_table(self._rows)
            self._rows = []
            self._batches.append(table)
            try:
                if self._writer is not None:
                    self._writer.append(table)
            except OSError as error:
                # what cannot be kept must not be acknowledged either: whoever waits in `written` goes on waiting
                self._writer = None
                if self.on_failure is None:
                    raise
                self.on_failure(error)
                return
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
