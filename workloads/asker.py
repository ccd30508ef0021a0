"""A client that asks one thing at a time, and what workloads of such clients have in common."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, ClassVar, NamedTuple

from chaos.kernel.clock import SECOND, sleep_until
from chaos.kernel.generators import Intent, stagger
from chaos.model.op import CONTROLLER, FAIL, INFO, OK
from chaos.model.settings import Setting, choice, duration, integer, number
from clusters.base import KEY_VALUE, Failed, KeyValueClient, Unknown
from workloads.base import Context, Workload
from workloads.worker import Worker

LATE = SECOND
LINEARIZABLE, SERIALIZABLE = "linearizable", "serializable"

RATE = Setting("rate", number(0.1, 100_000), 50, "operations a second, all clients together")
CLIENTS = Setting("clients", integer(1, 1000), 6, "how many clients ask, each one thing at a time")
TIMEOUT = Setting("timeout", duration, "5s", "how long an answer may take before the outcome is unknown")
RECONNECT = Setting("reconnect", duration, "500ms", "pause between attempts to connect")
DRAIN = Setting("drain", duration, "60s", "how long the last reads may take in the end")
READS = Setting(
    "reads",
    choice(LINEARIZABLE, SERIALIZABLE),
    LINEARIZABLE,
    "what is asked for: the newest value, or what the node itself has, which may be old",
)


class Asked(NamedTuple):
    """What a client asks: as it is recorded. A value is anything that JSON can say."""

    f: str
    key: str | None = None
    value: Any = None


class OneByOne(Workload):
    """Clients of a key-value store, spread over the nodes, each asking one thing after the other at its own times.

    A client whose operation had an unknown outcome is closed, and a new one takes its place. What falls due while there
    is no connection, or while the answer before is late, for more than LATE is left out. In the end, when the faults
    are over, each client reads once more.
    """

    needs = (KEY_VALUE,)
    shared: ClassVar[tuple[Setting, ...]] = (RATE, CLIENTS, READS, TIMEOUT, RECONNECT, DRAIN)

    async def setup(self, context: Context) -> None:
        nodes, count = context.cluster.nodes, self.options["clients"]
        patience, reconnect = self.options["timeout"], self.options["reconnect"]
        self._workers: list[Worker[KeyValueClient]] = [
            Worker(context, place, count, nodes[place % len(nodes)], patience=patience, reconnect=reconnect)
            for place in range(count)
        ]

    async def work(self, context: Context) -> None:
        running = [asyncio.ensure_future(self._run(context, place)) for place in range(len(self._workers))]
        try:
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()

    async def drain(self, context: Context, deadline: int) -> None:
        deadline = min(deadline, context.clock.now() + self.options["drain"])
        op = context.recorder.invoke(CONTROLLER, "drain")
        read = await asyncio.gather(*[self._read_last(context, worker, deadline) for worker in self._workers])
        missing = [worker.node for worker, done in zip(self._workers, read, strict=True) if not done]
        error = f"not read in time through {', '.join(dict.fromkeys(missing))}" if missing else None
        context.recorder.complete(op, INFO if missing else OK, error=error)

    @abstractmethod
    def intents(self, random: Random) -> Iterable[Intent]:
        """What one client is to ask, without times: f of each, at least."""

    @abstractmethod
    def ask(self, intent: Intent, random: Random) -> Asked:
        """What is asked exactly, when it falls due."""

    @abstractmethod
    async def perform(self, client: KeyValueClient, asked: Asked) -> Any:
        """Ask it. The answer, as it is recorded. Raises Failed, Unknown."""

    @abstractmethod
    def last(self) -> Iterator[Asked]:
        """What each client reads in the end."""

    async def read(self, client: KeyValueClient, key: str) -> bytes | None:
        """What a key holds, read as the settings say."""
        return await client.read(key, serializable=self.options["reads"] == SERIALIZABLE)

    async def _run(self, context: Context, place: int) -> None:
        worker, clock = self._workers[place], context.clock
        random = context.streams.stream("workload", self.name, "client", place)
        begun = clock.now()
        for intent in stagger(self.intents(random), self.options["rate"] / self.options["clients"], random):
            due = begun + intent.at
            if due >= context.until:
                break
            await sleep_until(clock, due)
            client = worker.client or await worker.connect(context.until)
            if client is None or clock.now() >= context.until:
                break
            if clock.now() - due <= LATE:
                await self._one(worker, client, self.ask(intent, random))
            else:
                await asyncio.sleep(0)  # what is passed over must not keep the others from their turn
        await worker.leave("done")

    async def _one(self, worker: Worker[KeyValueClient], client: KeyValueClient, asked: Asked) -> bool:
        """Ask one thing; whether it was done."""
        op = worker.begin(asked.f, key=asked.key, value=asked.value)
        try:
            async with asyncio.timeout(worker.patience / SECOND):
                answer = await self.perform(client, asked)
        except Failed as error:
            worker.end(op, FAIL, error=str(error))
        except (Unknown, TimeoutError) as error:
            why = str(error) or "no answer in time"
            worker.end(op, INFO, error=why)
            await worker.leave(f"the outcome of {asked.f} is unknown: {why}")
        else:
            worker.end(op, OK, value=answer)
            return True
        return False

    async def _read_last(self, context: Context, worker: Worker[KeyValueClient], deadline: int) -> bool:
        for asked in self.last():
            done = False
            while not done:
                client = worker.client or await worker.connect(deadline)
                if client is None or context.clock.now() >= deadline:
                    await worker.leave("there is no time left")
                    return False
                done = await self._one(worker, client, asked)
                if not done:
                    await asyncio.sleep(worker.reconnect / SECOND)
        await worker.leave("done")
        return True
