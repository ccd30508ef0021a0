"""What becomes of packets on a simulated link, besides being lost: late, twice, out of order, or slowed down.

TCP hides most of it. A doubled segment is thrown away by its receiver, one that goes ahead waits there for those before
it: brokers on TCP see neither, and delays only. Datagrams come as the network brings them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from chaos.kernel.clock import SECOND

if TYPE_CHECKING:
    from clusters.simulated.network import Message, Stream

HEADERS = 66  # bytes of Ethernet, IP and TCP before what a segment carries
_NUMBER = 8  # bytes of anything that is not text


@dataclass(frozen=True, slots=True)
class Shape:
    """Packets come `delay` ns later, give or take `jitter`; each may go twice, or ahead of those that are delayed, with
    a probability; `rate` bytes a second go through (0: any)."""

    delay: int = 0
    jitter: int = 0
    duplicate: float = 0.0
    reorder: float = 0.0
    rate: int = 0


def together(shapes: Iterable[Shape]) -> Shape:
    """What several do to the same packet."""
    delay = jitter = rate = 0
    once = in_turn = 1.0
    for one in shapes:
        delay, jitter = delay + one.delay, jitter + one.jitter
        once, in_turn = once * (1 - one.duplicate), in_turn * (1 - one.reorder)
        rate = min(rate or one.rate, one.rate or rate)
    return Shape(delay, jitter, 1 - once, 1 - in_turn, rate)


def weight(message: Any) -> int:
    """About how many bytes it takes."""
    if isinstance(message, bytes | str):
        return len(message)
    if isinstance(message, tuple | list):
        return sum(weight(part) for part in message)
    return _NUMBER


class Shaping:
    """What a link does to packets while faults shape it, and how many met it."""

    __slots__ = ("_busy", "_random", "_shapes", "_waiting", "delayed", "doubled", "early", "held", "shape")

    def __init__(self, random: Random) -> None:
        self._random = random
        self._shapes: dict[str, Shape] = {}
        self._waiting: deque[tuple[Stream, list[Message]]] = deque()
        self._busy = False
        self.shape = Shape()
        self.delayed = self.early = self.doubled = self.held = 0

    def change(self, fault: str, shape: Shape | None) -> None:
        """A fault shapes the link (None: no longer)."""
        self._shapes.pop(fault, None)
        if shape is not None:
            self._shapes[fault] = shape
        self.shape = together(self._shapes.values())

    @property
    def over(self) -> bool:
        """No fault shapes it any more, and nothing waits."""
        return not self._shapes and not self._busy

    @property
    def holds(self) -> bool:
        """Whether what is sent now has to wait its turn."""
        return self._busy or self.shape.rate > 0

    def late(self) -> int:
        """How much later a packet comes, ns; and whether it goes twice."""
        shape, random = self.shape, self._random
        if shape.duplicate and random.random() < shape.duplicate:
            self.doubled += 1
        if not shape.delay:
            return 0
        if shape.reorder and random.random() < shape.reorder:
            self.early += 1
            return 0
        self.delayed += 1
        return shape.delay + int(shape.jitter * (2 * random.random() - 1))

    def queue(self, stream: Stream, batch: list[Message]) -> None:
        """A segment waits until those before it have gone through."""
        if self._busy:
            self.held += 1
        self._waiting.append((stream, batch))
        if not self._busy:
            self._busy = True
            stream.at(stream.loop.now(), self._next, stream)  # by then the batch is whole

    def forget(self, stream: Stream) -> None:
        """Its machine is gone, and what waited there with it."""
        self._waiting = deque((one, batch) for one, batch in self._waiting if one is not stream)

    def _next(self, stream: Stream) -> None:
        """`stream`: any of the loop."""
        if self._waiting and self.shape.rate:
            size = HEADERS + weight(self._waiting[0][1])
            stream.at(stream.loop.now() + size * SECOND // self.shape.rate, self._through, stream)
            return
        waiting, self._waiting = self._waiting, deque()
        for one, batch in waiting:
            one.transmit(batch)
        self._busy = False

    def _through(self, stream: Stream) -> None:
        if self._waiting:
            one, batch = self._waiting.popleft()
            one.transmit(batch)
        self._next(stream)
