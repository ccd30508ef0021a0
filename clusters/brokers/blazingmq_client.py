"""A client of BlazingMQ over its Python SDK, whose outcomes are never guessed.

The SDK has threads of its own, which call back; every callback is handed to the loop at once, and nothing of ours is
touched elsewhere. What blocks (a session's start and stop, opening a queue) goes to threads of ours, since calling it
from a callback would deadlock.

What the SDK would do after a lost connection, connect again, open queues again and post again what was not yet
acknowledged, it cannot do here: its connection leads through a `Tunnel`, which is there once. So what was in flight is
unknown, and stays so. Within the cluster posts may be sent again all the same, by the node that took them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from chaos.model.errors import SplitbrainError
from clusters.base import Delivery, Failed, Unknown
from clusters.brokers.blazingmq_tunnel import Tunnel

CONNECT = 5.0  # seconds for a session to start
OPEN = 10.0  # seconds to open a queue, which waits for a primary
POLL = 0.25  # seconds that a poll waits for a message
_STOP = 2.0
_OVERRIDE = "BMQ_BROKER_URI"  # the SDK would follow it, wherever we send it
_THREADS = ThreadPoolExecutor(64, "blazingmq")

T = TypeVar("T")


def sdk() -> Any:
    """BlazingMQ's SDK. Raises SplitbrainError, saying how to install it, where there is none."""
    try:
        import blazingmq
    except ImportError as error:
        raise SplitbrainError(
            f"BlazingMQ's Python SDK cannot be used here ({error}); pip install 'splitbrain[blazingmq]'"
        ) from None
    logging.getLogger("blazingmq").setLevel(logging.CRITICAL)  # what it logs is raised too, and is a great deal
    return blazingmq


class Apps:
    """The applications of fan-out queues, each of which is to get every message.

    A message counts as delivered when the last of them got it: so one that an application never got is lost. Shared by
    all clients of a cluster, since the copies of a message come to different ones.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._got: dict[Hashable, set[str]] = {}

    def uris(self, uri: str) -> tuple[str, ...]:
        """What a consumer of a queue opens."""
        return tuple(f"{uri}?id={name}" for name in self.names) or (uri,)

    def whole(self, queue: str, app: str, guid: bytes) -> bool:
        """A message's copy came to an application: whether all have it now."""
        if not self.names:
            return True
        got = self._got.setdefault((queue, guid), set())
        got.add(app)
        return len(got) == len(self.names)


