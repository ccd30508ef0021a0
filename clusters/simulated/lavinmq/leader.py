"""What a LavinMQ node does as leader: its queues, its followers, and what a confirm waits for.

After LavinMQ's source (clustering/server.cr, follower.cr): each change goes to every follower in sync; a follower that
is gone makes the in-sync set in etcd stale, and nothing more is taken until it is written anew. A follower that joins
gets the list of files and what it lacks of them while the leader goes on, and once more while the leader stands still;
then it is in sync. One follower joins at a time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from chaos.kernel.clock import MILLISECOND
from clusters.simulated.channel import DELIVERED, DONE, FAILED
from clusters.simulated.fifo import CHECKOUT, DEQUEUE, DOWN, ENQUEUE, RETURN, SETTLE, Fifo
from clusters.simulated.lavinmq.rules import CHANGES, COPIED, COPY, DECLARE_QUEUE, FILES, GONE
from clusters.simulated.lavinmq.store import ADD, DEFINITIONS, DELETE, Change
from clusters.simulated.replica import LOG, MONITOR, REPLY, SEND, SYNC, TIMER, Message, Pid

if TYPE_CHECKING:
    from clusters.simulated.lavinmq.server import Server

# What a channel asks for: (kind, pid, the client's number, queue, ...), kinds as `fifo` has them
PUBLISH = ENQUEUE  # body
ACKNOWLEDGE = SETTLE  # consumer tag, delivery numbers; instead of the client's number, those of its operations
SUBSCRIBE = CHECKOUT  # prefetch; the client's number is the consumer's tag
POLL = DEQUEUE
REJECT = RETURN  # consumer tag, delivery numbers

ROUND_TRIP = MILLISECOND  # until a connection that is gone answers a message with a reset


class Queue:
    """A queue in the leader's memory. `left`: unacknowledged messages in each segment."""

    __slots__ = ("fifo", "left", "next")

    def __init__(self, messages: list[tuple[int, Any]], left: dict[int, int], next_: int) -> None:
        self.fifo = Fifo()
        self.fifo.leading = True
        self.fifo.ready.extend((number, body, 0) for number, body in messages)
        self.left = left
        self.next = next_


