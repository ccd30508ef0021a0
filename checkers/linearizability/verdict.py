"""What an engine answers about one or many objects."""

from __future__ import annotations

from dataclasses import dataclass, field


class Refused(Exception):
    """A history breaks a monitor's precondition; the argument names it and the offending operation (history index)."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Why there is no such order: a rule by name, the one to four operations that show it (rows of the Calls), and a
    sentence of what happened, in terms of values."""

    rule: str
    rows: tuple[int, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Decision:
    """valid: True, False, or None when it could not be decided (why: `reason`). violation: for the first key that has
    one. longest: rows of the longest prefix that linearizes, in its order, where the engine knows (searches)."""

    valid: bool | None
    engine: str
    reason: str
    violation: Violation | None = None
    longest: tuple[int, ...] = field(default=())
