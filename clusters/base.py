"""What a cluster is, whether simulated or real: nodes that can be hurt, and clients that can be served.

All times are integer nanoseconds on the run's clock (`Clock.now`). A cluster raises SplitbrainError with one clear line
(and the tail of a node's log) when it cannot come up, and has then removed what it made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from chaos.kernel.clock import Clock
from chaos.kernel.streams import Streams
from chaos.model.errors import BadInput, SplitbrainError, did_you_mean
from chaos.model.schedule import Action
from chaos.model.trace import Recording

# The kinds of client that a broker may have, and a workload need. A cluster's `connect` gives one that is all of those
# that its broker has.
QUEUE = "queue"  # QueueClient
REQUEUE = "queue that takes messages back"  # QueueClient, whose `requeue` works
KEY_VALUE = "key-value store"  # KeyValueClient
LOCK = "lock"  # LockClient
LOG = "log"  # LogClient
KINDS = (QUEUE, REQUEUE, KEY_VALUE, LOCK, LOG)

# What a broker's queues may be able to do beyond the plain, and a workload ask of them.
SINGLE_ACTIVE = "single active consumers"
DEAD_LETTERS = "dead-letter queues"
NO_ACKS = "consumers without acknowledgements"


class Failed(Exception):
    """The operation certainly did not happen: a publish returned as unroutable, or refused before it was enqueued."""


class Unknown(Exception):
    """Nobody knows whether the operation happened: a time-out, a lost connection, a nack whose cause is not known."""


class Unable(SplitbrainError):
    """A verb that the run's faults need cannot be done here; found out on the way up, before any broker was started."""

    def __init__(self, verb: str, why: str) -> None:
        super().__init__(f"{verb} cannot be done here: {why}")
        self.verb, self.why = verb, why


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What a queue is to be beyond the plain. single_active: one consumer at a time is served, the others stand by.
    ttl: ns after which a message that waits leaves the queue; dead_letters: the queue that it goes to then, which is
    there already."""

    single_active: bool = False
    ttl: int | None = None
    dead_letters: str | None = None


PLAIN = QueueOptions()


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message handed to a consumer. `redelivered`: None from a broker that does not say. `tag` is the client's own
    handle, for the ack."""

    queue: str
    body: bytes
    redelivered: bool | None
    tag: Any = None


class Client(Protocol):
    """One connection to one node, never reconnecting by itself: what is lost is seen to be lost.

    `on_lost` is set by whoever uses the client, and called once with the reason when the connection is gone.
    Operations in flight then raise Unknown. Any operation raises Failed for what certainly did not happen, and Unknown
    for what may have; one that is cancelled is as unknown, and whoever cancels it closes the client.
    """

    node: str
    on_lost: Callable[[str], None]

    async def close(self) -> None:
        """Close in order; never raises, and does not call `on_lost`."""


class QueueClient(Client, Protocol):
    """Publishes, and takes messages."""

    def publish(self, queue: str, body: bytes) -> Awaitable[None]:
        """Publish and wait for the confirm. Starts at once, so that many can be in flight. Raises Failed, Unknown."""

    async def subscribe(
        self, queue: str, prefetch: int, deliver: Callable[[Delivery], None], acks: bool = True
    ) -> None:
        """Begin to consume: at most `prefetch` deliveries are unacknowledged at a time. Without `acks` a message is
        done with once it is sent. Raises Unknown."""

    async def get(self, queue: str, acks: bool = True) -> Delivery | None:
        """Poll for one message; None when the queue answered that it is empty. Raises Failed, Unknown."""

    def ack(self, delivery: Delivery) -> Awaitable[bool]:
        """Acknowledge. True: known to have taken effect; False: sent, and nobody will say. Raises Unknown."""

    def requeue(self, delivery: Delivery) -> Awaitable[bool]:
        """Give a message back to its queue, to be delivered again, to anybody. As `ack`; Failed where there is no such
        thing."""


class KeyValueClient(Client, Protocol):
    """Reads and changes keys one by one. Every change is a revision of the whole store, numbered upwards."""

    async def read(self, key: str, *, serializable: bool = False) -> bytes | None:
        """What the key holds, None if there is no such key: linearizable, or `serializable`, as the node itself has it,
        which may be old. Raises Failed, Unknown."""

    async def write(self, key: str, value: bytes) -> int:
        """Put a value, whatever was there. The revision. Raises Failed, Unknown."""

    async def compare_and_set(self, key: str, expected: bytes | None, value: bytes) -> int | None:
        """Put a value if the key holds what is expected (None: if there is no such key), at one moment. The revision;
        None if it held something else, so that nothing was changed. Raises Failed, Unknown."""


