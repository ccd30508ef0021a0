"""Breadth-first: every world that can be reached within the bounds, the nearest first, until an invariant is broken."""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.search.prove.invariants import NOBODY, Violation
from chaos.search.prove.symmetry import Symmetry
from chaos.search.prove.world import Move, World, Worlds

LOOK_EVERY = 256  # worlds between looks at the clock
_MAXRSS = 1 if sys.platform == "darwin" else 1024  # bytes in ru_maxrss's unit


# Why an exploration was given up
STATES = "states"
TIME = "time"
MEMORY = "memory"
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Limits:
    """When to give up: distinct states, ns, bytes of this process; None for never."""

    states: int | None = None
    time: int | None = None
    memory: int | None = None


@dataclass(slots=True)
class Found:
    """What an exploration came to, or has so far.

    states: steps taken, each to a state new or known. distinct: of these, the different ones. depth: steps from the
    first state to the farthest. waiting: states not yet looked at. locals: different states of single nodes. led: the
    most terms that had a leader in any state; committed: the most entries. cut: why it was given up; None when all was
    explored, or a violation found. trace: the shortest way to the violation.
    """

    states: int = 1
    distinct: int = 1
    depth: int = 0
    waiting: int = 1
    locals: int = 0
    led: int = 0
    committed: int = 0
    seconds: float = 0.0
    cut: str | None = None
    violation: Violation | None = None
    trace: list[Move] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Distinct states a second."""
        return self.distinct / self.seconds if self.seconds else 0.0


def explore(
    worlds: Worlds,
    limits: Limits,
    *,
    symmetry: bool = True,
    progress: Callable[[Found], None] = lambda found: None,
) -> Found:
    """Explore a model's worlds. Ctrl-C cuts it, too."""
    search = _Search(worlds, limits, symmetry, progress)
    tracked = gc.isenabled()
    gc.disable()  # nothing here goes round in circles, and there is a lot of it
    try:
        search.run()
    except KeyboardInterrupt:
        search.found.cut = INTERRUPTED
    finally:
        if tracked:
            gc.enable()
    search.tell()
    search.found.led = max(sum(leader != NOBODY for leader in past.leaders) for past in worlds.chronicles)
    search.found.committed = max(len(past.committed) for past in worlds.chronicles)
    return search.found


class _Search:
    def __init__(self, worlds: Worlds, limits: Limits, symmetry: bool, progress: Callable[[Found], None]) -> None:
        self.found = Found()
        self._worlds = worlds
        self._limits = limits
        self._canonical = Symmetry(worlds).canonical if symmetry else _itself
        self._progress = progress
        self._begun = time.monotonic_ns()
        self._parents: dict[World, World | None] = {}
        self._waiting: list[World] = []
        self._next: list[World] = []
        self._looked = 0
        self._since = LOOK_EVERY

    def run(self) -> None:
        first = self._canonical(self._worlds.first())
        self._parents[first] = None
        self._next.append(first)
        while self._next:
            self._waiting, self._next, self._looked = self._next, [], 0
            if not self._level():
                return
            if self._next:
                self.found.depth += 1

    def _level(self) -> bool:
        """One step from every world that is so many steps away. Whether to go on."""
        found, parents, ahead = self.found, self._parents, self._next
        canonical, steps = self._canonical, self._worlds.steps
        most = self._limits.states or sys.maxsize
        for world in self._waiting:
            if len(parents) >= most:
                found.cut = STATES
                return False
            if not self._since:
                self._since = LOOK_EVERY
                if not self._may_go_on():
                    return False
            self._since -= 1
            for _, after, violation in steps(world):
                found.states += 1
                if violation is not None:
                    found.depth += 1
                    self._retrace(world, violation.kind)
                    return False
                reached = canonical(after)
                if reached not in parents:
                    parents[reached] = world
                    ahead.append(reached)
            self._looked += 1
        return True

    def tell(self) -> None:
        """Bring the figures up to date."""
        found = self.found
        found.distinct = len(self._parents)
        found.waiting = len(self._next) + len(self._waiting) - self._looked
        found.locals = len(self._worlds.locals)
        found.seconds = (time.monotonic_ns() - self._begun) / 1e9

    def _may_go_on(self) -> bool:
        self.tell()
        found, limits = self.found, self._limits
        if limits.time is not None and found.seconds * 1e9 >= limits.time:
            found.cut = TIME
        elif limits.memory is not None and _memory() >= limits.memory:
            found.cut = MEMORY
        self._progress(found)
        return found.cut is None

    def _retrace(self, last: World, kind: str) -> None:
        """The way to that world, from which an invariant is broken, and the step that breaks it: with names that stay,
        since what was explored is each world under the names that suited best."""
        way: list[World] = []
        at: World | None = last
        while at is not None:
            way.append(at)
            at = self._parents[at]
        world = self._worlds.first()
        for ahead in reversed(way[:-1]):
            move, world = next(
                (move, after) for move, after, _ in self._worlds.steps(world) if self._canonical(after) == ahead
            )
            self.found.trace.append(move)
        for move, _, violation in self._worlds.steps(world):
            if violation is not None and violation.kind == kind:
                self.found.trace.append(move)
                self.found.violation = violation
                return
        raise AssertionError("nodes are not alike: a violation is gone under other names")


def _itself(world: World) -> World:
    return world


def _memory() -> int:
    """The most that this process has used, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS
