"""A reader of a log: takes entries by offset, and leaves and comes back again and again, as readers in the field do."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from random import Random
from typing import TypeVar

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.model.op import CORRUPT, FOREIGN, OK
from clusters.base import FIRST, NEXT, Entry, LogClient, Start, Unknown
from workloads.payload import Corrupt, Foreign, decode
from workloads.worker import Worker

IDLE_POLL = 50 * MILLISECOND
PATIENCE_OF_POLL = 200 * MILLISECOND  # a poll to which nothing (more) comes for so long is over

TRACKED = "tracked"  # go on behind the last entry that it took, whoever it was then
STARTS = (TRACKED, FIRST, NEXT)

T = TypeVar("T")


class Reader:
    """Reads one log until told to stop, reconnecting whenever its connection is lost.

    A `seek` begins a reading; an entry that it hands out completes a `consume`, which a credit granted invoked. The
    reader keeps the offset that it goes on from by itself; after each connection, which it drops by itself after `stay`
    to twice `stay` ns (0: never), it starts as `start` says. Polling, it asks for `credit` entries at a time, and for
    no more until it asks again.

    `last`: the id of the message to read up to (None: read for ever). `found`: whether it came.
    """

    def __init__(
        self,
        worker: Worker[LogClient],
        log: str,
        random: Random,
        *,
        polling: bool,
        credit: int,
        start: str,
        stay: int,
        last: int | None = None,
    ) -> None:
        self._worker = worker
        self._log = log
        self._random = random
        self._polling = polling
        self._credit = credit
        self._start = start
        self._stay = stay
        self._next: int | None = None  # the offset behind the last entry taken
        self._credits: deque[int] = deque()
        self._to_grant: deque[Entry] = deque()
        self._something = asyncio.Event()
        worker.on_retired = self._something.set
        self._stopping = False
        self._leaving = False
        self._last = last
        self.found = False

    async def run(self, until: int) -> None:
        """Read until `stop`, or until the run's clock shows `until`; then leave."""
        clock, worker = self._worker.context.clock, self._worker
        loop = asyncio.get_running_loop()
        closer = loop.call_later(max(until - clock.now(), 0) / SECOND, self.stop)
        try:
            while not self._stopping:
                client = await worker.connect(until)
                if client is None:
                    break
                self._credits.clear()
                self._to_grant.clear()
                self._leaving = False
                stay = self._stay * (1 + self._random.random())
                leaver = loop.call_later(stay / SECOND, self._leave) if self._stay else None
                try:
                    await (self._poll(client) if self._polling else self._subscribe(client))
                except Unknown as error:
                    await worker.leave(f"the outcome of a reading is unknown: {error}")
                finally:
                    if leaver is not None:
                        leaver.cancel()
                await worker.leave("comes back as another")
        finally:
            closer.cancel()
        await worker.leave("done")

    def stop(self) -> None:
        """Take nothing new."""
        self._stopping = True
        self._something.set()

    def _leave(self) -> None:
        self._leaving = True
        self._something.set()

    @property
    def _over(self) -> bool:
        return self._stopping or self._leaving or self._worker.client is None

    async def _subscribe(self, client: LogClient) -> None:
        await self._seek(client, self._from(self._start))
        while not self._over:
            if self._to_grant:
                await self._worker.recorder.written()
            while self._to_grant and not self._over:
                self._grant(client)
            self._something.clear()
            if not self._to_grant and not self._over:
                await self._something.wait()

    async def _poll(self, client: LogClient) -> None:
        """One reading after another. The first starts as the setting says, each other where the one before ended."""
        start = self._from(self._start)
        while not self._over:
            await self._one_poll(client, start)
            empty = len(self._credits) == self._credit
            if self._worker.client is None:
                return
            await self._within_patience(client.stop(self._log))
            self._nothing_more()
            await self._worker.recorder.written()
            if empty:
                await asyncio.sleep(IDLE_POLL / SECOND)
            elif self._next is not None:
                start = self._next

    async def _one_poll(self, client: LogClient, start: Start) -> None:
        await self._seek(client, start)
        while self._credits and not self._over:
            self._something.clear()
            try:
                async with asyncio.timeout(PATIENCE_OF_POLL / SECOND):
                    await self._something.wait()
            except TimeoutError:
                break

    def _from(self, start: str) -> Start:
        if start == TRACKED:
            return FIRST if self._next is None else self._next
        return start

    async def _seek(self, client: LogClient, start: Start) -> None:
        worker = self._worker
        op = worker.begin("seek", key=self._log, detail={"from": start})
        for _ in range(self._credit):
            self._credits.append(worker.begin("consume", key=self._log))
        await self._within_patience(client.read(self._log, start, self._credit, self._delivered))
        worker.end(op, OK, detail={"from": start})

    def _delivered(self, entry: Entry) -> None:
        worker = self._worker
        if worker.client is None:
            return  # it came while that connection was being closed: nobody took it, and it is read again
        # a broker that hands out more than was granted is recorded as what it did
        op = self._credits.popleft() if self._credits else worker.begin("consume", key=self._log)
        detail: dict[str, object] = {"offset": entry.offset}
        try:
            payload = decode(entry.body)
        except Foreign as error:
            worker.end(op, OK, error=FOREIGN, detail=detail | {"what": str(error)})
        except Corrupt as error:
            worker.end(op, OK, error=CORRUPT, detail=detail | {"what": str(error)})
        else:
            if payload.queue != self._log:
                detail["queue"] = payload.queue
            worker.end(op, OK, value=payload.id, detail=detail)
            if payload.id == self._last:
                self.found = True
                self.stop()
        self._next = entry.offset + 1
        if not self._polling:
            self._to_grant.append(entry)
        self._something.set()

    def _grant(self, client: LogClient) -> None:
        entry = self._to_grant.popleft()
        if len(self._credits) < self._credit:  # less than was granted, unless the broker went beyond it
            self._credits.append(self._worker.begin("consume", key=self._log))
        client.grant(entry)

    def _nothing_more(self) -> None:
        """What is left of a poll's credits ends with an empty answer."""
        while self._credits:
            self._worker.end(self._credits.popleft(), OK)

    async def _within_patience(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._worker.patience / SECOND):
                return await answer
        except TimeoutError:
            raise Unknown("no answer in time") from None
