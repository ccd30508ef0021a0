"""What a broker is to a hosted cluster: how it is installed, configured, started, asked and spoken to.

Adding a broker is one file in this folder and an entry point in the group `splitbrain.brokers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from chaos.model.settings import Setting
from clusters.base import PLAIN, QUEUE, Client, QueueOptions
from clusters.hosts.base import File, Image

BROKER = "broker"  # the process that serves, of those that run on a node
REPORTER = "reporter"  # one of ours beside it, that answers for it
ALL = "*"  # the scope of a view that holds for every queue
CLIENTS = "clients"  # the service that clients speak to, and the end of a link that is not a node


@dataclass(frozen=True, slots=True)
class Command:
    """A process of the broker on a node. `output` takes what it prints; `clock` is the file that moves its clock;
    `restart` the seconds after which it is started again when it ended by itself (None: never); `after` a question that
    the reporter must have an answer to before it is first started."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    user: str | None
    output: str
    clock: str | None = None
    restart: float | None = 5.0
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Daemon:
    """A process that the broker starts by itself and that outlives it. `comm` is what the kernel calls it; only one
    that `user` owns is the broker's; `argv` starts it again. `ports`: where it listens, by which it is found where
    somebody else started it, and is then started again as it was."""

    comm: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    user: str
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Anatomy:
    """What faults that reach into a broker must know of it. One that says nothing cannot be so hurt.

    daemons: what it starts by itself, by the name that a fault may hurt it by. data: the folder of all that it keeps;
    it belongs to `user`. files: what of it may be damaged, patterns of paths below it (as glob has them), by what such
    files hold. process: the broker's own, for one that somebody else started.
    """

    daemons: Mapping[str, Daemon] = field(default_factory=dict)
    data: str | None = None
    user: str = "root"
    files: Mapping[str, str] = field(default_factory=dict)
    process: Daemon | None = None


@dataclass(frozen=True, slots=True)
class QueueState:
    """What one replica holds of a queue, asked just now."""

    ready: int
    unacked: int
    members: tuple[str, ...]  # nodes that hold a replica, as this one sees it
    leader: str | None
    serves: bool


class Broker(Protocol):
    """A broker of one version, set up in one way, for nodes n1, n2, ... To be inherited from."""

    settings: ClassVar[Sequence[Setting]]
    versions: ClassVar[Sequence[str]]  # the first is the default
    services: ClassVar[Mapping[str, Sequence[int]]]  # what a cut may name, and its ports
    never_normal: ClassVar[re.Pattern[str]]  # lines of a log that are never normal
    serves: ClassVar[Sequence[str]] = (QUEUE,)  # the kinds of client that it has, which workloads need
    features: ClassVar[Sequence[str]] = ()  # what its queues can do beyond the plain (see `clusters.base`)
    anatomy: ClassVar[Anatomy] = Anatomy()
    needs: ClassVar[Mapping[str, str]] = {}  # what a node must have, by path or name of a command, and what it is
    touch: ClassVar[str | None] = None  # a question on which those who lead tell their followers
    unable: ClassVar[Mapping[str, str]] = {}  # verbs that make no sense with it, and why
    scopes: ClassVar[Sequence[str]] = ()  # of views that are kept beside those of queues
    sample: ClassVar[float] = 0.2  # seconds between samples of each node's views
    question: ClassVar[str] = "views"  # what the reporter is asked for views that `queue_state` can take
    ours: ClassVar[bool] = True  # to start and to stop; else our agents go to its hosts, and no more
    exits: ClassVar[Mapping[str, str]] = {}  # how its process may end ("exit code 6"), and what that means
    reach: Mapping[str, str] = {}  # the address of each node for the others, where they do not know it by its name
    retires: ClassVar[Sequence[str]] = ()  # of those, the ones by which it asks to be started anew: no crashes

    def at(self, node: str) -> str:
        """What the other nodes call a node's host."""
        address = self.reach.get(node, node)
        return f"[{address}]" if ":" in address else address

    def ready(self) -> None:
        """Raises SplitbrainError for what this machine lacks to be its client."""
        return

    def image(self) -> Image:
        """What its hosts are made of, in containers."""

    def files(self, node: str, nodes: Sequence[str]) -> Sequence[File]:
        """What to write on a node before the first start."""

    def commands(self, node: str, nodes: Sequence[str]) -> Mapping[str, Command]:
        """What is started there, in this order, each by the name that a fault may hurt it by. One of them is BROKER:
        others run beside it, such as its etcd, or a reporter for one that has none inside."""

    def reporter(self) -> str:
        """The unix socket on which it answers `clusters.agent.reporter`: views of who leads, its wall clock."""

    def logs(self, node: str) -> Sequence[str]:
        """Where it logs on a node, the main one first."""

    async def connect(self, address: str, node: str, name: str) -> Client:
        """A client, which is all of what `serves` names. Raises Unknown when the node cannot be reached now."""

    async def declare(self, address: str, queue: str, nodes: int, options: QueueOptions = PLAIN) -> None:
        """Make a queue through the node at the address, in a cluster of so many. Raises Unknown."""

    def queue_state(self, node: str, view: Mapping[str, Any]) -> QueueState:
        """One view of the reporter's answer as counts."""

    async def version(self, address: str) -> str:
        """What answers there. Raises Unknown."""

    def membership(self, verb: str, node: str, nodes: Sequence[str]) -> Mapping[str, Any]:
        """How a verb of `chaos.model.schedule.MEMBERS` is done on a node: what `clusters.faults.membership` takes."""
        return {}

    def refuses(self, version: str) -> str | None:
        """Why what answered so cannot be driven, and what to do; None where it can."""
        return None
