"""A client of AMQP 0-9-1 brokers over aio-pika, whose outcomes are never guessed.

Plain connections, never robust ones, which hide reconnects. Publishes are mandatory and returns raise, or aio-pika
would hand a message that no queue received back as a result like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aio_pika
import aiormq
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import DeliveryError, PublishError
from pamqp.exceptions import PAMQPException

from clusters.base import Delivery, Failed, Unknown

TIMEOUT = 10.0  # seconds for anything but a confirm: a broker that takes longer is not serving
HEARTBEAT = 10  # seconds: a peer that vanished is noticed within two of them
_CLOSING = 2.0
_PERSISTENT = 2  # the delivery mode
_ADDRESS = re.compile(r"<[\w.]+ object at 0x[0-9a-f]+>")
_ASYNCIO = os.path.dirname(asyncio.__file__)

T = TypeVar("T")

_LIBRARIES = ("aio_pika", "aiormq", "pamqp")
for _library in _LIBRARIES:  # all that they log is raised as well, and during faults it is a great deal
    logging.getLogger(_library).setLevel(logging.CRITICAL)


@contextlib.contextmanager
def doubtful(what: str) -> Iterator[None]:
    """Whatever goes wrong within leaves the outcome unknown: raised as Unknown, saying what and why."""
    try:
        yield
    except (Failed, Unknown):
        raise
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Unknown(f"{what}: the connection was lost") from None  # aiormq cancels what waits on a lost connection
    except TimeoutError:
        raise Unknown(f"{what}: timed out") from None
    except (aio_pika.exceptions.AMQPError, PAMQPException, OSError, RuntimeError) as error:
        raise Unknown(f"{what}: {reason(error)}") from None


def pass_over_orphans(loop: asyncio.AbstractEventLoop) -> None:
    """When a connection dies, aiormq leaves tasks and futures behind that nobody awaits. What they failed with was
    raised to whoever waited for an answer too, so it is no fact of its own; anything else still is.

    Among them are tasks of asyncio's own coroutines (a queue's `get`, wrapped to be waited for with a time-out)."""
    before = loop.get_exception_handler()
    if getattr(before, "passes_over_orphans", False):
        return

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if _is_orphan(context):
            return
        if before is None:
            loop.default_exception_handler(context)
        else:
            before(loop, context)

    handle.passes_over_orphans = True  # type: ignore[attr-defined]
    loop.set_exception_handler(handle)


def _is_orphan(context: dict[str, Any]) -> bool:
    task = context.get("task") or context.get("future")
    if isinstance(task, asyncio.Task) and (code := getattr(task.get_coro(), "cr_code", None)) is not None:
        abandoned = not task.done() and os.path.dirname(code.co_filename) == _ASYNCIO
        return abandoned or any(f"/{library}/" in code.co_filename for library in _LIBRARIES)
    return type(context.get("exception")).__module__.partition(".")[0] in _LIBRARIES


@dataclass(frozen=True, slots=True)
class Login:
    """Where a broker is reached, and as whom; `tls` for an encrypted connection."""

    host: str
    port: int
    vhost: str = "/"
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    tls: ssl.SSLContext | None = None


async def open_connection(
    address: str, port: int, name: str, timeout: float = TIMEOUT, heartbeat: int = HEARTBEAT
) -> AbstractConnection:
    """A connection to a broker of ours; `timeout` and `heartbeat` in seconds. Raises Unknown."""
    return await connect_as(Login(address, port), name, timeout, heartbeat)


async def connect_as(
    login: Login, name: str, timeout: float = TIMEOUT, heartbeat: int = HEARTBEAT
) -> AbstractConnection:
    """A connection; `timeout` and `heartbeat` in seconds. Raises Unknown."""
    pass_over_orphans(asyncio.get_running_loop())
    with doubtful("connect"):
        async with asyncio.timeout(timeout):
            return await aio_pika.connect(
                host=login.host,
                port=login.port,
                login=login.user,
                password=login.password,
                virtualhost=login.vhost,
                ssl=login.tls is not None,
                ssl_context=login.tls,
                timeout=timeout,
                client_properties={"connection_name": name},
                heartbeat=str(heartbeat),
            )
    raise AssertionError("unreachable")


async def close_connection(connection: AbstractConnection) -> None:
    """Close within seconds, whatever the other side does. Never raises."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_CLOSING):
            await connection.close()


async def open_client(address: str, port: int, node: str, name: str, heartbeat: int = HEARTBEAT) -> AmqpClient:
    """A client that is ready to publish: publishes that waited for the channel could overtake one another.

    Raises Unknown.
    """
    return await ready_client(await open_connection(address, port, name, heartbeat=heartbeat), node)


async def ready_client(connection: AbstractConnection, node: str) -> AmqpClient:
    """A client on a connection, ready to publish. Raises Unknown."""
    client = AmqpClient(connection, node)
    try:
        with doubtful("open a channel"):
            await client.open()
    except BaseException:  # also whoever has no more patience for us: the connection must not stay
        await client.close()
        raise
    return client


class _Consumers(dict[str, Any]):
    """The consumers of a channel by their tags. aiormq takes out one that the broker cancels, and tells nobody; since
    we cancel none ourselves, who is taken out was cancelled by the broker (its queue was deleted, say)."""

    def __init__(self, cancelled: Callable[[], None]) -> None:
        super().__init__()
        self._cancelled = cancelled

    def pop(self, tag: str, *default: Any) -> Any:
        self._cancelled()
        return super().pop(tag, *default)


