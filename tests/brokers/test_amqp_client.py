"""The client over a connection that can be cut at will: nothing waits for ever, and nothing is left open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pamqp.exceptions import AMQPInternalError

from clusters.base import Delivery, Unknown
from clusters.brokers import amqp
from clusters.brokers.amqp import AmqpClient, open_client, reason


class Callbacks:
    def __init__(self) -> None:
        self.all: list[Callable[..., None]] = []

    def add(self, callback: Callable[..., None]) -> None:
        self.all.append(callback)


class Broken:
    """A connection, a channel and a message in one, of a library that leaves whoever waits waiting."""

    def __init__(self, opens: bool = True) -> None:
        self.close_callbacks = Callbacks()
        self.opens = opens
        self.closed = False
        self.consumers: Any = {}

    async def channel(self, **options: Any) -> Broken:
        if not self.opens:
            await asyncio.Event().wait()
        return self

    async def get_underlay_channel(self) -> Broken:
        return self

    async def basic_publish(self, body: bytes, **options: Any) -> None:
        await asyncio.Event().wait()

    async def ack(self) -> None:
        await asyncio.Event().wait()

    async def reject(self, requeue: bool) -> None:
        assert requeue
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed = True

    def die(self) -> None:
        for callback in self.close_callbacks.all:
            callback(self, ConnectionResetError(104, "reset"))


def ended(end: Callable[[AmqpClient, Broken], Any]) -> tuple[list[str], list[str], bool]:
    """What a publish, an ack and a requeue ended with, and what `on_lost` was told, after `end`."""

    async def main() -> tuple[list[str], list[str], bool]:
        connection, lost = Broken(), list[str]()
        client = AmqpClient(connection, "n1")  # type: ignore[arg-type]  # as much of one as is used
        await client.open()
        client.on_lost = lost.append
        held = Delivery("q", b"x", False, connection)
        waiting = [client.publish("q", b"x"), client.ack(held), client.requeue(held)]
        await asyncio.sleep(0)
        done = end(client, connection)
        if done is not None:
            await done
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(answer, Unknown) for answer in answers)
        await asyncio.sleep(0)
        return [str(answer) for answer in answers], lost, connection.closed

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("end", "why", "lost"),
    [
        (lambda client, connection: connection.die(), "ConnectionResetError: 104, reset", True),
        (lambda client, connection: connection.consumers.pop("tag", None), "the broker cancelled the consumer", True),
        (lambda client, connection: client.close(), "the client was closed", False),
    ],
)
def test_whatever_is_in_flight_ends_with_the_connection(end: Any, why: str, lost: bool) -> None:
    assert ended(end) == ([f"publish: {why}", f"ack: {why}", f"requeue: {why}"], [why] if lost else [], True)


def test_who_has_no_patience_to_wait_for_a_channel_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Broken(opens=False)

    async def opened(*where: Any, **how: Any) -> Broken:
        return connection

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await open_client("10.0.0.1", 5672, "n1", "test")

    monkeypatch.setattr(amqp, "open_connection", opened)
    asyncio.run(main())
    assert connection.closed


def test_no_address_of_an_object_is_told() -> None:
    assert reason(RuntimeError(f"{Broken()} closed")) == "RuntimeError: the channel closed"


def test_nothing_is_published_on_a_connection_that_is_gone() -> None:
    async def main() -> None:
        connection = Broken()
        client = AmqpClient(connection, "n1")  # type: ignore[arg-type]  # as much of one as is used
        await client.open()
        connection.die()
        with pytest.raises(Unknown, match="publish: ConnectionResetError: 104, reset"):
            await asyncio.wait_for(client.publish("q", b"x"), 5)

    asyncio.run(main())


def test_a_connection_that_the_broker_refuses_to_open_is_unknown_too() -> None:
    """As while a node that was started anew has no virtual host yet: the library raises an error of another family."""
    with pytest.raises(Unknown, match="connect: AMQPInternalError: "), amqp.doubtful("connect"):
        raise AMQPInternalError("Connection.OpenOk", None)
