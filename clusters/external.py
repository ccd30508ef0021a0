"""A user's own broker: it is driven and checked where it is, and nothing of it is started, stopped or hurt; unless its
hosts are named too (`clusters.guest`).

Reached by AMQP 0-9-1 at one address a node. Who we are there comes from the environment, so that it is in no file and
no history. Queues of a run bear its id in their names, and are deleted in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import ChannelClosed

from chaos.kernel.clock import SECOND
from chaos.model.errors import SplitbrainError
from chaos.model.schedule import ABILITIES, Action
from clusters.base import (
    PLAIN,
    QUEUE,
    Cluster,
    Counts,
    Delivery,
    Failed,
    Held,
    Injected,
    QueueOptions,
    Setup,
    Undone,
    Unknown,
)
from clusters.brokers.amqp import AmqpClient, Login, close_connection, connect_as, doubtful, ready_client

EXTERNAL = "external"
USER, PASSWORD, CA_FILE = "SPLITBRAIN_USER", "SPLITBRAIN_PASSWORD", "SPLITBRAIN_CA_FILE"
PORTS = {"amqp": 5672, "amqps": 5671}
PROBE = "serving"
UNTOUCHED = (
    "the broker is your own, and nothing of it is touched but through its clients; name the hosts that it is on too, "
    "over SSH, to have it hurt from there"
)
_ANSWER = 5  # seconds that a publish may take while serving

Arguments = Callable[[int, QueueOptions], Mapping[str, Any]]  # for so many nodes: what a queue is declared with


def address(text: object) -> str:
    """Setting type: an address such as "amqps://mq1.example.com:5671/vhost"."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not an address such as amqp://HOST:PORT/VHOST")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is not an address: {error}") from None
    if parts.scheme not in PORTS or not parts.hostname or port == 0:
        raise ValueError(f"{text!r} is not an address such as amqp://HOST:PORT/VHOST, or amqps:// for TLS")
    if parts.username or parts.password:
        raise ValueError(f"take the login out of the address, where others read it: set {USER} and {PASSWORD}")
    if parts.query or parts.fragment:
        raise ValueError(f"{text!r}: nothing may follow the virtual host")
    return text


def login(where: str, environment: Mapping[str, str]) -> Login:
    """Where an address leads and as whom. Raises SplitbrainError for certificates that cannot be read."""
    parts = urlsplit(where)
    tls = None
    if parts.scheme == "amqps":
        authorities = environment.get(CA_FILE)
        try:
            tls = ssl.create_default_context(cafile=authorities)
        except (OSError, ssl.SSLError) as error:
            raise SplitbrainError(f"{CA_FILE}={authorities}: no certificates can be read from it ({error})") from None
    return Login(
        str(parts.hostname),
        parts.port or PORTS[parts.scheme],
        unquote(parts.path.removeprefix("/")) or "/",
        environment.get(USER, "guest"),
        environment.get(PASSWORD, "guest"),
        tls,
    )


def clean(run: str, addresses: Sequence[str], queues: Sequence[str]) -> list[str]:
    """Delete the queues of a run that was killed; says which. Raises SplitbrainError when nobody can be asked."""
    names = [_name(run, queue) for queue in dict.fromkeys((PROBE, *queues))]
    try:
        return [f"queue {name}" for name in asyncio.run(_delete(login(addresses[0], os.environ), names))]
    except Unknown as error:
        raise SplitbrainError(f"{addresses[0]}: what the run made cannot be removed: {error}") from None


def _name(run: str, queue: str) -> str:
    """What a queue of a run is called on a broker that others use too."""
    return f"splitbrain.{run}.{queue}"


async def _delete(where: Login, names: Sequence[str]) -> list[str]:
    """Delete queues; which of them were there. Raises Unknown."""
    connection = await connect_as(where, "splitbrain clean")
    found = []
    try:
        for name in names:
            with doubtful(f"delete {name}"):
                channel = await connection.channel()
                try:
                    await channel.declare_queue(name, passive=True, timeout=_ANSWER)
                except ChannelClosed:
                    continue  # there is none of that name
                await channel.queue_delete(name, timeout=_ANSWER)
                found.append(name)
    finally:
        await close_connection(connection)
    return found


