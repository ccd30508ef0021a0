"""A history without its beginning: what its object may have held when the rest of it began.

Of an order of the whole history take the moment of a rank. What had returned by then took effect before, and what was
called later did after. What was open at that rank may have been on either side, which is what an operation of unknown
outcome may be. So if the rest has no order, whatever the object held at that moment, then the whole has none. (What was
open may then take effect even later, which only makes more orders possible.)

An operation put in front says what was held. It is enough to try what the rest asks about, and something else.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F

MOST = 64  # things tried

MODELS = ("register", "cas-register", "counter")


def rest(calls: Calls, rank: int) -> Calls:
    """What had not returned by a rank; what was open then is of unknown outcome."""
    left = calls.select(np.flatnonzero(calls.ret > rank))
    open_ = left.call <= rank
    return replace(
        left,
        out=np.where(open_ & (left.f != F.CAS), NONE, left.out),
        ret=np.where(open_, NEVER, left.ret),
    )


def starts(left: Calls, model: str) -> list[Calls]:
    """The rest of a history of one object, for each thing that it may have held before. None at all where nothing is
    left, where there are too many, or where the model is not one of those that this is known of."""
    if not len(left):
        return []
    held = _counted(left) if model == "counter" else _held(left) if model in MODELS else []
    f = F.ADD if model == "counter" else F.WRITE
    return [] if len(held) > MOST else [left if number == NONE else _after(left, f, number) for number in held]


def _held(left: Calls) -> list[int]:
    """Values that somebody asks a register about; and one that nobody does."""
    reads = (left.f == F.READ) & (left.ret != NEVER)
    swaps = (left.f == F.CAS) | (left.f == F.CAS_REFUSED)
    asked = np.unique(np.concatenate((left.out[reads], left.arg[swaps])))
    other = int(max(asked.max(initial=0), left.arg.max(initial=0), left.out.max(initial=0)))
    return [*asked.tolist(), other + 1 if other < NEVER - 1 else -1]


def _counted(left: Calls) -> list[int]:
    """What a counter may have held, by the first read that returned."""
    reads = np.flatnonzero((left.f == F.READ) & (left.ret != NEVER) & (left.out != NONE))
    if not len(reads):
        return []
    first = reads[np.argmin(left.ret[reads])]
    adds = left.f == F.ADD
    before = left.arg[adds & (left.ret < left.call[first])]
    maybe = left.arg[adds & (left.ret >= left.call[first]) & (left.call <= left.ret[first])]
    highest = int(left.out[first]) - int(before.sum()) - int(maybe[maybe < 0].sum())
    lowest = highest - int(np.abs(maybe).sum())
    return list(range(lowest, highest + 1)) if highest - lowest < MOST else [0] * (MOST + 1)


def _after(left: Calls, f: F, number: int) -> Calls:
    """With an operation before all others."""
    begin = int(left.call.min()) - 2
    first = replace(left.select(np.zeros(1, dtype=np.intp)), f=np.array([f], dtype=np.int8))
    for column, cell in (
        (first.arg, number), (first.out, NONE), (first.call, begin), (first.ret, begin + 1),
        (first.process, int(left.process.max()) + 1), (first.channel, -1), (first.op, -1), (first.end, -1),
    ):  # fmt: skip
        column[0] = cell
    columns = {
        field.name: np.concatenate((getattr(first, field.name), getattr(left, field.name))) for field in fields(Calls)
    }
    return Calls(**columns)
