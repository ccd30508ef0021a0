"""A node of a simulated cluster: the broker's process on it, with its replicas, channels, timers and disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from chaos.kernel.clock import SECOND
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop
from chaos.model.trace import CRASH, NOTE, PAUSE, RESUME, SERVES, START, Happening
from clusters.simulated.channel import Channel
from clusters.simulated.clocks import NodeClock
from clusters.simulated.disk import WRITE_BACK, Disk
from clusters.simulated.network import Connection, Network
from clusters.simulated.replica import (
    BELIEF,
    COMPACT,
    EXIT,
    LOG,
    MONITOR,
    REPLY,
    SEND,
    SYNC,
    TIMER,
    WRITE,
    Effect,
    Message,
    Pid,
    Replica,
)

LOG_LINES = 10_000

# Messages between nodes: (tag, queue, ...)
TO_REPLICA = 0  # message from the replica of the same queue
REQUEST = 1  # request of a channel
TO_CHANNEL = 2  # pid, message
WATCH = 3  # pid: say when it has ended
ENDED = 4  # pid

DOWN = "down"
BOOTING = "booting"
UP = "up"

TimerKey = tuple[str, int] | tuple[int, str]  # a replica's, or a channel's


class Born(NamedTuple):
    """What a replica is told when it is made: who belongs to its group (nobody, where it is yet to be taken in), and
    how far the group had come by then, as term and index."""

    members: tuple[str, ...] = ()
    since: tuple[int, int] = (0, 0)


class Surroundings(Protocol):
    """What a node is in: how replicas and channels are made, and who is told."""

    def members(self, queue: str) -> tuple[str, ...] | None: ...

    def make_replica(self, queue: str, node: str) -> Replica: ...

    def make_channel(self, node: Node, number: int) -> Channel: ...

    def believes(self, node: Node, queue: str, role: str, term: int) -> None: ...

    def served(self, node: Node) -> None: ...

    def carry_out(self, node: Node, effect: Effect) -> None: ...


class Node:
    """`state`: down, booting or up. `incarnation` counts the lives of its process, from 1."""

    def __init__(
        self, name: str, around: Surroundings, loop: VirtualLoop, network: Network, streams: Streams, fsync: int
    ) -> None:
        self.name = name
        self.state = DOWN
        self.incarnation = 0
        self.started = 0  # when its process was, in its latest life
        self.hears: Callable[[str], None] | None = None  # who is told each line of its log
        self.paused = False
        self.clock = NodeClock()
        self.disk = Disk(loop, streams.stream("disk", name), fsync, self._synced)
        self.replicas: dict[str, Replica] = {}
        self.channels: dict[int, Channel] = {}
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        self.errors: dict[str, None] = {}
        self.queues: dict[str, Born] = {}  # of which it keeps a replica, each as it was made
        self._around = around
        self._loop = loop
        self._network = network
        self._random = streams.stream("node", name, "elections")
        self._peers: dict[str, tuple[Connection, int]] = {}
        self._watchers: dict[Pid, dict[tuple[str, str], None]] = {}
        self._accepted = 0
        self._timers: dict[TimerKey, int] = {}
        self._armed: dict[TimerKey, int] = {}
        self._backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._local: list[Message] = []
        self._touched: dict[str, Replica] = {}

    # --- the process

    def start(self, boot_time: int) -> None:
        """Start the broker: it serves after `boot_time`."""
        self.state = BOOTING
        self.started = self._loop.now()
        self.incarnation += 1
        self.say("notice", "starts")
        self.note(START)
        self._loop.at(self._loop.now() + boot_time, self._booted, self.incarnation)

    def die(self, why: str) -> None:
        """The process is gone, in the middle of whatever it did."""
        self.state = DOWN
        self.say("notice", why)
        self.note(CRASH, why)
        self.disk.process_died()
        if self.paused:
            self.resume()
        self.replicas, self.channels = {}, {}
        self._peers, self._watchers = {}, {}
        self._timers, self._armed = {}, {}
        self._backlog, self._local, self._touched = [], [], {}

    def stop(self) -> None:
        """The process is told to end: its replicas may say so."""
        for queue, replica in self.replicas.items():
            replica.stop()
            self._touched[queue] = replica

    def pause(self) -> None:
        """The process does nothing from now on; what comes waits for it."""
        self.paused = True
        self.note(PAUSE)
        self._network.stand_still(self.name)

    def resume(self) -> None:
        self.paused = False
        self.note(RESUME)
        self._network.move_on(self.name)
        backlog, self._backlog = self._backlog, []
        life = self.incarnation
        if self.state != DOWN:
            for place, (callback, arguments) in enumerate(backlog):
                self.event(callback, *arguments)
                if self.incarnation != life:
                    return
                if self.paused or self.state == DOWN:
                    self._backlog = [*backlog[place + 1 :], *self._backlog]
                    return

    def keep(self, queue: str, first: bool, born: Born = Born()) -> None:  # noqa: B008 - it does not change
        """Keep a replica of a queue; the first member of a new one stands for election at once."""
        self.queues[queue] = born
        if self.state == UP:
            self.event(self._open, queue, first)

    def forget(self, queue: str) -> None:
        """Its replica is no more, nor what that had on the disk."""
        self.queues.pop(queue, None)
        self.replicas.pop(queue, None)
        self._touched.pop(queue, None)
        for timers in (self._timers, self._armed):
            for key in [key for key in timers if key[0] == queue]:
                del timers[key]
        self.disk.remove(queue)

    def order(self, queue: str, what: Callable[[Replica], None]) -> None:
        """An operator has its replica do something."""
        if queue in self.replicas:
            self.event(self._order, queue, what)

    def event(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Something happens to the process: now, or when it is resumed."""
        if self.paused:
            self._backlog.append((callback, arguments))
        elif self.state != DOWN:
            callback(*arguments)
            self._finish()

    def say(self, level: str, text: str) -> None:
        """A line in the node's log, by the node's own clock."""
        shown = self.clock.shown(self._loop.now()) / SECOND
        self.log.append(f"{shown:14.6f} [{level}] {text}")
        if self.hears is not None:
            self.hears(self.log[-1])
        if level == "error":
            self.errors[text] = None

    def note(self, kind: str, label: str = "", term: int | None = None, scope: str = "") -> None:
        """Something happens that a trace shows, if there is one."""
        recording = self._network.recording
        if recording is not None:
            recording.happened(Happening(self._loop.now(), self.name, kind, label, term, scope))

    # --- what it is connected to

    def accept(self, connection: Connection) -> None:
        """A client has connected."""
        self._accepted += 1
        channel = self._around.make_channel(self, self._accepted)
        self.channels[self._accepted] = channel
        channel.attach(connection)

    def end_channel(self, number: int) -> None:
        channel = self.channels.pop(number, None)
        if channel is None:
            return
        channel.end()
        for queue, watcher in self._watchers.pop(channel.pid, {}):
            self._send(watcher, (ENDED, queue, channel.pid))

    def connected(self, peer: str, connection: Connection, end: int) -> None:
        """There is a connection to another node, at this end of it."""
        old = self._peers.get(peer)
        if old is not None:
            old[0].drop(old[1], "replaced")
        self._peers[peer] = (connection, end)
        connection.receive[end] = partial(self.event, self._dispatch, peer)
        connection.lost[end] = lambda reason: self.event(self._disconnected, peer, connection, reason)
        self.event(self._up, peer)

    def is_connected(self, peer: str) -> bool:
        held = self._peers.get(peer)
        return held is not None and not held[0].closed[0] and not held[0].closed[1]

    def members(self, queue: str) -> tuple[str, ...] | None:
        return self._around.members(queue)

    def deliver(self, source: str, queue: str, message: Message) -> None:
        """A message to the replica of a queue, from whom there is no connection to."""
        self.event(self._dispatch, source, [(TO_REPLICA, queue, message)])

    # --- what its channels and replicas ask of it

    def request(self, target: str, queue: str, request: Message) -> None:
        """A channel asks the replica on a node."""
        self._send(target, (REQUEST, queue, request))

    def set_timer(self, key: TimerKey, delay: int) -> None:
        """Due after a time of the node's own clock. Setting it again replaces it."""
        now = self._loop.now()
        self._timers[key] = deadline = self.clock.monotonic(now) + delay
        due = self.clock.due(deadline)
        armed = self._armed.get(key)
        if armed is None or due < armed:  # a later one is found out when the earlier is due
            self._arm(key, due)

    def clock_changed(self) -> None:
        """The clock's rate was changed: timers are due at other times than was thought."""
        for key, deadline in self._timers.items():
            self._arm(key, self.clock.due(deadline))

    # --- inside

    def _booted(self, incarnation: int) -> None:
        if incarnation != self.incarnation or self.state != BOOTING:
            return
        if self.paused:
            self._backlog.append((self._booted, (incarnation,)))
            return
        self.state = UP
        self.say("notice", "serves")
        self.note(SERVES)
        self._network.reappear(self.name)
        for queue in self.queues:
            self._open(queue, False)
        self._finish()
        self._loop.at(self._loop.now() + WRITE_BACK, self._write_back, incarnation)
        self._around.served(self)

    def _order(self, queue: str, what: Callable[[Replica], None]) -> None:
        what(self.replicas[queue])
        self._touched[queue] = self.replicas[queue]

    def _write_back(self, incarnation: int) -> None:
        if incarnation == self.incarnation and self.state == UP:
            self.disk.write_back()
            self._loop.at(self._loop.now() + WRITE_BACK, self._write_back, incarnation)

    def _open(self, queue: str, first: bool) -> None:
        replica = self._around.make_replica(queue, self.name)
        self.replicas[queue] = replica
        for peer in self._peers:
            replica.up(peer)
        replica.start(self.disk.file(queue).records(), self._random.random())
        self._execute(queue, replica)
        if first:
            self.set_timer((queue, 0), 0)

    def _arm(self, key: TimerKey, due: int) -> None:
        self._armed[key] = due
        self._loop.at(due, self._due, key, due, self.incarnation)

    def _due(self, key: TimerKey, due: int, incarnation: int) -> None:
        if incarnation == self.incarnation and self._armed.get(key) == due:
            if self.paused:
                self._backlog.append((self._due, (key, due, incarnation)))
                return
            del self._armed[key]
            deadline = self._timers.get(key)
            if deadline is None:
                return
            if self.clock.monotonic(self._loop.now()) < deadline:
                self._arm(key, self.clock.due(deadline))
                return
            del self._timers[key]
            self.event(self._timer, key)

    def _timer(self, key: TimerKey) -> None:
        owner, name = key
        if isinstance(owner, int):
            channel = self.channels.get(owner)
            if channel is not None:
                channel.timer(str(name))
        else:
            replica = self.replicas[owner]
            replica.timer(int(name), self._random.random())
            self._touched[owner] = replica

    def _synced(self, queue: str, token: Any) -> None:
        self.event(self._tell_synced, queue, token, self.incarnation)

    def _tell_synced(self, queue: str, token: Any, incarnation: int) -> None:
        replica = self.replicas.get(queue)
        if incarnation == self.incarnation and replica is not None:
            replica.synced(token)
            self._touched[queue] = replica

    def _up(self, peer: str) -> None:
        self.say("info", f"connected to {peer}")
        for queue, replica in self.replicas.items():
            replica.up(peer)
            self._touched[queue] = replica
        for channel in self.channels.values():
            channel.connected(peer)

    def _disconnected(self, peer: str, connection: Connection, reason: str) -> None:
        held = self._peers.get(peer)
        if held is None or held[0] is not connection:
            return
        del self._peers[peer]
        self.say("warning", f"{peer} is down: {reason}")
        for queue, replica in self.replicas.items():
            replica.down(peer, self._random.random())
            self._touched[queue] = replica
        for watched in self._watchers.values():
            for watcher in [watcher for watcher in watched if watcher[1] == peer]:
                del watched[watcher]
        self._around.served(self)

    def _send(self, target: str, message: Message) -> None:
        if target == self.name:
            self._local.append(message)
        else:
            held = self._peers.get(target)
            if held is not None:
                held[0].send(held[1], message)

    def _dispatch(self, source: str, batch: list[Message]) -> None:
        replicas, touched = self.replicas, self._touched
        for message in batch:
            tag, queue = message[0], message[1]
            if tag == TO_REPLICA:
                replica = replicas.get(queue)
                if replica is not None:
                    replica.message(source, message[2])
                    touched[queue] = replica
            elif tag == REQUEST:
                replica = replicas.get(queue)
                if replica is not None:
                    replica.request(message[2][1], message[2])
                    touched[queue] = replica
            elif tag == TO_CHANNEL:
                _, incarnation, number = message[2]
                channel = self.channels.get(number)
                if channel is not None and incarnation == self.incarnation:
                    channel.from_queue(queue, source, message[3])
            elif tag == WATCH:
                pid = message[2]
                if pid[1] == self.incarnation and pid[2] in self.channels:
                    self._watchers.setdefault(pid, {})[queue, source] = None
                else:
                    self._send(source, (ENDED, queue, pid))
            else:
                replica = replicas.get(queue)
                if replica is not None:
                    replica.ended(message[2])
                    touched[queue] = replica

    def _finish(self) -> None:
        """Carry out what an event led to, and what that leads to within the node."""
        while self._touched or self._local:
            touched, self._touched = self._touched, {}
            for queue, replica in touched.items():
                replica.flush()
                if replica.effects:
                    self._execute(queue, replica)
            if self._local:
                batch, self._local = self._local, []
                self._dispatch(self.name, batch)

    def _execute(self, queue: str, replica: Replica) -> None:
        effects, replica.effects = replica.effects, []
        send = self._send
        for effect in effects:
            tag = effect[0]
            if tag == SEND:
                send(effect[1], (TO_REPLICA, queue, effect[2]))
            elif tag == TIMER:
                self.set_timer((queue, effect[1]), effect[2])
            elif tag == REPLY:
                send(effect[1][0], (TO_CHANNEL, queue, effect[1], effect[2]))
            elif tag == WRITE:
                self.disk.write(queue, effect[1])
            elif tag == SYNC:
                self.disk.sync(queue, effect[1])
            elif tag == MONITOR:
                send(effect[1][0], (WATCH, queue, effect[1]))
            elif tag == BELIEF:
                self._around.believes(self, queue, effect[1], effect[2])
            elif tag == LOG:
                self.say(effect[1], f"queue {queue}: {effect[2]}")
                self.note(NOTE, effect[2], scope=queue)
            elif tag == COMPACT:
                self.disk.replace(queue, effect[1], effect[2])
            else:
                self._around.carry_out(self, effect)
                if tag == EXIT:
                    return
