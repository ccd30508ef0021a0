"""A client's connection to a BlazingMQ node, whichever: the node passes on what it asks to the primary, and back.

After BlazingMQ's source (mqbblp_clusterproxy, mqbblp_remotequeue): what was not answered is kept, and sent again to the
next primary, which tells what it has already by channel and number (the message's GUID there); consumers open their
queues again. No consumer is ever told that its confirm has taken effect.
"""

from __future__ import annotations

from typing import Any

from clusters.simulated.blazingmq.server import ATTACH, PRIMARY, SERVER
from clusters.simulated.channel import DONE, FAILED, RESUME, Channel, Session
from clusters.simulated.fifo import CHECKOUT, RETURN, SETTLE
from clusters.simulated.network import Connection
from clusters.simulated.replica import Message


class OpenQueue(Session):
    """One queue, as a channel uses it. `leader` is the primary; who that is, the node itself says."""

    __slots__ = ("prefetch",)

    def __init__(self, channel: Channel, queue: str, members: tuple[str, ...]) -> None:
        super().__init__(channel, queue, members)
        self.prefetch: dict[int, int] = {}

    def led_by(self, primary: str | None, term: int) -> None:
        """There is another primary from now on, or the same anew, or none."""
        self.leader, self.term = primary, term
        self._send_pending()
        self._resume()

    def command(self, kind: int, a: Any, b: Any, awaited: Any) -> None:
        if kind == RETURN:
            for operation in awaited:
                self.channel.to_client((FAILED, operation, "a consumer cannot give a message back"))
            return
        if kind == CHECKOUT:
            self.prefetch[a] = b
        super().command(kind, a, b, awaited)

    def ask(self, node: str, request: Message) -> None:
        self.channel.node.request(node, SERVER, (*request, self.queue))

    def receive(self, source: str, message: Message) -> None:
        if source == self.leader:  # deliveries of a former one have numbers that mean something else to this one
            super().receive(source, message)

    def _applied(self, corr: int, answer: Any) -> None:
        entry = self.pending.get(corr)
        if entry is not None and entry[0][0] == SETTLE:
            del self.pending[corr]
            for operation in entry[1]:
                self.channel.to_client((DONE, operation, False))
        else:
            super()._applied(corr, answer)

    def _ask_to_resume(self, tag: int, next_: int) -> None:
        if self.leader is not None:
            self.ask(self.leader, (RESUME, self.channel.pid, 0, tag, (next_, self.prefetch[tag])))

    def _probe(self) -> None:
        """The node says who is primary, unasked."""

    def _set_timer(self, delay: int) -> None:
        """Nothing is asked again until there is another primary, or another connection to it."""


class BlazingmqChannel(Channel):
    """One client's connection, as its node serves it."""

    _primary: str | None = None
    _term = 0

    def attach(self, connection: Connection) -> None:
        super().attach(connection)
        self.node.event(self.node.request, self.node.name, SERVER, (ATTACH, self.pid))

    def from_queue(self, queue: str, source: str, message: Message) -> None:
        if message[0] == PRIMARY:
            _, self._primary, self._term = message
            for session in self.sessions.values():
                assert isinstance(session, OpenQueue)
                session.led_by(self._primary, self._term)
        else:
            self.sessions[message[1]].receive(source, (message[0], *message[2:]))

    def _session(self, queue: str) -> Session | None:
        session = self.sessions[queue] = OpenQueue(self, queue, ())
        session.leader, session.term = self._primary, self._term
        return session
