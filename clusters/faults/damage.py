"""Files of a broker damaged while it is down: cut short, or a few of their bits flipped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from clusters.faults.base import FaultError, Probe, required
from clusters.faults.disks import down
from clusters.faults.signals import Process

TRUNCATE, FLIP = "truncate", "flip"
_BITS = 8  # flipped in a file


class Damage:
    """Arguments: how (truncate, flip), patterns (globs below the broker's data), files (how many), draw.

    The broker is killed, so many of its files that match and are not empty are damaged, and undo starts it again: with
    what it then finds. A file is cut to a share of its length that is drawn; or bits are flipped at places drawn.
    """

    def __init__(self, folder: str, processes: Sequence[Process], args: Mapping[str, Any]) -> None:
        self._folder, self._processes = Path(folder), processes
        self._how: str = required(args, "how", str)
        self._patterns: list[str] = required(args, "patterns", list)
        self._files: int = required(args, "files", int)
        self._random = Random(required(args, "draw", int))
        if self._how not in (TRUNCATE, FLIP):
            raise FaultError(f"how: {self._how!r} is neither {TRUNCATE} nor {FLIP}")
        self._done: list[str] = []
        self._changed = 0

    def inject(self) -> str:
        down(self._processes, self)
        found = {path for pattern in self._patterns for path in self._folder.glob(pattern)}
        whole = sorted(path for path in found if path.is_file() and not path.is_symlink() and path.stat().st_size)
        for path in self._random.sample(whole, min(self._files, len(whole))):
            before = _digest(path)
            what = self._truncate(path) if self._how == TRUNCATE else self._flip(path)
            after = _digest(path)
            self._changed += before != after
            self._done.append(f"{path.relative_to(self._folder)} {what}: {before} to {after}")
        return self._evidence()

    def undo(self) -> Probe:
        for process in self._processes:
            process.release(self)
        return Probe(0 < self._changed == len(self._done), self._evidence())

    def _evidence(self) -> str:
        return "; ".join(self._done) or f"nothing to damage: no file is like {' or '.join(self._patterns)}"

    def _truncate(self, path: Path) -> str:
        length = path.stat().st_size
        left = self._random.randrange(length)
        with path.open("r+b") as file:
            file.truncate(left)
        return f"cut to {left} of {length} bytes"

    def _flip(self, path: Path) -> str:
        length = path.stat().st_size
        places = sorted(self._random.sample(range(length * 8), min(_BITS, length * 8)))
        with path.open("r+b") as file:
            for place in places:
                file.seek(place // 8)
                byte = file.read(1)[0]
                file.seek(place // 8)
                file.write(bytes([byte ^ 1 << place % 8]))
        return f"{len(places)} bits flipped from byte {places[0] // 8} to {places[-1] // 8} of {length}"


def _digest(path: Path) -> str:
    made = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            made.update(block)
    return made.hexdigest()[:12]
