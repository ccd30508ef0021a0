"""A node without power, or shut down in order: its processes are gone, and to the others it is silent.

Silent, since a machine that is gone closes no connection: the rules of a cut are in force before its processes end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from clusters.agent.disk import Disk
from clusters.faults import nftables
from clusters.faults.base import Probe
from clusters.faults.disks import down
from clusters.faults.signals import ORDERLY, Process

_CANARY = b"written, not synced"


class PowerOff:
    """Argument: rules, as a cut has them. All processes are killed and what was not synced is lost; a file of ours,
    written just before and not synced, shows it. Undo mounts the disk again and starts them."""

    def __init__(
        self, table: nftables.Table, disk: Disk, processes: Sequence[Process], args: Mapping[str, Any]
    ) -> None:
        self._silence = nftables.Links(table, args)
        self._disk, self._processes = disk, processes
        self._canary = disk.folder / ".splitbrain-canary"
        self._pids: list[int] = []
        self._off = False
        self._bit: bool | None = None

    def inject(self) -> str:
        self._silence.inject()
        self._pids = down(self._processes, self)
        self._canary.write_bytes(_CANARY)
        self._disk.shut_down()
        self._off = True
        self._disk.unmount()
        return f"{len(self._pids)} processes gone, and the disk with what was not synced"

    def undo(self) -> Probe:
        if self._off:
            self._disk.unmount()
            self._disk.mount()
            self._off = False
            self._bit = bool(self._pids) and not (self._canary.exists() and self._canary.read_bytes() == _CANARY)
            self._canary.unlink(missing_ok=True)
        self._silence.undo()
        for process in self._processes:
            process.release(self)
        lost = "was lost" if self._bit else "was not lost"
        return Probe(self._bit or False, f"{len(self._pids)} processes gone; what we had written and not synced {lost}")


class NodeStop:
    """Argument: rules, as a cut has them. All processes are told to end, the broker first; once they have, the node is
    silent. Undo waits for that, and starts them."""

    def __init__(self, table: nftables.Table, processes: Sequence[Process], args: Mapping[str, Any]) -> None:
        self._silence = nftables.Links(table, args)
        self._processes = processes
        self._pids: list[int] = []
        self._killed: list[int] = []
        self._thread = threading.Thread(target=self._shut_down, daemon=True)

    def inject(self) -> str:
        for process in self._processes:
            process.hold_down(self)
        self._pids = [pid for process in self._processes if (pid := process.pid) is not None]
        self._thread.start()
        return f"{len(self._pids)} processes told to stop, one after the other"

    def undo(self) -> Probe:
        if self._thread.ident is not None:
            self._thread.join()
        self._silence.undo()
        for process in self._processes:
            process.release(self)
        killed = f", {len(self._killed)} of them killed after {ORDERLY:g} s" if self._killed else ""
        return Probe(bool(self._pids), f"{len(self._pids)} processes stopped{killed}, then silence")

    def _shut_down(self) -> None:
        for process in reversed(self._processes):
            if (pid := process.pid) is not None:
                process.end(signal.SIGTERM)
                if not process.wait(ORDERLY):
                    self._killed.append(pid)
                    process.end(signal.SIGKILL)
                    process.wait(5)
        self._silence.inject()