class Session:
    """One session of the SDK, and the queues opened in it. `lost` is called, on the loop, when its connection is."""

    def __init__(self, library: Any, lost: Callable[[str], None], on_message: Callable[[Any], None]) -> None:
        self._library, self._lost, self._on_message = library, lost, on_message
        self._loop = asyncio.get_running_loop()
        self._tunnel: Tunnel | None = None
        self._session: Any = None
        self._opening: dict[str, asyncio.Future[None]] = {}
        self._stopping: asyncio.Future[None] | None = None
        self._leaving: asyncio.Future[None] | None = None

    async def start(self, address: str, port: int) -> None:
        """Connect. Raises Unknown."""
        os.environ.pop(_OVERRIDE, None)
        try:
            async with asyncio.timeout(CONNECT):
                self._tunnel = await Tunnel.open(address, port, self._lost)
        except (OSError, TimeoutError) as error:
            raise Unknown(f"connect: {error or 'timed out'}") from None
        timeouts = self._library.Timeouts(
            connect_timeout=CONNECT,
            disconnect_timeout=_STOP,
            open_queue_timeout=OPEN,
            configure_queue_timeout=OPEN,
            close_queue_timeout=_STOP,
        )
        options = self._library.SessionOptions(timeouts=timeouts, num_processing_threads=1)
        make = partial(
            self._library.Session.with_options,
            self._event,
            on_message=lambda message, handle: self._call(self._on_message, message),
            broker=f"tcp://127.0.0.1:{self._tunnel.port}",
            session_options=options,
        )
        making = asyncio.ensure_future(self._blocking(make))
        try:
            self._session = await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(self._made_too_late)
            raise
        except self._library.Error as error:
            self._tunnel.close()
            raise Unknown(f"connect: {error}") from None

    def opened(self, uri: str, **how: Any) -> Awaitable[None]:
        """Have a queue open: asked once, whoever waits for it, and again if that failed. Raises the SDK's errors."""
        if uri not in self._opening:
            opening = self._opening[uri] = asyncio.ensure_future(
                self._blocking(partial(self._session.open_queue, uri, **how))
            )

            def done(opening: asyncio.Future[None]) -> None:
                if opening.cancelled() or opening.exception() is not None:
                    self._opening.pop(uri, None)

            opening.add_done_callback(done)
        return asyncio.shield(self._opening[uri])

    def post(self, uri: str, body: bytes) -> asyncio.Future[Any]:
        """Post to an open queue; gives the ack, whatever it says. Raises the SDK's errors: then nothing was sent."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._session.post(uri, body, on_ack=lambda ack: self._call(_settle, answer, ack))
        return answer

    def confirm(self, message: Any) -> None:
        """Confirm a message of an open queue. Raises the SDK's errors."""
        self._session.confirm(message)

    async def stop(self) -> None:
        """End it, in order if the broker answers. Never raises."""
        if self._session is not None:
            # kept until it has stopped: the SDK aborts the process when a callback drops the last reference
            self._stopping = self._stopping or asyncio.ensure_future(self._blocking(self._session.stop))
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_STOP + 1):
                    await asyncio.shield(self._stopping)
        if self._tunnel is not None:
            self._tunnel.close()

    def _made_too_late(self, making: asyncio.Future[Any]) -> None:
        if not making.cancelled() and making.exception() is None:
            self._session = making.result()
        self._leaving = asyncio.ensure_future(self.stop())

    def _event(self, event: Any) -> None:
        if isinstance(event, self._library.session_events.ConnectionLost):
            self._call(self._lost, "connection lost")

    def _call(self, callback: Callable[..., None], *args: Any) -> None:
        """From a thread of the SDK's, on the loop; no loop, nobody to tell."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(_THREADS, work)


class BlazingmqClient:
    """One client of one node: a session to post in, and one to consume in, which is made when it is first needed."""

    def __init__(self, library: Any, address: str, port: int, node: str, domain: str, apps: Apps) -> None:
        self.node = node
        self.on_lost: Callable[[str], None] = lambda why: None
        self._library, self._address, self._port, self._domain, self._apps = library, address, port, domain, apps
        self._posting = Session(library, self._lost, lambda message: None)
        self._consuming: Session | None = None
        self._starting: asyncio.Task[Session] | None = None
        self._takers: dict[str, Callable[[Delivery], None]] = {}
        self._polled: dict[str, deque[Delivery]] = {}
        self._came = asyncio.Event()
        self._over = False
        self._gone = "the client was closed"
        self._in_flight: dict[asyncio.Task[Any], None] = {}
        self._ending: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect. Raises Unknown."""
        await self._posting.start(self._address, self._port)

    def publish(self, queue: str, body: bytes) -> Awaitable[None]:
        return self._until_lost("post", self._publish(queue, body))

    async def _publish(self, queue: str, body: bytes) -> None:
        uri = self._uri(queue)
        try:
            await self._posting.opened(uri, write=True)
            answer = self._posting.post(uri, body)
        except self._library.Error as error:
            if self._over:
                raise Unknown(f"post: {self._gone}") from None
            raise Failed(f"not posted: {error}") from None
        ack = await answer
        if ack.status is not self._library.AckStatus.SUCCESS:
            # says why, and not whether: a primary keeps what it could not copy in time, and a node may have posted it
            # before, to a primary that is gone
            raise Unknown(f"nacked: {ack.status.name}")

    async def declare(self, queue: str) -> None:
        """Have the queue made, by opening it. Raises Unknown."""
        try:
            await self._posting.opened(self._uri(queue), write=True)
        except self._library.Error as error:
            raise Unknown(f"open {queue}: {error}") from None

    async def subscribe(
        self, queue: str, prefetch: int, deliver: Callable[[Delivery], None], acks: bool = True
    ) -> None:
        self._takers[queue] = deliver
        await self._until_lost("subscribe", self._consume(queue, prefetch))

    async def get(self, queue: str, acks: bool = True) -> Delivery | None:
        """BlazingMQ has no polling: this is a subscription of one message at a time. Nobody says that a queue is empty,
        so a poll that found nothing in a while failed."""
        polled = self._polled.setdefault(queue, deque())
        if queue not in self._takers:
            await self.subscribe(queue, 1, lambda delivery: self._keep(polled, delivery))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL):
                while not polled and not self._over:
                    self._came.clear()
                    await self._came.wait()
        if polled:
            return polled.popleft()
        if self._over:
            raise Unknown(f"get: {self._gone}")
        raise Failed(f"no message came within {POLL:g} s")

    def ack(self, delivery: Delivery) -> Awaitable[bool]:
        return self._until_lost("confirm", self._confirm(delivery.tag))

    async def _confirm(self, message: Any) -> bool:
        assert self._consuming is not None
        try:
            self._consuming.confirm(message)
        except self._library.Error as error:
            raise Unknown(f"confirm: {error}") from None
        return False

    async def close(self) -> None:
        self._over = True
        self._give_up()
        await self._stop()

    async def _stop(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        sessions = [session for session in (self._posting, self._consuming) if session is not None]
        await asyncio.gather(*(session.stop() for session in sessions))

    async def _consume(self, queue: str, prefetch: int) -> None:
        session = await self._consumer()
        options = self._library.QueueOptions(max_unconfirmed_messages=prefetch)
        try:
            for uri in self._apps.uris(self._uri(queue)):
                await session.opened(uri, read=True, options=options)
        except self._library.Error as error:
            raise Unknown(f"open {queue}: {error}") from None

    async def _consumer(self) -> Session:
        async def start() -> Session:
            session = self._consuming = Session(self._library, self._lost, self._delivered)
            await session.start(self._address, self._port)
            return session

        if self._starting is None:
            self._starting = asyncio.ensure_future(start())
        return await asyncio.shield(self._starting)

    def _delivered(self, message: Any) -> None:
        queue, _, app = message.queue_uri.rpartition("/")[2].partition("?id=")
        if self._over or queue not in self._takers:
            return
        if self._apps.whole(queue, app, message.guid):
            self._takers[queue](Delivery(queue, message.data, None, message))
        elif self._consuming is not None:
            with contextlib.suppress(self._library.Error):  # it comes again
                self._consuming.confirm(message)

    def _keep(self, polled: deque[Delivery], delivery: Delivery) -> None:
        polled.append(delivery)
        self._came.set()

    def _uri(self, queue: str) -> str:
        return f"bmq://{self._domain}/{queue}"

    def _until_lost(self, what: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begun at once; ends when the connection does."""

        async def bounded() -> T:
            try:
                if self._over:
                    work.close()
                    raise Unknown(f"{what}: {self._gone}")
                return await work
            except asyncio.CancelledError:
                if not self._over:
                    raise
                raise Unknown(f"{what}: {self._gone}") from None

        task = asyncio.ensure_future(bounded())
        self._in_flight[task] = None
        task.add_done_callback(self._in_flight.pop)
        return task

    def _give_up(self) -> None:
        self._came.set()
        for task in list(self._in_flight):  # soon, and so not before it began, when nobody could say Unknown
            asyncio.get_running_loop().call_soon(task.cancel)

    def _lost(self, why: str) -> None:
        if not self._over:
            self._over, self._gone = True, why
            self._ending = asyncio.ensure_future(self._stop())
            self.on_lost(why)
            self._give_up()


def _settle(answer: asyncio.Future[Any], ack: Any) -> None:
    if not answer.done():
        answer.set_result(ack)


async def open_client(address: str, port: int, node: str, domain: str, apps: Apps) -> BlazingmqClient:
    """A client that is connected. Raises Unknown."""
    client = BlazingmqClient(sdk(), address, port, node, domain, apps)
    try:
        await client.open()
    except BaseException:  # also whoever has no more patience for us: the connection must not stay
        await client.close()
        raise
    return client
