"""A node's own clocks: what it takes the time to be, and the monotonic clock that its timers run on.

A wrong rate bends both: on a fast clock timers fire early. A jump moves only the time shown, because Erlang's timers,
like those of anything sound, run on monotonic time. Stepping the time right again leaves the monotonic clock alone.
"""

from __future__ import annotations


class NodeClock:
    """All times in ns. `rate` 1.0 is true."""

    __slots__ = ("_ahead", "_monotonic", "_true", "rate")

    def __init__(self) -> None:
        self._true = 0  # when the rate was last changed,
        self._monotonic = 0  # and what the monotonic clock showed then
        self._ahead = 0  # of the time shown over the monotonic clock
        self.rate = 1.0

    def monotonic(self, true: int) -> int:
        """What timers go by at a true time."""
        if self.rate == 1.0:
            return self._monotonic + true - self._true
        return self._monotonic + int((true - self._true) * self.rate)

    def due(self, monotonic: int) -> int:
        """The first true time at which the monotonic clock shows at least this, if the rate stays."""
        ahead = monotonic - self._monotonic
        if self.rate == 1.0:
            return self._true + ahead
        true = self._true + int(ahead / self.rate)
        while self.monotonic(true) < monotonic:
            true += 1
        return true

    def shown(self, true: int) -> int:
        """What the node takes the time to be."""
        return self.monotonic(true) + self._ahead

    def offset(self, true: int) -> int:
        """How far the time shown is off."""
        return self.shown(true) - true

    def jump(self, by: int) -> None:
        """Step the time shown forward (or back)."""
        self._ahead += by

    def run(self, true: int, rate: float) -> None:
        """From now on both run at this rate."""
        self._monotonic = self.monotonic(true)
        self._true = true
        self.rate = rate

    def set_right(self, true: int) -> None:
        """The right rate again, and the right time."""
        self.run(true, 1.0)
        self._ahead -= self.offset(true)