def _named(node: str, where: Login) -> str:
    return f"{node} ({where.host}:{where.port}{'' if where.tls is None else ', TLS'})"


class ExternalCluster:
    """Implements `clusters.base.Cluster`. `addresses`: of n1, n2, ... `product`: what the broker calls itself.
    `beneath`: the hosts that it is on, by which it can be hurt; None: it cannot."""

    services: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    serves: tuple[str, ...] = (QUEUE,)

    def __init__(
        self,
        setup: Setup,
        addresses: Sequence[str],
        product: str,
        arguments: Arguments,
        beneath: Cluster | None = None,
    ) -> None:
        self.nodes = tuple(f"n{number}" for number in range(1, len(addresses) + 1))
        self._setup, self._product, self._arguments = setup, product, arguments
        logins = (login(where, os.environ) for where in addresses)
        self._logins = dict(zip(self.nodes, logins, strict=True))
        self._heartbeat = max(1, round(setup.settings.get("heartbeat", 10 * SECOND) / SECOND))
        self._beneath = beneath
        if beneath is not None:
            self.services, self.processes = beneath.services, beneath.processes
        self._versions: dict[str, str] = {}
        self._queues: list[str] = []
        self._lost: int | None = None  # when a client last lost its connection

    def abilities(self) -> Mapping[str, str | None]:
        if self._beneath is not None:
            return self._beneath.abilities()
        return dict.fromkeys(ABILITIES, UNTOUCHED)

    async def up(self, report: Callable[[str], None]) -> None:
        try:
            if self._beneath is not None:
                await self._beneath.up(report)
            for node, where in self._logins.items():
                connection = await self._reach(node)
                transport = connection.transport
                server = transport.connection.server_properties if transport else {}
                await close_connection(connection)
                product, version = str(server.get("product", "?")), str(server.get("version", "?"))
                if product != self._product:
                    raise SplitbrainError(f"{_named(node, where)}: a {product} answers, not a {self._product}")
                self._versions[f"broker on {node}"] = f"{product} {version}"
            self._versions["broker"] = " and ".join(dict.fromkeys(self._versions.values()))
            await self.declare(PROBE)
            if wrong := {node: why for node, why in (await self.serving()).items() if why is not None}:
                raise SplitbrainError("; ".join(f"{node} does not serve: {why}" for node, why in wrong.items()))
        except BaseException:
            await self.down()
            raise
        report(f"{self._versions['broker']} serves at {len(self.nodes)} addresses")

    async def down(self) -> None:
        try:
            if self._beneath is not None:
                await self._beneath.down()
        finally:
            await self._delete_queues()

    async def _delete_queues(self) -> None:
        queues, self._queues = self._queues, []
        if queues and not self._setup.keep:
            with contextlib.suppress(Unknown):  # whoever cannot be reached any more keeps queues until they expire
                await _delete(self._logins[self.nodes[0]], [self._name(queue) for queue in queues])

    def versions(self) -> Mapping[str, str]:
        return dict(self._versions)

    async def declare(self, queue: str, options: QueueOptions = PLAIN) -> None:
        if options.dead_letters is not None:
            options = replace(options, dead_letters=self._name(options.dead_letters))
        first = len(self._queues) % len(self.nodes)
        connection = await self._reach(self.nodes[first])
        try:
            with doubtful(f"declare {self._name(queue)}"):
                channel = await connection.channel()
                arguments = {**self._arguments(len(self.nodes), options), "x-expires": 86_400_000}  # if all else fails
                await channel.declare_queue(self._name(queue), durable=True, arguments=arguments, timeout=30)
        except Unknown as error:
            raise SplitbrainError(str(error)) from None
        finally:
            await close_connection(connection)
        self._queues.append(queue)

    async def connect(self, node: str, name: str) -> ExternalClient:
        connection = await connect_as(self._logins[node], name, heartbeat=self._heartbeat)
        return ExternalClient(await ready_client(connection, node), self._name, self._was_lost)

    def newest(self) -> str | None:
        return None

    async def serving(self) -> Mapping[str, str | None]:
        answers = await asyncio.gather(*(self._serves_now(node) for node in self.nodes))
        return dict(zip(self.nodes, answers, strict=True))

    async def counts(self, queue: str) -> Counts:
        """As AMQP tells it: ready messages, and how many consumers. What a dead connection holds is told to nobody, so
        there is no answer until the broker must have noticed that it is dead."""
        quiet = 3 * self._heartbeat * SECOND
        if self._lost is not None and self._setup.clock.now() < self._lost + quiet:
            raise Unknown(f"{queue}: a connection was lost, and may hold messages for the broker yet")
        connection = await connect_as(self._logins[self.nodes[0]], "splitbrain counts", heartbeat=self._heartbeat)
        try:
            with doubtful(f"ask {queue}"):
                channel = await connection.channel()
                answer = (await channel.declare_queue(self._name(queue), passive=True, timeout=10)).declaration_result
        finally:
            await close_connection(connection)
        if answer.consumer_count:
            raise Unknown(f"{queue}: {answer.consumer_count} consumers are there yet")
        return Counts(answer.message_count or 0, 0, len(self.nodes), len(self.nodes))

    def leader(self, scope: str | None = None) -> str | None:
        return None

    def held(self) -> Sequence[Held]:
        return ()

    async def inject(self, fault: str, action: Action) -> Injected:
        if self._beneath is None:
            raise SplitbrainError(f"{action.verb} cannot be done here: {UNTOUCHED}")
        return await self._beneath.inject(fault, action)

    async def undo(self, fault: str) -> Undone:
        return Undone({}, None) if self._beneath is None else await self._beneath.undo(fault)

    async def collect(self, directory: Path) -> Sequence[tuple[str, str]]:
        return ()

    def _name(self, queue: str) -> str:
        return _name(self._setup.run, queue)

    def _was_lost(self) -> None:
        self._lost = self._setup.clock.now()

    async def _reach(self, node: str) -> AbstractConnection:
        """A connection. Raises SplitbrainError saying who does not answer, and what may be done."""
        where = self._logins[node]
        try:
            return await connect_as(where, "splitbrain", heartbeat=self._heartbeat)
        except Unknown as error:
            hint = ""
            if "ACCESS_REFUSED" in str(error) or "AuthenticationError" in str(error) or "ProbableAuth" in str(error):
                hint = f"; the login is {where.user}'s: set {USER} and {PASSWORD}"
            elif "CERTIFICATE" in str(error).upper():
                hint = f"; name your authority's certificates by {CA_FILE}"
            raise SplitbrainError(f"{_named(node, where)} cannot be used: {error}{hint}") from None

    async def _serves_now(self, node: str) -> str | None:
        try:
            client = await self.connect(node, "splitbrain serving")
        except Unknown as error:
            return str(error)
        try:
            await asyncio.wait_for(client.publish(PROBE, b"serving?"), _ANSWER)
        except (Unknown, Failed, TimeoutError) as error:
            return f"a publish was not confirmed: {error or f'no answer in {_ANSWER} s'}"
        finally:
            await client.close()
        return None


class ExternalClient:
    """An AMQP client that calls queues as the run does, whatever they are called there."""

    def __init__(self, client: AmqpClient, name: Callable[[str], str], lost: Callable[[], None]) -> None:
        self.node = client.node
        self.on_lost: Callable[[str], None] = lambda why: None
        self._client, self._name, self._noted = client, name, lost
        client.on_lost = self._lost

    def publish(self, queue: str, body: bytes) -> Awaitable[None]:
        return self._client.publish(self._name(queue), body)

    async def subscribe(
        self, queue: str, prefetch: int, deliver: Callable[[Delivery], None], acks: bool = True
    ) -> None:
        def delivered(delivery: Delivery) -> None:
            deliver(replace(delivery, queue=queue))

        await self._client.subscribe(self._name(queue), prefetch, delivered, acks)

    async def get(self, queue: str, acks: bool = True) -> Delivery | None:
        delivery = await self._client.get(self._name(queue), acks)
        return None if delivery is None else replace(delivery, queue=queue)

    def ack(self, delivery: Delivery) -> Awaitable[bool]:
        return self._client.ack(delivery)

    async def close(self) -> None:
        await self._client.close()

    def _lost(self, why: str) -> None:
        self._noted()
        self.on_lost(why)
