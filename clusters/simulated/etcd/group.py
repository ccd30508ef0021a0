"""An etcd process on each machine of a simulated cluster, and the connections of its clients.

A process is named after its machine, as in "n1/etcd". Traffic between the processes is the service "etcd-peers", that
of their clients "etcd".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop
from clusters.simulated.channel import Channel
from clusters.simulated.distribution import Distribution
from clusters.simulated.etcd.member import EtcdMember
from clusters.simulated.network import Message, Network
from clusters.simulated.node import TO_REPLICA, Node
from clusters.simulated.raft.rules import Rules
from clusters.simulated.replica import Effect, Replica

PEERS = "etcd-peers"
CLIENTS_OF_ETCD = "etcd"
STORE = "etcd"  # what its one replica is called

BOOT = 500 * MILLISECOND
HEARTBEAT = 100 * MILLISECOND  # --heartbeat-interval
PATIENCE_OF_PEERS = 5 * SECOND  # etcd reads from a peer no longer than that without hearing from it
DISPATCH = 5 * SECOND  # of a request's patience, beside two election time-outs (etcd's ReqTimeout)
SNAPSHOT_COUNT = 100_000  # entries applied between snapshots


@dataclass(frozen=True, slots=True)
class Times:
    """`election`: --election-timeout, ns; `snapshot`: --snapshot-count, entries applied between snapshots."""

    election: int = SECOND
    snapshot: int = SNAPSHOT_COUNT

    @property
    def request(self) -> int:
        """How long a request waits for its answer, ns."""
        return DISPATCH + 2 * self.election


class EtcdChannel(Channel):
    """One client's connection. The client is a replica elsewhere, and each answer goes to it under its own name."""

    _client = ""

    def _receive(self, batch: list[Message]) -> None:
        for _, self._client, (kind, corr, a, b) in batch:
            self.node.request(self.node.name, STORE, (kind, self.pid, corr, a, b))

    def from_queue(self, queue: str, source: str, message: Message) -> None:
        self.to_client((TO_REPLICA, self._client, message))


class EtcdGroup:
    """`nodes`: machine -> its etcd process."""

    def __init__(
        self, machines: Sequence[str], loop: VirtualLoop, network: Network, streams: Streams, fsync: int, times: Times
    ) -> None:
        self._times = times
        self._names = tuple(f"{machine}/etcd" for machine in machines)
        self._rules = Rules(times.election, times.election, HEARTBEAT, times.snapshot)
        self.nodes = {
            machine: Node(name, self, loop, network, streams, fsync)
            for machine, name in zip(machines, self._names, strict=True)
        }
        by_name = {node.name: node for node in self.nodes.values()}
        self._distribution = Distribution(loop, network, by_name, PATIENCE_OF_PEERS, PEERS)
        for node in self.nodes.values():
            node.keep(STORE, first=False)

    def leader(self) -> str | None:
        """The machine whose process leads, in the newest term if there are several."""
        leading = []
        for machine, node in self.nodes.items():
            member = node.replicas.get(STORE)
            if isinstance(member, EtcdMember) and member.ready:
                leading.append((member.term, machine))
        return max(leading)[1] if leading else None

    # --- what a node is told by, as `clusters.simulated.node.Surroundings` describes it

    def members(self, queue: str) -> tuple[str, ...] | None:
        return self._names

    def make_replica(self, queue: str, node: str) -> Replica:
        return EtcdMember(node, self._names, self._rules, self._times.request)

    def make_channel(self, node: Node, number: int) -> Channel:
        return EtcdChannel(node, number)

    def believes(self, node: Node, queue: str, role: str, term: int) -> None:
        node.say("info", f"{role}, term {term}")

    def served(self, node: Node) -> None:
        self._distribution.reach_out(node.name)

    def carry_out(self, node: Node, effect: Effect) -> None:
        raise NotImplementedError(f"etcd asks for nothing but the usual, not {effect}")
