"""How one process comes to be connected to another's port: handshakes, refusals, and time-outs."""

from __future__ import annotations

from collections.abc import Callable

from chaos.kernel.clock import SECOND
from chaos.kernel.virtual import VirtualLoop
from clusters.simulated.network import Connection, Network
from clusters.simulated.node import DOWN, UP, Node

SYN_RETRY = SECOND
HANDSHAKE = 2  # messages one after the other until a connection stands

Opened = Callable[[Connection | None], None]


class Dialer:
    """Opens connections from one node to another. Nothing is told to a process that has ended meanwhile."""

    def __init__(self, loop: VirtualLoop, network: Network) -> None:
        self._loop = loop
        self._network = network

    def dial(
        self, source: Node, target: Node, service: str, patience: tuple[int, int], timeout: int, opened: Opened
    ) -> None:
        """Connect within `timeout` ns, and tell `opened`: the connection, or None if it was refused or in vain.

        `patience`: that of the connection, and the pause between its heartbeats (ns).
        """
        deadline = self._loop.now() + timeout
        life = source.incarnation

        def attempt() -> None:
            if source.incarnation != life or source.state == DOWN:
                return
            now = self._loop.now()
            if self._network.passable(source.name, target.name, service):
                time = sum(self._network.link(source.name, target.name, service).latency() for _ in range(HANDSHAKE))
                self._loop.at(now + time, arrive)
            elif now + SYN_RETRY > deadline:
                self._loop.at(deadline, opened, None)
            else:
                self._loop.at(now + SYN_RETRY, attempt)

        def arrive() -> None:
            if source.incarnation != life or source.state == DOWN:
                return
            if not self._network.passable(source.name, target.name, service):
                attempt()
            elif target.state != UP:
                opened(None)
            else:
                connection = self._network.connect(source.name, target.name, service, *patience)
                target.accept(connection)
                opened(connection)

        attempt()
