"""Asking the broker, on the node itself, what it holds to be true: a line of JSON for a line of question.

The other end is a small server inside the broker (see the image's folder), on a unix socket. One that is paused or
dead does not answer, which is right.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from clusters.agent.process import stamp


def ask(path: str, question: str, timeout: float) -> dict[str, Any]:
    """One question on a connection of its own. Raises OSError (time-outs too) or ValueError when none is answered."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        connection.connect(path)
        with connection.makefile("rwb") as stream:
            return _exchange(stream, question)


def _exchange(stream: Any, question: str) -> dict[str, Any]:
    stream.write(question.encode() + b"\n")
    stream.flush()
    line = stream.readline()
    if not line:
        raise ConnectionError("the reporter closed the connection")
    answer: dict[str, Any] = json.loads(line)
    return answer


class Sampler(threading.Thread):
    """Asks `question` every `period` seconds on one connection and hands on each answer with the times around it.

    It waits for as long as an answer takes: while the broker is paused there is one question out, not a heap of them.
    """

    def __init__(
        self, path: str, question: str, period: float, answered: Callable[[dict[str, Any], int, int], None]
    ) -> None:
        super().__init__(daemon=True)
        self._path, self._question, self._period, self._answered = path, question, period, answered

    def run(self) -> None:
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(self._path)
                    with connection.makefile("rwb") as stream:
                        self._sample(stream)
            except (OSError, ValueError):
                time.sleep(self._period)  # not up, or gone: try again

    def _sample(self, stream: Any) -> None:
        while True:
            asked = stamp()
            answer = _exchange(stream, self._question)
            self._answered(answer, asked, stamp())
            time.sleep(self._period)
