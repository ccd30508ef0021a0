"""A control group of ours for a process: the kernel holds it, and what it starts, to so much CPU, memory and disk.

Both kinds of cgroup file systems are met: one tree with all controllers (v2), or a tree each (v1). In a container they
are read-only at first, and the container's own group looks like the root; it is made writable, which needs
CAP_SYS_ADMIN. On v2 a group with processes in it may not have groups that are limited, so that all processes of the
container first move one group down.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from clusters.faults.base import FaultError

ROOT = Path("/sys/fs/cgroup")
NAME = "splitbrain"
_REMOUNTED = Path("/run/splitbrain-cgroups")  # names those that were read-only
CPU, MEMORY, IO = "cpu", "memory", "io"
_PERIOD = 100_000  # us in which a share of CPU is counted
_V1 = {CPU: "cpu", MEMORY: "memory", IO: "blkio"}
NO_LIMIT = 1 << 62  # bytes


class Group:
    """One group, with one limit, that processes are put into. `made` first."""

    def __init__(self, controller: str, number: int, root: Path = ROOT) -> None:
        self.controller = controller
        self.v2 = (root / "cgroup.controllers").exists()
        self.base = root if self.v2 else root / _V1[controller]
        self.path = self.base / f"{NAME}-{controller}-{number}"
        self._home: Path | None = None

    def make(self) -> None:
        """Make it. Raises FaultError saying what this node lacks."""
        if not (self.base / "cgroup.procs").exists():
            raise FaultError(f"there is no cgroup controller {self.controller} at {self.base}")
        try:
            if not os.access(self.base, os.W_OK):
                self._writable()
            self._home = self._where_we_are()
            if self.v2:
                self._allow()
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise FaultError(f"no cgroup can be made in {self.base}: {error.strerror}") from None

    def limit_cpu(self, share: float) -> None:
        """So much of one core, 0.1 being a tenth."""
        quota = max(1000, round(share * _PERIOD))
        if self.v2:
            self._write("cpu.max", f"{quota} {_PERIOD}")
        else:
            self._write("cpu.cfs_period_us", _PERIOD)
            self._write("cpu.cfs_quota_us", quota)

    def limit_memory(self, more: int) -> None:
        """So many bytes more than what its processes have; whoever wants more is made to wait, not killed."""
        if self.v2:
            self._write("memory.high", more)
        else:
            self._write("memory.limit_in_bytes", more)
            self._write("memory.oom_control", 1)

    def limit_writes(self, device: str, rate: int) -> None:
        """So many bytes a second to a device ("major:minor")."""
        if self.v2:
            self._write("io.max", f"{device} wbps={rate}")
        else:
            self._write("blkio.throttle.write_bps_device", f"{device} {rate}")

    def held_back(self) -> int:
        """How often the kernel has made somebody in it wait for CPU, or for memory."""
        file, key = {
            (CPU, True): ("cpu.stat", "nr_throttled"),
            (CPU, False): ("cpu.stat", "nr_throttled"),
            (MEMORY, True): ("memory.events", "high"),
            (MEMORY, False): ("memory.failcnt", ""),
        }[self.controller, self.v2]
        for line in (self.path / file).read_text().splitlines():
            name, _, value = line.rpartition(" ")
            if name == key:
                return int(value)
        return 0

    def put(self, pids: Iterable[int]) -> None:
        """Put processes into it; those that are gone are left out."""
        _move(pids, self.path)

    def remove(self) -> None:
        """Let its processes go back to where they were, and remove it. Raises OSError."""
        if not self.path.exists():
            return
        if self.controller == MEMORY:
            with contextlib.suppress(OSError):  # those who wait for memory get it
                self._write("memory.high" if self.v2 else "memory.limit_in_bytes", "max" if self.v2 else -1)
        for _ in range(100):  # what is in it may start others
            pids = [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]
            _move(pids, self._home or self.base)
            try:
                self.path.rmdir()
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
            else:
                return
        raise FaultError(f"{self.path} cannot be emptied")

    def _writable(self) -> None:
        with _REMOUNTED.open("a") as noted:
            noted.write(f"{self.base}\n")
        done = subprocess.run(
            ["mount", "-o", "remount,bind,rw", str(self.base)], capture_output=True, text=True, timeout=10, check=False
        )
        if done.returncode:
            problem = (done.stderr.strip() or "no message").splitlines()[0]
            raise FaultError(f"{self.base} is read-only (has the node CAP_SYS_ADMIN?): {problem}")

    def _where_we_are(self) -> Path:
        """The group that this agent is in, and with it what it starts; in a container, the root that it sees."""
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if (self.v2 and not controllers) or _V1[self.controller] in controllers.split(","):
                home = self.base / path.lstrip("/")
                if (home / "cgroup.procs").exists():
                    return home
        return self.base

    def _allow(self) -> None:
        """v2: have the controller for groups below the root, which must be empty of processes in a container."""
        control = self.base / "cgroup.subtree_control"
        if self.controller in control.read_text().split():
            return
        try:
            control.write_text(f"+{self.controller}")
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.EOPNOTSUPP):
                raise
            below = self.base / f"{NAME}-all"
            below.mkdir(exist_ok=True)
            _move([int(pid) for pid in (self.base / "cgroup.procs").read_text().split()], below)
            control.write_text(f"+{self.controller}")
            self._home = below

    def _write(self, name: str, value: object) -> None:
        try:
            (self.path / name).write_text(str(value))
        except OSError as error:
            raise FaultError(f"{self.path / name} does not take {value}: {error.strerror}") from None


def unable(*controllers: str) -> str | None:
    """Why no group with those controllers can be made here, or None."""
    for controller in controllers:
        group = Group(controller, 0)
        try:
            group.make()
            group.remove()
        except (FaultError, OSError) as error:
            return str(error)
    return None


def _move(pids: Iterable[int], group: Path) -> None:
    for pid in pids:
        try:
            (group / "cgroup.procs").write_text(str(pid))
        except ProcessLookupError:
            continue
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.EINVAL):  # gone, or a thread of the kernel's
                raise


def sweep() -> None:
    """Let everybody out of groups whose agent was killed, and remove them."""
    for controller in _V1:
        base = Group(controller, 0).base
        for path in base.glob(f"{NAME}-{controller}-*") if base.is_dir() else ():
            group = Group(controller, int(path.name.rpartition("-")[2]))
            group.remove()
    with contextlib.suppress(FileNotFoundError):
        for one in dict.fromkeys(_REMOUNTED.read_text().split()):
            subprocess.run(["mount", "-o", "remount,bind,ro", one], capture_output=True, timeout=10, check=False)
        _REMOUNTED.unlink()
