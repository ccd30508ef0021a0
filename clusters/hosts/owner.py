"""Which process made something, written on it, so that any other can tell whether that process still runs.

A process is known by its machine's boot and its pid namespace, its pid, and when it began (Linux: proc(5), field 22 of
/proc/PID/stat), since pids come again.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_PROC = Path("/proc")


def me() -> str:
    """This process, as one word for a label."""
    return "/".join((socket.gethostname(), _space(), str(os.getpid()), _began(os.getpid()) or ""))


def holder(owner: str) -> str | None:
    """Who `owner`, which `me` once gave, is, in a few words; None when that process is surely gone."""
    try:
        host, space, pid, began = owner.split("/")
        number = int(pid)
    except ValueError:
        return None  # nobody who says so
    if space == _space():
        return f"process {number}" if _began(number) == began else None
    if host == socket.gethostname():
        return None  # the machine was started again since
    return f"process {number} on {host}, which cannot be seen from here"


def _space() -> str:
    """The namespace of pids that holds since the machine was started."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}.{os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _began(pid: int) -> str | None:
    """When a process began, in ticks since boot, where the machine tells; None when it does not run."""
    if (_PROC / "self").exists():
        try:
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in ("Z", "X") else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # somebody else's
    return ""
