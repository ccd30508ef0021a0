"""Time as the run sees it."""

from __future__ import annotations

import asyncio
from typing import Protocol

SECOND = 1_000_000_000
MILLISECOND = 1_000_000


class Clock(Protocol):
    """Nanoseconds since the run began: virtual in a simulation, monotonic otherwise."""

    virtual: bool

    def now(self) -> int:
        """Integer nanoseconds since the run began."""


async def sleep_until(clock: Clock, time: int) -> None:
    """Wait until the clock shows at least `time`."""
    while (left := time - clock.now()) > 0:  # noqa: ASYNC110 - a sleep may end early, by the clock's own count
        await asyncio.sleep(left / SECOND)
