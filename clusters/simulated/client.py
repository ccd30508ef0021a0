"""Clients of simulated nodes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from clusters.base import Delivery, Failed, Unknown
from clusters.simulated.channel import ACK, CLOSE, DELIVERED, DONE, FAILED, GET, OPEN, PUBLISH, REQUEUE, SUBSCRIBE
from clusters.simulated.network import Connection, Message


class Caller(ABC):
    """A client's end of a connection: what it asks gets a number, by which its answer is known."""

    def __init__(self, node: str, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        self.node = node
        self.on_lost: Callable[[str], None] = _nobody
        self._connection = connection
        self._loop = loop
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._gone: str | None = None
        connection.receive[0] = self._receive
        connection.lost[0] = self._lost

    @abstractmethod
    def _receive(self, batch: list[Message]) -> None:
        """What the node sends."""

    async def close(self) -> None:
        if self._gone is None:
            self._connection.send(0, (CLOSE,))
            self._connection.close(0)
            self._end("closed by the client")

    def _ask(self, tag: Any, *arguments: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._gone is not None:
            future.set_exception(Unknown(f"the connection is gone: {self._gone}"))
            return future
        self._number = number = self._number + 1
        self._waiting[number] = future
        self._connection.send(0, (tag, number, *arguments))
        return future

    def _answered(self, number: int, answer: Any) -> None:
        """An answer, or the exception that it comes to."""
        future = self._waiting.pop(number, None)
        if future is not None and not future.done():
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _lost(self, reason: str) -> None:
        self._end(reason)
        self.on_lost(reason)

    def _end(self, reason: str) -> None:
        self._gone = reason
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Unknown(reason))


class SimulatedClient(Caller):
    """One connection to one node, as `clusters.base.QueueClient` describes. In simulation an ack is answered."""

    def __init__(self, node: str, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(node, connection, loop)
        self._consumers: dict[int, Callable[[Delivery], None]] = {}
        self._made()

    def _made(self) -> None:
        """For clients of other kinds: what they need is set up here."""

    async def open(self) -> None:
        """Wait for the broker's word that it serves the connection. Raises Unknown."""
        await self._ask(OPEN)

    def publish(self, queue: str, body: bytes) -> Awaitable[None]:
        return self._ask(PUBLISH, queue, body)

    async def subscribe(
        self, queue: str, prefetch: int, deliver: Callable[[Delivery], None], acks: bool = True
    ) -> None:
        self._consumers[self._number + 1] = deliver
        try:
            await self._ask(SUBSCRIBE, queue, prefetch, acks)
        except Failed as error:
            raise Unknown(str(error)) from None

    async def get(self, queue: str, acks: bool = True) -> Delivery | None:
        taken = await self._ask(GET, queue, acks)
        if taken is None:
            return None
        tag, number, (_, body, count) = taken
        return Delivery(queue, body, count > 0, (tag, number))

    def ack(self, delivery: Delivery) -> Awaitable[bool]:
        tag, number = delivery.tag
        return self._ask(ACK, delivery.queue, tag, number)

    def requeue(self, delivery: Delivery) -> Awaitable[bool]:
        tag, number = delivery.tag
        return self._ask(REQUEUE, delivery.queue, tag, number)

    def _receive(self, batch: list[Message]) -> None:
        for message in batch:
            tag = message[0]
            if tag == DONE:
                self._answered(message[1], message[2])
            elif tag == DELIVERED:
                _, queue, consumer, items = message
                deliver = self._consumers[consumer]
                for number, (_, body, count) in items:
                    deliver(Delivery(queue, body, count > 0, (consumer, number)))
            elif tag == FAILED:
                self._answered(message[1], Failed(message[2]))
            else:
                self._other(message)

    def _other(self, message: Message) -> None:
        """For clients of other kinds: what only they are sent."""
        raise AssertionError(f"unknown message {message!r}")


def _nobody(reason: str) -> None:
    pass
