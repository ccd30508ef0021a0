"""The network of a simulated cluster: links with latency, loss and cuts, TCP connections and datagrams over them.

The model of TCP, as far as brokers can see it: messages of one direction arrive in order and once. A lost segment
arrives late, by the retransmission time-outs that it took (200 ms, doubled each time: Linux's TCP_RTO_MIN). A cut
stalls the direction; once mended, what waited arrives at the next retransmission that falls due, which may be seconds
later. An end that has heard nothing for its patience (a heartbeat of AMQP, a net tick of Erlang) drops the connection
and says so to the other end, if that can still be reached. Heartbeats themselves are not events: a direction is silent
while it is cut or while its source stands still, and those that a cut took are counted when it ends. What else a fault
may do to packets is in `shaping`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from random import Random
from typing import Any, ClassVar

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop
from chaos.model.trace import Recording
from clusters.simulated.shaping import Shape, Shaping

CLIENTS = "clients"
RTO_MIN = 200 * MILLISECOND
RTO_MAX = 120 * SECOND

Message = tuple[Any, ...]


def machine(endpoint: str) -> str:
    """Where an endpoint is: "n1" of "n1/etcd", which is a process beside the broker."""
    return endpoint.partition("/")[0]


class _Fin:
    """In a segment: the source has closed its end."""


FIN: Any = _Fin()


class Link:
    """One direction between two endpoints for one service: what passes, how long it takes, how much was dropped."""

    __slots__ = (
        "_streams",
        "base",
        "cut_at",
        "cuts",
        "dropped",
        "loss",
        "losses",
        "name",
        "random",
        "shaping",
        "spread",
    )

    def __init__(self, name: tuple[str, str, str], random: Random, base: int, spread: int) -> None:
        self.name = name
        self.random = random
        self.base = base
        self.spread = spread
        self.cuts = 0
        self.cut_at = 0
        self.losses: dict[str, float] = {}
        self.loss = 0.0
        self.dropped = 0
        self.shaping: Shaping | None = None  # where a fault shapes it
        self._streams: dict[Stream, None] = {}

    def latency(self) -> int:
        """Time for one message, ns: a fixed part, and an exponentially distributed one for queues on the way."""
        usual = self.base - int(self.spread * log(1.0 - self.random.random()))
        return usual if self.shaping is None else usual + self.shaping.late()

    def cut(self, now: int) -> None:
        """Nothing passes from now on, until as many `mend`s."""
        self.cuts += 1
        if self.cuts == 1:
            self.cut_at = now
            for stream in list(self._streams):
                stream.mute()

    def mend(self) -> None:
        self.cuts -= 1
        if self.cuts == 0:
            for stream in list(self._streams):
                stream.mended()

    def lossy(self, fault: str, probability: float | None) -> None:
        """A fault loses messages with a probability (None: no longer); several faults are independent."""
        if probability is None:
            self.losses.pop(fault, None)
        else:
            self.losses[fault] = probability
        kept = 1.0
        for lost in self.losses.values():
            kept *= 1.0 - lost
        self.loss = 1.0 - kept

    def shape(self, fault: str, shape: Shape | None) -> Shaping:
        """A fault shapes what passes (None: no longer)."""
        shaping = self.shaping or Shaping(self.random)
        shaping.change(fault, shape)
        self.shaping = None if shaping.over else shaping
        return shaping

    def add(self, stream: Stream) -> None:
        self._streams[stream] = None

    def remove(self, stream: Stream) -> None:
        self._streams.pop(stream, None)


class Stream:
    """One direction of a connection, in order. What is sent at the same instant travels as one segment."""

    __slots__ = (
        "at",
        "batch",
        "batch_time",
        "connection",
        "end",
        "last",
        "link",
        "loop",
        "muted",
        "mutes",
        "stalled",
        "stalled_at",
    )

    def __init__(self, connection: Connection, end: int, link: Link, loop: VirtualLoop) -> None:
        self.connection = connection
        self.end = end  # which end of the connection it arrives at
        self.link = link
        self.loop = loop
        self.at = loop.at
        self.last = 0
        self.batch: list[Message] = []
        self.batch_time = -1
        self.stalled: list[list[Message]] = []
        self.stalled_at = 0
        self.mutes = 0
        self.muted = 0
        link.add(self)
        if link.cuts:
            self.mute()

    def send(self, message: Message) -> None:
        now = self.loop.now()
        if now == self.batch_time:
            self.batch.append(message)
            return
        self.batch_time = now
        self.batch = batch = [message]
        shaping = self.link.shaping
        if shaping is not None and shaping.holds:
            shaping.queue(self, batch)
        else:
            self.transmit(batch)

    def transmit(self, batch: list[Message]) -> None:
        """A segment goes on its way now."""
        now, link = self.loop.now(), self.link
        if link.cuts or self.stalled:
            link.dropped += 1
            if not self.stalled:
                self.stalled_at = now
            self.stalled.append(batch)
            return
        arrival = now + link.latency()
        if link.shaping is not None and arrival - now > self.connection.patience:
            self.at(now + self.connection.patience, self.connection.drop, self.end, "silent for too long")
        if link.loss:
            arrival += self._retransmissions()
        if arrival < self.last:
            arrival = self.last
        self.last = arrival
        self.at(arrival, self.connection.arrive, self.end, batch)

    def mute(self) -> None:
        """The source is not heard any more: from now on patience runs out."""
        self.mutes += 1
        if self.mutes == 1:
            self.muted += 1
            patience = self.connection.patience
            self.at(
                self.loop.now() + int(patience * (1.0 + 0.25 * self.link.random.random())), self._impatient, self.muted
            )

    def unmute(self) -> None:
        self.mutes -= 1

    def mended(self) -> None:
        """The link passes again: what waited goes out when the next retransmission falls due."""
        if not self.connection.closed[1 - self.end]:
            self.count_heartbeats()
        if not self.stalled:
            self.unmute()
            return
        due, wait, now = self.stalled_at, RTO_MIN, self.loop.now()
        while due < now:
            due += wait
            wait = min(2 * wait, RTO_MAX)
        self.at(due, self._retransmit)

    def count_heartbeats(self) -> None:
        """The cut, or the source, has come to its end: what a source that did not stand still has sent in vain."""
        if self.mutes == 1:
            self.link.dropped += (self.loop.now() - self.link.cut_at) // self.connection.beat

    def _retransmit(self) -> None:
        if self.link.cuts:
            self.unmute()  # the cut that came meanwhile has muted it once more
            return
        self.unmute()
        batches, self.stalled = self.stalled, []
        arrival = max(self.loop.now() + self.link.latency(), self.last)
        self.last = arrival
        for batch in batches:
            self.at(arrival, self.connection.arrive, self.end, batch)

    def _retransmissions(self) -> int:
        link, delay, wait = self.link, 0, RTO_MIN
        while link.random.random() < link.loss and delay < RTO_MAX:
            link.dropped += 1
            delay += wait
            wait = min(2 * wait, RTO_MAX)
        if delay > self.connection.patience:
            self.at(self.loop.now() + self.connection.patience, self.connection.drop, self.end, "silent for too long")
        return delay

    def _impatient(self, muted: int) -> None:
        if self.mutes and muted == self.muted:
            self.connection.drop(self.end, "silent for too long")


Receive = Callable[[list[Message]], None]
Lost = Callable[[str], None]


class Connection:
    """A TCP connection between two endpoints; ends are numbered 0 (who connected) and 1.

    `patience`: silence after which an end gives it up; `beat`: pause between heartbeats (ns).
    `receive[end]` gets whole segments, `lost[end]` the reason when that end learns that the connection is gone. An end
    that closed by itself is told nothing.
    """

    __slots__ = ("_network", "beat", "closed", "endpoints", "lost", "patience", "receive", "streams", "vanished")

    stream: ClassVar[type[Stream]] = Stream

    def __init__(self, network: Network, endpoints: tuple[str, str], service: str, patience: int, beat: int) -> None:
        self._network = network
        self.endpoints = endpoints
        self.patience = patience
        self.beat = beat
        self.closed = [False, False]
        self.vanished = [False, False]
        self.receive: list[Receive] = [_nobody, _nobody]
        self.lost: list[Lost] = [_nobody, _nobody]
        there = network.link(endpoints[0], endpoints[1], service)
        back = network.link(endpoints[1], endpoints[0], service)
        self.streams = (self.stream(self, 1, there, network.loop), self.stream(self, 0, back, network.loop))

    def send(self, end: int, message: Message) -> None:
        """Send from an end. Nothing happens once that end is closed."""
        if not self.closed[end]:
            self.streams[end].send(message)

    def arrive(self, end: int, batch: list[Message]) -> None:
        if self.closed[end]:
            if not self.vanished[end]:
                self._reset(end)
            return
        if batch[-1] is FIN:
            if len(batch) > 1:
                self.receive[end](batch[:-1])
            self._gone(end, "closed by the other side")
        else:
            self.receive[end](batch)

    def close(self, end: int) -> None:
        """Close an end in order, as a process or the kernel of a killed one does: what was sent still arrives."""
        if not self.closed[end]:
            self.streams[end].send(FIN)
            self._close(end)

    def drop(self, end: int, reason: str) -> None:
        """An end gives the connection up, and says so to the other."""
        if not self.closed[end]:
            self.streams[end].send(FIN)
            self._gone(end, reason)

    def vanish(self, end: int) -> None:
        """The machine of an end is gone: nothing is said to the other end, nor answered."""
        if not self.closed[end]:
            self.vanished[end] = True
            self._close(end)
            self.streams[end].stalled.clear()  # what a cut held back is in no memory any more
            if (shaping := self.streams[end].link.shaping) is not None:
                shaping.forget(self.streams[end])
            self.streams[end].mute()

    def reappear(self, end: int) -> None:
        """The machine is back, and knows nothing of this connection: the other end's segments are answered with RST."""
        if self.vanished[end]:
            self.vanished[end] = False
            self._reset(end)

    def _reset(self, end: int) -> None:
        other = 1 - end
        stream = self.streams[end]
        if not self.closed[other] and not stream.link.cuts:
            stream.at(stream.loop.now() + stream.link.latency(), self._gone, other, "connection reset")

    def _gone(self, end: int, reason: str) -> None:
        if not self.closed[end]:
            self._close(end)
            self.lost[end](reason)

    def _close(self, end: int) -> None:
        if self.streams[end].link.cuts:
            self.streams[end].count_heartbeats()
        self.closed[end] = True
        if self.closed[0] and self.closed[1]:
            self._network.forget(self)


