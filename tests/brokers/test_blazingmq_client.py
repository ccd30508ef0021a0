"""BlazingMQ's client over a stand-in for its SDK: threads that call back, sessions that dial where they are told."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.model.errors import SplitbrainError
from clusters.base import Delivery, Failed, Unknown
from clusters.brokers import blazingmq_client
from clusters.brokers.blazingmq_client import Apps, BlazingmqClient, sdk
from clusters.brokers.blazingmq_tunnel import Tunnel

URI = "bmq://splitbrain/q1"


class Error(Exception):
    """The SDK's own."""


class AckStatus(Enum):
    SUCCESS = 0
    LIMIT_MESSAGES = 1
    NOT_READY = 2


class ConnectionLost:
    pass


class StateRestored:
    pass


class Broker:
    """What sessions dial, and what they are answered: by `answers`, a thread's callback for each post."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.threads: list[str] = []
        self.refused: set[str] = set()
        self.acks: list[AckStatus | None] = []  # None: no ack ever
        self.posted: list[tuple[str, bytes]] = []
        self.confirmed: list[bytes] = []
        self.hold = threading.Event()  # set: open_queue goes on
        self.hold.set()
        self.library = SimpleNamespace(
            Error=Error,
            AckStatus=AckStatus,
            Timeouts=lambda **seconds: seconds,
            SessionOptions=lambda **options: options,
            QueueOptions=lambda **options: options,
            Session=SimpleNamespace(with_options=self._session),
            session_events=SimpleNamespace(ConnectionLost=ConnectionLost),
        )

    def _session(self, on_event: Any, on_message: Any, broker: str, session_options: Any) -> Session:
        made = Session(self, on_event, on_message, int(broker.rpartition(":")[2]))
        self.sessions.append(made)
        return made

    def call(self, callback: Callable[..., None], *args: Any) -> None:
        """As the SDK does: on a thread of its own, which is over before anybody looks."""
        thread = threading.Thread(target=callback, args=args)
        thread.start()
        thread.join()


class Session:
    """One session of the stand-in."""

    def __init__(self, broker: Broker, on_event: Any, on_message: Any, port: int) -> None:
        self.broker, self.on_event, self.on_message = broker, on_event, on_message
        self.socket = socket.create_connection(("127.0.0.1", port), 2)
        self.opened: dict[str, dict[str, Any]] = {}
        self.stopped = 0
        broker.threads.append(threading.current_thread().name)

    def open_queue(self, uri: str, **how: Any) -> None:
        self.broker.threads.append(threading.current_thread().name)
        self.broker.hold.wait(5)
        if uri in self.broker.refused:
            raise Error("open refused")
        assert uri not in self.opened, "the SDK refuses to open a queue twice"
        self.opened[uri] = how

    def post(self, uri: str, body: bytes, on_ack: Any) -> None:
        if uri not in self.opened:
            raise Error("not opened")
        self.broker.posted.append((uri, body))
        status = self.broker.acks.pop(0) if self.broker.acks else AckStatus.SUCCESS
        if status is not None:
            self.broker.call(on_ack, SimpleNamespace(status=status))

    def confirm(self, message: Any) -> None:
        if self.stopped:
            raise Error("stopped")
        self.broker.confirmed.append(message.data)

    def deliver(self, uri: str, body: bytes, guid: bytes = b"1") -> None:
        message = SimpleNamespace(queue_uri=uri, data=body, guid=guid)
        self.broker.call(self.on_message, message, object())

    def stop(self) -> None:
        self.broker.threads.append(threading.current_thread().name)
        self.stopped += 1
        self.socket.close()


@asynccontextmanager
async def connected(broker: Broker, apps: Apps | None = None) -> AsyncIterator[BlazingmqClient]:
    """A client, over a node that takes connections and says nothing."""

    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(node, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = BlazingmqClient(broker.library, "127.0.0.1", port, "n1", "splitbrain", apps or Apps(()))
    await client.open()
    try:
        yield client
    finally:
        await client.close()
        server.close()


async def until(condition: Callable[[], Any]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


def test_a_post_is_confirmed_by_its_ack_and_by_nothing_else() -> None:
    broker = Broker()
    broker.acks = [AckStatus.SUCCESS, AckStatus.LIMIT_MESSAGES, AckStatus.NOT_READY, None]

    async def main() -> None:
        async with connected(broker) as client:
            await client.publish("q1", b"a")
            for why in ("LIMIT_MESSAGES", "NOT_READY"):  # a nack says why, and not whether it is stored
                with pytest.raises(Unknown, match=f"nacked: {why}"):
                    await client.publish("q1", b"b")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.publish("q1", b"c"), 0.05)

    asyncio.run(main())
    assert broker.posted == [(URI, b"a"), (URI, b"b"), (URI, b"b"), (URI, b"c")]
    assert broker.sessions[0].opened == {URI: {"write": True}}, "opened once"


def test_posts_keep_their_order_while_their_queue_is_opened() -> None:
    broker = Broker()
    broker.hold.clear()

    async def main() -> None:
        async with connected(broker) as client:
            posts = [client.publish("q1", bytes([n])) for n in range(20)]
            await asyncio.sleep(0.05)
            assert broker.posted == []
            broker.hold.set()
            await asyncio.gather(*posts)

    asyncio.run(main())
    assert [body for _, body in broker.posted] == [bytes([n]) for n in range(20)]


def test_what_was_never_posted_failed_and_may_be_tried_again() -> None:
    broker = Broker()
    broker.refused.add(URI)

    async def main() -> None:
        async with connected(broker) as client:
            with pytest.raises(Failed, match="not posted: open refused"):
                await client.publish("q1", b"a")
            broker.refused.clear()
            await client.publish("q1", b"b")

    asyncio.run(main())
    assert broker.posted == [(URI, b"b")]


def test_who_gives_up_while_the_queue_is_opened_has_posted_nothing() -> None:
    broker = Broker()
    broker.hold.clear()

    async def main() -> None:
        async with connected(broker) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.publish("q1", b"a"), 0.05)
            broker.hold.set()
            await client.publish("q1", b"b")

    asyncio.run(main())
    assert broker.posted == [(URI, b"b")]


def test_nothing_that_blocks_runs_on_the_loop() -> None:
    broker = Broker()

    async def main() -> None:
        async with connected(broker) as client:
            await client.publish("q1", b"a")

    asyncio.run(main())
    assert len(broker.threads) == 3, "made, opened, stopped"
    assert all(name.startswith("blazingmq") for name in broker.threads)


@pytest.mark.parametrize("how", ["the SDK says so", "the node hangs up"])
def test_a_lost_connection_leaves_all_in_flight_unknown_and_is_told_once(how: str) -> None:
    broker = Broker()
    told: list[str] = []
    broker.acks = [None] * 9

    async def main() -> None:
        async with connected(broker) as client:
            client.on_lost = told.append
            posts = [client.publish("q1", b"a"), client.publish("q1", b"b")]
            await until(lambda: len(broker.posted) == 2)
            if how == "the SDK says so":
                broker.call(broker.sessions[0].on_event, StateRestored())
                assert not posts[0].done()  # type: ignore[attr-defined]
                broker.call(broker.sessions[0].on_event, ConnectionLost())
                broker.call(broker.sessions[0].on_event, ConnectionLost())
            else:
                broker.sessions[0].socket.close()
            for post in posts:
                with pytest.raises(Unknown, match=r"lost|closed"):
                    await post
            with pytest.raises(Unknown):
                await client.publish("q1", b"c")
            await until(lambda: broker.sessions[0].stopped)

    asyncio.run(main())
    assert len(told) == 1
    assert [body for _, body in broker.posted] == [b"a", b"b"]


def test_a_post_begun_just_before_the_connection_was_lost_is_unknown_too() -> None:
    broker = Broker()

    async def main() -> None:
        async with connected(broker) as client:
            post = client.publish("q1", b"a")
            client._lost("gone")
            with pytest.raises(Unknown, match="gone"):
                await post

    asyncio.run(main())
    assert broker.posted == []


def test_a_session_dials_once_and_never_again() -> None:
    async def main() -> list[str]:
        lost: list[str] = []
        server = await asyncio.start_server(lambda reader, writer: writer.write(b"hello"), "127.0.0.1", 0)
        tunnel = await Tunnel.open("127.0.0.1", server.sockets[0].getsockname()[1], lost.append)
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        assert await reader.readexactly(5) == b"hello"
        with contextlib.suppress(ConnectionError):  # refused, or taken and closed, as the kernel has it
            second, _ = await asyncio.open_connection("127.0.0.1", tunnel.port)
            assert await second.read(1) == b""
        writer.close()
        await until(lambda: lost)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", tunnel.port)
        tunnel.close()
        server.close()
        return lost

    assert asyncio.run(main()) == ["closed by the client library"]


def test_a_node_that_is_not_there() -> None:
    broker = Broker()

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        client = BlazingmqClient(broker.library, "127.0.0.1", port, "n1", "splitbrain", Apps(()))
        with pytest.raises(Unknown, match="connect: "):
            await client.open()
        await client.close()

    asyncio.run(main())
    assert broker.sessions == []


def test_deliveries_come_on_the_loop_say_nothing_of_repeats_and_are_confirmed() -> None:
    broker, got, threads = Broker(), [], []

    async def main() -> None:
        def deliver(delivery: Delivery) -> None:
            threads.append(threading.current_thread())
            got.append(delivery)

        async with connected(broker) as client:
            await client.subscribe("q1", 7, deliver)
            consuming = broker.sessions[1]
            assert consuming.opened == {URI: {"read": True, "options": {"max_unconfirmed_messages": 7}}}
            consuming.deliver(URI, b"a")
            consuming.deliver("bmq://splitbrain/other", b"of nobody")
            await until(lambda: got)
            assert await client.ack(got[0]) is False, "nobody says that a confirm has taken effect"
            consuming.stopped = 1
            with pytest.raises(Unknown, match="confirm: stopped"):
                await client.ack(got[0])

    asyncio.run(main())
    assert [(one.queue, one.body, one.redelivered) for one in got] == [("q1", b"a", None)]
    assert threads == [threading.main_thread()]
    assert broker.confirmed == [b"a"]


def test_a_poll_takes_one_message_and_never_says_that_a_queue_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    monkeypatch.setattr(blazingmq_client, "POLL", 0.05)

    async def main() -> None:
        async with connected(broker) as client:
            with pytest.raises(Failed, match="no message came"):
                await client.get("q1")
            consuming = broker.sessions[1]
            assert consuming.opened[URI]["options"] == {"max_unconfirmed_messages": 1}
            consuming.deliver(URI, b"a")
            one = await client.get("q1")
            assert one is not None
            assert one.body == b"a"
            client._lost("gone")
            with pytest.raises(Unknown, match="gone"):
                await client.get("q1")

    asyncio.run(main())


def test_a_fan_out_message_is_delivered_when_every_application_has_it() -> None:
    broker, other, apps = Broker(), Broker(), Apps(("app1", "app2"))
    got: list[Delivery] = []

    async def main() -> None:
        async with connected(broker, apps) as one, connected(other, apps) as two:
            await one.subscribe("q1", 3, got.append)
            await two.subscribe("q1", 3, got.append)
            first, second = broker.sessions[1], other.sessions[1]
            assert list(first.opened) == [f"{URI}?id=app1", f"{URI}?id=app2"]
            first.deliver(f"{URI}?id=app1", b"a", b"a")
            first.deliver(f"{URI}?id=app1", b"b", b"b")
            first.deliver(f"{URI}?id=app1", b"a", b"a")  # again, to the same application
            await until(lambda: broker.confirmed == [b"a", b"b", b"a"])
            assert got == []
            second.deliver(f"{URI}?id=app2", b"a", b"a")
            await until(lambda: got)
            assert other.confirmed == [], "the last copy is confirmed by whoever consumes"

    asyncio.run(main())
    assert [one.body for one in got] == [b"a"], "b never came to app2"


@pytest.mark.parametrize("when", list(itertools.product([True, False], repeat=2)))
def test_closing_is_quiet_whatever_is_open(when: tuple[bool, bool]) -> None:
    broker = Broker()
    told: list[str] = []

    async def main() -> None:
        async with connected(broker) as client:
            client.on_lost = told.append
            if when[0]:
                await client.publish("q1", b"a")
            if when[1]:
                await client.subscribe("q1", 1, lambda delivery: None)
            await client.close()
            with pytest.raises(Unknown, match="the client was closed"):
                await client.publish("q1", b"b")

    asyncio.run(main())
    assert told == []
    assert all(session.stopped == 1 for session in broker.sessions)


def test_without_the_sdk_one_is_told_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "blazingmq", None)
    with pytest.raises(SplitbrainError, match=r"pip install 'splitbrain\[blazingmq\]'"):
        sdk()
