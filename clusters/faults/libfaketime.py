"""A process's wall clock, moved by libfaketime: preloaded into that process only, so the host's clock is never touched.

The library reads the offset from a file at every call (FAKETIME_TIMESTAMP_FILE, FAKETIME_NO_CACHE). The monotonic
clock stays true (FAKETIME_DONT_FAKE_MONOTONIC): a moved wall clock is what happens to real hosts.

A rate counts from when the library was loaded (`ftpl_starttime` in libfaketime.c), not from when the rate was set, so
the offset written with it takes back what the rate would have added until now.
"""

from __future__ import annotations

import glob
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clusters.agent.process import Process, stamp
from clusters.faults.base import FaultError, Probe, required

SECOND = 1_000_000_000
_LOOK = SECOND // 2  # between looks at the moved clock: a process that is down at both ends may be up in between


def library() -> str | None:
    """Where libfaketime's multithreaded build is on this node, if it is."""
    folders = ("/usr/lib/*", "/usr/lib*")
    found = [path for folder in folders for path in glob.glob(f"{folder}/faketime/libfaketimeMT.so.1")]
    return min(found, default=None)


def environment(path: str) -> dict[str, str]:
    """What to add to a process's environment so that the file at `path` moves its clock; empty without the library."""
    found = library()
    if found is None:
        return {}
    return {
        "LD_PRELOAD": found,
        "FAKETIME_TIMESTAMP_FILE": path,
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def written(offset: int, rate: float, age: int) -> str:
    """The file's text: the clock is off by `offset` ns now, and from now on runs at `rate`, `age` ns after loading."""
    offset -= round((rate - 1) * age)
    return f"{'-' if offset < 0 else '+'}{abs(offset) // SECOND}.{abs(offset) % SECOND:09d}" + f" x{rate:.9g}" + "\n"


class ClockFile:
    """The file that moves the clock of one process."""

    def __init__(self, path: str, process: Process) -> None:
        self.path, self._process = path, process
        self.set(0, 1.0)

    @property
    def life(self) -> int | None:
        """Differs between lives of the process."""
        return self._process.started

    def set(self, offset: int, rate: float) -> None:
        """Move the clock now. The file is replaced, never seen half written."""
        age = stamp() - self._process.started if self._process.started is not None else 0
        new = Path(f"{self.path}.new")
        new.write_text(written(offset, rate, age))
        os.chmod(new, 0o644)
        new.replace(self.path)


class Clock:
    """Arguments: offset (ns), rate (1.0 is true), strobe (ns between jumps there and back; 0: none).

    `read` asks the process for its wall clock (ns since 1970), or None when it does not answer.
    """

    def __init__(self, file: ClockFile, read: Callable[[], int | None], args: Mapping[str, Any]) -> None:
        self._offset = int(required(args, "offset", int)) if "offset" in args else 0
        self._rate = float(required(args, "rate", int, float)) if "rate" in args else 1.0
        self._strobe = int(required(args, "strobe", int)) if "strobe" in args else 0
        if not 0.01 <= self._rate <= 100:
            raise FaultError(f"rate: {self._rate} is not between 0.01 and 100")
        if self._strobe < 0 or (self._strobe and self._strobe < SECOND // 100):
            raise FaultError(f"strobe: {self._strobe} ns is neither 0 nor at least 10 ms")
        if self._offset == 0 and self._rate == 1.0:
            raise FaultError("a clock fault needs an offset, or a rate other than 1")
        self._file, self._read = file, read
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._least = 0

    def inject(self) -> str:
        if library() is None:
            raise FaultError("there is no libfaketime on the node (Debian package faketime)")
        self._file.set(self._offset, self._rate)
        error = self._look() - self._offset
        if self._rate != 1.0 and error:
            self._file.set(self._offset - error, self._rate)  # the library was loaded later than the process started
        self._thread = threading.Thread(target=self._hold, args=(self._file.life,), daemon=True)
        self._thread.start()
        return self._evidence()

    def undo(self) -> Probe:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        if not self._strobe:
            self._look()
        self._file.set(0, 1.0)
        return Probe(self._least > 0, self._evidence())

    def _hold(self, life: int | None) -> None:
        """While it is in force: jump to and fro, follow the process into a new life, and look how far it is off."""
        there = True
        while not self._end.wait((self._strobe or _LOOK) / SECOND):
            if self._strobe:
                there = not there
                self._file.set(self._offset if there else 0, self._rate if there else 1.0)
            elif self._file.life != life:
                life = self._file.life
                self._file.set(self._offset, self._rate)  # what was written for the old life's age is wrong now
            if there:
                self._look()

    def _look(self) -> int:
        """How far off the clock is, about; keeps the most that it was off for certain."""
        before = time.time_ns()
        theirs = self._read()
        after = time.time_ns()
        if theirs is None:
            return self._offset
        self._least = max(self._least, theirs - after, before - theirs)
        return theirs - (before + after) // 2

    def _evidence(self) -> str:
        if self._least <= 0:
            return "the process's clock was not seen to be off"
        return f"the process's clock was off by at least {self._least / SECOND:.3f} s"


def unable() -> str | None:
    """Why no clock can be moved here, or None."""
    return None if library() else "there is no libfaketime on the node (Debian package faketime)"
