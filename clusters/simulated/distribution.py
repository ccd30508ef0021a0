"""The connections between nodes: one for each pair, made again when it was lost, as Erlang's distribution does."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.kernel.clock import SECOND
from chaos.kernel.virtual import VirtualLoop
from clusters.simulated.network import Network
from clusters.simulated.node import DOWN, UP, Node

REPLICATION = "replication"
RETRY = SECOND
BEAT = SECOND  # of ra's failure detector (aten), which every node runs
HANDSHAKE = 4  # messages one after the other until a connection stands


class Distribution:
    """`patience`: silence after which a connection is given up (Erlang's net_ticktime), ns."""

    def __init__(
        self, loop: VirtualLoop, network: Network, nodes: Mapping[str, Node], patience: int, service: str = REPLICATION
    ) -> None:
        self._loop = loop
        self._network = network
        self._nodes = nodes
        self._patience = patience
        self._service = service
        self._trying: dict[tuple[str, str], None] = {}

    def reach_out(self, name: str) -> None:
        """A node has started, or lost a connection: connect it to the others that are there."""
        for other in self._nodes:
            if other != name:
                pair = (name, other) if name < other else (other, name)
                if pair not in self._trying and not self._connected(pair):
                    self._trying[pair] = None
                    self._attempt(pair)

    def _connected(self, pair: tuple[str, str]) -> bool:
        one, other = pair
        return self._nodes[one].is_connected(other) and self._nodes[other].is_connected(one)

    def _attempt(self, pair: tuple[str, str]) -> None:
        one, other = (self._nodes[name] for name in pair)
        if one.state == DOWN or other.state == DOWN or self._connected(pair):
            del self._trying[pair]
            return
        if self._can_shake_hands(one, other):
            time = sum(self._network.link(*pair, self._service).latency() for _ in range(HANDSHAKE))
            self._loop.at(self._loop.now() + time, self._established, pair)
        else:
            self._loop.at(self._loop.now() + RETRY, self._attempt, pair)

    def _can_shake_hands(self, one: Node, other: Node) -> bool:
        ready = all(node.state == UP and not node.paused for node in (one, other))
        return ready and self._network.passable(one.name, other.name, self._service)

    def _established(self, pair: tuple[str, str]) -> None:
        one, other = (self._nodes[name] for name in pair)
        if not self._can_shake_hands(one, other):
            self._attempt(pair)
            return
        connection = self._network.connect(one.name, other.name, self._service, self._patience, BEAT)
        one.connected(other.name, connection, 0)
        other.connected(one.name, connection, 1)
        del self._trying[pair]  # only now: an end that still held an old connection has just lost it, and reached out
