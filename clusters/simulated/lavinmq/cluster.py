"""A simulated LavinMQ cluster: on each machine a broker, and beside it an etcd process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from chaos.kernel.clock import SECOND
from chaos.model.errors import BadInput
from chaos.model.schedule import POWER_OFF, WIPE
from clusters.base import PLAIN, Counts, QueueOptions, Setup, Unknown
from clusters.simulated.channel import Channel
from clusters.simulated.client import SimulatedClient
from clusters.simulated.cluster import BROKER, CONNECT_TIMEOUT
from clusters.simulated.etcd.group import BOOT, CLIENTS_OF_ETCD, EtcdGroup, Times
from clusters.simulated.lavinmq.channel import LavinmqChannel
from clusters.simulated.lavinmq.dialing import Dialer, Opened
from clusters.simulated.lavinmq.rules import DECLARE_QUEUE, LEASE, NO_ENDPOINT, REQUESTS, WATCHING
from clusters.simulated.lavinmq.server import SERVER, Server
from clusters.simulated.network import CLIENTS, Connection
from clusters.simulated.node import DOWN, UP, Node
from clusters.simulated.protocol import Protocol
from clusters.simulated.replica import CONNECT, Effect
from clusters.simulated.single import SingleReplicaCluster

ETCD = "etcd"
LOCAL, ALL = "local", "all"  # which etcd endpoints a broker uses

# TCP's own patience, and the pause between its probes: an idle connection is found dead by keep-alives (idle 5 s, then
# 3 probes), one that waits for an answer only when Linux has given up retransmitting (tcp_retries2). Keep-alives of the
# lease come oftener than that, so one of them is always on its way when a cut is found.
_PATIENCE = {WATCHING: (8 * SECOND, SECOND), REQUESTS: (8 * SECOND, SECOND), LEASE: (924 * SECOND, SECOND)}
_CONNECT_TIMEOUT = SECOND
_PROXY_TIMEOUT = 127 * SECOND  # Linux's for a connection that nobody answers


class LavinmqCluster(SingleReplicaCluster):
    """Brokers, whose one replica is called SERVER, and the etcd group."""

    server = SERVER

    def __init__(self, setup: Setup, protocol: type[Protocol]) -> None:
        super().__init__(setup, protocol)
        options = setup.settings
        times = Times(election=options["etcd_election_timeout"])
        self.etcd = EtcdGroup(self.nodes, self.loop, self.network, setup.streams, options["fsync_time"], times)
        self._all_endpoints = options["etcd_endpoints"] == ALL
        self._patience_of_clients = (options["heartbeat"], options["heartbeat"] // 2)
        self._shuffle = {name: setup.streams.stream("lavinmq", name, "endpoints") for name in self.nodes}
        self._boots = {name: setup.streams.stream("lavinmq", name, "boots") for name in self.nodes}
        self._dialer = Dialer(self.loop, self.network)
        self._dialing: dict[tuple[str, str], int] = {}  # node and link -> the node's life
        for node in self.etcd.nodes.values():
            self.held_down[node.name], self.held_still[node.name] = {}, {}

    # --- the cluster

    async def up(self, report: Callable[[str], None]) -> None:
        for node in self.etcd.nodes.values():
            node.start(BOOT)
        await self._until(lambda: self.etcd.leader() is not None, "etcd does not come up")
        await super().up(report)

    async def down(self) -> None:
        await super().down()
        for node in self.etcd.nodes.values():
            if node.state != DOWN:
                node.die("the run is over")

    async def declare(self, queue: str, options: QueueOptions = PLAIN) -> None:
        if queue not in self._queues:
            leader = self._leader()
            assert leader is not None, "`up` has waited for it"
            self.adopt(queue)
            self.by_name[leader.me].deliver("", SERVER, (DECLARE_QUEUE, queue))
        await self._until(lambda: not any(self._why_not(name) for name in self.nodes), f"queue {queue!r} is not served")

    async def connect(self, node: str, name: str) -> SimulatedClient:
        """A follower accepts, and only then finds out whether there is a leader to pass the client on to."""
        client: SimulatedClient = await super().connect(node, name)
        try:
            await asyncio.wait_for(client.open(), CONNECT_TIMEOUT / SECOND)
        except TimeoutError:
            await client.close()
            raise Unknown(f"{node} did not answer in time") from None
        return client

    async def counts(self, queue: str) -> Counts:
        leader = self._leader()
        if leader is None or leader.leader is None:
            raise Unknown("there is no leader")
        fifo = leader.leader.queues[queue].fifo
        serving = sum(self._why_not(name) is None for name in self.nodes)
        return Counts(fifo.ready_count, fifo.unacked_count, serving, len(self.nodes))

    async def collect(self, directory: Path) -> Sequence[tuple[str, str]]:
        errors = await super().collect(directory)
        for name, node in self.etcd.nodes.items():
            text = "".join(line + "\n" for line in node.log)
            (directory / f"{name}-etcd.log").write_text(text, encoding="utf-8")
        return errors

    # --- what faults do

    def process(self, node: str, process: str) -> Node:
        if process == ETCD:
            return self.etcd.nodes[node]
        if process != BROKER:
            raise BadInput(f"a simulated LavinMQ node has no process {process!r}; known: {BROKER}, {ETCD}")
        return self.by_name[node]

    def start(self, node: Node) -> None:
        if node.name in self.by_name:
            self._dark.pop(node.name, None)
            node.start(int(self._boot_time * (1 + self._boots[node.name].random())))
            node = self.etcd.nodes[node.name]
        if node.state == DOWN and not self.held_down[node.name] and not self._is_dark(node):
            node.start(BOOT)

    def take_down(self, node: Node, verb: str) -> int:
        if node.name not in self.by_name:
            return self._end_etcd(node, verb)
        lost = super().take_down(node, verb)
        beside = self.etcd.nodes[node.name]
        if verb == POWER_OFF and beside.state != DOWN:
            lost += self._end_etcd(beside, verb)
        return lost

    def _end_etcd(self, node: Node, verb: str) -> int:
        node.die(f"is ended ({verb})")
        self.held_still[node.name].clear()
        if verb == POWER_OFF:
            self.network.vanish(node.name)
            return node.disk.power_off()
        self.network.close(node.name)
        return node.disk.wipe() if verb == WIPE else 0

    def _is_dark(self, node: Node) -> bool:
        return node.name.partition("/")[0] in self._dark

    # --- what a node is told by

    def make_channel(self, node: Node, number: int) -> Channel:
        return LavinmqChannel(node, number, self._dial_leader)

    def carry_out(self, node: Node, effect: Effect) -> None:
        if effect[0] != CONNECT:
            super().carry_out(node, effect)
        elif self._dialing.get((node.name, effect[1])) != node.incarnation:
            self._dialing[node.name, effect[1]] = node.incarnation
            endpoints = list(self.nodes) if self._all_endpoints else [node.name]
            self._shuffle[node.name].shuffle(endpoints)
            self._dial_etcd(node, effect[1], endpoints)

    # --- connections

    def _dial_etcd(self, node: Node, link: str, endpoints: list[str]) -> None:
        """Try the endpoints, one after the other."""

        def opened(connection: Connection | None) -> None:
            if connection is None and len(endpoints) > 1:
                self._dial_etcd(node, link, endpoints[1:])
                return
            del self._dialing[node.name, link]
            if connection is None:
                node.deliver(link, SERVER, (NO_ENDPOINT,))
            else:
                node.connected(link, connection, 0)

        target = self.etcd.nodes[endpoints[0]]
        self._dialer.dial(node, target, CLIENTS_OF_ETCD, _PATIENCE[link], _CONNECT_TIMEOUT, opened)

    def _dial_leader(self, node: Node, target: str, opened: Opened) -> None:
        self._dialer.dial(node, self.by_name[target], CLIENTS, self._patience_of_clients, _PROXY_TIMEOUT, opened)

    # --- inside

    def _leader(self) -> Server | None:
        """The server that leads in the newest term, if it can be asked."""
        leading = [
            server
            for node in self.by_name.values()
            if node.state == UP and not node.paused and (server := cast("Server | None", self.replica(node, SERVER)))
            if server.leading
        ]
        return max(leading, key=lambda server: server.term, default=None)

    def _why_not(self, name: str) -> str | None:
        for process in (self.by_name[name], self.etcd.nodes[name]):
            if process.state != UP or process.paused:
                return f"{process.name} is {'standing still' if process.paused else process.state}"
        links = [self.network.link(CLIENTS, name, CLIENTS), self.network.link(name, CLIENTS, CLIENTS)]
        if any(link.cuts for link in links):
            return "cut off from clients"
        if self.etcd.leader() is None:
            return "etcd has no leader"
        leader = self._leader()
        if leader is None or leader.leader is None:
            return "there is no leader"
        if not leader.leader.serves:
            return f"{leader.me} leads and does not serve yet"
        if name == leader.me:
            return None
        return None if self.protocol.follows(self.by_name[name].replicas[SERVER], leader) else "it is not in sync"
