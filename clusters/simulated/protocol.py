"""What a replication protocol is to the simulated cluster, and the settings that all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from chaos.model.settings import Setting, duration
from clusters.base import QUEUE, Client, QueueOptions
from clusters.simulated.client import SimulatedClient
from clusters.simulated.network import Connection
from clusters.simulated.replica import Message, Replica

if TYPE_CHECKING:
    from clusters.simulated.channel import Channel
    from clusters.simulated.cluster import SimulatedCluster
    from clusters.simulated.node import Node

COMMON_SETTINGS = (
    Setting("latency", duration, "300us", "least time of a message between two nodes, or a client and a node"),
    Setting("jitter", duration, "100us", "mean of what comes on top of the latency (exponentially distributed)"),
    Setting("fsync_time", duration, "2ms", "mean time of a disk's sync; half of it is fixed"),
    Setting("boot_time", duration, "3s", "time from a broker's start until it serves"),
    Setting("heartbeat", duration, "10s", "silence after which a client, or the broker, gives a connection up"),
)


class Protocol(ABC):
    """How one broker replicates its queues. Made once a cluster; registered by name in the group "simulations".

    `versions`: what may follow the @ of the broker's name, the first being the default. `services`: what a cut may
    name. `helpers`: processes that run beside the broker, which a fault may name. `options`: a value for each of
    `settings`, among them COMMON_SETTINGS.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]]
    versions: ClassVar[tuple[str, ...]]
    services: ClassVar[tuple[str, ...]] = ("clients", "replication")
    helpers: ClassVar[tuple[str, ...]] = ()
    serves: ClassVar[Sequence[str]] = (QUEUE,)  # the kinds of client that it has
    features: ClassVar[Sequence[str]] = ()  # what its queues can do beyond the plain
    terms: ClassVar[bool] = True  # whether its leaders lead in terms, of which each has one leader at most
    fixed: ClassVar[str | None] = "which nodes keep a queue does not change in this simulation"  # None: it can
    cluster: ClassVar[type[SimulatedCluster] | None] = None  # where the protocol needs more than SimulatedCluster

    def __init__(self, version: str | None, options: Mapping[str, Any]) -> None:
        self.version = version or self.versions[0]
        self.options = options
        self.declared: dict[str, QueueOptions] = {}  # each queue, as it was asked for

    @property
    def patience(self) -> int:
        """Silence after which a node gives up its connection to another, ns."""
        patience: int = self.options["net_ticktime"]
        return patience

    def tell(self, service: str, message: Message) -> tuple[str, int | None]:
        """What a message to a replica is called, and the term of its sender if it says: for diagrams."""
        return "", None

    @abstractmethod
    def members(self, queue: str, nodes: Sequence[str], number: int) -> tuple[str, ...]:
        """Which nodes keep the `number`-th queue (from 0); the first of them is to lead it at the beginning."""

    @abstractmethod
    def replica(self, queue: str, node: str, members: Sequence[str]) -> Replica:
        """A member's state machine, before `start`."""

    @abstractmethod
    def channel(self, node: Node, number: int) -> Channel:
        """The process that serves one client connection."""

    def client(self, node: str, connection: Connection, loop: AbstractEventLoop) -> Client:
        """The client at the other end of it."""
        return SimulatedClient(node, connection, loop)

    @abstractmethod
    def leads(self, replica: Replica) -> int | None:
        """The term in which the replica leads and serves, or None."""

    @abstractmethod
    def counts(self, leader: Replica) -> tuple[int, int]:
        """Ready and unacknowledged messages, as a leader has them."""

    def contents(self, replica: Replica, queue: str) -> Sequence[Any] | None:
        """The bodies of the messages that a replica holds of a queue, in order; None where it cannot be told."""
        return None

    @abstractmethod
    def follows(self, replica: Replica, leader: Replica) -> bool:
        """Whether a replica follows that leader, and has all that it has committed."""
