"""A producer: publishes at the times that a generator gives, many in flight, and records what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from chaos.kernel.clock import SECOND, sleep_until
from chaos.kernel.generators import Intent
from chaos.model.op import FAIL, INFO, OK
from clusters.base import Failed, Unknown
from workloads.payload import Payload, encode
from workloads.worker import Deadlines, Worker

LATE = SECOND


@dataclass(slots=True)
class Ids:
    """Message ids, unique per publish attempt, shared by the producers of a run."""

    last: int = 0

    def next(self) -> int:
        self.last += 1
        return self.last


class Producer:
    """Publishes. `window`: how many publishes may wait for their confirms at a time.

    A publish that falls due while its producer has no connection, or a full window, for more than LATE is not made up
    for afterwards: a burst after each fault would make the rate a lie.
    """

    def __init__(self, worker: Worker[Any], ids: Ids, intents: Iterable[Intent], *, size: int, window: int) -> None:
        self._worker = worker
        self._ids = ids
        self._intents = intents
        self._size = size
        self._window = window
        self._sequence = 0
        self._in_flight = 0
        self._room = asyncio.Event()
        worker.on_retired = self._retired
        self._closing: list[asyncio.Task[None]] = []
        self._deadlines = Deadlines(worker.context, worker.patience, self._expired)

    async def run(self, until: int) -> None:
        """Publish what falls due before `until` (run clock), then wait for the last confirms."""
        worker, clock = self._worker, self._worker.context.clock
        begun = clock.now()
        for intent in self._intents:
            due = begun + intent.at
            if due >= until:
                break
            await sleep_until(clock, due)
            while self._in_flight >= self._window and clock.now() < until:
                self._room.clear()
                await self._room.wait()
            client = worker.client or await worker.connect(until)
            if client is None or clock.now() >= until:
                break
            if clock.now() - due <= LATE:
                self._publish(client, intent.key or "")
            else:
                await asyncio.sleep(0)  # what is passed over must not keep the others from their turn
        while self._in_flight:
            self._room.clear()
            await self._room.wait()
        await worker.leave("done")
        for task in self._closing:
            await task

    def _publish(self, client: Any, queue: str) -> None:
        worker = self._worker
        id_ = self._ids.next()
        self._sequence += 1
        body = encode(Payload(id_, worker.process, self._sequence, queue), self._size)
        op = worker.begin("publish", key=queue, value=id_)
        self._in_flight += 1
        confirm = asyncio.ensure_future(self._ask(client, queue, body))
        confirm.add_done_callback(partial(self._answered, op))
        self._deadlines.watch(op)

    def _ask(self, client: Any, queue: str, body: bytes) -> Awaitable[int | None]:
        """Publish; the answer is the message's offset, where it gets one that is told."""
        asked: Awaitable[None] = client.publish(queue, body)
        return asked

    def _answered(self, op: int, confirm: asyncio.Future[int | None]) -> None:
        error = None if confirm.cancelled() else confirm.exception()
        worker = self._worker
        if confirm.cancelled() or not worker.recorder.is_open(op):
            return  # its process was retired, and it is info already
        self._in_flight -= 1
        self._room.set()
        if error is None:
            offset = confirm.result()
            worker.end(op, OK, detail=None if offset is None else {"offset": offset})
        elif isinstance(error, Failed):
            worker.end(op, FAIL, error=str(error))
        else:
            worker.end(op, INFO, error=str(error) if isinstance(error, Unknown) else f"{type(error).__name__}: {error}")
            self._retire(f"a publish had an unknown outcome: {error}")

    def _expired(self, op: int) -> None:
        self._worker.end(op, INFO, error="no confirm in time")
        self._retire("a confirm timed out")

    def _retired(self) -> None:
        self._in_flight = 0
        self._room.set()

    def _retire(self, why: str) -> None:
        client = self._worker.retire(why)
        if client is not None:
            self._closing.append(asyncio.ensure_future(client.close()))
