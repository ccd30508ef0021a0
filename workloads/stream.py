"""The `stream` workload: producers append, readers read by offset, and in the end every replica is read from its first
entry to its last.

Producers and readers are spread over the nodes and stay with theirs, so that every side of a partition is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from chaos.kernel.clock import SECOND
from chaos.kernel.generators import always, each_key, stagger
from chaos.model.op import CONTROLLER, FAIL, INFO, OK
from chaos.model.settings import Setting, choice, duration, integer, number
from clusters.base import LOG, Failed, LogClient, Unknown
from workloads.base import Context, Workload
from workloads.payload import Payload, encode
from workloads.producer import Ids, Producer
from workloads.reader import STARTS, TRACKED, Reader
from workloads.worker import Worker

NONE = "none"
MIXED = "mixed"
DRAIN_CREDIT = 1000
DRAIN_STAY = 20 * SECOND  # a reader that hangs tries again


class Stream(Workload):
    """Append at a rate, read by offset, then read each replica whole."""

    name = "stream"
    meaning = "producers append with confirms, readers read by offset, then every replica is read from end to end"
    checkers = ("streams", "leaders", "availability", "latency", "exceptions", "earned")
    needs = (LOG,)
    settings = (
        Setting("rate", number(0.1, 1_000_000), 100, "appends a second, all producers together"),
        Setting("producers", integer(1, 1000), 3, "how many clients append"),
        Setting("consumers", integer(1, 1000), 6, "how many clients read"),
        Setting("streams", integer(1, 100), 1, "how many streams the messages are spread over"),
        Setting(
            "consume",
            choice("asynchronous", "polling", MIXED, NONE),
            MIXED,
            "be handed what comes, ask for a few entries at a time, half and half, or not read before the drain",
        ),
        Setting(
            "start",
            choice(MIXED, *STARTS),
            MIXED,
            "where a reader that (re)connects begins: behind the last entry it took (tracked), with the first of all, "
            "with what comes next, or each of these in turn, a reader always the same",
        ),
        Setting("stay", duration, "10s", "a reader drops its connection after so long to twice as long; 0s = never"),
        Setting("prefetch", integer(1, 10_000), 20, "entries that a reader may be handed ahead, or asks for in a poll"),
        Setting("size", integer(1, 10_000_000), 100, "bytes of a message, at least what its header needs"),
        Setting("window", integer(1, 100_000), 200, "appends of one producer that may wait for confirms at a time"),
        Setting("timeout", duration, "5s", "how long an answer may take before the outcome is unknown"),
        Setting("reconnect", duration, "500ms", "pause between attempts to connect"),
        Setting("drain", duration, "120s", "how long reading all in the end may take"),
    )

    async def setup(self, context: Context) -> None:
        for stream in self._streams():
            await context.cluster.declare(stream)
        self._ids = Ids()
        nodes = len(context.cluster.nodes)
        # producers and readers; for the drain one that appends a last message a stream, and one that reads a replica
        self._count = self.options["producers"] + self.options["consumers"] + self.options["streams"] * (1 + nodes)

    async def work(self, context: Context) -> None:
        producers = self.options["producers"]
        reading = 0 if self.options["consume"] == NONE else self.options["consumers"]
        work: list[Awaitable[None]] = [
            self._reader(context, number).run(context.until) for number in range(reading)
        ]  # fmt: skip
        work += [self._producer(context, number).run(context.until) for number in range(producers)]
        running = [asyncio.ensure_future(one) for one in work]
        try:
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()

    async def drain(self, context: Context, deadline: int) -> None:
        deadline = min(deadline, context.clock.now() + self.options["drain"])
        await asyncio.gather(
            *[self._drain(context, stream, place, deadline) for place, stream in enumerate(self._streams())]
        )

    async def _drain(self, context: Context, stream: str, place: int, deadline: int) -> None:
        """Append a last message, and read the stream through each node from its beginning until that message comes:
        all that was confirmed before it lies before it."""
        op = context.recorder.invoke(CONTROLLER, "drain", key=stream)
        nodes = context.cluster.nodes
        first = self.options["producers"] + self.options["consumers"] + place * (1 + len(nodes))
        last = await self._append_last(context, stream, first, deadline)
        if last is None:
            context.recorder.complete(op, INFO, error="the last message was not confirmed in time")
            return
        readers = [self._whole(context, first + 1 + number, node, stream, last) for number, node in enumerate(nodes)]
        await asyncio.gather(*[reader.run(deadline) for reader in readers])
        missed = [node for node, reader in zip(nodes, readers, strict=True) if not reader.found]
        if missed:
            error = f"{', '.join(missed)} did not hand out the last message in time"
            context.recorder.complete(op, INFO, error=error)
        else:
            context.recorder.complete(op, OK)

    async def _append_last(self, context: Context, stream: str, number: int, deadline: int) -> int | None:
        """The id of a message that is confirmed; None when there was no time for it."""
        worker = self._worker(context, number, context.cluster.nodes[number % len(context.cluster.nodes)])
        sequence = 0
        while (client := await worker.connect(deadline)) is not None:
            id_, sequence = self._ids.next(), sequence + 1
            op = worker.begin("publish", key=stream, value=id_)
            body = encode(Payload(id_, worker.process, sequence, stream), self.options["size"])
            try:
                async with asyncio.timeout(self.options["timeout"] / SECOND):
                    offset = await client.append(stream, body)
            except (Failed, Unknown, TimeoutError) as error:
                worker.end(op, FAIL if isinstance(error, Failed) else INFO, error=str(error) or "no confirm in time")
                await worker.leave("the last message was not confirmed")
                await asyncio.sleep(self.options["reconnect"] / SECOND)
            else:
                worker.end(op, OK, detail=None if offset is None else {"offset": offset})
                await worker.leave("done")
                return id_
        return None

    def _whole(self, context: Context, number: int, node: str, stream: str, last: int) -> Reader:
        """One that reads all that a node's replica has, up to the last message."""
        random = context.streams.stream("workload", "stream", "whole", number)
        worker = self._worker(context, number, node)
        return Reader(
            worker, stream, random, polling=False, credit=DRAIN_CREDIT, start=TRACKED, stay=DRAIN_STAY, last=last
        )

    def _streams(self) -> list[str]:
        return [f"s{number + 1}" for number in range(self.options["streams"])]

    def _worker(self, context: Context, number: int, node: str) -> Worker[LogClient]:
        return Worker(
            context,
            number,
            self._count,
            node,
            patience=self.options["timeout"],
            reconnect=self.options["reconnect"],
        )

    def _reader(self, context: Context, number: int) -> Reader:
        """Readers take turns by node, then by stream, way of reading, and start."""
        nodes, streams = context.cluster.nodes, self._streams()
        polling = {"polling": True, MIXED: number // len(streams) % 2 == 1}.get(self.options["consume"], False)
        start = self.options["start"]
        if start == MIXED:
            start = STARTS[number // len(streams) // 2 % len(STARTS)]
        return Reader(
            self._worker(context, self.options["producers"] + number, nodes[number % len(nodes)]),
            streams[number % len(streams)],
            context.streams.stream("workload", "stream", "reader", number),
            polling=polling,
            credit=self.options["prefetch"],
            start=start,
            stay=self.options["stay"],
        )

    def _producer(self, context: Context, number: int) -> LogProducer:
        each = self.options["rate"] / self.options["producers"]
        random = context.streams.stream("workload", "stream", "producer", number)
        return LogProducer(
            self._worker(context, number, context.cluster.nodes[number % len(context.cluster.nodes)]),
            self._ids,
            stagger(each_key(always("publish"), self._streams()), each, random),
            size=self.options["size"],
            window=self.options["window"],
        )


class LogProducer(Producer):
    """Appends to logs."""

    def _ask(self, client: Any, queue: str, body: bytes) -> Awaitable[int | None]:
        asked: Awaitable[int | None] = client.append(queue, body)
        return asked
