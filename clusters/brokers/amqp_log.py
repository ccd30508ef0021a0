"""A client of logs that are spoken to over AMQP 0-9-1: RabbitMQ's streams.

An append is a publish, whose confirm does not tell the offset. To read is to consume from `x-stream-offset`; each
delivery says its own offset in a header of that name, and each ack is a credit. What is acknowledged stays in the log.
Polls (`basic.get`) do not exist there: a reader that wants a few entries reads, and stops.

Facts: https://www.rabbitmq.com/docs/streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aio_pika.abc import AbstractChannel, AbstractConnection

from clusters.base import Entry, Start, Unknown
from clusters.brokers.amqp import HEARTBEAT, TIMEOUT, AmqpClient, doubtful, open_connection

OFFSET = "x-stream-offset"


async def open_log_client(address: str, port: int, node: str, name: str, heartbeat: int = HEARTBEAT) -> AmqpLogClient:
    """A client that is ready to append. Raises Unknown."""
    client = AmqpLogClient(await open_connection(address, port, name, heartbeat=heartbeat), node)
    try:
        with doubtful("open a channel"):
            await client.open()
    except BaseException:  # also whoever has no more patience for us: the connection must not stay
        await client.close()
        raise
    return client


class AmqpLogClient(AmqpClient):
    """Implements `clusters.base.LogClient`. A reading has a channel of its own, which ends with it."""

    def __init__(self, connection: AbstractConnection, node: str) -> None:
        super().__init__(connection, node)
        self._readings: dict[str, AbstractChannel] = {}  # by log

    def append(self, log: str, body: bytes) -> Awaitable[int | None]:
        return self._until_lost(self._append(log, body))

    async def _append(self, log: str, body: bytes) -> int | None:
        await self._publish(log, body)
        return None

    async def read(self, log: str, start: Start, credit: int, deliver: Callable[[Entry], None]) -> None:
        if log in self._readings:
            raise ValueError(f"{log} is being read already")

        async def delivered(message: Any) -> None:
            if self._readings.get(log) is channel:
                offset = message.header.properties.headers[OFFSET]
                deliver(Entry(log, int(offset), message.body, (below, message.delivery.delivery_tag)))

        with doubtful("read"):
            async with asyncio.timeout(TIMEOUT):
                channel = self._readings[log] = await self._channel()
                below: Any = await channel.get_underlay_channel()
                await below.basic_qos(prefetch_count=credit)
                await below.basic_consume(log, delivered, arguments={OFFSET: start})

    def grant(self, entry: Entry) -> None:
        self._until_lost(self._grant(*entry.tag))

    async def _grant(self, channel: Any, tag: int) -> None:
        if not channel.is_closed:
            try:
                with self._doubtful("grant"):
                    await channel.basic_ack(tag, wait=False)
            except Unknown:
                pass  # whoever reads is told that the connection, or the reading, is over

    async def stop(self, log: str) -> None:
        channel = self._readings.pop(log, None)
        if channel is not None:
            with doubtful("stop reading"):
                async with asyncio.timeout(TIMEOUT):
                    await channel.close()

    def _channel_lost(self, channel: AbstractChannel, why: str) -> None:
        if channel is self._upper or channel in self._readings.values():
            super()._channel_lost(channel, why)
