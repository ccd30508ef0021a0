"""A cluster where one replica a node keeps all queues, so that who leads it leads them all."""

from __future__ import annotations

from typing import ClassVar

from clusters.base import Setup
from clusters.simulated.cluster import SimulatedCluster
from clusters.simulated.node import Node
from clusters.simulated.protocol import Protocol
from clusters.simulated.replica import Replica


class SingleReplicaCluster(SimulatedCluster):
    """`server`: what the one replica of a node is called."""

    server: ClassVar[str]

    def __init__(self, setup: Setup, protocol: type[Protocol]) -> None:
        super().__init__(setup, protocol)
        self._views[self.server] = {}
        for node in self.by_name.values():
            node.keep(self.server, first=False)

    def members(self, queue: str) -> tuple[str, ...] | None:
        return self.nodes

    def make_replica(self, queue: str, node: str) -> Replica:
        return self.protocol.replica(queue, node, self.nodes)

    def replica(self, node: Node, queue: str) -> Replica | None:
        return node.replicas.get(self.server)

    def believes(self, node: Node, queue: str, role: str, term: int) -> None:
        self._views[self.server][node.name] = (role, term, node.incarnation)
        for each in self._queues:
            super().believes(node, each, role, term)

    def adopt(self, queue: str) -> None:
        """A new queue: what nodes believe of leadership holds for it too."""
        self._queues[queue] = self.nodes
        self._views[queue] = {}
        for name, (role, term, _) in self._views[self.server].items():
            super().believes(self.by_name[name], queue, role, term)
