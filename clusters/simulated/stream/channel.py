"""The process on a node that serves one client connection, as it uses streams.

After `rabbit_stream_queue`: publishes are numbered, kept until they are confirmed, and sent again, in order, to another
writer once the coordinator tells of one. Readers read the log of the member on their own node; when the coordinator
tells that it was started anew, they go on with that one. Whoever the coordinator has forgotten, because it was out of
its reach for a while, is told of neither. In 3.10 a publisher looks the writer up in its node's table of queues, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chaos.kernel.clock import SECOND
from clusters.simulated.channel import CLOSE, DONE, FAILED, PUBLISH, Channel
from clusters.simulated.replica import Message
from clusters.simulated.stream import rules
from clusters.simulated.stream.replica import StreamReplica
from clusters.simulated.stream.rules import HANDED, MEMBER, READING, WRITER, WRITTEN

if TYPE_CHECKING:
    from clusters.simulated.node import Node

# What a client sends, beside what all clients do: (tag, its own number for the operation, queue, ...)
READ = 10  # start, credit; the number names the reading
GRANT = 11  # reading, credit
CANCEL = 12  # reading

# What it is sent
ENTRIES = 10  # reading, [(offset, body), ...]

LISTEN_AGAIN = SECOND


class Use:
    """One stream, as a channel uses it."""

    def __init__(self) -> None:
        self.writer: str | None = None
        self.epoch = 0
        self.published = 0
        self.pending: dict[int, tuple[int, Any]] = {}  # our number -> the client's, and the body
        self.readings: dict[int, None] = {}


class StreamChannel(Channel):
    """One client's connection, as its node serves it. `looks_up`: whether a publisher also goes by the table of queues,
    which every node has."""

    def __init__(self, node: Node, number: int, looks_up: bool) -> None:
        super().__init__(node, number)
        self._looks_up = looks_up
        self._uses: dict[str, Use] = {}

    def from_queue(self, queue: str, source: str, message: Message) -> None:
        use = self._uses[queue]
        tag = message[0]
        if tag == WRITTEN:
            for number in message[1]:
                awaited = use.pending.pop(number, None)
                if awaited is not None:
                    self.to_client((DONE, awaited[0], None))
        elif tag == HANDED:
            if message[1] in use.readings:
                self.to_client((ENTRIES, message[1], message[2]))
        elif tag == READING:
            if message[2]:
                self.to_client((DONE, message[1], None))
            else:
                use.readings.pop(message[1], None)
                self.to_client((FAILED, message[1], "no replica of the stream runs on this node"))
        elif tag == WRITER:
            self._told(queue, use, message[1], message[2])
        elif tag == MEMBER:
            for reading in use.readings:
                self._here(queue, rules.REREAD, reading)

    def timer(self, queue: str) -> None:
        """Until the coordinator has told who writes."""
        if self._uses[queue].writer is None:
            self._listen(queue)

    def connected(self, node: str) -> None:
        """Nothing is sent again: what was lost on the way is not missed by anybody."""

    def _use(self, queue: str) -> Use | None:
        if self.node.members(queue) is None:
            return None
        use = self._uses[queue] = Use()
        self._listen(queue)
        return use

    def _listen(self, queue: str) -> None:
        self._here(queue, rules.LISTEN)
        self.node.set_timer((self.number, queue), LISTEN_AGAIN)

    def _receive(self, batch: list[Message]) -> None:
        for message in batch:
            tag = message[0]
            if tag == CLOSE:
                self.node.end_channel(self.number)
                return
            operation, queue = message[1], message[2]
            use = self._uses.get(queue) or self._use(queue)
            if use is None:
                self.to_client((FAILED, operation, f"no stream {queue!r}"))
            elif tag == PUBLISH:
                if self._looks_up and (known := self._table(queue)) is not None:
                    self._told(queue, use, *known)
                use.published = number = use.published + 1
                use.pending[number] = (operation, message[3])
                if use.writer is not None:
                    self._write(queue, use, number, message[3])
            elif tag == READ:
                use.readings[operation] = None
                self._here(queue, rules.READ, operation, (message[3], message[4]))
            elif tag == GRANT:
                self._here(queue, rules.GRANT, message[3], message[4])
            elif tag == CANCEL:
                use.readings.pop(message[3], None)
                self._here(queue, rules.CANCEL, message[3])
                self.to_client((DONE, operation, None))
            else:
                self.to_client((FAILED, operation, "a stream knows no such operation"))

    def _told(self, queue: str, use: Use, epoch: int, writer: str) -> None:
        """Who writes: all that is not confirmed is sent again to another than before."""
        if epoch > use.epoch:
            use.writer, use.epoch = writer, epoch
            for number, (_, body) in use.pending.items():
                self._write(queue, use, number, body)

    def _table(self, queue: str) -> tuple[int, str] | None:
        """The writer as this node's table of queues has it, which the coordinator keeps."""
        there = self.node.replicas.get(queue)
        machine = there.machine if isinstance(there, StreamReplica) else None
        if machine is None or machine.electing or machine.writer not in machine.running:
            return None
        return machine.epoch, machine.writer

    def _write(self, queue: str, use: Use, number: int, body: Any) -> None:
        assert use.writer is not None
        self.node.request(use.writer, queue, (rules.WRITE, self.pid, 0, number, (use.epoch, body)))

    def _here(self, queue: str, kind: int, a: Any = None, b: Any = None) -> None:
        """Ask the member on this node."""
        self.node.request(self.node.name, queue, (kind, self.pid, 0, a, b))