class LockClient(Client, Protocol):
    """Holds locks by lease: whoever does not renew it in time has lost them, and may be the last to know."""

    async def acquire(self, lock: str, ttl: int, *, renew: bool = True) -> int:
        """Wait for as long as it takes until the lock is ours. The fencing token: greater than those of all before.

        It is held by a lease that lives for `ttl` ns (or the least that the broker grants), and that the client renews
        until `release` or `close`. When the lease is gone, as the broker says, or as far as the client's own clock can
        tell (nothing renewed it for so long, counted from when that was asked for), the client closes, and calls
        `on_lost`. Without `renew` it does neither: as a process would that stands still. Raises Failed, Unknown.
        """

    async def release(self, lock: str) -> None:
        """Let it go. Raises Failed if the broker says that it was lost before, Unknown."""


FIRST, NEXT = "first", "next"  # from the beginning of a log, or what is appended from now on
Start = int | str  # where to read a log from: an offset, FIRST or NEXT


@dataclass(frozen=True, slots=True)
class Entry:
    """What a reader of a log is handed. `offset`: its place there. `tag` is the client's own handle, for the credit."""

    log: str
    offset: int
    body: bytes
    tag: Any = None


class LogClient(Client, Protocol):
    """Appends to logs, and reads them by offset. What is read stays there, for everybody."""

    def append(self, log: str, body: bytes) -> Awaitable[int | None]:
        """Append and wait for the confirm: the offset, None where the broker does not say. Starts at once, so that many
        can be in flight. Raises Failed, Unknown."""

    async def read(self, log: str, start: Start, credit: int, deliver: Callable[[Entry], None]) -> None:
        """Begin to read: about `credit` entries are handed out, and as many more as are granted. One reading of a log
        at a time. Raises Unknown."""

    def grant(self, entry: Entry) -> None:
        """This entry was taken in: its reading may be handed another."""

    async def stop(self, log: str) -> None:
        """Read no more: nothing is handed out once this has returned. Raises Unknown."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault in force: since when, on each node, by that node's own agent (run clock); and what shows it."""

    times: Mapping[str, int]
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Undone:
    """A fault undone: when on each node, and whether it bit (None: nobody could tell)."""

    times: Mapping[str, int]
    bit: bool | None
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class LeaderView:
    """What a node itself held to be true of leadership in `scope` (a queue) at some time in [asked, answered].

    role: "leader", "follower", "candidate", or what the broker calls it. term: None where the broker has none.
    incarnation: which life of the broker's process answered. reign: of a leader without a term, what is the same in two
    answers of a node only if it led all the while. exact: not a sample but an event, the role holding from `answered`
    until the node's next one (asked = answered).
    """

    scope: str
    node: str
    role: str
    term: int | None
    asked: int
    answered: int
    incarnation: int
    exact: bool = False
    reign: str | None = None


class Observer(Protocol):
    """Who is told what a cluster notices by itself. Calls are cheap and come on the run's loop."""

    def leader(self, view: LeaderView) -> None:
        """A node's belief about leadership."""

    def exited(self, node: str, incarnation: int, time: int, reason: str, asked: bool) -> None:
        """A broker process ended; `asked` when a fault of ours did it."""

    def noticed(self, node: str, time: int, what: str, words: str) -> None:
        """Something of note on a node: `what` is "watchdog" (its agent undid faults by itself) or "session" (our way to
        it was lost for a while), or what its adapter watches, as `chaos.model.op` lists; `time` on the run's clock."""

    def synchronising(self, scope: str, node: str, over: bool) -> None:
        """A node's replica begins to catch up with its leader's, or has."""

    def logged(self, node: str, line: str) -> None:
        """A line of a node's log that somebody waits for (`Setup.lines`)."""

    def broken(self, why: str) -> None:
        """What the cluster stands on is gone (a node's machine, not its broker), so that the run cannot go on."""


