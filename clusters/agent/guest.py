"""A broker's process that somebody else started, and whose it stays: hurt where it is, and brought back as it was.

What we do to it is noted before it is done (HELD in the run's folder), so that whoever comes after this agent can take
it back: its guard, or `splitbrain clean`. Which process it is, is seen once, by its name, its user and where it
listens; from then on it is the one with the same words, so that no other of its name is ever touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from clusters.agent.daemon import Daemon, named
from clusters.agent.process import send, tree, wait_for
from clusters.faults.base import FaultError

HELD = "held-*.json"
_PROC = Path("/proc")
_SYSTEMD = Path("/run/systemd/system")
_APPEARS = 30.0  # seconds: a service manager may start other things first
# what prlimit(1) calls a limit, and what the kernel does
_LIMITS = {
    "nofile": "Max open files",
    "nproc": "Max processes",
    "core": "Max core file size",
    "memlock": "Max locked memory",
}


@dataclass(frozen=True)
class Life:
    """What a process was started with, bytes as `os.fsdecode` has them. `unit`: the service that systemd ran it as, if
    it did. `limits`: soft and hard, as prlimit(1) has them."""

    comm: str
    user: str
    argv: list[str]
    env: dict[str, str]
    folder: str
    uid: int
    gid: int
    groups: list[int]
    limits: dict[str, str]
    unit: str | None

    @staticmethod
    def of(pid: int) -> Life:
        """Of a process that runs. Raises FaultError for one that may not be looked at, or that we could not start."""
        place = _PROC / str(pid)
        try:
            env = [line.partition("=") for line in _words(place / "environ")]
            said = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
            unit = _unit((place / "cgroup").read_text()) if _SYSTEMD.is_dir() else None
            for name in ("pid", "mnt"):
                inside = os.readlink(place / "ns" / name) != os.readlink(f"/proc/self/ns/{name}")
                if inside and (name == "pid" or unit is None):
                    raise FaultError(f"pid {pid} runs in a container there, where we could not start it again")
            return Life(
                (place / "comm").read_text().strip(),
                pwd.getpwuid(place.stat().st_uid).pw_name,
                _words(place / "cmdline"),
                {name: value for name, _, value in env},
                os.readlink(place / "cwd"),
                int(said["Uid"].split()[1]),
                int(said["Gid"].split()[1]),
                [int(one) for one in said["Groups"].split()],
                _limits((place / "limits").read_text()),
                unit,
            )
        except (OSError, LookupError, ValueError) as error:
            raise FaultError(f"how pid {pid} was started cannot be seen: {error}") from None

    def pids(self) -> list[int]:
        """The processes that were started just so, and run."""
        return [pid for pid in named(self.comm, self.user) if _argv(pid) == self.argv]

    def again(self) -> None:
        """Start it, unless it runs; by systemd where that ran it. Raises OSError when it does not come."""
        if self.pids():
            return
        if self.unit:
            # one that was killed too often of late would not be started
            for command in (["reset-failed"], ["start", "--no-block"]):
                subprocess.run(["systemctl", *command, self.unit], capture_output=True, timeout=20, check=False)
        else:
            limits = [f"--{name}={value}" for name, value in self.limits.items()]
            groups = f"--groups={','.join(map(str, self.groups))}" if self.groups else "--clear-groups"
            whose = ["/usr/bin/setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", groups]
            subprocess.Popen(  # each becomes the next, so that in the end nothing of them is left
                ["/usr/bin/prlimit", *limits, *(whose if self.uid != os.geteuid() else ()), *self.argv],
                env=self.env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        if not wait_for(lambda: bool(self.pids()), _APPEARS):
            how = f"systemctl start {self.unit}" if self.unit else " ".join(self.argv[:1])
            raise OSError(f"it does not run again, {_APPEARS:g} s after {how}")


class Guest(Daemon):
    """What faults of processes need of it. It is started again only if it was we who ended it."""

    def __init__(self, name: str, comm: str, user: str, ports: Sequence[int], folder: Path | None) -> None:
        """`folder`: where it is noted what we do. Raises FaultError when it is not there, or cannot be told from others
        of its name."""
        super().__init__(comm, (), {}, user)
        there = named(comm, user)
        found = [pid for pid in there if listens(pid, ports)]
        if not found:
            at = " or ".join(map(str, ports))
            seen = "that runs there listens" if there else "runs there, to listen"
            raise FaultError(f"no {comm} of {user} {seen} on port {at}")
        self.life = Life.of(found[0])
        if len(same := self.life.pids()) > 1:
            raise FaultError(f"{len(same)} {comm} of {user} run there with the same words: which is meant?")
        self._note = folder / HELD.replace("*", name) if folder is not None else None
        self._ours = False  # to start again, since we ended it

    @property
    def pid(self) -> int | None:
        return min(self.life.pids(), default=None)

    def end(self, number: signal.Signals) -> None:
        with self._lock:
            if self.pid is not None:
                self._ours = True
                self._write()
            super().end(number)

    def release(self, holder: object) -> None:
        with self._lock:
            self._down.discard(holder)
            if self._down:
                return
            if self._ours:
                self.life.again()
                self._ours = False
            self._write()

    def pause(self, holder: object) -> None:
        with self._lock:
            self._write(paused=True)
            super().pause(holder)

    def resume(self, holder: object) -> None:
        with self._lock:
            super().resume(holder)
            self._write()

    def _write(self, paused: bool = False) -> None:
        """Note what is to be taken back, if anything is. An environment may hold secrets: it is for root alone."""
        if self._note is None:
            return
        if not (paused or self._paused or self._ours):
            self._note.unlink(missing_ok=True)
            return
        torn = self._note.with_suffix(".new")
        torn.unlink(missing_ok=True)
        with os.fdopen(os.open(torn, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump({"ended": self._ours, "life": asdict(self.life)}, file)
            file.flush()
            os.fsync(file.fileno())
        torn.rename(self._note)


def bring_back(folder: Path) -> list[str]:
    """Take back what an agent that is gone did to somebody's processes; what could not be, a line each."""
    problems = []
    for note in sorted(folder.glob(HELD)):
        try:
            told = json.loads(note.read_text())
            life = Life(**told["life"])
            for pid in life.pids():
                send(reversed(tree(pid)), signal.SIGCONT)
            if told["ended"]:
                life.again()
            note.unlink()
        except (OSError, ValueError, TypeError, LookupError) as error:
            problems.append(f"{note.name}: {error}")
    return problems


def listens(pid: int, ports: Sequence[int]) -> bool:
    """Whether a process listens on one of those ports."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) in ports:
                    sockets.add(f"socket:[{words[9]}]")
    with contextlib.suppress(OSError):
        for one in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(one) in sockets:
                    return True
    return False


def _argv(pid: int) -> list[str]:
    try:
        return _words(_PROC / str(pid) / "cmdline")
    except OSError:
        return []


def _words(path: Path) -> list[str]:
    return [os.fsdecode(word) for word in path.read_bytes().split(b"\0")[:-1]]


def _limits(table: str) -> dict[str, str]:
    """Soft and hard limits, of a process's /proc/PID/limits."""
    found = {line[:26].strip(): line[26:68].split() for line in table.splitlines()}
    return {name: ":".join(found[kernel]) for name, kernel in _LIMITS.items()}


def _unit(groups: str) -> str | None:
    """The service in a process's /proc/PID/cgroup: the last part of a path below system.slice."""
    for line in groups.splitlines():
        parts = line.rpartition(":")[2].split("/")
        if "system.slice" in parts:
            for part in parts:
                if part.endswith(".service"):
                    return part
    return None
