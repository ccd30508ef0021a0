"""What a Raft group replicates: a deterministic machine, fed the committed commands in order."""

from __future__ import annotations

from typing import Any, Protocol

Command = tuple[Any, ...]

NOOP: Command = (0, None, 0, None, None)  # the first entry of a leader's term; a machine lets it pass
MEMBERS = -1  # (MEMBERS, None, 0, members, None): who belongs to the group from this entry on; a machine lets it pass


class Machine(Protocol):
    """`leading`: whether its replica leads, so that what it has to say should be gathered."""

    leading: bool

    def apply(self, index: int, command: Command) -> None:
        """Apply the committed command at this index of the log."""

    def snapshot(self) -> tuple[Any, ...]:
        """The state, flat and hashable."""

    def restore(self, state: tuple[Any, ...]) -> None:
        """Become the machine that `snapshot` was asked of, with nothing to say."""
