"""The `queue` workload: producers with unique ids, consumers that acknowledge, and in the end a drain.

Producers and consumers are spread over the nodes, all or those told, and stay with theirs unless told otherwise, so
that every side of a partition is asked. With dead letters each queue is a pair: messages are published to the first,
expire there, and are consumed from the second; the history calls both by the first one's name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from chaos.kernel.clock import MILLISECOND, SECOND, sleep_until
from chaos.kernel.generators import always, each_key, stagger
from chaos.model.op import CONTROLLER, INFO, OK
from chaos.model.settings import BadKey, Setting, boolean, choice, duration, integer, number
from clusters.base import DEAD_LETTERS, NO_ACKS, SINGLE_ACTIVE, QueueClient, QueueOptions, Unknown
from workloads.base import Context, Workload
from workloads.consumer import Consumer
from workloads.producer import Ids, Producer
from workloads.worker import Worker

NONE = "none"
SAME, NEXT = "same", "next"
AT_MOST_ONCE = "at-most-once"
QUIET = SECOND
BETWEEN_COUNTS = 500 * MILLISECOND


def nodes(value: object) -> tuple[str, ...] | None:
    """Setting type: nodes by name, joined with "+"; None for all of them."""
    if value is None or value == "all":
        return None
    names = tuple(value.split("+")) if isinstance(value, str) else tuple(value) if isinstance(value, list) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f'{value!r} is neither "all" nor nodes such as "n1+n3"')
    return names


class Queue(Workload):
    """Publish at a rate, consume and acknowledge, then drain."""

    name = "queue"
    meaning = "producers publish with confirms, consumers acknowledge, then every queue is drained"
    checkers = ("messages", "order", "linearizable", "leaders", "availability", "latency", "exceptions", "earned")
    settings = (
        Setting("rate", number(0.1, 1_000_000), 100, "publishes a second, all producers together"),
        Setting("producers", integer(1, 1000), 3, "how many clients publish"),
        Setting("consumers", integer(1, 1000), 3, "how many clients consume; at least one a queue"),
        Setting("queues", integer(1, 100), 1, "how many queues the messages are spread over"),
        Setting(
            "consume",
            choice("asynchronous", "polling", "mixed", NONE),
            "asynchronous",
            "subscribe, poll, half and half, or not before the drain",
        ),
        Setting("prefetch", integer(1, 10_000), 20, "unacknowledged messages that a subscriber may hold"),
        Setting("single_active", boolean, False, "one consumer of a queue at a time is served, the others stand by"),
        Setting("dead_letters", boolean, False, "messages expire, and are consumed where they go to then"),
        Setting("ttl", duration, "1s", "with dead_letters: how long a message waits before it expires"),
        Setting("producers_on", nodes, "all", 'which nodes producers speak to, such as "n1+n3"'),
        Setting("consumers_on", nodes, "all", "which nodes consumers speak to"),
        Setting("reconnect_to", choice(SAME, NEXT), SAME, "the node that a client lost, or the next one of its own"),
        Setting("poison", integer(0), 0, "every so many-th message crashes whoever takes it, before the ack; 0 = none"),
        Setting("size", integer(1, 10_000_000), 100, "bytes of a message, at least what its header needs"),
        Setting("window", integer(1, 100_000), 200, "publishes of one producer that may wait for confirms at a time"),
        Setting("timeout", duration, "5s", "how long an answer may take before the outcome is unknown"),
        Setting("reconnect", duration, "500ms", "pause between attempts to connect"),
        Setting("drain", duration, "120s", "how long draining may take in the end"),
        Setting(
            "delivery",
            choice("at-least-once", "exactly-once", AT_MOST_ONCE),
            "at-least-once",
            "what is promised; at-most-once: to consumers without acknowledgements",
        ),
    )

    @classmethod
    def implied(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        untimed = options["delivery"] == AT_MOST_ONCE and options["consume"] != "polling"
        if options["dead_letters"] or untimed:
            # On the way from one queue to the other a message is nowhere, and may be overtaken; and when a message was
            # taken that nobody acknowledges is not known.
            implied = tuple(name for name in cls.checkers if name not in ("order", "linearizable"))
        else:
            implied = cls.checkers
        return (*implied, "single-active") if options["single_active"] else implied

    @classmethod
    def asks(cls, options: Mapping[str, Any], nodes: Sequence[str]) -> Mapping[str, str]:
        for name in ("producers_on", "consumers_on"):
            for node in options[name] or ():
                if node not in nodes:
                    raise BadKey(name, f"there is no node {node!r}; the nodes are {', '.join(nodes)}")
        if options["single_active"] and options["consume"] in ("polling", "mixed"):
            raise BadKey("consume", "a queue with a single active consumer cannot be polled; subscribe: asynchronous")
        asked = {}
        if options["single_active"]:
            asked["single_active"] = SINGLE_ACTIVE
        if options["dead_letters"]:
            asked["dead_letters"] = DEAD_LETTERS
        if options["delivery"] == AT_MOST_ONCE:
            asked["delivery"] = NO_ACKS
        return asked

    async def setup(self, context: Context) -> None:
        for queue in self._queues():
            plain = QueueOptions(single_active=self.options["single_active"])
            if self.options["dead_letters"]:
                await context.cluster.declare(self._source(queue), plain)
                plain = QueueOptions(ttl=self.options["ttl"], dead_letters=self._source(queue))
            await context.cluster.declare(queue, plain)
        self._ids = Ids()
        self._workers = [
            self._worker(context, number) for number in range(self.options["producers"] + self._consumer_count())
        ]

    async def work(self, context: Context) -> None:
        producers = self.options["producers"]
        taking = [] if self.options["consume"] == NONE else self._workers[producers:]
        consumers = [self._consumer(worker, number) for number, worker in enumerate(taking)]
        running = [asyncio.ensure_future(consumer.run(context.until)) for consumer in consumers]
        running += [
            asyncio.ensure_future(self._producer(context, number).run(context.until)) for number in range(producers)
        ]
        try:
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()

    async def drain(self, context: Context, deadline: int) -> None:
        deadline = min(deadline, context.clock.now() + self.options["drain"])
        queues = self._queues()
        await asyncio.gather(*[self._drain(context, queue, place, deadline) for place, queue in enumerate(queues)])

    async def _drain(self, context: Context, queue: str, place: int, deadline: int) -> None:
        """Consume until it is quiet, close the consumer, and ask the queue itself, twice; again if it was not empty."""
        clock = context.clock
        op = context.recorder.invoke(CONTROLLER, "drain", key=queue)
        worker = self._workers[self.options["producers"] + place]
        found = "there was no time to ask"
        quiet = QUIET + (self.options["ttl"] if self.options["dead_letters"] else 0)
        while clock.now() < deadline:
            consumer = self._consumes(worker, queue, polling=False, prefetch=max(self.options["prefetch"], 100))
            consuming = asyncio.ensure_future(consumer.run(deadline))
            while clock.now() < min(consumer.last_delivery + quiet, deadline):
                await sleep_until(clock, min(consumer.last_delivery + quiet, deadline))
            consumer.stop()
            await consuming
            if not consumer.subscribed:  # that nothing came says nothing of the queue
                found = "nobody could subscribe"
                continue
            empty = 0
            try:
                while empty < 2:
                    left = [await context.cluster.counts(each) for each in dict.fromkeys((queue, self._source(queue)))]
                    if not all(counts.drained for counts in left):
                        found = "; and ".join(
                            f"{counts.ready} ready, {counts.unacked} unacked, "
                            f"{counts.serving} of {counts.replicas} replicas serve"
                            for counts in left
                        )
                        break
                    empty += 1
                    if empty < 2:
                        await asyncio.sleep(BETWEEN_COUNTS / SECOND)
                else:
                    context.recorder.complete(op, OK)
                    return
            except Unknown as error:
                found = f"the queue could not be asked: {error}"
            await asyncio.sleep(BETWEEN_COUNTS / SECOND)
        context.recorder.complete(op, INFO, error=f"not drained in time: {found}")

    def _queues(self) -> list[str]:
        return [f"q{number + 1}" for number in range(self.options["queues"])]

    def _source(self, queue: str) -> str:
        """Where the messages of a queue are consumed."""
        return f"{queue}.dead" if self.options["dead_letters"] else queue

    def _consumer_count(self) -> int:
        return max(int(self.options["consumers"]), int(self.options["queues"]))

    def _worker(self, context: Context, number: int) -> Worker[QueueClient]:
        producers = self.options["producers"]
        role, place = ("producers_on", number) if number < producers else ("consumers_on", number - producers)
        nodes = self.options[role] or context.cluster.nodes
        return Worker(
            context,
            number,
            producers + self._consumer_count(),
            nodes[place % len(nodes)],
            patience=self.options["timeout"],
            reconnect=self.options["reconnect"],
            others=nodes if self.options["reconnect_to"] == NEXT else (),
        )

    def _consumer(self, worker: Worker[QueueClient], number: int) -> Consumer:
        queues = self._queues()
        polling = {"polling": True, "mixed": number // len(queues) % 2 == 1}.get(self.options["consume"], False)
        return self._consumes(worker, queues[number % len(queues)], polling=polling, prefetch=self.options["prefetch"])

    def _consumes(self, worker: Worker[QueueClient], queue: str, *, polling: bool, prefetch: int) -> Consumer:
        return Consumer(
            worker,
            queue,
            polling=polling,
            prefetch=prefetch,
            poison=self.options["poison"],
            acks=self.options["delivery"] != AT_MOST_ONCE,
            source=self._source(queue),
        )

    def _producer(self, context: Context, number: int) -> Producer:
        each = self.options["rate"] / self.options["producers"]
        random = context.streams.stream("workload", "queue", "producer", number)
        return Producer(
            self._workers[number],
            self._ids,
            stagger(each_key(always("publish"), self._queues()), each, random),
            size=self.options["size"],
            window=self.options["window"],
        )
