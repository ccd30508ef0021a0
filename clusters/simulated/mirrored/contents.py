"""What a mirrored queue holds on one node: its messages and, on the master, who consumes them.

After `rabbit_amqqueue_process` and `rabbit_variable_queue`: messages wait in the order in which they were published,
returned ones take their old places, and consumers are served in turn as far as their prefetch goes. Consumers are not
mirrored; to a new master whatever was not acknowledged is there to be delivered (again).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from clusters.simulated.replica import Pid

Stored = tuple[int, Any, int]  # (ring number, body, how often it may have been delivered)
Key = tuple[Pid, int]  # channel, consumer tag


class Consumer:
    """Who takes messages. `checked`: delivery number -> ring number of the message, what it holds unacknowledged."""

    __slots__ = ("checked", "key", "next", "once", "prefetch", "queued")

    def __init__(self, key: Key, prefetch: int, once: bool) -> None:
        self.key = key
        self.prefetch = prefetch
        self.once = once  # a poll: one message, and then no more
        self.next = 1
        self.checked: dict[int, int] = {}
        self.queued = False


class Contents:
    """`messages`: ring number -> message, all that is not acknowledged. The rest is the master's: `ready`, those that
    nobody holds, by number; `deliveries`: what is to be told to consumers."""

    def __init__(self) -> None:
        self.leading = False
        self.clear()

    def clear(self) -> None:
        """Nothing, and nobody."""
        self.messages: dict[int, Stored] = {}
        self.step_down()

    def step_down(self) -> None:
        """No longer the master's: consumers are forgotten."""
        self.leading = False
        self.ready: deque[int] = deque()
        self.consumers: dict[Key, Consumer] = {}
        self.service: deque[Consumer] = deque()
        self.deliveries: dict[Key, list[tuple[int, Stored]]] = {}

    def lead(self) -> None:
        """The master's from now on: every message is ready, and may have been delivered before."""
        self.step_down()
        self.leading = True
        self.messages = {number: (number, body, count + 1) for number, (_, body, count) in self.messages.items()}
        self.ready.extend(self.messages)

    def publish(self, number: int, body: Any) -> None:
        self.messages[number] = (number, body, 0)
        if self.leading:
            self.ready.append(number)
            if self.service:
                self._serve()

    def drop(self, numbers: Iterable[int]) -> None:
        """These were acknowledged; those that a mirror never had are none of its business."""
        for number in numbers:
            self.messages.pop(number, None)

    def add(self, messages: Iterable[Stored]) -> None:
        """Messages that were published before this mirror came in."""
        missing = {stored[0]: stored for stored in messages}
        self.messages = dict(sorted({**missing, **self.messages}.items()))

    # --- the master's

    def consume(self, key: Key, prefetch: int) -> None:
        self._may_serve(self.consumers.setdefault(key, Consumer(key, prefetch, False)))

    def get(self, key: Key) -> tuple[int, Stored] | None:
        """A poll: one message, with its delivery number, or None."""
        if not self.ready:
            return None
        consumer = self.consumers[key] = Consumer(key, 1, True)
        number = self.ready.popleft()
        consumer.checked[1] = number
        return 1, self.messages[number]

    def settle(self, key: Key, deliveries: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Acknowledge deliveries: the messages that are gone now, and the deliveries that it did not hold."""
        consumer = self.consumers.get(key)
        if consumer is None:
            return (), deliveries
        gone, missing = [], []
        for delivery in deliveries:
            number = consumer.checked.pop(delivery, None)
            if number is None:
                missing.append(delivery)
            else:
                gone.append(number)
        self.drop(gone)
        if consumer.once:
            if not consumer.checked:
                del self.consumers[key]
        else:
            self._may_serve(consumer)
        return tuple(gone), tuple(missing)

    def requeue(self, key: Key, deliveries: tuple[int, ...]) -> tuple[int, ...]:
        """Put what a consumer holds back in its place: the deliveries that it did not hold."""
        consumer = self.consumers.get(key)
        if consumer is None:
            return deliveries
        held = [delivery for delivery in deliveries if delivery in consumer.checked]
        self._put_back([consumer.checked.pop(delivery) for delivery in held])
        if consumer.once and not consumer.checked:
            del self.consumers[key]
        elif not consumer.once:
            self._may_serve(consumer)
        self._serve()
        return tuple(delivery for delivery in deliveries if delivery not in held)

    def cancel(self, keys: Iterable[Key]) -> None:
        """These consumers are gone: what they held goes back to its place."""
        returned: list[int] = []
        for key in keys:
            consumer = self.consumers.pop(key)
            if consumer.queued:
                self.service.remove(consumer)
            returned += consumer.checked.values()
        self._put_back(returned)
        self._serve()

    def _put_back(self, numbers: list[int]) -> None:
        for number in numbers:
            _, body, count = self.messages[number]
            self.messages[number] = (number, body, count + 1)
        self.ready = deque(sorted([*numbers, *self.ready]))

    def pids(self) -> list[Pid]:
        return list(dict.fromkeys(pid for pid, _ in self.consumers))

    def _may_serve(self, consumer: Consumer) -> None:
        if not consumer.queued and not (consumer.prefetch and len(consumer.checked) >= consumer.prefetch):
            consumer.queued = True
            self.service.append(consumer)
        if self.ready:
            self._serve()

    def _serve(self) -> None:
        ready, service, messages = self.ready, self.service, self.messages
        while service and ready:
            consumer = service[0]
            number = ready.popleft()
            delivery = consumer.next
            consumer.next = delivery + 1
            consumer.checked[delivery] = number
            self.deliveries.setdefault(consumer.key, []).append((delivery, messages[number]))
            if consumer.prefetch and len(consumer.checked) >= consumer.prefetch:
                consumer.queued = False
                service.popleft()
            else:
                service.rotate(-1)

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        return (
            tuple(self.messages.values()), self.leading, tuple(self.ready),
            tuple((c.key, c.prefetch, c.once, c.next, tuple(c.checked.items())) for c in self.consumers.values()),
            tuple(consumer.key for consumer in self.service),
            tuple((key, tuple(items)) for key, items in self.deliveries.items()),
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        messages, leading, ready, consumers, service, deliveries = state
        self.clear()
        self.leading = leading
        self.messages = {stored[0]: stored for stored in messages}
        self.ready.extend(ready)
        for key, prefetch, once, next_, checked in consumers:
            consumer = self.consumers[key] = Consumer(key, prefetch, once)
            consumer.next, consumer.checked = next_, dict(checked)
        for key in service:
            self.consumers[key].queued = True
            self.service.append(self.consumers[key])
        self.deliveries = {key: list(items) for key, items in deliveries}
