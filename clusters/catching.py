"""When a replica catches up: from samples of whether it is behind, the beginnings and ends of synchronisations."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from chaos.kernel.clock import SECOND

PATIENCE = SECOND // 2  # behind for that long is no more the ordinary lag of one who is being sent things


@dataclass
class _Replica:
    life: int
    since: int | None = None  # when it was first seen behind, of late
    busy: bool = False


class Catching:
    """A synchronisation begins when a replica that has just (re)started is seen behind, or one that goes on being
    behind; and ends when it is not."""

    def __init__(self) -> None:
        self._replicas: dict[tuple[str, str], _Replica] = {}

    def seen(self, scope: str, node: str, life: int, behind: bool, now: int) -> bool | None:
        """One look at a replica, in which life of its process. True: a synchronisation begins; False: one ends."""
        known = self._replicas.get((scope, node))
        anew = known is None or known.life != life
        if known is None or anew:
            busy = known.busy if known is not None else False
            known = self._replicas[scope, node] = _Replica(life, busy=busy)
        if not behind:
            known.since = None
            ended, known.busy = known.busy, False
            return False if ended else None
        known.since = now if known.since is None else known.since
        if not known.busy and ((anew and life > 1) or now - known.since >= PATIENCE):
            known.busy = True
            return True
        return None


class Lag:
    """Whether a replica is behind its leader, from samples of what each has applied: it lacks what the leader had
    committed a second ago, since no two samples are of one moment."""

    def __init__(self) -> None:
        self._committed: dict[str, deque[tuple[int, int]]] = {}

    def leads(self, scope: str, commit: int, now: int) -> None:
        """The leader of a scope had committed so much."""
        kept = self._committed.setdefault(scope, deque())
        kept.append((now, commit))
        while len(kept) > 1 and kept[1][0] <= now - SECOND:
            kept.popleft()

    def behind(self, scope: str, applied: int, now: int) -> bool:
        """Whether one that has applied so much is."""
        kept = self._committed.get(scope)
        return kept is not None and kept[0][0] <= now - SECOND and applied < kept[0][1]
