"""The machine of a quorum queue: committed commands in, queue state and effects out. Deterministic.

After RabbitMQ's rabbit_fifo: messages wait in order, returned ones ahead of the others; consumers are served in turn
as far as their prefetch goes; an enqueuer numbers its messages, so that sending one again does no harm. Every replica
applies every command; only the leader's effects leave the node.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from clusters.simulated.replica import Pid

# Commands: (kind, pid, corr, a, b). `corr` is the channel's own number, with which the answer comes back.
NOOP = 0  # a new leader's first entry
ENQUEUE = 1  # a = the enqueuer's sequence number, from 1; b = body
SETTLE = 2  # a = consumer tag, b = tuple of delivery numbers: acknowledged
RETURN = 3  # a = consumer tag, b = tuple of delivery numbers: requeued
CHECKOUT = 4  # a = consumer tag, b = prefetch: a consumer subscribes
DEQUEUE = 5  # a = consumer tag: take one message, unacknowledged, or hear that there is none
DOWN = 6  # pid has ended
NODE_DOWN = 7  # a = node: out of reach; its consumers are suspected
NODE_UP = 8  # a = node: it was reached again

# Answers to commands
OK = True
NOT_ENQUEUED = False  # out of sequence: an earlier one of this enqueuer is missing

# What a channel gets, beside answers: (tag, ...)
APPLIED = 0  # (APPLIED, [(corr, answer), ...])
DELIVER = 1  # (DELIVER, consumer tag, [(delivery number, Stored), ...])
RESUMED = 2  # (RESUMED, consumer tag, [(delivery number, Stored), ...], next delivery number)

Stored = tuple[int, Any, int]  # (log index, body, how often it was returned)
Key = tuple[Pid, int]


class Consumer:
    """Who takes messages. `checked`: delivery number -> message, what it holds unacknowledged."""

    __slots__ = ("checked", "key", "next", "once", "prefetch", "queued", "up")

    def __init__(self, key: Key, prefetch: int, once: bool) -> None:
        self.key = key
        self.prefetch = prefetch
        self.once = once  # a poll: one message, and then no more
        self.next = 1
        self.checked: dict[int, Stored] = {}
        self.up = True
        self.queued = False


class Fifo:
    """The queue. `leading`: whether effects are gathered, in `replies`, `deliveries` and `monitors`.

    delivery_limit: a message returned more often than this is dropped (0: never), as when no dead-letter exchange is
    set. forget: a mutation for tests: messages whose log index is a multiple of it stay held though acknowledged.
    single_active: only `active` is served, until it ends or its node is out of reach; then the next that is there.
    """

    def __init__(self, delivery_limit: int = 0, forget: int = 0, single_active: bool = False) -> None:
        self.delivery_limit = delivery_limit
        self.forget = forget
        self.single_active = single_active
        self.leading = False
        self.clear()

    def clear(self) -> None:
        """An empty queue that nobody knows."""
        self.ready: deque[Stored] = deque()
        self.returned: deque[Stored] = deque()
        self.consumers: dict[Key, Consumer] = {}
        self.service: deque[Consumer] = deque()
        self.active: Key | None = None
        self.enqueuers: dict[Pid, int] = {}
        self.dropped = 0
        self.replies: dict[Pid, list[tuple[Any, Any]]] = {}
        self.deliveries: dict[Key, list[tuple[int, Stored]]] = {}
        self.monitors: list[Pid] = []

    @property
    def ready_count(self) -> int:
        return len(self.ready) + len(self.returned)

    @property
    def unacked_count(self) -> int:
        return sum(len(consumer.checked) for consumer in self.consumers.values())

    def bodies(self) -> list[Any]:
        """Every message that is not acknowledged, in the order in which they were published."""
        held = [stored for consumer in self.consumers.values() for stored in consumer.checked.values()]
        return [body for _, body, _ in sorted([*self.returned, *self.ready, *held], key=lambda stored: stored[0])]

    def pids(self) -> list[Pid]:
        """Every channel that the queue knows, in the order in which they came."""
        return list({**dict.fromkeys(self.enqueuers), **dict.fromkeys(pid for pid, _ in self.consumers)})

    def apply(self, index: int, command: tuple[Any, ...]) -> None:
        """Apply the committed command at this index of the log."""
        kind, pid, corr, a, b = command
        answer: Any = OK
        if kind == ENQUEUE:
            expected = self.enqueuers.get(pid)
            if expected is None:
                expected = 1
                self._meet(pid)
                self.enqueuers[pid] = 1
            if a == expected:
                self.enqueuers[pid] = a + 1
                self.ready.append((index, b, 0))
                if self.service:
                    self._serve()
            elif a > expected:
                answer = NOT_ENQUEUED
        elif kind == SETTLE:
            answer = self._settle(pid, a, b)
        elif kind == RETURN:
            consumer = self.consumers.get((pid, a))
            held = [] if consumer is None else [number for number in b if number in consumer.checked]
            if consumer is not None:
                self._return(consumer, held)
                self._may_serve(consumer)
            if len(held) < len(b):
                answer = tuple(number for number in b if number not in held)
        elif kind == CHECKOUT:
            key = (pid, a)
            consumer = self.consumers.get(key)
            if consumer is None:
                self._meet(pid)
                consumer = self.consumers[key] = Consumer(key, b, False)
            consumer.prefetch = b
            self._may_serve(consumer)
        elif kind == DEQUEUE:
            answer = self._dequeue(pid, a)
        elif kind == DOWN:
            self._down(pid)
        elif kind == NODE_DOWN:
            self._node_down(a)
        elif kind == NODE_UP:
            self._node_up(a)
        if self.leading and pid is not None and kind != DOWN:
            replies = self.replies.get(pid)
            if replies is None:
                self.replies[pid] = [(corr, answer)]
            else:
                replies.append((corr, answer))

    def checked_out(self, pid: Pid, tag: int, first: int) -> tuple[list[tuple[int, Stored]], int] | None:
        """What a consumer holds from delivery number `first` on, and its next number; None if it is not known."""
        consumer = self.consumers.get((pid, tag))
        if consumer is None:
            return None
        return [(number, stored) for number, stored in consumer.checked.items() if number >= first], consumer.next

    def snapshot(self) -> tuple[Any, ...]:
        """The state, flat: what a follower needs that is too far behind."""
        return (
            tuple(self.ready),
            tuple(self.returned),
            tuple((c.key, c.prefetch, c.once, c.next, c.up, tuple(c.checked.items())) for c in self.consumers.values()),
            tuple(consumer.key for consumer in self.service),
            tuple(self.enqueuers.items()),
            self.dropped,
            self.active,
        )

    def restore(self, state: tuple[Any, ...]) -> None:
        """Become the queue that `snapshot` was asked of, with no effects waiting."""
        self.clear()
        ready, returned, consumers, service, enqueuers, self.dropped, self.active = state
        self.ready.extend(ready)
        self.returned.extend(returned)
        for key, prefetch, once, next_, up, checked in consumers:
            consumer = self.consumers[key] = Consumer(key, prefetch, once)
            consumer.next, consumer.up, consumer.checked = next_, up, dict(checked)
        for key in service:
            consumer = self.consumers[key]
            consumer.queued = True
            self.service.append(consumer)
        self.enqueuers.update(enqueuers)

    def _meet(self, pid: Pid) -> None:
        if self.leading:
            self.monitors.append(pid)

    def _settle(self, pid: Pid, tag: int, numbers: tuple[int, ...]) -> Any:
        """OK, or the tuple of delivery numbers that it did not hold (any more)."""
        consumer = self.consumers.get((pid, tag))
        if consumer is None:
            return numbers
        checked = consumer.checked
        missing = None
        if self.forget:
            numbers = tuple(number for number in numbers if number not in checked or checked[number][0] % self.forget)
        for number in numbers:
            if checked.pop(number, None) is None:
                missing = [*(missing or ()), number]
        if consumer.once:
            if not checked:
                del self.consumers[consumer.key]
        else:
            self._may_serve(consumer)
        return OK if missing is None else tuple(missing)

    def _dequeue(self, pid: Pid, tag: int) -> tuple[int, Stored] | None:
        key = (pid, tag)
        consumer = self.consumers.get(key)
        if consumer is not None:  # asked again, because the answer was lost
            return next(iter(consumer.checked.items()), None)
        if not self.ready and not self.returned:
            return None
        self._meet(pid)
        consumer = self.consumers[key] = Consumer(key, 1, True)
        stored = self.returned.popleft() if self.returned else self.ready.popleft()
        consumer.checked[1] = stored
        consumer.next = 2
        return 1, stored

    def _down(self, pid: Pid) -> None:
        self.enqueuers.pop(pid, None)
        for consumer in [consumer for consumer in self.consumers.values() if consumer.key[0] == pid]:
            self._leave_service(consumer)
            self._return(consumer, list(consumer.checked))
            self.consumers.pop(consumer.key, None)
        self._stand_in()
        self._serve()

    def _node_down(self, node: str) -> None:
        for consumer in [consumer for consumer in self.consumers.values() if consumer.key[0][0] == node]:
            consumer.up = False
            self._leave_service(consumer)
            self._return(consumer, list(consumer.checked))
        self._stand_in()
        self._serve()

    def _node_up(self, node: str) -> None:
        for consumer in list(self.consumers.values()):
            if consumer.key[0][0] == node and not consumer.up:
                consumer.up = True
                self._may_serve(consumer)

    def _return(self, consumer: Consumer, numbers: list[int]) -> None:
        limit = self.delivery_limit
        for number in numbers:
            index, body, count = consumer.checked.pop(number)
            if limit and count >= limit:
                self.dropped += 1
            else:
                self.returned.append((index, body, count + 1))
        if consumer.once and not consumer.checked:
            self.consumers.pop(consumer.key, None)

    def _leave_service(self, consumer: Consumer) -> None:
        if consumer.queued:
            consumer.queued = False
            self.service.remove(consumer)

    def _stand_in(self) -> None:
        """Where one consumer at a time is served: if that one is gone or out of reach, the longest-standing other."""
        if self.single_active:
            active = None if self.active is None else self.consumers.get(self.active)
            if active is None or not active.up:
                self.active = None
                others = [one for one in self.consumers.values() if one.up and not one.once]
                if others:
                    self.active = others[0].key
                    self._may_serve(others[0])

    def _may_serve(self, consumer: Consumer) -> None:
        if self.single_active and consumer.key != self.active and not consumer.once:
            if self.active is None:
                self._stand_in()
            return
        if not consumer.queued and consumer.up and not consumer.once:
            if consumer.prefetch and len(consumer.checked) >= consumer.prefetch:
                return
            consumer.queued = True
            self.service.append(consumer)
        if self.ready or self.returned:
            self._serve()

    def _serve(self) -> None:
        ready, returned, service = self.ready, self.returned, self.service
        while service and (returned or ready):
            consumer = service[0]
            stored = returned.popleft() if returned else ready.popleft()
            number = consumer.next
            consumer.next = number + 1
            consumer.checked[number] = stored
            if self.leading:
                waiting = self.deliveries.get(consumer.key)
                if waiting is None:
                    self.deliveries[consumer.key] = [(number, stored)]
                else:
                    waiting.append((number, stored))
            if consumer.prefetch and len(consumer.checked) >= consumer.prefetch:
                consumer.queued = False
                service.popleft()
            else:
                service.rotate(-1)
