"""The ledger of a run: each fault is noted before it is injected, and struck out when it is undone.

Lines of JSON, appended and synced to the disk one by one. Whatever kills the controller, what is still open can be read
here and undone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.model.schedule import Action


@dataclass(frozen=True, slots=True)
class Entry:
    """An action of a fault that was to be injected. `noted`: ns on the run's clock."""

    fault: str
    action: Action
    noted: int


class Ledger:
    """Writes a ledger. Raises OSError when a line cannot be kept, and then the fault must not be injected."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def note(self, fault: str, action: Action, now: int) -> None:
        """`action` is about to be carried out for `fault`. On the disk when this returns."""
        self._append({"note": fault, "action": action.to_json(), "time": now})

    def strike(self, fault: str, now: int) -> None:
        """All actions of `fault` are undone."""
        self._append({"strike": fault, "time": now})

    def close(self) -> None:
        """No more is written. Closing twice is harmless."""
        self._file.close()

    def _append(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, sort_keys=True).encode() + b"\n")
        os.fsync(self._file.fileno())


def open_entries(path: Path) -> list[Entry]:
    """What was noted and never struck out, in order; empty where there is no ledger.

    A last line that is torn is no line: a torn note was not injected, since its sync had not returned, and a torn
    strike leaves its fault open, which is the safe side.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    entries: dict[str, list[Entry]] = {}
    for line in text.split("\n")[:-1]:
        try:
            data = json.loads(line)
            if "strike" in data:
                entries.pop(data["strike"], None)
            else:
                entry = Entry(data["note"], Action.from_json(data["action"]), int(data["time"]))
                entries.setdefault(entry.fault, []).append(entry)
        except (ValueError, KeyError, TypeError):
            continue  # torn by a full disk and written past since: as the last line
    return sorted((entry for group in entries.values() for entry in group), key=lambda entry: entry.noted)
