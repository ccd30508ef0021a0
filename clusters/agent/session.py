"""Lines between two ends, each once and in order, over connections that come and go: the bookkeeping of one end.

A frame is "number received line": which line this is, counted from 1, and how many of the other's have come. What is
not known to have come is kept. The first frame on every connection is a greeting, numbered 0; whoever is greeted sends
again what the other lacks. Standard library only: both ends use it.
"""

from __future__ import annotations

from collections import deque

_HELLO = b"hello"


class Lines:
    """One end. It does no I/O: what is to be sent is returned, with its newline."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, bytes]] = deque()
        self._sent = 0
        self._received = 0

    def greeting(self) -> bytes:
        """What to send first on a new connection."""
        return b"0 %d %s\n" % (self._received, _HELLO)

    def put(self, line: bytes) -> bytes:
        """The frame of a new line (its newline is not part of it). It is kept until the other end has it."""
        self._sent += 1
        self._kept.append((self._sent, line))
        return self._frame(self._sent, line)

    def take(self, frame: bytes) -> tuple[bytes | None, list[bytes]]:
        """A whole frame that came: its line, None where that is not news; and what is to be sent again.

        Raises ValueError for what is no frame.
        """
        number, received, line = frame.rstrip(b"\n").split(b" ", 2)
        while self._kept and self._kept[0][0] <= int(received):
            self._kept.popleft()
        if int(number) == 0:
            return None, [self._frame(kept, again) for kept, again in self._kept] if line == _HELLO else []
        if int(number) != self._received + 1:
            return None, []  # it came on an earlier connection too
        self._received += 1
        return line, []

    def _frame(self, number: int, line: bytes) -> bytes:
        return b"%d %d %s\n" % (number, self._received, line)
