"""Disks that are full or read-only, on the disk of ours beneath the broker's data."""

from __future__ import annotations

import contextlib
import errno
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from clusters.agent.disk import Disk, fill
from clusters.faults.base import FaultError, Probe
from clusters.faults.signals import Process

_TOP_UP = 0.1  # seconds between fillings: what the broker frees is taken too


class Full:
    """No room is left, and what is freed is taken. Undo gives it back. Argument: restart (whether undo also kills the
    broker, if it has not ended, and starts it: not every part of one that met a full disk comes back by itself)."""

    def __init__(self, disk: Disk, processes: Sequence[Process], args: Mapping[str, Any]) -> None:
        self._disk, self._processes = disk, processes
        self._restart = args.get("restart", True) is True
        self._filler = disk.folder / ".splitbrain-filler"
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen: str | None = None

    def inject(self) -> str:
        fill(self._filler)
        self._seen = self._disk.refuses()
        self._thread = threading.Thread(target=self._hold, daemon=True)
        self._thread.start()
        return _said(self._seen)

    def undo(self) -> Probe:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        if self._filler.exists():
            self._seen = self._disk.refuses() or self._seen
            self._filler.unlink()
        if self._restart:
            down(self._processes, self)
        for process in self._processes:
            process.release(self)
        if (still := self._disk.refuses()) is not None:
            raise FaultError(f"after it was given room again a write still fails: {still}")
        return Probe(self._seen == "ENOSPC", _said(self._seen))

    def _hold(self) -> None:
        while not self._end.wait(_TOP_UP):
            with contextlib.suppress(OSError):
                fill(self._filler)


class ReadOnly:
    """Nothing can be written, whoever has what open: what ext4 does when it meets an error on its disk. Undo is what an
    operator does: the broker is killed, if it has not ended, the disk mounted anew, and the broker started."""

    def __init__(self, disk: Disk, processes: Sequence[Process]) -> None:
        self._disk, self._processes = disk, processes
        self._seen: str | None = None
        self._options: Sequence[str] = ()

    def inject(self) -> str:
        self._disk.abort()
        self._options = [one for one in self._disk.options() or () if one in ("ro", "emergency_ro")]
        self._seen = self._disk.refuses()
        return f"{_said(self._seen)}; mounted {', '.join(self._options) or 'as before'}"

    def undo(self) -> Probe:
        down(self._processes, self)
        self._disk.unmount()
        self._disk.mount()
        for process in self._processes:
            process.release(self)
        name = errno.errorcode[errno.EROFS]
        return Probe(self._seen == name and bool(self._options), f"{_said(self._seen)}; {', '.join(self._options)}")


def down(processes: Sequence[Process], holder: object) -> list[int]:
    """Kill processes, the last started first, and hold them down; the pids of those that ran. Raises FaultError."""
    pids = []
    for process in reversed(processes):
        process.hold_down(holder)
        if (pid := process.pid) is not None:
            pids.append(pid)
            process.end(signal.SIGKILL)
            if not process.wait(5):
                raise FaultError(f"pid {pid} is still there 5 s after SIGKILL")
    return pids


def _said(refused: str | None) -> str:
    return f"a write of the broker's user fails: {refused}" if refused else "a write of the broker's user succeeds"
