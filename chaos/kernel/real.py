"""Real time: a monotonic clock that begins with the run, and a watch on the controller's own stalls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from chaos.kernel.clock import MILLISECOND, SECOND

STALL = 250 * MILLISECOND
TICK = 50 * MILLISECOND


class RealClock:
    """Nanoseconds since it was made, from the machine's monotonic clock, which no clock fault moves."""

    virtual = False

    def __init__(self) -> None:
        self.epoch = time.monotonic_ns()

    def now(self) -> int:
        """Nanoseconds since the run began."""
        return time.monotonic_ns() - self.epoch


async def watch_for_stalls(stalled: Callable[[int], None], clock: RealClock) -> None:
    """Call `stalled(ns)` whenever this very loop came STALL or more too late. Runs until cancelled.

    What was measured across a stall says something of the controller, not of the broker.
    """
    while True:
        due = clock.now() + TICK
        await asyncio.sleep(TICK / SECOND)
        late = clock.now() - due
        if late >= STALL:
            stalled(late)
