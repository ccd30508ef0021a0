"""A node's own clock: it may be off, run fast or slow, and jump. The node's timers run on it."""

from __future__ import annotations


class NodeClock:
    """Local time = true time, by an offset and a rate (1.0 is true); both in ns."""

    __slots__ = ("_local", "_true", "rate")

    def __init__(self) -> None:
        self._true = 0
        self._local = 0
        self.rate = 1.0

    def local(self, true: int) -> int:
        """What this clock shows at a true time."""
        if self.rate == 1.0:
            return self._local + true - self._true
        return self._local + int((true - self._true) * self.rate)

    def true(self, local: int) -> int:
        """The first true time at which this clock shows at least `local`, if nothing touches it before."""
        ahead = local - self._local
        if self.rate == 1.0:
            return self._true + ahead
        true = self._true + int(ahead / self.rate)
        while self.local(true) < local:
            true += 1
        return true

    def offset(self, true: int) -> int:
        """How far it is off, ns."""
        return self.local(true) - true

    def jump(self, true: int, by: int) -> None:
        """Set it forward (or back) by some ns."""
        self._local = self.local(true) + by
        self._true = true

    def run(self, true: int, rate: float) -> None:
        """From now on it runs at this rate."""
        self._local = self.local(true)
        self._true = true
        self.rate = rate

    def set_right(self, true: int) -> None:
        """Step it to true time and rate."""
        self._true = self._local = true
        self.rate = 1.0
