"""What a command and all that it starts take: processor time and memory, by kind of process."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

EVERY = 0.2  # s
KINDS = {"bin/java": "JVM", "results.checking.child": "checkers", "pyspark": "Python workers"}
OWN = "command"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Taken:
    """`wall`: seconds. `cpu`: processor seconds, user and system, by kind of process; of one that ended, as last seen.
    `memory`: bytes, by kind the most of one process, and `together` the most of all at once: anonymous pages, where
    processes share some by fork these count in each."""

    said: str = ""
    code: int = 0
    wall: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    together: int = 0

    @property
    def processor(self) -> float:
        """Of all kinds, seconds."""
        return sum(self.cpu.values())


def watched(command: Sequence[str]) -> Taken:
    """Run a command to its end. What it says on stdout is kept, what it says on stderr is not."""
    taken = Taken()
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        over = threading.Event()
        watch = threading.Thread(target=_watch, args=(process.pid, taken, over))
        watch.start()
        assert process.stdout is not None
        taken.said = process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it can still be looked at
        taken.wall = time.monotonic() - began
        over.set()
        watch.join()
    taken.code = process.returncode
    return taken


def _watch(root: int, taken: Taken, over: threading.Event) -> None:
    seen: dict[int, tuple[str, float]] = {root: (OWN, 0.0)}
    while True:
        last = over.wait(EVERY)
        sizes: dict[int, int] = {}
        for pid in _tree(seen):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                sizes[pid] = _anonymous(pid)
                kind = seen[pid][0] if pid == root else _kind(pid) or seen.get(pid, ("",))[0] or OWN
            except (OSError, IndexError):
                continue
            seen[pid] = (kind, (int(fields[11]) + int(fields[12])) / TICKS)
        for pid, size in sizes.items():
            kind = seen[pid][0]
            taken.memory[kind] = max(taken.memory.get(kind, 0), size)
        taken.together = max(taken.together, sum(sizes.values()))
        if last:
            break
    cpu: defaultdict[str, float] = defaultdict(float)
    for kind, seconds in seen.values():
        cpu[kind] += seconds
    taken.cpu = dict(cpu)


def _tree(known: dict[int, tuple[str, float]]) -> list[int]:
    """All descendants of processes that are known: these too, for what has lost its parent has another one now."""
    found: dict[int, None] = dict.fromkeys(known)
    waiting = list(known)
    while waiting:
        for path in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            try:
                children = [int(word) for word in path.read_text().split()]
            except OSError:
                continue
            waiting += [child for child in children if child not in found]
            found |= dict.fromkeys(children)
    return list(found)


def _kind(pid: int) -> str | None:
    said = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return next((kind for part, kind in KINDS.items() if part in said), None)


def _anonymous(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0
