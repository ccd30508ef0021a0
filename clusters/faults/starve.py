"""A process that gets little CPU, little memory, or little of its disk, by a control group of ours around it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from clusters.agent.cgroup import CPU, IO, MEMORY, Group
from clusters.agent.disk import Disk
from clusters.agent.process import Process, tree
from clusters.faults.base import FaultError, Probe, required
from clusters.faults.signals import absent

_numbers = itertools.count(1)


class _Held:
    """A process and what it starts, in a group of ours, in whatever life."""

    def __init__(self, process: Process, controller: str) -> None:
        self.group = Group(controller, next(_numbers))
        self._process = process

    def begin(self) -> None:
        self._process.joins.append(self._join)
        if (pid := self._process.pid) is not None:
            self.group.put(tree(pid))

    def end(self) -> None:
        if self._join in self._process.joins:
            self._process.joins.remove(self._join)
        self.group.remove()

    def _join(self, pid: int) -> None:
        self.group.put([pid])


class Starve:
    """Arguments: cpu (share of one core), or memory (bytes more than it has). The kernel says how often it made the
    process wait."""

    def __init__(self, process: Process, args: Mapping[str, Any]) -> None:
        given = [name for name in (CPU, MEMORY) if args.get(name) is not None]
        if len(given) != 1:
            raise FaultError("starve: either cpu or memory, and not both")
        self._what = given[0]
        self._limit = required(args, self._what, int, float)
        if self._limit <= 0:
            raise FaultError(f"{self._what}: {self._limit} is not above 0")
        self._process = process
        self._held = _Held(process, self._what)
        self._absent: Probe | None = None if process.pid is not None else absent(process)

    def inject(self) -> str:
        group = self._held.group
        group.make()
        if self._what == CPU:
            group.limit_cpu(float(self._limit))
        else:
            group.limit_memory(int(self._limit))
        self._held.begin()
        unit = "of a core" if self._what == CPU else "bytes more"
        return f"held to {self._limit:g} {unit}"

    def undo(self) -> Probe:
        waited = self._held.group.held_back() if self._held.group.path.exists() else 0
        self._held.end()
        if self._absent is not None and not waited:
            return self._absent
        return Probe(waited > 0, f"the kernel made it wait for {self._what} {waited} times")


class SlowDisk:
    """Argument: rate (bytes a second that are written to the disk of the broker's data). A synced write of ours, held
    to the same, is timed to show it."""

    def __init__(self, disk: Disk, process: Process, args: Mapping[str, Any]) -> None:
        self._rate: int = required(args, "rate", int)
        if self._rate < 1000:
            raise FaultError(f"rate: {self._rate} is less than 1000 bytes a second")
        self._disk = disk
        self._held = _Held(process, IO)
        self._before = self._during = 0.0

    def inject(self) -> str:
        if (device := self._disk.device()) is None:
            raise FaultError("the disk of ours is not mounted")
        self._before = self._disk.write_takes(self._rate, [])
        group = self._held.group
        group.make()
        group.limit_writes(device, self._rate)
        self._held.begin()
        self._during = self._disk.write_takes(self._rate, [group.path / "cgroup.procs"])
        return self._said()

    def undo(self) -> Probe:
        self._held.end()
        return Probe(self._during > 0.5 > self._before, self._said())

    def _said(self) -> str:
        return f"{self._rate} bytes, synced, took {self._during:.2f} s, and {self._before:.2f} s before"
