"""The agent as a local process, spoken to line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class LocalAgent:
    """Requests are numbered from 1; what the agent tells by itself is kept in `events`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._number = 0

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The whole answer to one request."""
        return self._until(self.send(do, **arguments))

    def send(self, do: str, **arguments: Any) -> int:
        assert self.process.stdin is not None
        self._number += 1
        self.process.stdin.write(json.dumps({"id": self._number, "do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        return self._number

    def event(self, kind: str) -> dict[str, Any]:
        """The first event of the kind that has not been taken, waiting for it if need be."""
        while True:
            for place, event in enumerate(self.events):
                if event["event"] == kind:
                    return self.events.pop(place)
            self.events.append(self._next())

    def rest(self) -> list[dict[str, Any]]:
        """Close its input; all that it still says until it ends."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        said = [json.loads(line) for line in self.process.stdout]
        assert self.process.wait(10) == 0
        return self.events + said

    def _until(self, number: int) -> dict[str, Any]:
        while True:
            message = self._next()
            if message.get("id") == number:
                return message
            self.events.append(message)

    def _next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the agent ended"
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def local_agent(*within: str) -> Iterator[LocalAgent]:
    """An agent for the block's time; ends with it, and so does what it started. `within`: a command that runs it."""
    command = [*within, sys.executable, "-m", "clusters.agent"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield LocalAgent(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()
