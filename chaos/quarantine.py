"""A scenario that is known to be bad, and whose owner has promised to mend it by a day: until then it is run and told,
and fails nothing; afterwards it counts as any other. Without an owner or a day there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from chaos.model.errors import did_you_mean
from chaos.model.settings import BadKey

KEYS = ("owner", "until", "why")
_WRITE = 'write quarantine = { owner = "...", until = 2026-12-31, why = "..." }'


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Whose it is, the last day (UTC) on which it holds, and why."""

    owner: str
    until: date
    why: str

    def holds(self, today: date) -> bool:
        """Whether it still excuses anything."""
        return today <= self.until

    def says(self, today: date) -> str:
        """In a few words: "in quarantine until 2026-12-31 (ann: a bug)"."""
        word = "in quarantine until" if self.holds(today) else "its quarantine ended on"
        return f"{word} {self.until} ({self.owner}: {self.why})"

    def to_json(self) -> dict[str, str]:
        """As data, which `from_json` makes an equal one of."""
        return {"owner": self.owner, "until": self.until.isoformat(), "why": self.why}

    @staticmethod
    def from_json(data: Mapping[str, str]) -> Quarantine:
        """What `to_json` made of it."""
        return Quarantine(data["owner"], date.fromisoformat(data["until"]), data["why"])


def understand(table: Mapping[str, Any], where: str) -> Quarantine:
    """A quarantine as a suite has it. Raises BadKey for one without an owner, a day or a reason."""
    for key in table:
        if key not in KEYS:
            raise BadKey(f"{where}.{key}", f"unknown key {key!r}; {did_you_mean(key, KEYS)}")
    for key, what in (("owner", "who mends it"), ("why", "what is wrong")):
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise BadKey(f"{where}.{key}", f"{what}? {_WRITE}")
    until = table.get("until")
    if not isinstance(until, date) or isinstance(until, datetime):
        said = "until when?" if until is None else f"{until!r} is not a day:"
        raise BadKey(f"{where}.until", f"{said} {_WRITE}, the day without quotes")
    return Quarantine(table["owner"], until, table["why"])
