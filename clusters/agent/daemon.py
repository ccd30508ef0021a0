"""A process that the broker starts by itself and that outlives it, such as Erlang's epmd: found by name and user."""

from __future__ import annotations

import pwd
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from clusters.agent.process import send, state, tree, wait_for

_APPEARS = 5.0  # seconds


class Daemon:
    """What faults of processes need of it, as `Process` has it. Nobody watches it: whoever needs it starts it again,
    the broker if that is first, else we when the last fault that holds it down is undone."""

    failed = False

    def __init__(self, comm: str, argv: Sequence[str], env: Mapping[str, str], user: str | None) -> None:
        """`comm`: its name, as the kernel has it. `user` must own it (None: anybody). `argv` starts it."""
        self._comm, self._argv, self._env, self._user = comm, list(argv), dict(env), user
        self._lock = threading.RLock()
        self._down: set[object] = set()
        self._paused: dict[object, int] = {}
        self._ended: int | None = None

    @property
    def pid(self) -> int | None:
        """Its pid while one runs; the lowest, where several do."""
        return min(named(self._comm, self._user), default=None)

    def end(self, number: signal.Signals) -> None:
        """Send it a signal that ends it."""
        with self._lock:
            if (pid := self.pid) is not None:
                self._ended = pid
                send([pid], number)

    def wait(self, timeout: float) -> bool:
        """Wait until the one that was told to end is gone; whether it is."""
        return wait_for(lambda: self._ended is None or state(self._ended) in (None, "Z"), timeout)

    def hold_down(self, holder: object) -> None:
        """Not to be started again by us until `release`."""
        with self._lock:
            self._down.add(holder)

    def release(self, holder: object) -> None:
        """Start it again, unless others hold it down, or it runs. Raises OSError when it does not come."""
        with self._lock:
            self._down.discard(holder)
            if self._down or self.pid is not None:
                return
            subprocess.run(
                self._argv,
                env=self._env,
                user=self._user,
                group=self._user,
                extra_groups=[] if self._user else None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                timeout=_APPEARS,
                check=False,
            )
            if not wait_for(lambda: self.pid is not None, _APPEARS):
                raise OSError(f"{' '.join(self._argv)} started no {self._comm}")

    def pause(self, holder: object) -> None:
        """Stop it where it is until `resume`."""
        with self._lock:
            if (pid := self.pid) is not None:
                self._paused[holder] = pid
                send(stopped := tree(pid), signal.SIGSTOP)
                wait_for(lambda: all(state(one) in ("T", "Z", None) for one in stopped), 1.0)

    def resume(self, holder: object) -> None:
        """Let it go on, unless others hold it paused."""
        with self._lock:
            pid = self._paused.pop(holder, None)
            if pid is not None and pid not in self._paused.values():
                send(tree(pid), signal.SIGCONT)


def named(comm: str, user: str | None) -> list[int]:
    """The processes of that name that run and that the user (None: anybody) owns."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, KeyError):  # it ended while we looked, or there is no such user
            mine = entry.name.isdigit() and (entry / "comm").read_text().strip() == comm
            if mine and (user is None or entry.stat().st_uid == pwd.getpwnam(user).pw_uid):
                found.append(int(entry.name))
    return [pid for pid in found if state(pid) not in (None, "Z", "X")]