class AmqpClient:
    """One connection to one node: a channel to publish on, and one to consume on, opened when first needed."""

    def __init__(self, connection: AbstractConnection, node: str) -> None:
        self.node = node
        self.on_lost: Callable[[str], None] = lambda why: None
        self._connection = connection
        self._upper: AbstractChannel | None = None  # aio-pika's, and of it aiormq's, on which is published; its
        self._publishing: Any = None  # abstract class does not know all that it takes
        self._consuming: AbstractChannel | None = None
        self._ids = itertools.count(1)
        self._over = False
        self._gone = "the client was closed"
        self._in_flight: dict[asyncio.Task[Any], None] = {}
        self._closing: asyncio.Task[None] | None = None
        connection.close_callbacks.add(lambda _, error: self._lost(reason(error)))

    async def open(self) -> None:
        """Open the channel to publish on."""
        self._upper = await self._channel()
        self._publishing = await self._upper.get_underlay_channel()

    def publish(self, queue: str, body: bytes) -> Awaitable[None]:
        return self._until_lost(self._publish(queue, body))

    async def _publish(self, queue: str, body: bytes) -> None:
        with self._doubtful("publish"):
            assert self._publishing is not None, "opened by open_client"
            if self._over:
                raise Unknown(f"publish: {self._gone}")
            # aiormq matches a return to its publish by message id, and makes a random one where there is none
            properties = aiormq.spec.Basic.Properties(delivery_mode=_PERSISTENT, message_id=str(next(self._ids)))
            try:
                # On aiormq's own channel, and waiting for the confirm only: half the price of aio-pika's exchange. How
                # much may be under way is for whoever publishes to say.
                await self._publishing.basic_publish(
                    body, routing_key=queue, properties=properties, mandatory=True, wait=False
                )
            except PublishError as error:
                raise Failed(f"returned: {getattr(error.frame, 'reply_text', 'unroutable')}") from None
            except DeliveryError:
                raise Unknown("nacked") from None  # of unknown cause: it may have been enqueued

    async def subscribe(
        self, queue: str, prefetch: int, deliver: Callable[[Delivery], None], acks: bool = True
    ) -> None:
        async def delivered(message: AbstractIncomingMessage) -> None:
            deliver(_delivery(queue, message))

        with doubtful("consume"):
            async with asyncio.timeout(TIMEOUT):
                channel = self._consuming = self._consuming or await self._channel()
                await channel.set_qos(prefetch_count=prefetch)
                await (await channel.get_queue(queue, ensure=False)).consume(delivered, no_ack=not acks)

    async def get(self, queue: str, acks: bool = True) -> Delivery | None:
        with doubtful("get"):
            async with asyncio.timeout(TIMEOUT):
                channel = self._consuming = self._consuming or await self._channel()
                message = await (await channel.get_queue(queue, ensure=False)).get(no_ack=not acks, fail=False)
                return None if message is None else _delivery(queue, message)
        raise AssertionError("unreachable")

    def ack(self, delivery: Delivery) -> Awaitable[bool]:
        return self._until_lost(self._ack(delivery.tag))

    async def _ack(self, message: AbstractIncomingMessage) -> bool:
        with self._doubtful("ack"):
            await message.ack()
        return False

    def requeue(self, delivery: Delivery) -> Awaitable[bool]:
        return self._until_lost(self._requeue(delivery.tag))

    async def _requeue(self, message: AbstractIncomingMessage) -> bool:
        with self._doubtful("requeue"):
            await message.reject(requeue=True)
        return False

    async def close(self) -> None:
        self._over = True
        await close_connection(self._connection)
        self._give_up()

    def _until_lost(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begun at once; ends when the connection does. aiormq leaves some that wait for a confirm waiting for ever."""
        task = asyncio.ensure_future(work)
        self._in_flight[task] = None
        task.add_done_callback(self._in_flight.pop)
        return task

    def _give_up(self) -> None:
        for task in list(self._in_flight):
            task.cancel()

    @contextlib.contextmanager
    def _doubtful(self, what: str) -> Iterator[None]:
        """As `doubtful`, where a cancellation is ours."""
        try:
            with doubtful(what):
                yield
        except asyncio.CancelledError:
            if not self._over:
                raise
            raise Unknown(f"{what}: {self._gone}") from None

    async def _channel(self) -> AbstractChannel:
        async with asyncio.timeout(TIMEOUT):
            channel: AbstractChannel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        channel.close_callbacks.add(lambda _, error: self._channel_lost(channel, f"channel closed: {reason(error)}"))
        below: Any = await channel.get_underlay_channel()
        below.consumers = _Consumers(lambda: self._channel_lost(channel, "the broker cancelled the consumer"))
        return channel

    def _channel_lost(self, channel: AbstractChannel, why: str) -> None:
        self._lost(why)

    def _lost(self, why: str) -> None:
        """A channel closed by the broker counts as the connection lost: what was in flight on it is as unknown."""
        if not self._over:
            self._over, self._gone = True, why
            self._closing = asyncio.ensure_future(close_connection(self._connection))
            self.on_lost(why)
            self._give_up()


def _delivery(queue: str, message: AbstractIncomingMessage) -> Delivery:
    return Delivery(queue, message.body, bool(message.redelivered), message)


def reason(error: Any) -> str:
    """An AMQP error in one line."""
    if error is None:
        return "closed"
    text = ", ".join(str(part) for part in getattr(error, "args", ()) if part) or str(error)
    text = _ADDRESS.sub("the channel", text)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
