"""A simulated BlazingMQ cluster: brokers, and nothing beside them."""

from __future__ import annotations

from typing import cast

from chaos.model.errors import BadInput
from clusters.base import PLAIN, Counts, QueueOptions, Setup, Unknown
from clusters.simulated.blazingmq.server import SERVER, Server
from clusters.simulated.fifo import Fifo
from clusters.simulated.protocol import Protocol
from clusters.simulated.single import SingleReplicaCluster


class BlazingmqCluster(SingleReplicaCluster):
    """Brokers, whose one replica is called SERVER."""

    server = SERVER

    def __init__(self, setup: Setup, protocol: type[Protocol]) -> None:
        super().__init__(setup, protocol)
        pinned = setup.settings["leader"]
        if pinned is not None and pinned not in self.nodes:
            raise BadInput(f"setting `leader`: there is no node {pinned!r}; known: {', '.join(self.nodes)}")

    async def declare(self, queue: str, options: QueueOptions = PLAIN) -> None:
        if queue not in self._queues:
            self.adopt(queue)
        await self._until(lambda: not any(self._why_not(name) for name in self.nodes), f"queue {queue!r} is not served")

    async def counts(self, queue: str) -> Counts:
        server = cast("Server | None", self.serving_leader(queue))
        if server is None or server.leading is None:
            raise Unknown("there is no active leader")
        fifo = server.leading.queues.get(queue) or Fifo()
        serving = sum(self._why_not(name) is None for name in self.nodes)
        return Counts(fifo.ready_count, fifo.unacked_count, serving, len(self.nodes))
