"""Monitors: exact, near-linear decisions about common objects whose values are distinct, in NumPy.

Each takes operations as columns and answers valid or invalid, never unknown; a history that breaks its preconditions
it refuses (`verdict.Refused`), naming the operation.
"""

from __future__ import annotations

from collections.abc import Callable

from checkers.linearizability.calls import Calls
from checkers.linearizability.monitors import bag, fifo, lock, log, register
from checkers.linearizability.monitors import set as set_
from checkers.linearizability.verdict import Decision

MONITORS: dict[str, Callable[[Calls], Decision]] = {
    "fifo": fifo.decide,
    "bag": bag.decide,
    "register": register.decide,
    "lock": lock.decide,
    "fenced-lock": lock.decide_fenced,
    "set": set_.decide,
    "log": log.decide,
}
