"""A network that notes every message in a recording, and is otherwise the very same: it draws no random number more.

Messages of one direction of a connection arrive in the order in which they were sent, so the next that arrives is the
oldest that has not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop
from chaos.model import trace
from chaos.model.trace import Recording
from clusters.simulated.channel import ACK, CLOSE, DELIVERED, DONE, GET, OPEN, PUBLISH, REQUEUE, SUBSCRIBE
from clusters.simulated.network import CLIENTS, FIN, Connection, Link, Message, Network, Stream
from clusters.simulated.node import REQUEST, TO_CHANNEL, TO_REPLICA

Tell = Callable[[str, Message], tuple[str, int | None]]  # of a service and a message: what it is, and its term
About = tuple[str, tuple[int, ...]]  # what it is, and the ids that it is about

_ASKED = {
    PUBLISH: "publish",
    ACK: "ack",
    GET: "get",
    SUBSCRIBE: "subscribe",
    CLOSE: "close",
    OPEN: "open",
    REQUEUE: "requeue",
}
_ANSWERED = {
    "publish": "confirm",
    "ack": "acked",
    "get": "empty",
    "subscribe": "subscribed",
    "open": "opened",
    "requeue": "requeued",
}


class TracedLink(Link):
    """`recording` is set after it is made."""

    __slots__ = ("loop", "recording")

    loop: VirtualLoop
    recording: Recording

    def cut(self, now: int) -> None:
        super().cut(now)
        self.recording.cut(*self.name[:2], now)

    def mend(self) -> None:
        super().mend()
        self.recording.mended(*self.name[:2], self.loop.now())


class TracedStream(Stream):
    """One direction. What is sent is told to the connection."""

    __slots__ = ("sent",)

    def __init__(self, connection: Connection, end: int, link: Link, loop: VirtualLoop) -> None:
        super().__init__(connection, end, link, loop)
        self.sent: deque[int | None] = deque()  # numbers in the recording, of those that did not arrive yet

    def send(self, message: Message) -> None:
        assert isinstance(self.connection, TracedConnection)
        super().send(message)
        self.sent.append(None if message is FIN else self.connection.note(1 - self.end, message))


class TracedConnection(Connection):
    """`lines`: what its ends are called."""

    __slots__ = ("_asked", "_held", "_lines", "_recording", "_service", "_tell")

    stream = TracedStream

    def __init__(
        self,
        network: TracedNetwork,
        endpoints: tuple[str, str],
        service: str,
        patience: int,
        beat: int,
        lines: tuple[str, str],
    ) -> None:
        self._recording = network.recorder
        self._tell = network.tell
        self._lines = lines
        self._service = service
        self._asked: dict[int, About] = {}  # what a client's operation is, by its number
        self._held: dict[tuple[int, int], tuple[int, ...]] = {}  # ids, by consumer and number of the delivery
        super().__init__(network, endpoints, service, patience, beat)

    def note(self, end: int, message: Message) -> int:
        """A message is sent from an end; its number in the recording."""
        term, carries = None, self._recording.ids(message)
        if self._service != CLIENTS:
            label, term = self._between(message, carries)
        elif isinstance(message[0], str):  # between a node and a client that is no queue's: in words
            label = message[0]
        elif end == 0:
            label, carries = self._question(message, carries)
        else:
            label, carries = self._answer(message, carries)
        source, target = self._lines[end], self._lines[1 - end]
        now = self.streams[end].loop.now()
        return self._recording.sent(trace.Message(now, source, target, None, label, carries, term))

    def arrive(self, end: int, batch: list[Message]) -> None:
        stream = self.streams[1 - end]
        assert isinstance(stream, TracedStream)
        for _ in batch:
            number = stream.sent.popleft()
            if number is not None and not self.closed[end]:
                self._recording.arrived(number, stream.loop.now())
        super().arrive(end, batch)

    def _question(self, message: Message, carries: tuple[int, ...]) -> About:
        """What a client asks the broker."""
        if message[0] in (ACK, REQUEUE):
            carries = self._held.get(message[3:5], ())
        about = _ASKED.get(message[0], ""), carries
        if len(message) > 1:
            self._asked[message[1]] = about
        return about

    def _answer(self, message: Message, carries: tuple[int, ...]) -> About:
        """What the broker says to a client: an answer is about what the question was about."""
        if message[0] == DELIVERED:
            self._held.update({(message[2], number): self._recording.ids(stored) for number, stored in message[3]})
            return "deliver", carries
        if carries:  # the answer to a poll
            consumer, number, _ = message[2]
            self._held[consumer, number] = carries
            return "deliver", carries
        what, about = self._asked.get(message[1], ("", ()))
        return (_ANSWERED.get(what, "answer") if message[0] == DONE else "refused"), about

    def _between(self, message: Message, carries: tuple[int, ...]) -> tuple[str, int | None]:
        """What one broker says to another."""
        if message[0] == TO_REPLICA:
            return self._tell(self._service, message[2])
        if message[0] == REQUEST:
            return ("publish" if carries else "request"), None
        if message[0] == TO_CHANNEL:
            return ("deliver" if carries else "answer"), None
        return "monitor", None


class TracedNetwork(Network):
    """A network whose links, connections and nodes tell a recording. `tell`: the protocol's (`Protocol.tell`)."""

    def __init__(
        self, loop: VirtualLoop, streams: Streams, base: int, spread: int, recording: Recording, tell: Tell
    ) -> None:
        super().__init__(loop, streams, base, spread)
        self.recording = self.recorder = recording
        self.tell = tell

    def make_link(self, name: tuple[str, str, str], random: Random) -> Link:
        link = TracedLink(name, random, self._base, self._spread)
        link.loop, link.recording = self.loop, self.recorder
        return link

    def make_connection(self, ends: tuple[str, str], service: str, patience: int, beat: int, caller: str) -> Connection:
        return TracedConnection(self, ends, service, patience, beat, (caller, ends[1]))
