"""A process's wall clock, moved by libfaketime: preloaded into that process only, so the host's clock is never touched.

The library reads the offset from a file at every call (FAKETIME_TIMESTAMP_FILE, FAKETIME_NO_CACHE). The monotonic
clock stays true (FAKETIME_DONT_FAKE_MONOTONIC): a moved wall clock is what happens to real hosts.

A rate counts from when the library was loaded (`ftpl_starttime` in libfaketime.c), not from when the rate was set, so
the offset written with it takes back what the rate would have added until now.
"""

from __future__ import annotations

import contextlib
import glob
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters.agent.process import Process, stamp, state
from clusters.faults.base import FaultError, Probe, required

SECOND = 1_000_000_000
FILES = "/dev/shm/splitbrain-clock*"  # where brokers put them: in memory, so that a full disk does not hold a clock off
_LEFT = ("/dev/shm/faketime_shm_[0-9]*", "/dev/shm/sem.faketime_sem_[0-9]*")  # its own shared memory, a pair a process
_SLOWEST = 0.01  # of a true second
_TOLERANCE = SECOND // 10  # to which it is known what several faults add up to
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


@dataclass(frozen=True)
class Shift:
    """What one fault does to a clock: off by `offset` ns at the stamp `since`, and gaining from then on (rate - 1)."""

    offset: int
    rate: float
    since: int

    def at(self, stamp: int) -> int:
        """How far off it puts the clock, in ns."""
        return self.offset + round((self.rate - 1) * (stamp - self.since))


class ClockFile:
    """The file that moves the clock of one process, by what all the faults in force on it add up to."""

    def __init__(self, path: str, process: Process) -> None:
        self.path, self._process = path, process
        self._lock = threading.RLock()
        self._shifts: dict[object, Shift] = {}
        self._life: int | None = None  # for which the file was written
        self._late = 0  # ns from the start of that life to the loading of the library
        self._write()
        process.on_start = self._follow

    def set(self, fault: object, offset: int, rate: float) -> None:
        """From now on this is what the fault does."""
        with self._lock:
            self._shifts[fault] = Shift(offset, rate, stamp())
            self._write()

    def drop(self, fault: object) -> None:
        """The fault does nothing any more. It may never have."""
        with self._lock:
            shift = self._shifts.pop(fault, None)
            try:
                self._write()
            except OSError:  # still in force, and to be undone again
                if shift is not None:
                    self._shifts[fault] = shift
                raise

    def others(self, fault: object) -> int:
        """How far off the other faults put the clock now, in ns."""
        with self._lock:
            now = stamp()
            return sum(shift.at(now) for other, shift in self._shifts.items() if other is not fault)

    def _follow(self) -> None:
        """The process begins another life, for whose age the file is wrong."""
        with self._lock, contextlib.suppress(OSError):  # better a wrong clock, which a fault asked for, than no start
            self._write()

    def correct(self, off: int) -> None:
        """The clock was seen to be `off` ns off. Where that is not as it should be, the library was loaded that much
        later than the process started."""
        with self._lock:
            rate = self._rate()
            if rate != 1.0:
                self._late -= round((off - self.others(None)) / (rate - 1))
                self._write()

    @property
    def running(self) -> bool:
        """Whether the process whose clock it is runs now."""
        return self._process.pid is not None

    def _rate(self) -> float:
        return max(_SLOWEST, 1 + sum(shift.rate - 1 for shift in self._shifts.values()))

    def _write(self) -> None:
        """The file is replaced, never seen half written."""
        started = self._process.started
        if started != self._life:
            self._life, self._late = started, 0
        age = stamp() - started - self._late if started is not None else 0
        new = Path(f"{self.path}.new")
        new.write_text(written(self.others(None), self._rate(), age))
        os.chmod(new, 0o644)
        new.replace(self.path)


class Clock:
    """Arguments: offset (ns), rate (1.0 is true), strobe (ns between jumps there and back; 0: none).

    `read` asks the process for its wall clock (ns since 1970), or None when it does not answer. Faults that overlap on
    one process add up, and each is probed by what it adds.
    """

    def __init__(self, file: ClockFile, read: Callable[[], int | None], args: Mapping[str, Any]) -> None:
        self._offset = int(required(args, "offset", int)) if "offset" in args else 0
        self._rate = float(required(args, "rate", int, float)) if "rate" in args else 1.0
        self._strobe = int(required(args, "strobe", int)) if "strobe" in args else 0
        if not _SLOWEST <= self._rate <= 100:
            raise FaultError(f"rate: {self._rate} is not between {_SLOWEST} and 100")
        if self._strobe < 0 or (self._strobe and self._strobe < SECOND // 100):
            raise FaultError(f"strobe: {self._strobe} ns is neither 0 nor at least 10 ms")
        if self._offset == 0 and self._rate == 1.0:
            raise FaultError("a clock fault needs an offset, or a rate other than 1")
        self._file, self._read = file, read
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._least = 0  # ns that the process's clock was off for certain by what we did
        self._ran = self._answered = False

    def inject(self) -> str:
        if library() is None:
            raise FaultError("there is no libfaketime on the node (Debian package faketime)")
        self._file.set(self, self._offset, self._rate)
        off = self._look()
        if off is not None:
            self._file.correct(off)
        self._thread = threading.Thread(target=self._hold, daemon=True)
        self._thread.start()
        return self._evidence()

    def undo(self) -> Probe:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        if not self._strobe:
            self._look()
        self._file.drop(self)
        return Probe(self._least > 0 if self._answered else None, self._evidence())

    def _hold(self) -> None:
        """While it is in force: jump to and fro, and look how far it is off."""
        there = True
        while not self._end.wait((self._strobe or _LOOK) / SECOND):
            if self._strobe:
                with contextlib.suppress(OSError):  # a full disk: it stays as it was
                    self._file.set(self, 0 if there else self._offset, 1.0 if there else self._rate)
                    there = not there
            if there:
                self._look()

    def _look(self) -> int | None:
        """How far off the clock is in all, about. Keeps the most that it was off for certain by this fault."""
        self._ran = self._ran or self._file.running
        others = self._file.others(self)
        before = time.time_ns()
        theirs = self._read()
        after = time.time_ns()
        if theirs is None:
            return None
        self._answered = True
        moved = abs(self._file.others(self) - others)
        if moved < _TOLERANCE:  # else another fault jumped meanwhile, and who moved the clock is not to be told
            doubt = _TOLERANCE if others or moved else 0
            self._least = max(self._least, theirs - after - others - doubt, before - theirs + others - doubt)
        return theirs - (before + after) // 2

    def _evidence(self) -> str:
        if self._least > 0:
            return f"the process's clock was off by at least {self._least / SECOND:.3f} s"
        if self._answered:
            return "the process's clock was not seen to be off"
        return "the process was not asked for its clock: it " + ("did not answer" if self._ran else "was not running")


def unable() -> str | None:
    """Why no clock can be moved here, or None."""
    return None if library() else "there is no libfaketime on the node (Debian package faketime)"


def sweep() -> None:
    """Remove the files that move clocks, those of any process; and what the library leaves of processes that were
    killed, whose pids are in the names."""
    for path in glob.glob(FILES):
        Path(path).unlink(missing_ok=True)
    for path in (found for pattern in _LEFT for found in glob.glob(pattern)):
        if state(int(path.rpartition("_")[2])) in (None, "Z"):
            Path(path).unlink(missing_ok=True)
