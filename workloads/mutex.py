"""The `mutex` workload: clients acquire a lock, hold it for a while, and release it. Does it exclude?

Where the broker has locks, those are asked for, with fencing tokens. Where it has queues, a lock is a queue with one
message: who takes it and does not acknowledge it holds the lock, and gives the message back to release it (Kyle
Kingsbury asked this of RabbitMQ in 2014).

A holder believes that it holds the lock until its release is invoked. Told that its connection or its lease is gone, it
believes so no longer: then that is its release, whose outcome nobody knows. So `linearizable` finds no more than what a
client could not have known.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.model.errors import SplitbrainError
from chaos.model.op import CONTROLLER, FAIL, INFO, OK
from chaos.model.settings import BadKey, Setting, boolean, duration, integer
from clusters.base import LOCK, REQUEUE, Delivery, Failed, LockClient, QueueClient, Unknown
from workloads.asker import DRAIN, RECONNECT, TIMEOUT
from workloads.base import Context, Workload
from workloads.worker import Worker

BETWEEN_POLLS = 20 * MILLISECOND
STANDS_STILL = 2  # times the life of a lease
ATTEMPTS = 5


class Lock(ABC):
    """A lock, as one client of it sees it. `token`: what an acquire answers, None where there are no tokens."""

    @abstractmethod
    async def acquire(self, *, renew: bool) -> int | None:
        """Wait for it. Raises Failed, Unknown."""

    @abstractmethod
    async def release(self) -> bool:
        """Let it go. Whether that is known to have taken effect. Raises Failed, Unknown."""


class LeasedLock(Lock):
    """A lock of the broker's own."""

    def __init__(self, client: LockClient, name: str, ttl: int) -> None:
        self._client, self._name, self._ttl = client, name, ttl

    async def acquire(self, *, renew: bool) -> int | None:
        return await self._client.acquire(self._name, self._ttl, renew=renew)

    async def release(self) -> bool:
        await self._client.release(self._name)
        return True


class MessageLock(Lock):
    """A lock made of the one message in a queue."""

    def __init__(self, client: QueueClient, queue: str) -> None:
        self._client, self._queue = client, queue
        self._held: Delivery | None = None

    async def acquire(self, *, renew: bool) -> int | None:
        while self._held is None:
            self._held = await self._client.get(self._queue)
            if self._held is None:
                await asyncio.sleep(BETWEEN_POLLS / SECOND)
        return None

    async def release(self) -> bool:
        assert self._held is not None
        delivery, self._held = self._held, None
        return await self._client.requeue(delivery)


class User:
    """One place in the workload: acquires, holds and releases a lock, as one process after another."""

    def __init__(self, worker: Worker[Any], key: str, options: Mapping[str, Any], random: Random) -> None:
        self._worker = worker
        self._key = key
        self._options = options
        self._random = random
        self._holding = self._still = False
        self._lost = asyncio.Event()
        worker.on_retired = self._retired

    async def run(self, until: int, make: Callable[[Any], Lock], stands_still: Callable[[], bool]) -> None:
        """Use the lock until the run's clock shows `until`. `make`: the lock as a client sees it."""
        worker, clock = self._worker, self._worker.context.clock
        await self._sleep(self._options["pause"], until)
        while clock.now() < until:
            client = worker.client or await worker.connect(until)
            if client is None:
                break
            await self.once(make(client), until, still=stands_still())
            await self._sleep(self._options["pause"], until)
        await worker.leave("done")

    async def once(self, lock: Lock, until: int, *, still: bool = False) -> bool:
        """Acquire, hold, release; whether it was acquired."""
        worker, clock = self._worker, self._worker.context.clock
        op = worker.begin("acquire", key=self._key)
        try:
            async with asyncio.timeout(max(min(self._options["wait"], until - clock.now()), 0) / SECOND):
                token = await lock.acquire(renew=not still)
        except Failed as error:
            worker.end(op, FAIL, error=str(error))
            return False
        except (Unknown, TimeoutError) as error:
            why = str(error) or "not acquired in time"
            worker.end(op, INFO, error=why)
            await worker.leave(f"the outcome of an acquire is unknown: {why}")
            return False
        if worker.client is None:  # lost at the same moment, so that it is info already
            return False
        worker.end(op, OK, value=token)
        self._holding, self._still = True, still
        self._lost.clear()
        if still:
            await asyncio.sleep(STANDS_STILL * self._options["lease"] / SECOND)
        else:
            await self._hold()
        if self._holding:
            await self._release(lock)
        return True

    async def _hold(self) -> None:
        time = self._random.uniform(0, 2 * self._options["hold"])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(time / SECOND):
                await (self._lost.wait() if self._options["heeds"] else asyncio.sleep(2 * time / SECOND))

    async def _release(self, lock: Lock) -> None:
        worker = self._worker
        self._holding = False
        op = worker.begin("release", key=self._key)
        try:
            async with asyncio.timeout(worker.patience / SECOND):
                known = await lock.release()
        except Failed as error:  # it is free all the same, and nobody knows since when: *fail* would say that it is not
            worker.end(op, INFO, error=str(error))
        except (Unknown, TimeoutError) as error:
            why = str(error) or "no answer in time"
            worker.end(op, INFO, error=why)
            await worker.leave(f"the outcome of a release is unknown: {why}")
        else:
            worker.end(op, OK if known else INFO, error=None if known else "sent")

    def _retired(self) -> None:
        self._lost.set()
        if self._holding and self._options["heeds"] and not self._still:
            self._holding = False
            op = self._worker.begin("release", key=self._key)
            self._worker.end(op, INFO, error="its connection, or its lease, is gone")

    async def _sleep(self, mean: int, until: int) -> None:
        left = max(until - self._worker.context.clock.now(), 0)
        await asyncio.sleep(min(self._random.uniform(0, 2 * mean), left) / SECOND)


