"""A client's connection to a LavinMQ node: served here where the node leads, else passed on to the node that does.

After LavinMQ's source (clustering/proxy.cr): a follower copies bytes between its client and the leader, and closes
either side with the other; before it knows of a leader it closes what it has accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clusters.simulated.channel import ACK, CLOSE, DONE, GET, OPEN, PUBLISH, REQUEUE, Channel
from clusters.simulated.lavinmq import leader
from clusters.simulated.lavinmq.dialing import Opened
from clusters.simulated.lavinmq.server import SERVER, Server
from clusters.simulated.network import CLIENTS, Connection, Message
from clusters.simulated.node import Node

Dial = Callable[[Node, str, Opened], None]


class LavinmqChannel(Channel):
    """`dial(node, target, opened)`: connects to the client port of another node."""

    def __init__(self, node: Node, number: int, dial: Dial) -> None:
        super().__init__(node, number)
        self._dial = dial
        self._local = False
        self._upstream: Connection | None = None
        self._early: list[Message] = []  # what came before there was an upstream

    def attach(self, connection: Connection) -> None:
        super().attach(connection)
        server = self.node.replicas.get(SERVER)
        if isinstance(server, Server) and server.leading:
            self._local = True
        elif connection.endpoints[0] != CLIENTS:  # two that take each other for the leader would pass it on for ever
            self.node.end_channel(self.number)
        elif isinstance(server, Server) and server.target is not None:
            self._dial(self.node, server.target, self._opened)
        else:
            self.node.end_channel(self.number)

    def end(self) -> None:
        super().end()
        if self._upstream is not None:
            self._upstream.close(0)
            self._upstream = None

    def from_queue(self, queue: str, source: str, message: Message) -> None:
        self.to_client(message)

    def _opened(self, upstream: Connection | None) -> None:
        if self._connection is None or upstream is None:
            if upstream is not None:
                upstream.close(0)
            self.node.event(self.node.end_channel, self.number)
            return
        self._upstream = upstream
        upstream.receive[0] = partial(self.node.event, self._from_leader)
        upstream.lost[0] = lambda reason: self.node.event(self.node.end_channel, self.number)
        self.node.event(self._pass_on)

    def _pass_on(self) -> None:
        if self._upstream is not None:
            early, self._early = self._early, []
            for message in early:
                self._upstream.send(0, message)

    def _from_leader(self, batch: list[Message]) -> None:
        for message in batch:
            self.to_client(message)

    def _receive(self, batch: list[Message]) -> None:
        if self._local:
            self._serve(batch)
        else:
            self._early += batch
            self._pass_on()
            if batch[-1][0] == CLOSE:
                self.node.end_channel(self.number)

    def _serve(self, batch: list[Message]) -> None:
        acks: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        ask = partial(self.node.request, self.node.name, SERVER)
        for message in batch:
            tag = message[0]
            if tag == CLOSE:
                self.node.end_channel(self.number)
                break
            if tag == OPEN:
                self.to_client((DONE, message[1], None))
            elif tag == PUBLISH:
                ask((leader.PUBLISH, self.pid, message[1], message[2], message[3]))
            elif tag == ACK:
                numbers, operations = acks.setdefault((message[2], message[3]), ([], []))
                numbers.append(message[4])
                operations.append(message[1])
            elif tag == GET:
                self.consumes(message)
                ask((leader.POLL, self.pid, message[1], message[2]))
            elif tag == REQUEUE:
                ask((leader.REJECT, self.pid, message[1], message[2], message[3], (message[4],)))
            else:
                self.consumes(message)
                ask((leader.SUBSCRIBE, self.pid, message[1], message[2], message[3]))
        for (queue, tag), (numbers, operations) in acks.items():
            ask((leader.ACKNOWLEDGE, self.pid, tuple(operations), queue, tag, tuple(numbers)))
