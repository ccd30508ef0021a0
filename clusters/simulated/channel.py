"""The process on a node that serves one client connection, and a session in it for each queue it uses.

After rabbit_fifo_client: commands are numbered, kept until their answer comes, and sent again to a new leader, in
order; enqueues carry a sequence of their own, so that the queue takes each once. Deliveries of a consumer are numbered
too: one that was seen already is dropped, and after a gap the leader is asked to resume.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from chaos.kernel.clock import MILLISECOND, SECOND
from clusters.simulated.fifo import APPLIED, CHECKOUT, DELIVER, DEQUEUE, ENQUEUE, OK, RESUMED, RETURN, SETTLE, Stored
from clusters.simulated.network import Connection
from clusters.simulated.replica import Message

if TYPE_CHECKING:
    from clusters.simulated.node import Node

# What a client sends: (tag, its own number for the operation, ...)
PUBLISH = 0  # queue, body
ACK = 1  # queue, consumer tag, delivery number
GET = 2  # queue, acks; the number is the consumer tag
SUBSCRIBE = 3  # queue, prefetch, acks; the number is the consumer tag
CLOSE = 4
OPEN = 5  # asks for no more than an answer (AMQP's connection.open)
REQUEUE = 6  # queue, consumer tag, delivery number

# What it is sent
DONE = 0  # number, result
FAILED = 1  # number, why: it certainly did not happen
DELIVERED = 2  # queue, consumer tag, [(delivery number, Stored), ...]

# What a session asks a replica that is no command of the queue: (kind, pid, 0, a, b)
RESUME = 100  # a = consumer tag, b = delivery number: send again what it holds from there on
WHO = 101  # who leads?

# What a replica answers, beside what `fifo` says
LEADS = 3  # (LEADS, leader or None, term): the answer to WHO, and to a command that another must be asked
CHANGED = 4  # (CHANGED, leader, term): a new leader is ready: send it what is pending, and resume

PROBE = 200 * MILLISECOND
STUCK = 5 * SECOND


class Session:
    """One queue, as a channel uses it."""

    __slots__ = (
        "channel",
        "consumers",
        "corr",
        "hinted",
        "leader",
        "members",
        "oldest",
        "pending",
        "probed",
        "queue",
        "sequence",
        "term",
        "timed",
    )

    def __init__(self, channel: Channel, queue: str, members: tuple[str, ...]) -> None:
        self.channel = channel
        self.queue = queue
        self.members = members
        self.leader: str | None = None
        self.term = 0
        self.pending: dict[int, tuple[Message, Any]] = {}  # corr -> the command, and what the client awaits
        self.consumers: dict[int, int] = {}  # tag -> the next delivery number
        self.corr = 0
        self.sequence = 0
        self.oldest = 0  # the oldest pending command when the timer was set
        self.probed = 0
        self.timed = False
        self.hinted = False

    def command(self, kind: int, a: Any, b: Any, awaited: Any) -> None:
        channel = self.channel
        self.corr = corr = self.corr + 1
        request = (kind, channel.pid, corr, a, b)
        self.pending[corr] = (request, awaited)
        if self.leader is not None:
            self.ask(self.leader, request)
        elif len(self.pending) == 1:
            self._probe()
        if not self.timed:
            self._set_timer(STUCK)

    def ask(self, node: str, request: Message) -> None:
        """Send something to the replica on a node."""
        self.channel.node.request(node, self.queue, request)

    def receive(self, source: str, message: Message) -> None:
        tag = message[0]
        if tag == APPLIED:
            for corr, answer in message[1]:
                self._applied(corr, answer)
        elif tag == DELIVER:
            self._deliver(message[1], message[2])
        elif tag == RESUMED:
            self._resumed(message[1], message[2], message[3])
        elif tag == CHANGED:
            if message[2] >= self.term:
                self.leader, self.term = source, message[2]
                self._send_pending()
                self._resume()
        elif tag == LEADS:
            self._told(source, message[1], message[2])

    def timer(self) -> None:
        self.timed = self.hinted = False
        if not self.pending:
            return
        oldest = next(iter(self.pending))
        if self.leader is None:
            self._probe()
        elif oldest == self.oldest:  # nothing was answered for a while: perhaps another leads by now
            self.leader = None
            self._probe()
        else:
            self._set_timer(STUCK)

    def connected(self, node: str) -> None:
        """The node's connection to another is there again: what was sent to it before may be lost."""
        if node == self.leader:
            self._send_pending()
            self._resume()

    def _set_timer(self, delay: int) -> None:
        self.timed = True
        self.oldest = next(iter(self.pending), 0)
        self.channel.node.set_timer((self.channel.number, self.queue), delay)

    def _probe(self) -> None:
        """Ask the next member who leads."""
        self.members = self.channel.node.members(self.queue) or self.members  # they may have changed
        member = self.members[self.probed % len(self.members)]
        self.probed += 1
        self.ask(member, (WHO, self.channel.pid, 0, None, None))
        self._set_timer(PROBE)

    def _told(self, source: str, leader: str | None, term: int) -> None:
        if leader == source:
            if term >= self.term and self.leader != source:
                self.leader, self.term = source, term
                self._send_pending()
                self._resume()
        elif self.leader == source or self.leader is None:
            if self.leader is not None:
                self.leader = None
                self._set_timer(PROBE)
            if leader in self.members and not self.hinted:  # two that point at each other are asked once a while only
                self.hinted = True
                self.probed = self.members.index(leader)
                self._probe()

    def _send_pending(self) -> None:
        if self.leader is not None:
            for command, _ in self.pending.values():
                self.ask(self.leader, command)

    def _resume(self) -> None:
        if self.leader is not None:
            for tag, next_ in self.consumers.items():
                self._ask_to_resume(tag, next_)

    def _ask_to_resume(self, tag: int, next_: int) -> None:
        if self.leader is not None:
            self.ask(self.leader, (RESUME, self.channel.pid, 0, tag, next_))

    def _applied(self, corr: int, answer: Any) -> None:
        entry = self.pending.get(corr)
        if entry is None:
            return
        (kind, _, _, tag, numbers), awaited = entry
        to_client = self.channel.to_client
        if kind == ENQUEUE:
            if answer is not OK:
                self._set_timer(PROBE)
                self.oldest = corr
                self.leader = None  # an earlier one was lost on the way: find the leader, and send all again
                return
            to_client((DONE, awaited, None))
        elif kind in (SETTLE, RETURN):
            missing = () if answer is OK else answer
            for number, operation in zip(numbers, awaited, strict=True):
                to_client((DONE, operation, number not in missing))
        elif kind == DEQUEUE:
            to_client((DONE, awaited, None if answer is None else (tag, *answer)))
        else:
            to_client((DONE, awaited, None))
        del self.pending[corr]

    def _deliver(self, tag: int, items: list[tuple[int, Stored]]) -> None:
        next_ = self.consumers.get(tag)
        if next_ is None:
            return
        if items[0][0] < next_:
            items = [item for item in items if item[0] >= next_]
            if not items:
                return
        if items[0][0] > next_:
            self._ask_to_resume(tag, next_)
            return
        self.consumers[tag] = items[-1][0] + 1
        self.channel.to_client((DELIVERED, self.queue, tag, items))

    def _resumed(self, tag: int, items: list[tuple[int, Stored]], next_: int) -> None:
        seen = self.consumers.get(tag)
        if seen is None or next_ <= seen:
            return
        self.consumers[tag] = next_
        items = [item for item in items if item[0] >= seen]
        if items:
            self.channel.to_client((DELIVERED, self.queue, tag, items))


