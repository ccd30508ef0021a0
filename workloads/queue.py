"""The `queue` workload: producers with unique ids, consumers that acknowledge, and in the end a drain.

Producers and consumers are spread over the nodes and stay with theirs, so that every side of a partition is asked.
"""

from __future__ import annotations

import asyncio

from chaos.kernel.clock import MILLISECOND, SECOND, sleep_until
from chaos.kernel.generators import always, each_key, stagger
from chaos.model.op import CONTROLLER, INFO, OK
from chaos.model.settings import Setting, choice, duration, integer, number
from clusters.base import QueueClient, Unknown
from workloads.base import Context, Workload
from workloads.consumer import Consumer
from workloads.producer import Ids, Producer
from workloads.worker import Worker

NONE = "none"
QUIET = SECOND
BETWEEN_COUNTS = 500 * MILLISECOND


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
        Setting("poison", integer(0), 0, "every so many-th message crashes whoever takes it, before the ack; 0 = none"),
        Setting("size", integer(1, 10_000_000), 100, "bytes of a message, at least what its header needs"),
        Setting("window", integer(1, 100_000), 200, "publishes of one producer that may wait for confirms at a time"),
        Setting("timeout", duration, "5s", "how long an answer may take before the outcome is unknown"),
        Setting("reconnect", duration, "500ms", "pause between attempts to connect"),
        Setting("drain", duration, "120s", "how long draining may take in the end"),
        Setting(
            "delivery", choice("at-least-once", "exactly-once", "at-most-once"), "at-least-once", "what is promised"
        ),
    )

    async def setup(self, context: Context) -> None:
        for queue in self._queues():
            await context.cluster.declare(queue)
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
        while clock.now() < deadline:
            consumer = Consumer(
                worker, queue, polling=False, prefetch=max(self.options["prefetch"], 100), poison=self.options["poison"]
            )
            consuming = asyncio.ensure_future(consumer.run(deadline))
            while clock.now() < min(consumer.last_delivery + QUIET, deadline):
                await sleep_until(clock, min(consumer.last_delivery + QUIET, deadline))
            consumer.stop()
            await consuming
            empty = 0
            try:
                while empty < 2:
                    counts = await context.cluster.counts(queue)
                    if not counts.drained:
                        found = (
                            f"{counts.ready} ready, {counts.unacked} unacked, "
                            f"{counts.serving} of {counts.replicas} replicas serve"
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

    def _consumer_count(self) -> int:
        return max(int(self.options["consumers"]), int(self.options["queues"]))

    def _worker(self, context: Context, number: int) -> Worker[QueueClient]:
        nodes = context.cluster.nodes
        producers = self.options["producers"]
        place = number if number < producers else number - producers
        return Worker(
            context,
            number,
            producers + self._consumer_count(),
            nodes[place % len(nodes)],
            patience=self.options["timeout"],
            reconnect=self.options["reconnect"],
        )

    def _consumer(self, worker: Worker[QueueClient], number: int) -> Consumer:
        queues = self._queues()
        polling = {"polling": True, "mixed": number // len(queues) % 2 == 1}.get(self.options["consume"], False)
        prefetch, poison = self.options["prefetch"], self.options["poison"]
        return Consumer(worker, queues[number % len(queues)], polling=polling, prefetch=prefetch, poison=poison)

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
