"""A process of the broker on this node: started, signalled, and watched, so that no end of it goes unseen."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

Exited = Callable[[int, int, str, bool], None]  # incarnation, stamp, reason, asked


def stamp() -> int:
    """Now, on this node's clock for everything that the agent says: CLOCK_MONOTONIC in ns, which no fault moves."""
    return time.monotonic_ns()


def state(pid: int) -> str | None:
    """The kernel's one letter for what a process is doing (T: stopped), or None when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


def tree(pid: int) -> list[int]:
    """A process and all below it, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue  # it ended while we looked
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


RESTART = 5.0  # seconds


class Process:
    """One named process, in as many lives (incarnations, from 1) as it is started.

    Faults that hold it down or paused may overlap: it starts again, or goes on, when the last of them is undone. One
    that ends and was not asked to is started again after `restart` seconds (None: never), as a service manager would.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        user: str | None,
        output: str,
        exited: Exited,
        restart: float | None = RESTART,
    ) -> None:
        self._argv, self._env, self._user, self._output, self._exited = list(argv), dict(env), user, output, exited
        self._restart = restart
        self._lock = threading.RLock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._gone = threading.Event()
        self._gone.set()
        self._asked = False
        self._down: set[object] = set()
        self._paused: set[object] = set()
        self.incarnation = 0
        self.started: int | None = None
        self.on_start: Callable[[], None] = lambda: None  # called with `started` set, just before each life
        self.joins: list[Callable[[int], None]] = []  # each is called with the pid of a new life, at once

    @property
    def failed(self) -> bool:
        """Whether it is not running because it ended by itself."""
        return self._popen is not None and self.pid is None and not self._asked

    @property
    def pid(self) -> int | None:
        """Its pid while it runs."""
        return None if self._gone.is_set() or self._popen is None else self._popen.pid

    def start(self) -> int:
        """Start it unless it runs; returns which life this is. Raises OSError when it cannot be started."""
        with self._lock:
            if self.pid is not None:
                return self.incarnation
            with open(self._output, "ab") as output:
                self.started = stamp()
                self.on_start()
                popen = subprocess.Popen(
                    self._argv,
                    env=self._env,
                    user=self._user,
                    group=self._user,
                    extra_groups=[] if self._user else None,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._popen, self._gone, self._asked = popen, threading.Event(), False
            self._paused.clear()
            self.incarnation += 1
            for join in self.joins:
                join(popen.pid)
            threading.Thread(target=self._watch, args=(popen, self._gone, self.incarnation), daemon=True).start()
            return self.incarnation

    def end(self, number: signal.Signals) -> None:
        """Send it a signal that ends it; its children see that it is gone. While paused only SIGKILL acts at once."""
        with self._lock:
            if (pid := self.pid) is not None:
                self._asked = True
                below = tree(pid)[1:]
                os.kill(pid, number)
                if number == signal.SIGKILL and self._paused:
                    self._paused.clear()
                    send(below, signal.SIGCONT)  # or they would stay, stopped, for ever

    def hold_down(self, holder: object) -> None:
        """Not to be started again until `release`."""
        with self._lock:
            self._down.add(holder)

    def release(self, holder: object) -> None:
        """Start it again, unless others hold it down."""
        with self._lock:
            if holder in self._down:
                self._down.remove(holder)
                if not self._down:
                    self.start()

    def pause(self, holder: object) -> None:
        """Stop it and its children where they are until `resume`."""
        with self._lock:
            if (pid := self.pid) is not None:
                self._paused.add(holder)
                send(all_of_it := tree(pid), signal.SIGSTOP)
                # A stop is asked, and obeyed when the process next runs: later, on a busy host.
                wait_for(lambda: all(state(one) in ("T", "Z", None) for one in all_of_it))

    def resume(self, holder: object) -> None:
        """Let it go on, unless others hold it paused."""
        with self._lock:
            if holder in self._paused:
                self._paused.remove(holder)
                if not self._paused and (pid := self.pid) is not None:
                    send(reversed(tree(pid)), signal.SIGCONT)

    def wait(self, timeout: float) -> bool:
        """Wait until it is gone; whether it is."""
        return self._gone.wait(timeout)

    def run(self, argv: Sequence[str], timeout: float) -> tuple[int, str]:
        """A command as whoever runs this process: its exit code, and all that it said."""
        try:
            done = subprocess.run(
                list(argv),
                env=self._env,
                user=self._user,
                group=self._user,
                extra_groups=[] if self._user else None,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return -1, f"not done after {timeout:g} s"
        return done.returncode, done.stdout + done.stderr

    def _watch(self, popen: subprocess.Popen[bytes], gone: threading.Event, incarnation: int) -> None:
        code = popen.wait()
        at = stamp()
        with self._lock:
            asked = self._asked
            gone.set()
        reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._exited(incarnation, at, reason, asked)
        if not asked and self._restart is not None:
            again = threading.Timer(self._restart, self._start_again, (incarnation,))
            again.daemon = True
            again.start()

    def _start_again(self, incarnation: int) -> None:
        with self._lock:
            if self.incarnation == incarnation and not self._down:
                self.start()


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """A signal to each of them that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue  # it ended by itself


def wait_for(condition: Callable[[], bool], timeout: float = 1.0) -> bool:
    """Wait until that is so, for so many seconds at most; whether it is."""
    end = time.monotonic() + timeout
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.002)
    return met