class Channel:
    """One client's connection, as its node serves it."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.pid = (node.name, node.incarnation, number)
        self.sessions: dict[str, Session] = {}
        self._without_acks: dict[int, tuple[str, int]] = {}  # consumers' tags; what each consumes, and how
        self._connection: Connection | None = None

    def attach(self, connection: Connection) -> None:
        """Serve end 1 of a connection."""
        self._connection = connection
        connection.receive[1] = partial(self.node.event, self._receive)
        connection.lost[1] = lambda reason: self.node.event(self.node.end_channel, self.number)

    def to_client(self, message: Message) -> None:
        if self._connection is not None:
            self._connection.send(1, message)
            if self._without_acks:
                self._acknowledge(message)

    def consumes(self, message: Message) -> None:
        """Keep in mind whether this SUBSCRIBE or GET is one without acknowledgements."""
        if not message[-1]:
            self._without_acks[message[1]] = message[2], message[0]

    def _acknowledge(self, message: Message) -> None:
        """On behalf of consumers without acknowledgements: what is sent to one is done with."""
        if message[0] == DELIVERED and message[2] in self._without_acks:
            self._receive([(ACK, None, message[1], message[2], number) for number, _ in message[3]])
        elif message[0] == DONE and self._without_acks.get(message[1], ("", SUBSCRIBE))[1] == GET:
            queue, _ = self._without_acks.pop(message[1])
            if message[2] is not None:
                self._receive([(ACK, None, queue, message[2][0], message[2][1])])

    def end(self) -> None:
        if self._connection is not None:
            self._connection.close(1)
            self._connection = None

    def from_queue(self, queue: str, source: str, message: Message) -> None:
        session = self.sessions.get(queue)
        if session is not None:
            session.receive(source, message)

    def timer(self, queue: str) -> None:
        self.sessions[queue].timer()

    def connected(self, node: str) -> None:
        for session in self.sessions.values():
            session.connected(node)

    def _session(self, queue: str) -> Session | None:
        session = self.sessions.get(queue)
        if session is None:
            members = self.node.members(queue)
            if members is not None:
                session = self.sessions[queue] = Session(self, queue, members)
        return session

    def _receive(self, batch: list[Message]) -> None:
        acks: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        for message in batch:
            tag = message[0]
            if tag == CLOSE:
                self.node.end_channel(self.number)
                break
            queue = message[2]
            session = self.sessions.get(queue) or self._session(queue)
            if session is None:
                self.to_client((FAILED, message[1], f"no queue {queue!r}"))
            elif tag == PUBLISH:
                session.sequence += 1
                session.command(ENQUEUE, session.sequence, message[3], message[1])
            elif tag == ACK:
                numbers, operations = acks.setdefault((queue, message[3]), ([], []))
                numbers.append(message[4])
                operations.append(message[1])
            elif tag == GET:
                self.consumes(message)
                session.command(DEQUEUE, message[1], None, message[1])
            elif tag == REQUEUE:
                session.command(RETURN, message[3], (message[4],), (message[1],))
            else:
                self.consumes(message)
                session.consumers[message[1]] = 1
                session.command(CHECKOUT, message[1], message[3], message[1])
        for (queue, tag), (numbers, operations) in acks.items():
            self.sessions[queue].command(SETTLE, tag, tuple(numbers), tuple(operations))