def services(said: str | None, known: Sequence[str]) -> tuple[str, ...]:
    """The services that a cut names: one, several ("a,b"), all but some ("!a,b"); all of them where it names none.

    Raises BadInput for one that is not known, and where none is left.
    """
    if said is None:
        return tuple(known)
    names = said.removeprefix("!").split(",")
    for name in names:
        if name not in known:
            raise BadInput(f"no service {name!r}; {did_you_mean(name, known)}")
    found = tuple(name for name in known if (name in names) is not said.startswith("!"))
    if not found:
        raise BadInput(f"service: {said!r} leaves none of {', '.join(known)}")
    return found


@dataclass(frozen=True, slots=True)
class Counts:
    """What is in a queue, as its own replicas say, with no consumer open: messages, and replicas that serve. Of a log,
    `ready` is the offset behind its last entry, `unacked` how many entries of it are not committed."""

    ready: int
    unacked: int
    serving: int
    replicas: int

    @property
    def drained(self) -> bool:
        return self.ready == 0 and self.unacked == 0 and self.serving == self.replicas


@dataclass(frozen=True, slots=True)
class Held:
    """What one replica of a queue holds: how many messages, and a digest of their bodies in order."""

    queue: str
    node: str
    messages: int
    digest: str


@dataclass(frozen=True, slots=True)
class Setup:
    """What a cluster is made from. `settings` holds a value for each of the broker's settings; `version` the part after
    the @, or None. `on` is "simulated" or a kind of host. `recording`: where a simulation notes every message. `image`:
    what containers are made of, instead of what the broker would have built. `hosts`: which hosts, told as
    `clusters.hosts.inventory` has it, where they are not made for the run."""

    run: str
    broker: str
    version: str | None
    nodes: int
    settings: Mapping[str, Any]
    clock: Clock
    streams: Streams
    observer: Observer
    keep: bool = False
    hosts: Mapping[str, Any] = field(default_factory=dict)
    recording: Recording | None = None
    lines: Sequence[str] = ()  # of logs that somebody waits for: regular expressions
    syncs: bool = False  # whether somebody waits for replicas to begin to catch up, or to have done so
    verbs: Sequence[str] = ()  # of the run's faults: some need hosts that are made for them
    image: str | None = None


class Cluster(Protocol):
    """A cluster under test. Nodes are named n1, n2, ...; clients may be the end of a link as "clients"."""

    nodes: tuple[str, ...]
    services: tuple[str, ...]  # what a cut may name: "clients", "replication", ...
    processes: tuple[str, ...]  # what a fault of processes may name: "broker", and what runs beside it
    serves: tuple[str, ...]  # the kinds of client that its broker has, of KINDS

    def abilities(self) -> Mapping[str, str | None]:
        """Each verb of `chaos.model.schedule`: None if it can be done here, else why not. Known before `up`."""

    async def up(self, report: Callable[[str], None]) -> None:
        """Provision, start, and return once every node serves. `report` takes a line of progress at a time."""

    async def down(self) -> None:
        """Remove all that was made (unless told to keep it). Safe to call at any time, more than once."""

    def versions(self) -> Mapping[str, str]:
        """What was met: broker, image, protocol. For the record."""

    async def declare(self, queue: str, options: QueueOptions = PLAIN) -> None:
        """Make a queue of the broker's kind, replicated as the settings say."""

    async def connect(self, node: str, name: str) -> Any:
        """A client of that node, which is all of what `serves` names. Raises Unknown when the node cannot be reached
        now."""

    async def inject(self, fault: str, action: Action) -> Injected:
        """Carry out one action of a fault. (fault, action) pairs are undone together by `undo(fault)`."""

    async def undo(self, fault: str) -> Undone:
        """Undo all actions of a fault, and say whether it bit. Undoing twice, or what never was, is harmless."""

    def leader(self, scope: str | None = None) -> str | None:
        """Which node is believed to lead now (the newest term's claim), from the views seen so far."""

    def newest(self) -> str | None:
        """The node whose broker was started last; the last of those, where several were."""

    async def serving(self) -> Mapping[str, str | None]:
        """Each node: None if it serves a confirmed publish now, else why not."""

    async def counts(self, queue: str) -> Counts:
        """Ask the queue directly. Raises Unknown when it cannot be asked now."""

    def held(self) -> Sequence[Held]:
        """What each replica that runs now holds, of every queue; empty where nobody can look into replicas."""

    async def collect(self, directory: Path) -> Sequence[tuple[str, str]]:
        """Write each node's logs below `directory`; return (node, line) for lines that are never normal."""
