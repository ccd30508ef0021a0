"""A consumer: takes messages by subscription or by polling, records each before it acknowledges it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from functools import partial
from typing import TypeVar

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.model.op import CORRUPT, FAIL, FOREIGN, INFO, OK
from clusters.base import Delivery, Failed, QueueClient, Unknown
from workloads.payload import Corrupt, Foreign, decode
from workloads.worker import Worker

IDLE_POLL = 50 * MILLISECOND

T = TypeVar("T")


class Consumer:
    """Consumes one queue until told to stop, reconnecting whenever its connection is lost.

    A granted credit is the invocation of a `consume`, the delivery its completion: a subscription of prefetch n has n
    open, and each acknowledgement grants one more. Every `poison`-th message (0: none) ends it as if it had crashed:
    the connection is dropped, the message not acknowledged. Without `acks` a delivery grants the next credit by itself.
    `source`: the queue that is consumed in truth, where messages of `queue` end up there.
    """

    def __init__(
        self,
        worker: Worker[QueueClient],
        queue: str,
        *,
        polling: bool,
        prefetch: int,
        poison: int = 0,
        acks: bool = True,
        source: str | None = None,
    ) -> None:
        self._worker = worker
        self._queue = queue
        self._source = source or queue
        self._acks_wanted = acks
        self._polling = polling
        self._prefetch = prefetch
        self._poison = poison
        self._credits: deque[int] = deque()
        self._to_ack: deque[tuple[int | None, Delivery]] = deque()
        self._acks = 0
        self._something = asyncio.Event()
        worker.on_retired = self._something.set
        self._stopping = False
        self.subscribed = False  # whether the broker ever took a subscription of it
        self.last_delivery = worker.context.clock.now()

    async def run(self, until: int) -> None:
        """Consume until `stop`, or until the run's clock shows `until`; then wait for acks on their way, and leave."""
        clock, worker = self._worker.context.clock, self._worker
        closer = asyncio.get_running_loop().call_later(max(until - clock.now(), 0) / SECOND, self.stop)
        try:
            while not self._stopping:
                client = await worker.connect(until)
                if client is None:
                    break
                self._credits.clear()
                self._to_ack.clear()
                self._acks = 0
                try:
                    await (self._poll(client) if self._polling else self._subscribe(client))
                except Unknown as error:
                    await worker.leave(f"the outcome of a consume is unknown: {error}")
        finally:
            closer.cancel()
        await worker.leave("done")

    def stop(self) -> None:
        """Take nothing new."""
        self._stopping = True
        self._something.set()

    async def _subscribe(self, client: QueueClient) -> None:
        worker = self._worker
        for _ in range(self._prefetch):
            self._credits.append(worker.begin("consume", key=self._queue))
        await self._within_patience(client.subscribe(self._source, self._prefetch, self._delivered, self._acks_wanted))
        self.subscribed = True
        while worker.client is not None:
            if self._to_ack:
                await worker.recorder.written()
            while self._to_ack and worker.client is not None:
                id_, delivery = self._to_ack.popleft()
                if self._poisoned(id_):
                    await self._crash(id_)
                    return
                # an ack grants the next credit, also when we are about to leave
                self._credits.append(worker.begin("consume", key=self._queue))
                self._ack(client, id_, delivery)
            if self._stopping and self._acks == 0:
                return
            self._something.clear()
            if not self._to_ack and worker.client is not None:
                await self._wait_for_something()

    async def _poll(self, client: QueueClient) -> None:
        worker = self._worker
        while worker.client is not None and not self._stopping:
            self._credits.append(worker.begin("consume", key=self._queue))
            try:
                delivery = await self._within_patience(client.get(self._source, self._acks_wanted))
            except Failed as error:
                worker.end(self._credits.popleft(), FAIL, error=str(error))
                await asyncio.sleep(IDLE_POLL / SECOND)
                continue
            if delivery is None:
                worker.end(self._credits.popleft(), OK)
                await asyncio.sleep(IDLE_POLL / SECOND)
                continue
            self._delivered(delivery)
            if not self._to_ack:
                continue
            id_, delivery = self._to_ack.popleft()
            await worker.recorder.written()
            if self._poisoned(id_):
                await self._crash(id_)
                return
            self._ack(client, id_, delivery)
        while self._acks and worker.client is not None:
            self._something.clear()
            await self._wait_for_something()

    def _poisoned(self, id_: int | None) -> bool:
        return self._poison > 0 and id_ is not None and id_ % self._poison == 0

    async def _crash(self, id_: int | None) -> None:
        """Drop the connection with all that it holds, and come back as a restarted consumer would."""
        await self._worker.leave(f"message {id_} is poison")
        await asyncio.sleep(self._worker.reconnect / SECOND)

    def _delivered(self, delivery: Delivery) -> None:
        worker = self._worker
        self.last_delivery = worker.context.clock.now()
        # a broker that delivers beyond the credit granted is recorded as what it did
        op = self._credits.popleft() if self._credits else worker.begin("consume", key=self._queue)
        id_: int | None = None
        try:
            payload = decode(delivery.body)
        except Foreign as error:
            worker.end(op, OK, error=FOREIGN, redelivered=delivery.redelivered, detail={"what": str(error)})
        except Corrupt as error:
            worker.end(op, OK, error=CORRUPT, redelivered=delivery.redelivered, detail={"what": str(error)})
        else:
            id_ = payload.id
            wrong = {"queue": payload.queue} if payload.queue != self._queue else None
            worker.end(op, OK, value=id_, redelivered=delivery.redelivered, detail=wrong)
        if self._acks_wanted:
            self._to_ack.append((id_, delivery))
            self._something.set()
        elif not self._polling:
            self._credits.append(worker.begin("consume", key=self._queue))

    def _ack(self, client: QueueClient, id_: int | None, delivery: Delivery) -> None:
        op = self._worker.begin("ack", key=self._queue, value=id_)
        self._acks += 1
        done = asyncio.ensure_future(client.ack(delivery))
        done.add_done_callback(partial(self._acknowledged, op))

    def _acknowledged(self, op: int, answer: asyncio.Future[bool]) -> None:
        self._acks -= 1
        if self._stopping:
            self._something.set()
        if answer.cancelled():
            return
        error = answer.exception()
        if error is not None:
            self._worker.end(op, INFO, error=str(error))
        elif answer.result():
            self._worker.end(op, OK)
        else:
            self._worker.end(op, INFO, error="sent")

    async def _wait_for_something(self) -> None:
        """Until a delivery, an answer to an ack, the end of the connection, or a stop; then acks get a bounded time."""
        await (self._within_patience(self._something.wait()) if self._stopping else self._something.wait())

    async def _within_patience(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._worker.patience / SECOND):
                return await answer
        except TimeoutError:
            raise Unknown("no answer in time") from None
