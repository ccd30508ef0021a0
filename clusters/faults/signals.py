"""Kill, stop and pause of a process on the node, by signals; each probed by what the kernel says of the process."""

from __future__ import annotations

import signal
from typing import Protocol

from clusters.agent.process import state
from clusters.faults.base import FaultError, Probe

ORDERLY = 20.0  # seconds more that an orderly stop may take before it is helped along; less than an undo may take


class Process(Protocol):
    """What can be so hurt: a process that we started (`agent.process`), or found (`agent.daemon`)."""

    @property
    def pid(self) -> int | None: ...

    @property
    def failed(self) -> bool: ...

    def end(self, number: signal.Signals) -> None: ...

    def wait(self, timeout: float) -> bool: ...

    def hold_down(self, holder: object) -> None: ...

    def release(self, holder: object) -> None: ...

    def pause(self, holder: object) -> None: ...

    def resume(self, holder: object) -> None: ...


class Kill:
    """SIGKILL. What the process wrote stays written, synced or not. Undo starts it again."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._pid: int | None = None
        self._absent = Probe(False, "it was not running")

    def inject(self) -> str:
        self._process.hold_down(self)
        self._pid = self._process.pid
        if self._pid is None:
            self._absent = absent(self._process)
            return self._absent.evidence
        self._process.end(signal.SIGKILL)
        if not self._process.wait(5):
            raise FaultError(f"pid {self._pid} is still there 5 s after SIGKILL")
        return f"pid {self._pid} gone"

    def undo(self) -> Probe:
        self._process.release(self)
        return Probe(True, f"pid {self._pid} was killed") if self._pid is not None else self._absent


class Stop:
    """SIGTERM: an orderly stop, which goes on after `inject` returns. Undo waits for its end and starts it again."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._pid: int | None = None
        self._absent = Probe(False, "it was not running")

    def inject(self) -> str:
        self._process.hold_down(self)
        self._pid = self._process.pid
        if self._pid is None:
            self._absent = absent(self._process)
            return self._absent.evidence
        self._process.end(signal.SIGTERM)
        return f"pid {self._pid} told to stop"

    def undo(self) -> Probe:
        if self._pid is None:
            self._process.release(self)
            return self._absent
        orderly = self._process.pid != self._pid or self._process.wait(ORDERLY)
        if not orderly:
            self._process.end(signal.SIGKILL)
            self._process.wait(5)
        self._process.release(self)
        if orderly:
            return Probe(True, f"pid {self._pid} stopped")
        return Probe(True, f"pid {self._pid} had not stopped after {ORDERLY:g} s more, and was killed")


class Pause:
    """SIGSTOP of the process and all its children. Undo lets them go on."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._pid: int | None = None
        self._absent = Probe(False, "it was not running")
        self._stopped = False

    def inject(self) -> str:
        self._pid = self._process.pid
        if self._pid is None:
            self._absent = absent(self._process)
            return self._absent.evidence
        self._process.pause(self)
        self._stopped = state(self._pid) == "T"
        return f"pid {self._pid} is in state {state(self._pid)}"

    def undo(self) -> Probe:
        if self._pid is None:
            return self._absent
        now = state(self._pid)
        self._process.resume(self)
        seen = "was" if self._stopped else "was not"
        return Probe(self._stopped, f"pid {self._pid} {seen} stopped; state {now or 'gone'} at the end")


def absent(process: Process) -> Probe:
    """There was nothing to hurt. If that had ended by itself, nobody can say what the fault would have done."""
    return Probe(None, "it had ended by itself") if process.failed else Probe(False, "it was not running")
