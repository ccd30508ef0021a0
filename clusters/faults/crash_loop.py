"""A crash loop: a process is killed, started, and killed again as soon as it serves, so many times."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Mapping
from typing import Any

from clusters.agent.process import Process
from clusters.faults.base import FaultError, Probe, required
from clusters.faults.signals import absent

_LOOK = 0.05  # seconds between looks at whether it serves


class CrashLoop:
    """Arguments: times (kills, at least 2), port (what it serves on). Undo ends it, and starts the process again."""

    def __init__(self, process: Process, args: Mapping[str, Any]) -> None:
        self._process = process
        self._times: int = required(args, "times", int)
        self._port: int = required(args, "port", int)
        if self._times < 2:
            raise FaultError(f"times: {self._times} is no loop: at least 2")
        self._kills = 0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._absent: Probe | None = None

    def inject(self) -> str:
        if self._process.pid is None:
            self._absent = absent(self._process)
            return self._absent.evidence
        self._kill()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()
        return "killed once; again as soon as it serves"

    def undo(self) -> Probe:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        self._process.release(self)
        if self._absent is not None:
            return self._absent
        said = f"killed {self._kills} of {self._times} times" + (", each as soon as it served" * (self._kills > 1))
        return Probe(self._kills > 1, said)

    def _kill(self) -> None:
        self._process.hold_down(self)
        self._process.end(signal.SIGKILL)
        if not self._process.wait(5):
            raise FaultError("it is still there 5 s after SIGKILL")
        self._kills += 1

    def _go_on(self) -> None:
        while self._kills < self._times:
            self._process.release(self)
            while not (self._process.pid is not None and self._serves()):
                if self._end.wait(_LOOK):
                    return
            try:
                self._kill()
            except FaultError:
                return
        self._process.release(self)

    def _serves(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True
