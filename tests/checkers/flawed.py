"""A queue as brokers keep it, between clients that pipeline, prefetch, poll and drop; and with flaws, if it is told to.

Everything is drawn from one `Random`. Time passes in steps; in each, something happens somewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from chaos.model.history import History
from chaos.model.op import FAIL, INFO, OK
from tests.checkers.histories import Story

FLAWS = ("lose", "swap", "again", "phantom", "lie-empty", "late", "back", "unmark")


@dataclass
class Message:
    """One that was published. handed: how often it was given to somebody."""

    id: int
    op: int
    queue: str
    handed: int = 0


@dataclass
class Consumer:
    """A channel. credits: granted, unanswered. coming: on their way to it. held: delivered, unacked."""

    process: int
    channel: int
    queue: str
    polls: bool
    credits: list[int] = field(default_factory=list)
    coming: list[Message] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)


class Flawed:
    """`flaws`: of FLAWS. `marks`: whether deliveries say that they are repeats."""

    def __init__(self, random: Random, flaws: Sequence[str] = (), *, marks: bool = True, queues: str = "a",
                 polls: bool = False, drops: bool = True) -> None:  # fmt: skip
        self.random, self.flaws, self.marks, self.queues = random, flaws, marks, queues
        self.story = Story()
        self.next = 1
        self.sending: dict[tuple[int, str], list[Message]] = {}
        self.ready: dict[str, list[Message]] = {queue: [] for queue in queues}
        self.unconfirmed: list[Message] = []
        self.consumers = [Consumer(10 + n, 0, random.choice(queues), polls and random.random() < 0.5) for n in range(3)]
        self.drops = drops
        self.acks: list[int] = []

    def run(self, steps: int, *, drain: bool = True) -> History:
        todo = [self.publish] * 3 + [self.enqueue] * 4 + [self.confirm] * 3 + [self.credit] * 4 + [self.hand_out] * 4
        todo += [self.arrive] * 4 + [self.ack] * 3 + ([self.drop] if self.drops and self.random.random() < 0.5 else [])
        often = self.random.choice([0.02, 0.1])
        for _ in range(steps):
            self.random.choice(todo)()
            if self.flaws and self.random.random() < often:
                self._flaw(self.random.choice(self.flaws))
        if drain:
            self._drain()
        return self.story.history()

    def _drain(self) -> None:
        for _ in range(10 * self.next + 50):
            self.random.choice([self.enqueue, self.confirm, self.hand_out, self.arrive, self.ack, self.credit])()
        left = any(self.ready.values()) or any(self.sending.values())
        if not left and not any(consumer.coming for consumer in self.consumers):
            for queue in self.queues:
                self.story.drain(queue)

    def publish(self) -> None:
        queue, process = self.random.choice(self.queues), self.random.randrange(2)
        op = self.story.begin(process, "publish", key=queue, value=self.next)
        message = Message(self.next, op, queue)
        self.next += 1
        self.sending.setdefault((process, queue), []).append(message)
        self.unconfirmed.append(message)

    def enqueue(self) -> None:
        waiting = [channel for channel in self.sending if self.sending[channel]]
        if waiting:
            message = self.sending[self.random.choice(waiting)].pop(0)
            if self.random.random() < 0.03:  # refused
                self.unconfirmed.remove(message)
                self.story.end(message.op, FAIL)
            else:
                self.ready[message.queue].append(message)

    def confirm(self) -> None:
        sent = {message.id for messages in self.sending.values() for message in messages}
        done = [message for message in self.unconfirmed if message.id not in sent]
        if done:
            message = self.random.choice(done[:2])
            self.unconfirmed.remove(message)
            if self.random.random() > 0.02:  # (else never)
                self.story.end(message.op, INFO if self.random.random() < 0.05 else OK)

    def credit(self) -> None:
        consumer = self.random.choice(self.consumers)
        if len(consumer.credits) < (1 if consumer.polls else 3):
            consumer.credits.append(self.story.credit(consumer.queue, consumer.process, channel=consumer.channel))
            if consumer.polls and not self.ready[consumer.queue] and not consumer.coming:
                self.story.end(consumer.credits.pop(), value=None)

    def hand_out(self) -> None:
        consumer = self.random.choice(self.consumers)
        queue = self.ready[consumer.queue]
        if queue and len(consumer.coming) < len(consumer.credits):
            message = queue.pop(0)
            consumer.coming.append(message)
            message.handed += 1

    def arrive(self) -> None:
        consumer = self.random.choice(self.consumers)
        if consumer.coming and consumer.credits:
            message = consumer.coming.pop(0)
            mark = message.handed > 1 if self.marks else None
            self.story.end(consumer.credits.pop(0), value=message.id, redelivered=mark)
            consumer.held.append(message)

    def ack(self) -> None:
        if self.acks and self.random.random() < 0.5:
            self.story.end(self.acks.pop(0), self.random.choice([OK, INFO]))
        consumer = self.random.choice(self.consumers)
        if consumer.held:
            message = consumer.held.pop(0)
            self.acks.append(
                self.story.begin(
                    consumer.process, "ack", key=consumer.queue, value=message.id, channel=consumer.channel
                )
            )

    def drop(self) -> None:
        if self.random.random() < 0.7:
            return
        at = self.random.randrange(len(self.consumers))
        consumer = self.consumers[at]
        self.ready[consumer.queue][:0] = consumer.held + consumer.coming
        self.story.close(consumer.process, consumer.channel)
        for credit in consumer.credits:
            if self.random.random() < 0.6:
                self.story.end(credit, INFO)
        self.consumers[at] = Consumer(consumer.process, consumer.channel + 1, consumer.queue, consumer.polls)

    def _flaw(self, flaw: str) -> None:
        queue = self.ready[self.random.choice(self.queues)]
        consumer = self.random.choice(self.consumers)
        if flaw == "lose" and queue:
            queue.pop(self.random.randrange(len(queue)))
        elif flaw == "swap" and len(queue) > 1:
            queue.append(queue.pop(0))
        elif flaw == "again" and consumer.held:
            queue.insert(0, Message(consumer.held[0].id, consumer.held[0].op, consumer.queue))
        elif flaw == "unmark" and consumer.held:
            self.ready[consumer.queue].insert(0, Message(consumer.held[0].id, -1, consumer.queue))
        elif flaw == "phantom":
            queue.append(Message(100_000 + self.next, -1, ""))
        elif flaw == "lie-empty" and consumer.polls and consumer.credits and not consumer.coming:
            self.story.end(consumer.credits.pop(), value=None)
        elif flaw == "late" and queue:
            queue.insert(self.random.randrange(len(queue)), queue.pop(0))
        elif flaw == "back" and consumer.held + consumer.coming:  # taken for dead, while it lives
            self.ready[consumer.queue][:0] = consumer.held + consumer.coming
