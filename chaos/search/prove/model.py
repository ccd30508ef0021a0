"""What a protocol offers to be explored: its replica, its bounds, what of its state matters, and how it looks.

A bound is a setting. `terms`, `restarts` (each node's), `losses`, `duplications` and `in-flight` (all nodes' together)
mean the same to every protocol; a protocol adds its own, and says which of them a timer is charged to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from chaos.model.settings import Setting, integer
from clusters.simulated.replica import Message, Record, Replica

State = tuple[Any, ...]

RESTARTS = "restarts"

MANY = 1000  # losses or publishes


def common_bounds(in_flight: int) -> tuple[Setting, ...]:
    """Those of every protocol. `in_flight`: how many messages may be under way where nothing is said."""
    most = "how many of the messages under way at once ever arrive; 0 = any number"
    return (
        Setting(RESTARTS, integer(0), 1, "each node: how often it crashes and starts again"),
        Setting("losses", integer(0, MANY), 0, "messages taken off the network (beside those that just never arrive)"),
        Setting("duplications", integer(0), 0, "messages delivered once more than they were sent"),
        Setting("in-flight", integer(0), in_flight, most),
        Setting("slow-disk", integer(0, 1), 0, "1: a sync is complete at any later time; 0: at once"),
    )


class View(NamedTuple):
    """How a replica looks to the invariants. `log`: (term, command) from index 1 on; `commit`: how many it knows to be
    committed. A protocol without a log has none."""

    term: int
    role: str
    leads: bool
    log: tuple[Any, ...] = ()
    commit: int = 0


class Disk(NamedTuple):
    """A node's disk: its journal as a power-off leaves it (`durable`), as it does once the sync that is under way is
    complete (`moving`), and as a kill does. `token`: of that sync; `wanted`: of the one that begins after it."""

    durable: tuple[Record, ...] = ()
    moving: tuple[Record, ...] = ()
    written: tuple[Record, ...] = ()
    token: Any = None
    wanted: Any = None


class Core(NamedTuple):
    """A node: its replica's snapshot, the timers that are set, and its disk."""

    state: State
    timers: tuple[int, ...]
    disk: Disk


class Model(ABC):
    """A protocol with its bounds set, ready to be explored. `nodes`: their names."""

    name: ClassVar[str]
    bounds: ClassVar[tuple[Setting, ...]]
    each: ClassVar[tuple[str, ...]]  # the bounds that are each node's own, RESTARTS among them
    mutations: ClassVar[tuple[str, ...]]
    invariants: ClassVar[tuple[str, ...]]  # in words

    def __init__(self, nodes: tuple[str, ...], limits: Mapping[str, int], mutation: str) -> None:
        self.nodes = nodes
        self.limits = limits
        self.mutation = mutation

    @abstractmethod
    def replica(self, me: str) -> Replica:
        """A new process's replica on that node."""

    @abstractmethod
    def view(self, replica: Replica) -> View:
        """What the invariants see of it."""

    def journal(self, records: Iterable[Record]) -> tuple[Record, ...]:
        """The shortest journal from which a replica starts as it does from this one."""
        return tuple(records)

    def normal(self, core: Core) -> Core:
        """A node that behaves the same from now on, and is the same for all that do: what does not matter is dropped,
        and what has no order is sorted."""
        return core

    def ignores(self, core: Core, left: Mapping[str, int], message: Message) -> bool:
        """Whether such a node will ignore that message now and ever, with so much left of its own bounds. Messages of
        which this is so are taken for lost at once, which spares very many states."""
        return False

    def forgets(self, core: Core, left: Mapping[str, int], message: Message) -> bool:
        """Whether a message that such a node has sent does nothing but bring an answer that the node will ignore."""
        return False

    def charged(self, core: Core, timer: int) -> str | None:
        """The bound of each node that lets this timer of such a node fire; None if it may always."""
        return None

    def within(self, view: View) -> bool:
        """Whether a replica that looks like this is within the bounds."""
        return view.term <= self.limits["terms"]

    def publish(self, number: int) -> Message | None:
        """The request with which a client publishes for the so-manieth time, from 0; None where there are none."""
        return None

    @abstractmethod
    def timer(self, core: Core, name: int) -> str:
        """What it means that a timer of such a node fires, in words."""

    @abstractmethod
    def message(self, message: Message) -> str:
        """A message, in a few words."""

    @abstractmethod
    def label(self, message: Message) -> str:
        """A message in one word, as in a diagram."""

    @abstractmethod
    def term_of(self, message: Message) -> int | None:
        """The term that a message speaks of."""