def _nobody(_: object) -> None:
    pass


class Datagrams:
    """One direction of a datagram transport: each message may be lost, arrive twice, or overtake another."""

    def __init__(
        self, loop: VirtualLoop, link: Link, receive: Callable[[Message], None], duplicates: float = 0.0
    ) -> None:
        self._loop = loop
        self._link = link
        self._receive = receive
        self._duplicates = duplicates

    def send(self, message: Message) -> None:
        link = self._link
        if link.cuts or (link.loss and link.random.random() < link.loss):
            link.dropped += 1
            return
        self._loop.at(self._loop.now() + link.latency(), self._receive, message)
        if self._duplicates and link.random.random() < self._duplicates:
            self._loop.at(self._loop.now() + link.latency(), self._receive, message)


class Network:
    """All links and connections. Randomness is a stream per link: a fault on one does not reshuffle another.

    `recording`: where what happens is noted, by `clusters.simulated.tracing`; None where nobody looks.
    """

    recording: Recording | None = None

    def __init__(self, loop: VirtualLoop, streams: Streams, base: int, spread: int) -> None:
        self.loop = loop
        self._streams = streams
        self._base = base
        self._spread = spread
        self._links: dict[tuple[str, str, str], Link] = {}
        self._connections: dict[Connection, None] = {}
        self._standing: dict[str, None] = {}

    def link(self, source: str, target: str, service: str) -> Link:
        name = (machine(source), machine(target), service)
        link = self._links.get(name)
        if link is None:
            link = self._links[name] = self.make_link(name, self._streams.stream("network", *name))
        return link

    def make_link(self, name: tuple[str, str, str], random: Random) -> Link:
        return Link(name, random, self._base, self._spread)

    def make_connection(self, ends: tuple[str, str], service: str, patience: int, beat: int, caller: str) -> Connection:
        return Connection(self, ends, service, patience, beat)

    def passable(self, one: str, other: str, service: str) -> bool:
        """Whether a handshake gets through, both ways. An attempt that does not is a drop on the cut link."""
        passes = True
        for link in (self.link(one, other, service), self.link(other, one, service)):
            if link.cuts or link.loss >= 1.0:
                link.dropped += 1
                passes = False
                break
        return passes

    def connect(
        self, source: str, target: str, service: str, patience: int, beat: int, caller: str | None = None
    ) -> Connection:
        """A connection that stands at once: whoever asks has seen that it is `passable`, and has waited for it.

        `caller`: which of the clients it is, where the source is CLIENTS.
        """
        connection = self.make_connection((source, target), service, patience, beat, caller or source)
        self._connections[connection] = None
        for end, endpoint in enumerate(connection.endpoints):
            if endpoint in self._standing:
                connection.streams[end].mute()
        return connection

    def forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        for stream in connection.streams:
            stream.link.remove(stream)

    def stand_still(self, endpoint: str) -> None:
        """An endpoint's processes are paused: it sends no heartbeats."""
        self._standing[endpoint] = None
        for connection, end in self._of(endpoint):
            connection.streams[end].mute()

    def move_on(self, endpoint: str) -> None:
        del self._standing[endpoint]
        for connection, end in self._of(endpoint):
            connection.streams[end].unmute()

    def close(self, endpoint: str) -> None:
        """The endpoint's process has died, its machine has not: every connection is closed by the kernel."""
        for connection, end in self._of(endpoint):
            connection.close(end)

    def vanish(self, endpoint: str) -> None:
        """The endpoint's machine has lost its power."""
        for connection, end in self._of(endpoint):
            connection.vanish(end)

    def reappear(self, endpoint: str) -> None:
        for connection, end in self._of(endpoint):
            connection.reappear(end)

    def _of(self, endpoint: str) -> list[tuple[Connection, int]]:
        return [
            (connection, end)
            for connection in self._connections
            for end in (0, 1)
            if connection.endpoints[end] == endpoint
        ]
