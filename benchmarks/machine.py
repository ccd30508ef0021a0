"""Which machine the figures come from."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe() -> str:
    """One line: processor, cores, memory, system, Python."""
    processor = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return (
        f"{processor}, {os.cpu_count()} cores, {memory / 2**20:.0f} GiB, "
        f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
