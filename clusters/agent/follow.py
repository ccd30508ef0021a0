"""Following a log: lines that are written from now on and match are told as they come."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PERIOD = 0.05  # seconds between looks


class Follower(threading.Thread):
    """Looks at a file, which may come later, be cut or be replaced, and hands on the lines that match."""

    def __init__(self, path: str, patterns: Sequence[str], found: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._path = Path(path)
        self._match = [re.compile(pattern) for pattern in patterns]
        self._found = found
        self._which: tuple[int, int] | None = None  # device and inode of what was read
        self._at = 0
        self._rest = b""
        self.look(skip=True)

    def run(self) -> None:
        while True:
            time.sleep(PERIOD)
            self.look()

    def look(self, skip: bool = False) -> None:
        """Read what has come since the last look; with `skip` hand nothing on."""
        try:
            with self._path.open("rb") as file:
                about = self._path.stat()
                if self._which != (about.st_dev, about.st_ino) or about.st_size < self._at:
                    self._which, self._at, self._rest = (about.st_dev, about.st_ino), 0, b""
                file.seek(self._at)
                data = file.read()
        except OSError:
            return  # not there yet
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in () if skip else lines:
            text = line.decode(errors="replace")
            if any(one.search(text) for one in self._match):
                self._found(text)
