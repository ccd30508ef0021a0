"""An asyncio loop whose clock is virtual: time stands still while anything can run, then jumps to the next event.

There is one heap of events keyed (time, sequence). A simulator puts plain callbacks on it with `at`, which is
cheap; asyncio's own timers live on the same heap, so that clients written with `await asyncio.sleep` share the order.
Events at the same time happen in the order in which they were put there. Nothing here depends on addresses, hashes or
the machine.

The loop has no sockets, no subprocesses and no threads: asking for one is an error, because its answer could not be
repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from chaos.kernel.clock import SECOND

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Event = tuple[int, int, Callable[..., object], tuple[Any, ...]]


class NothingLeft(RuntimeError):
    """Every task waits and no event is to come: the simulation would never go on."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. It is also the run's `Clock`. `happened` counts the events taken so far."""

    virtual = True

    def __init__(self) -> None:
        super().__init__()
        self._now = 0
        self._sequence = 0
        self._heap: list[Event] = []
        self.happened = 0

    def now(self) -> int:
        """Virtual nanoseconds since the loop was made."""
        return self._now

    def at(self, time: int, callback: Callable[..., object], *args: Any) -> None:
        """Call back at a virtual time (ns), or now if that is past. It cannot be cancelled."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (time if time > self._now else self._now, sequence, callback, args))

    def time(self) -> float:
        """Virtual seconds, as asyncio wants them."""
        return self._now / SECOND

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self.at(round(when * SECOND), self._timer_due, handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        time = self._now + round(delay * SECOND)
        handle = asyncio.TimerHandle(time / SECOND, callback, args, self, context)
        self.at(time, self._timer_due, handle)
        return handle

    def run_in_executor(self, executor: object, func: object, *args: Any) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("threads have no place in a simulation: what they do cannot be repeated from a seed")

    def _timer_due(self, handle: asyncio.TimerHandle) -> None:
        if not handle.cancelled():
            self._ready.append(handle)

    def _run_once(self) -> None:
        """All rounds until the loop is to stop: asyncio calls it in a loop of its own, which would cost more."""
        ready, heap = self._ready, self._heap
        while True:
            while not ready:
                if not heap:
                    if self._stopping:
                        return
                    raise NothingLeft("every task waits and no event is to come")
                self._now, _, callback, args = heappop(heap)
                self.happened += 1
                callback(*args)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            if self._stopping:
                return

    def _write_to_self(self) -> None:
        """Nothing to wake: a signal handler's callback is seen before the next event."""

    def _process_events(self, event_list: object) -> None:
        """There is no selector."""

    # asyncio looks at these on every loop
    _ready: Any
    _stopping: bool


def run_virtual(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `main(loop)` in virtual time, from 0, to its end."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop))
