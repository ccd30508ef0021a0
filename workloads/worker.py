"""A worker: one place in a workload, which plays one logical client (process) after another.

A process whose publish or consume had an unknown outcome is retired: its connection is closed, what was open on it
ends as info, and the worker goes on as a new process on a new connection. Process numbers are worker + k x (number of
workers), k counting connections, so that no two clients of a run ever share one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from chaos.kernel.clock import SECOND
from chaos.model.op import INFO, OK, OpType
from clusters.base import Client, Failed, Unknown
from workloads.base import Context

C = TypeVar("C", bound=Client)


class Worker(Generic[C]):
    """Connects to its node, and again whenever the connection is retired.

    `patience`: ns that an answer may take; `reconnect`: ns between attempts. `others`: nodes, its own among them, of
    which it turns to the next whenever it has to connect again. `on_retired` is called when a process ends.
    """

    def __init__(
        self,
        context: Context,
        number: int,
        workers: int,
        node: str,
        *,
        patience: int,
        reconnect: int,
        others: Sequence[str] = (),
    ) -> None:
        self.context = context
        self.recorder = context.recorder
        self.node = node
        self._number = number
        self._workers = workers
        self._others = others
        self.patience = patience
        self.reconnect = reconnect
        self.on_retired: Callable[[], None] = lambda: None
        self._connections = 0
        self.process = number
        self.channel = 0
        self.client: C | None = None
        self._open: dict[int, None] = {}

    async def connect(self, until: int) -> C | None:
        """A connection as a new process, tried again and again until the run's clock shows `until`; then None."""
        clock = self.context.clock
        while clock.now() < until:
            if self._connections and self._others:
                self.node = self._others[(self._others.index(self.node) + 1) % len(self._others)]
            self.process = self._number + self._connections * self._workers
            self.channel = self._connections
            self._connections += 1
            op = self.begin("open")
            try:
                async with asyncio.timeout(self.patience / SECOND):
                    client: C = await self.context.cluster.connect(self.node, f"client-{self.process}")
            except (Unknown, Failed, TimeoutError) as error:
                self.end(op, INFO, error=str(error) or "no connection in time")
                await asyncio.sleep(min(self.reconnect, max(until - clock.now(), 0)) / SECOND)
                continue
            self.end(op, OK)
            self.client = client
            client.on_lost = partial(self._lost, self.process)
            return client
        return None

    def begin(
        self, f: str, *, key: str | None = None, value: Any = None, detail: Mapping[str, Any] | None = None
    ) -> int:
        """An operation of this process begins; it ends as info by itself if the process is retired first.

        A value that is no whole number goes into the detail, as {"value": ...}: so do answers, in `end`.
        """
        number, richer = _written(value)
        op = self.recorder.invoke(
            self.process, f, key=key, value=number, node=self.node, channel=self.channel, detail=richer or detail
        )
        self._open[op] = None
        return op

    def end(
        self,
        op: int,
        type_: OpType,
        *,
        value: Any = None,
        error: str | None = None,
        redelivered: bool | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """An operation of this worker ended; too late is harmless."""
        self._open.pop(op, None)
        number, richer = _written(value)
        self.recorder.complete(op, type_, value=number, error=error, redelivered=redelivered, detail=richer or detail)

    def retire(self, why: str) -> C | None:
        """The process ends here: everything open is info, and the connection is to be closed by whoever called."""
        client, self.client = self.client, None
        if client is None:
            return None
        client.on_lost = lambda reason: None
        open_ops, self._open = list(self._open), {}
        for op in open_ops:
            self.recorder.complete(op, INFO, error=why)
        self.recorder.note(self.process, "close", node=self.node, channel=self.channel, error=why)
        self.on_retired()
        return client

    async def leave(self, why: str) -> None:
        """Retire the process and close its connection."""
        client = self.retire(why)
        if client is not None:
            await client.close()

    def _lost(self, process: int, reason: str) -> None:
        if process == self.process:
            self.retire(f"connection lost: {reason}")


def _written(value: Any) -> tuple[int | None, dict[str, Any] | None]:
    """A value as an op holds it: its number, or else its detail."""
    return (value, None) if value is None or type(value) is int else (None, {"value": value})


class Deadlines:
    """Time-outs of many operations that all have the same patience, for the price of one timer."""

    def __init__(self, context: Context, patience: int, expired: Callable[[int], None]) -> None:
        self._clock = context.clock
        self._recorder = context.recorder
        self._patience = patience
        self._expired = expired
        self._waiting: deque[tuple[int, int]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, op: int) -> None:
        """Call `expired(op)` after the patience, if the operation is still open then."""
        self._waiting.append((self._clock.now() + self._patience, op))
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._waiting:
            delay = max(self._waiting[0][0] - self._clock.now(), 0)
            self._timer = asyncio.get_running_loop().call_later(delay / SECOND, self._due)

    def _due(self) -> None:
        self._timer = None
        now = self._clock.now()
        waiting = self._waiting
        while waiting and (waiting[0][0] <= now or not self._recorder.is_open(waiting[0][1])):
            op = waiting.popleft()[1]
            if self._recorder.is_open(op):
                self._expired(op)
        self._arm()