class Mutex(Workload):
    """Acquire, hold, release."""

    name = "mutex"
    meaning = "clients acquire a lock, hold it and release it: one of the broker's, or one made of a message in a queue"
    checkers = ("linearizable", "fencing", "leaders", "exceptions", "earned")
    tells = {"linearizable": {"model": "fenced-lock"}}
    needs = (LOCK, REQUEUE)
    settings = (
        Setting("clients", integer(2, 1000), 6, "how many clients want the locks"),
        Setting("locks", integer(1, 100), 1, "how many locks; each client wants one of them"),
        Setting("hold", duration, "200ms", "mean time that a lock is held; it is from nothing to twice as long"),
        Setting("pause", duration, "200ms", "mean time between a release and the next acquire, likewise"),
        Setting("lease", duration, "5s", "how long a lock lives that nobody renews; of a broker's own locks"),
        Setting(
            "stands_still",
            integer(0),
            0,
            "every so many-th holder stands still for two leases, and renews nothing, as in a long pause; 0 = none",
        ),
        Setting("heeds", boolean, True, "a holder that is told that it has lost its connection or lease stops at once"),
        Setting("wait", duration, "20s", "how long an acquire may wait until it is given up"),
        TIMEOUT,
        RECONNECT,
        replace(DRAIN, meaning="how long it may take in the end to acquire each lock once more"),
    )

    @classmethod
    def asks(cls, options: Mapping[str, Any], nodes: Sequence[str]) -> Mapping[str, str]:
        if options["locks"] > options["clients"]:
            raise BadKey("locks", f"there are only {options['clients']} clients, and each wants one of them")
        return {}

    async def setup(self, context: Context) -> None:
        nodes, count = context.cluster.nodes, self.options["clients"]
        patience, reconnect = self.options["timeout"], self.options["reconnect"]
        self._leased = LOCK in context.cluster.serves
        self._workers: list[Worker[Any]] = [
            Worker(context, place, count, nodes[place % len(nodes)], patience=patience, reconnect=reconnect)
            for place in range(count)
        ]
        self._names = [f"lock{number + 1}" for number in range(self.options["locks"])]
        self._queues = {} if self._leased else {name: await self._lay(context, name) for name in self._names}
        self._users = [
            User(worker, self._name(place), self.options, context.streams.stream("workload", "mutex", "client", place))
            for place, worker in enumerate(self._workers)
        ]
        self._acquires = 0

    async def work(self, context: Context) -> None:
        running = [
            asyncio.ensure_future(user.run(context.until, partial(self._lock, self._name(place)), self._stands_still))
            for place, user in enumerate(self._users)
        ]
        try:
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()

    async def drain(self, context: Context, deadline: int) -> None:
        """Each lock can be had once more."""
        deadline = min(deadline, context.clock.now() + self.options["drain"])
        op = context.recorder.invoke(CONTROLLER, "drain")
        missing = []
        for place, name in enumerate(self._names):
            worker, user = self._workers[place % len(self._workers)], self._users[place % len(self._users)]
            acquired = False
            while not acquired and (client := worker.client or await worker.connect(deadline)) is not None:
                acquired = await user.once(self._lock(name, client), deadline)
            if not acquired:
                missing.append(name)
            await worker.leave("done")
        error = f"nobody could acquire {', '.join(missing)} any more" if missing else None
        context.recorder.complete(op, INFO if missing else OK, error=error)

    async def _lay(self, context: Context, name: str) -> str:
        """The queue that holds the one message of a lock. One in which there may be two is left alone."""
        for attempt in range(1, ATTEMPTS + 1):
            queue = name if attempt == 1 else f"{name}.{attempt}"
            await context.cluster.declare(queue)
            try:
                client: QueueClient = await context.cluster.connect(context.cluster.nodes[0], "lays the locks")
                try:
                    async with asyncio.timeout(self.options["timeout"] / SECOND):
                        await client.publish(queue, name.encode())
                    return queue
                finally:
                    await client.close()
            except (Failed, Unknown, TimeoutError) as error:
                why = str(error) or "no answer in time"
        raise SplitbrainError(f"no queue took the message that {name} is made of: {why}")

    def _name(self, place: int) -> str:
        return self._names[place % len(self._names)]

    def _lock(self, name: str, client: Any) -> Lock:
        if self._leased:
            return LeasedLock(client, name, self.options["lease"])
        return MessageLock(client, self._queues[name])

    def _stands_still(self) -> bool:
        self._acquires += 1
        every = self.options["stands_still"]
        return bool(every) and self._acquires % every == 0
