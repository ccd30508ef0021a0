"""A mirrored queue's replica: the master serves the channels and says on the ring what it did; mirrors do it after it.

After `rabbit_mirror_queue_master`, `rabbit_mirror_queue_slave` and `rabbit_mirror_queue_sync`. A channel sends a
publish to the master and, a second time, straight to each mirror (which keeps it until the ring says what became of
it). The publish is confirmed once it has gone round. A mirror that is promoted publishes what reached it from channels
alone. Synchronising stops the queue: requests wait until the last old message is at the mirrors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from clusters.simulated.mirrored.contents import Contents, Stored
from clusters.simulated.mirrored.membership import Membership
from clusters.simulated.mirrored.ring import ADDED, STATE, Operation
from clusters.simulated.mirrored.rules import (
    BATCH,
    BATCHED,
    DROPPED,
    GATHER,
    GATHER_TIMER,
    HEIR,
    LEADER,
    MIRROR,
    PROMOTED,
    PUBLISHED,
    SYNC_BATCH,
    SYNC_TIMER,
    SYNCHRONISED,
    Rules,
)
from clusters.simulated.replica import BELIEF, LOG, MONITOR, REPLY, SEND, TIMER, WRITE, Message, Pid, Record

# Requests of channels: (kind, channel, its number for it, a, b)
ATTACH = 0  # to the replica on its own node: tell who is the master, now and whenever that changes
PUBLISH = 1  # a = body; to all members; numbered by the channel from 1
SETTLE = 2  # a = consumer tag, b = delivery numbers: acknowledged
CONSUME = 3  # a = consumer tag, b = prefetch
GET = 4  # a = consumer tag: take one message, or hear that there is none
CANCEL = 5  # the replica's own: the channel is gone
RETURN = 6  # a = consumer tag, b = delivery numbers: requeued

# What a channel gets
MASTER = 0  # master or None, members
CONFIRMED = 1  # numbers of its publishes
ANSWER = 2  # number of the request, answer
DELIVER = 3  # consumer tag, [(delivery number, Stored), ...]

Waiting = tuple[int, Pid, int | Message]  # ring number, channel, its publish or an answer


class Mirror(Membership):
    """One member of a mirrored queue, whether master or mirror at the time."""

    __slots__ = (
        "_awaiting", "_direct", "_due", "_gathering", "_held", "_known", "_locals", "_published", "_targets", "_told",
        "_unanswered", "_unsent", "contents", "promotion", "synchronising",
    )  # fmt: skip

    def __init__(self, me: str, nodes: Sequence[str], rules: Rules) -> None:
        super().__init__(me, nodes, rules)
        self.contents = Contents()
        self._published: dict[Pid, int] = {}  # the newest publish of each channel that came by the ring
        self._direct: dict[Pid, dict[int, Any]] = {}  # publishes that came from channels, and not yet by the ring
        self._locals: dict[Pid, None] = {}  # channels on this node
        self._told: tuple[str | None, tuple[str, ...]] = (None, ())
        # the master's
        self._awaiting: deque[Waiting] = deque()  # who is to hear of it when an operation has gone round
        self._known: dict[Pid, None] = {}  # channels that are monitored
        self._gathering = False
        self.promotion = 0  # number of the operation that says so
        self.synchronising = False
        self._targets: tuple[tuple[str, int], ...] = ()  # which, and since when each is there
        self._unsent: list[Stored] = []  # messages that they lack
        self._unanswered: dict[str, None] = {}  # who is still taking the newest batch in
        self._due = False  # the time is over that it takes
        self._held: list[Message] = []  # requests that wait until the queue goes on

    @property
    def frozen(self) -> bool:
        """Whether the master's queue stands still: not all have heard of its promotion, or it synchronises mirrors."""
        return self.synchronising or self.done < self.promotion

    # --- events

    def start(self, records: Iterable[Record], draw: float) -> None:
        for record in records:
            self.replay(record)
        self.replayed()
        self.believe()

    def replay(self, record: Record) -> None:
        super().replay(record)
        if record[0] == STATE:
            self.contents.clear()
            self.contents.add(record[2])
        elif record[0] == ADDED:
            self.contents.add(record[1])

    def message(self, source: str, message: Message) -> None:
        if message[0] == BATCH:
            if self.role == MIRROR and source == self.view.master:
                self.contents.add(message[1])
                self.effects.append((WRITE, (ADDED, message[1])))
                self.effects.append((SEND, source, (BATCHED,)))
        elif message[0] == BATCHED:
            self._unanswered.pop(source, None)
            self._synchronise()
        else:
            super().message(source, message)

    def request(self, pid: Pid, request: Message) -> None:
        kind = request[0]
        if self.role == LEADER:
            if self.frozen and kind != ATTACH:
                self._held.append(request)
                return
            if kind == PUBLISH:
                self._publish(pid, request[2], request[3])
            elif kind == SETTLE:
                self._settle(pid, request[2], request[3], request[4])
            elif kind == RETURN:
                missing = self.contents.requeue((pid, request[3]), request[4])
                self.effects.append((REPLY, pid, (ANSWER, request[2], missing)))
            elif kind == CONSUME:
                self._monitor(pid)
                self.contents.consume((pid, request[3]), request[4])
                self.effects.append((REPLY, pid, (ANSWER, request[2], None)))
            elif kind == GET:
                self._monitor(pid)
                taken = self.contents.get((pid, request[3]))
                answer = None if taken is None else (request[3], *taken)
                self.effects.append((REPLY, pid, (ANSWER, request[2], answer)))
            elif kind == CANCEL:
                self.contents.cancel([key for key in self.contents.consumers if key[0] == pid])
        elif kind == PUBLISH and self.role == MIRROR and request[2] > self._published.get(pid, 0):
            self._direct.setdefault(pid, {})[request[2]] = request[3]
        if kind == ATTACH:
            self._locals[pid] = None
            self.effects.append((MONITOR, pid))
            self.effects.append((REPLY, pid, (MASTER, *self._told)))

    def timer(self, name: int, draw: float) -> None:
        if name == GATHER_TIMER:
            self._gathering = False
            self._eager = True
        elif name == SYNC_TIMER:
            self._due = True
            self._synchronise()
        else:
            super().timer(name, draw)

    def ended(self, pid: Pid) -> None:
        self._locals.pop(pid, None)
        self._known.pop(pid, None)
        if self.contents.leading:
            self.request(pid, (CANCEL, pid, 0, None, None))

    def flush(self) -> None:
        deliveries = self.contents.deliveries
        if deliveries:
            self.effects.extend([(REPLY, key[0], (DELIVER, key[1], items)) for key, items in deliveries.items()])
            self.contents.deliveries = {}
        super().flush()

    # --- operations

    def carry_out(self, number: int, operation: Operation) -> None:
        tag = operation[0]
        if tag == PUBLISHED:
            _, pid, own, body = operation
            self.contents.publish(number, body)
            self._published[pid] = own
            direct = self._direct.get(pid)
            if direct is not None:
                direct.pop(own, None)
                if not direct:
                    del self._direct[pid]
        elif tag == DROPPED:
            if not self.contents.leading:
                self.contents.drop(operation[1])
        elif tag == SYNCHRONISED:
            self.view = self.view.synchronised(operation[1])

    def believe(self) -> None:
        role = HEIR if self.role == LEADER and self.done < self.promotion else self.role
        self.effects.append((BELIEF, role, self.view.number))

    def rounded(self, before: int, done: int) -> None:
        if before < self.promotion <= done:
            self.believe()
        awaiting = self._awaiting
        confirmed: dict[Pid, list[int]] = {}
        while awaiting and awaiting[0][0] <= done:
            _, pid, what = awaiting.popleft()
            if isinstance(what, int):
                confirmed.setdefault(pid, []).append(what)
            else:
                self.effects.append((REPLY, pid, what))
        for pid, numbers in confirmed.items():
            self.effects.append((REPLY, pid, (CONFIRMED, numbers)))
        if self._held and not self.frozen:
            self._go_on()

    def _publish(self, pid: Pid, own: int, body: Any) -> None:
        if own > self._published.get(pid, 0):
            self.begin((PUBLISHED, pid, own, body))
            self._awaiting.append((self.last, pid, own))
            self._eager = True

    def _settle(self, pid: Pid, number: int, tag: int, deliveries: tuple[int, ...]) -> None:
        gone, missing = self.contents.settle((pid, tag), deliveries)
        answer = (ANSWER, number, missing)
        if not gone:
            self.effects.append((REPLY, pid, answer))
            return
        self.begin((DROPPED, gone))
        self._awaiting.append((self.last, pid, answer))
        if not self._gathering:
            self._gathering = True
            self.effects.append((TIMER, GATHER_TIMER, GATHER))
        if self.view.behind:
            self._see_who_is_cured()

    def _monitor(self, pid: Pid) -> None:
        if pid not in self._known:
            self._known[pid] = None
            self.effects.append((MONITOR, pid))

    # --- membership

    def state(self) -> Record:
        return (STATE, self.last, tuple(self.contents.messages.values()))

    def is_empty(self) -> bool:
        return not self.contents.messages

    def discard(self) -> None:
        if self.contents.messages:
            what = f"discards {len(self.contents.messages)} messages"
            self.effects.append((LOG, "notice", what))
        self.contents.clear()
        self._published, self._direct = {}, {}

    def promoted(self) -> None:
        self.contents.lead()
        self.begin((PROMOTED,))
        self.promotion = self.last
        direct, self._direct = self._direct, {}
        for pid, publishes in direct.items():
            for own in sorted(publishes):
                if own > self._published.get(pid, 0):
                    self.begin((PUBLISHED, pid, own, publishes[own]))
        self._eager = True

    def changed(self) -> None:
        if self.role != LEADER and self.contents.leading:
            self.contents.step_down()
            self._awaiting.clear()
            self._known, self._held, self._unsent, self._unanswered = {}, [], [], {}
            self.synchronising = self._gathering = False
        serves = self.role == LEADER or (self.role == MIRROR and self.view.master not in self.deaf)
        told = (self.view.master, self.view.members) if serves else (None, ())
        if told != self._told:
            self._told = told
            for pid in self._locals:
                self.effects.append((REPLY, pid, (MASTER, *told)))
        if self.synchronising:
            self._synchronise()
        elif self.role == LEADER and self.view.behind and self.rules.automatic:
            self._begin_to_synchronise()

    def _lose(self, node: str) -> None:
        super()._lose(node)
        if self.role == LEADER:
            for pid in self.contents.pids():
                if pid[0] == node:
                    self.request(pid, (CANCEL, pid, 0, None, None))

    # --- synchronising

    def _begin_to_synchronise(self) -> None:
        self._targets = tuple((node, self.view.since_of(node)) for node in self.view.behind)
        newest = max(since for _, since in self._targets)
        self._unsent = [stored for number, stored in self.contents.messages.items() if number <= newest]
        self.synchronising = self._due = True
        what = f"synchronises {len(self._unsent)} messages to {', '.join(self.view.behind)}: the queue stands still"
        self.effects.append((LOG, "notice", what))
        self._synchronise()

    def _synchronise(self) -> None:
        """Once a batch is at the mirrors, and the time is over that it takes, the next; after the last, go on."""
        ends = zip(self.view.members, self.view.since, strict=True)
        there = [node for node, since in ends if (node, since) in self._targets]
        self._unanswered = {node: None for node in self._unanswered if node in there}
        if not self.synchronising or not self._due or self._unanswered:
            return
        batch, self._unsent = tuple(self._unsent[:SYNC_BATCH]), self._unsent[SYNC_BATCH:]
        if batch and there:
            self._due = False
            self._unanswered = dict.fromkeys(there)
            self.effects.extend((SEND, node, (BATCH, batch)) for node in there)
            self.effects.append((TIMER, SYNC_TIMER, self.rules.sync_time * len(batch)))
            return
        self.effects.append((LOG, "notice", "the queue goes on"))
        self.synchronising = False
        self._unsent = []
        for node in there:
            self._is_synchronised(node)
        self.changed()
        if not self.frozen:
            self._go_on()

    def _go_on(self) -> None:
        held, self._held = self._held, []
        for request in held:
            self.request(request[1], request)

    def _see_who_is_cured(self) -> None:
        """What a mirror lacks was published before it came: once all of that is gone, it has everything."""
        oldest = next(iter(self.contents.messages), self.last + 1)
        for node in self.view.behind:
            if oldest > self.view.since_of(node):
                self._is_synchronised(node)

    def _is_synchronised(self, node: str) -> None:
        self.effects.append((LOG, "notice", f"{node} is synchronised"))
        self.begin((SYNCHRONISED, node))
        self._eager = True

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        return (
            super().snapshot(), self.contents.snapshot(), tuple(self._published.items()),
            tuple((pid, tuple(publishes.items())) for pid, publishes in self._direct.items()), tuple(self._locals),
            self._told, tuple(self._awaiting), tuple(self._known), self._gathering, self.promotion, self.synchronising,
            tuple(self._unsent), tuple(self._held), self._targets, tuple(self._unanswered), self._due,
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        (
            membership, contents, published, direct, locals_, self._told, awaiting, known, self._gathering,
            self.promotion, self.synchronising, unsent, held, self._targets, unanswered, self._due,
        ) = state  # fmt: skip
        super().restore(membership)
        self.contents.restore(contents)
        self._published = dict(published)
        self._direct = {pid: dict(publishes) for pid, publishes in direct}
        self._locals, self._known = dict.fromkeys(locals_), dict.fromkeys(known)
        self._unanswered = dict.fromkeys(unanswered)
        self._awaiting, self._unsent, self._held = deque(awaiting), list(unsent), list(held)
