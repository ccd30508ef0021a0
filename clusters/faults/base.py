"""What a fault is to a node's agent: something injected, undone, and probed while in force.

Everything in this folder runs inside the node, under the node's own Python, with nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class FaultError(Exception):
    """A fault that could not be injected or undone here; says why in one line."""


@dataclass(frozen=True)
class Probe:
    """Whether a fault bit (None: it leaves no trace that could tell), and what shows it; where it does several things,
    also whether each of them did."""

    bit: bool | None
    evidence: str
    parts: Mapping[str, bool] = field(default_factory=dict)


class Fault(Protocol):
    """One action of a fault on this node. Both methods may take a while and are called off the agent's main thread."""

    def inject(self) -> str:
        """Bring it into force; returns what shows that it is. Raises FaultError."""

    def undo(self) -> Probe:
        """Take it back, and say whether it bit while it was in force. Raises FaultError; may be called again then."""


def required(args: Mapping[str, Any], name: str, *types: type) -> Any:
    """The argument `name`. Raises FaultError when it is missing or of another type."""
    value = args.get(name)
    if isinstance(value, bool) or not isinstance(value, types):
        raise FaultError(f"{name}: {value!r} is not {' or '.join(kind.__name__ for kind in types)}")
    return value