class Leader:
    """`followers`: those in sync, with the number of the last change that each has."""

    __slots__ = (
        "_confirms", "_copying", "_dirty", "_durable", "_gone", "_inbox", "_joining", "_outgoing", "_pausing",
        "_server", "_sessions", "_syncing", "_touched", "_waiting", "_writing", "followers", "number", "queues",
    )  # fmt: skip

    def __init__(self, server: Server) -> None:
        self._server = server
        self.queues = {name: Queue(*server.store.load(name)) for name in server.store.queues()}
        self.followers: dict[str, int] = {}
        self.number = 0  # of the last change
        self._sessions: dict[str, int] = {}
        self._waiting: dict[str, None] = {}  # followers that want to join
        self._gone: dict[str, bool] = {}  # followers that were lost, which is not known yet; whether it soon will be
        self._joining: str | None = None
        self._copying: tuple[str, ...] = ()
        self._pausing = False
        self._dirty = True  # the in-sync set in etcd is not, or may not be, what it should
        self._writing: tuple[str, ...] | None = None
        self._outgoing: list[Change] = []
        self._inbox: deque[Message] = deque()
        self._confirms: deque[tuple[int, Pid, Message]] = deque()  # change, channel, what it is to hear
        self._durable = 0
        self._syncing = False
        self._touched: dict[str, None] = {}

    @property
    def serves(self) -> bool:
        """Whether operations are taken."""
        return self._writing is None and not self._pausing

    # --- operations

    def request(self, request: Message) -> None:
        """An operation: now, or as soon as the leader is free for it."""
        if self._dirty and self._writing is None:
            self._write_set()
        if self._inbox or not self.serves:
            self._inbox.append(request)
        else:
            self._do(request)

    def ended(self, pid: Pid) -> None:
        """A channel is gone."""
        for name, queue in self.queues.items():
            self._touched[name] = None
            queue.fifo.apply(0, (DOWN, pid, None, None, None))

    def flush(self) -> None:
        """Send what was gathered; take what had to wait, if it need not any longer."""
        while self._inbox and self.serves:
            if self._dirty:
                self._write_set()
            else:
                self._do(self._inbox.popleft())
        self._send_changes()
        if self._confirms:
            self._confirm()
        touched, self._touched = self._touched, {}
        for name in touched:
            self._deliver(name, self.queues[name].fifo)

    def _do(self, request: Message) -> None:
        if request[0] == DECLARE_QUEUE:
            self._declare(request[1])
            return
        kind, pid, corr, name, *_ = request
        queue = self.queues.get(name)
        if queue is None:
            self._server.effects.append((REPLY, pid, (FAILED, corr, f"no queue {name!r}")))
            return
        self._touched[name] = None
        fifo = queue.fifo
        if kind == PUBLISH:
            number = queue.next
            queue.next = number + 1
            place = (number - 1) // self._server.rules.segment
            queue.left[place] = queue.left.get(place, 0) + 1
            self._change((ADD, self._server.store.messages_file(name, number), (number, request[4])))
            fifo.apply(number, (ENQUEUE, pid, (kind, corr), fifo.enqueuers.get(pid, 1), request[4]))
        elif kind == ACKNOWLEDGE:
            self._acknowledge(name, queue, pid, request[4], request[5])
            for operation in corr:
                self._server.effects.append((REPLY, pid, (DONE, operation, False)))
        elif kind == REJECT:
            fifo.apply(0, (RETURN, pid, None, request[4], request[5]))
            self._server.effects.append((REPLY, pid, (DONE, corr, False)))
        else:
            fifo.apply(0, (kind, pid, (kind, corr), corr, request[4] if kind == SUBSCRIBE else None))

    def _declare(self, name: str) -> None:
        if name not in self.queues:
            self.queues[name] = Queue([], {}, 1)
            self._change((ADD, DEFINITIONS, name))

    def _acknowledge(self, name: str, queue: Queue, pid: Pid, tag: int, numbers: tuple[int, ...]) -> None:
        consumer = queue.fifo.consumers.get((pid, tag))
        if consumer is None:
            return
        store, segment = self._server.store, self._server.rules.segment
        acked = [consumer.checked[number][0] for number in numbers if number in consumer.checked]
        queue.fifo.apply(0, (SETTLE, pid, None, tag, numbers))
        for number in acked:
            self._change((ADD, store.acks_file(name, number), number))
            place = (number - 1) // segment
            queue.left[place] -= 1
            if not queue.left[place] and place != (queue.next - 1) // segment:
                del queue.left[place]
                self._change((DELETE, store.messages_file(name, number)))
                self._change((DELETE, store.acks_file(name, number)))

    def _change(self, change: Change) -> None:
        self.number += 1
        self._outgoing.append(change)
        if change[0] == ADD:
            self._server.write(change)
        else:
            self._server.forget((change[1],))

    def _send_changes(self) -> None:
        if self._outgoing:
            changes, self._outgoing = self._outgoing, []
            for node in self.followers:
                if self._gone.get(node) is False:
                    self._gone[node] = True
                    self._server.effects.append((TIMER, GONE, ROUND_TRIP))
                message = (CHANGES, self._sessions[node], self.number, changes)
                self._server.effects.append((SEND, node, message))

    def _deliver(self, name: str, fifo: Fifo) -> None:
        effects = self._server.effects
        for pid, answers in fifo.replies.items():
            for corr, answer in answers:
                if corr is None:
                    continue
                kind, operation = corr
                if kind == PUBLISH:
                    self._confirms.append((self.number, pid, (DONE, operation, None)))
                elif kind == POLL:
                    taken = None if answer is None else (operation, *answer)
                    effects.append((REPLY, pid, (DONE, operation, taken)))
                else:
                    effects.append((REPLY, pid, (DONE, operation, None)))
        fifo.replies = {}
        for key, items in fifo.deliveries.items():
            effects.append((REPLY, key[0], (DELIVERED, name, key[1], items)))
        fifo.deliveries = {}
        effects.extend([(MONITOR, pid) for pid in fifo.monitors])
        fifo.monitors = []
        if self._confirms:
            self._confirm()

    # --- confirms

    def acked(self, node: str, session: int, number: int) -> None:
        """A follower has the changes up to that number."""
        if node in self.followers and session == self._sessions[node]:
            self.followers[node] = max(number, self.followers[node])

    def synced(self, number: int) -> None:
        """Changes up to that number are on our own disk."""
        self._syncing = False
        self._durable = max(number, self._durable)

    def _confirm(self) -> None:
        """Tell channels of what is as safe as the rules want it."""
        rules = self._server.rules
        upto = self.number
        if rules.waits:
            if self._dirty or self._writing is not None:
                if self._writing is None:
                    self._write_set()
                return
            upto = min(self.followers.values(), default=upto)
        if rules.syncs and not (rules.waits and self.followers):
            upto = self._durable
            if upto < self.number and not self._syncing:
                self._syncing = True
                self._server.effects.append((SYNC, self.number))
        confirms = self._confirms
        while confirms and confirms[0][0] <= upto:
            _, pid, message = confirms.popleft()
            self._server.effects.append((REPLY, pid, message))

    # --- followers

    def join(self, node: str, session: int) -> None:
        """A node wants to follow."""
        self.drop(node)
        self._sessions[node] = session
        self._waiting[node] = None
        self._next()

    def lost(self, node: str) -> None:
        """The connection to a node is gone. Who does not wait for followers notices when it next sends to this one."""
        if self._server.rules.waits or node not in self.followers:
            self.drop(node)
        else:
            self._gone.setdefault(node, False)

    def found_out(self) -> None:
        """What was sent to followers that were lost has come back."""
        for node in [node for node, soon in self._gone.items() if soon]:
            self.drop(node)

    def drop(self, node: str) -> None:
        """A node does not follow any longer."""
        self._gone.pop(node, None)
        self._waiting.pop(node, None)
        if node == self._joining:
            self._joining = None
            self._pausing = False
        elif self.followers.pop(node, None) is not None:
            self._server.effects.append((LOG, "warning", f"{node} follows no longer"))
            self._dirty = True
        self._next()

    def want(self, node: str, session: int, names: tuple[str, ...]) -> None:
        """The files that a node lacks. It takes time to copy them."""
        if self._is_joining(node, session):
            self._copying = names
            count = sum(len(self._server.store.records(name)) for name in names)
            if count:
                self._server.effects.append((TIMER, COPY, count * self._server.rules.copy))
            else:
                self.copy()

    def copy(self) -> None:
        """The time that it takes to copy files is over."""
        if self._joining is not None:
            files = [(name, tuple(self._server.store.records(name))) for name in self._copying]
            message = (COPIED, self._sessions[self._joining], files)
            self._server.effects.append((SEND, self._joining, message))

    def have(self, node: str, session: int) -> None:
        """A node has what it lacked: now the rest, with everything standing still; or it is in sync."""
        if not self._is_joining(node, session):
            return
        if not self._pausing:
            self._pausing = True
            self._server.effects.append((LOG, "info", f"stands still for the last that {node} lacks"))
            self._send_changes()
            self._list(node)
            return
        self._server.effects.append((LOG, "info", f"{node} is in sync"))
        self.followers[node] = self.number
        self._joining = None
        self._pausing = False
        self._dirty = True
        if self._writing is None:
            self._write_set()
        self._next()

    def _is_joining(self, node: str, session: int) -> bool:
        return node == self._joining and session == self._sessions[node]

    def _next(self) -> None:
        if self._joining is None and self._waiting:
            self._joining = node = next(iter(self._waiting))
            del self._waiting[node]
            self._list(node)

    def _list(self, node: str) -> None:
        self._server.effects.append((LOG, "info", f"lists its files to {node}"))
        self._server.effects.append((SEND, node, (FILES, self._sessions[node], self._server.store.files())))

    # --- the in-sync set

    def _write_set(self) -> None:
        nodes = self._in_sync()
        self._writing = nodes
        self._server.write_in_sync_set(nodes)

    def _in_sync(self) -> tuple[str, ...]:
        me = self._server.me
        return tuple(node for node in self._server.members if node == me or node in self.followers)

    def set_written(self, written: bool) -> None:
        """The in-sync set is in etcd; or another leads."""
        if not written:
            self._server.exit(3, "stale leadership")
            return
        self._server.effects.append((LOG, "info", f"in-sync replicas: {', '.join(self._writing or ())}"))
        self._dirty = self._writing != self._in_sync()
        self._writing = None
        if self._dirty:  # somebody came, or went, meanwhile
            self._write_set()

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        queues = tuple(
            (name, queue.fifo.snapshot(), tuple(queue.left.items()), queue.next) for name, queue in self.queues.items()
        )
        return (
            queues, tuple(self.followers.items()), self.number, tuple(self._sessions.items()), tuple(self._waiting),
            self._joining, self._copying, self._pausing, self._dirty, self._writing, tuple(self._outgoing),
            tuple(self._inbox), tuple(self._confirms), self._durable, self._syncing, tuple(self._touched),
            tuple(self._gone.items()),
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        (
            queues, followers, self.number, sessions, waiting, self._joining, self._copying, self._pausing, self._dirty,
            self._writing, outgoing, inbox, confirms, self._durable, self._syncing, touched,
            gone,
        ) = state  # fmt: skip
        self.queues = {}
        for name, fifo, left, next_ in queues:
            self.queues[name] = Queue([], dict(left), next_)
            self.queues[name].fifo.restore(fifo)
        self.followers, self._sessions = dict(followers), dict(sessions)
        self._gone = dict(gone)
        self._waiting, self._touched = dict.fromkeys(waiting), dict.fromkeys(touched)
        self._outgoing, self._inbox, self._confirms = list(outgoing), deque(inbox), deque(confirms)
