"""The definition itself: try every order (Wing, Gong 1993). For histories of a dozen operations.

An operation is (f, arg, out, call, ret, channel, process), ret None where nobody knows. A model is a function
(state, operation) -> states that it may lead to, none if it is not allowed; for an operation that nobody knows about
every effect that it may have had.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from checkers.linearizability.calls import F


class Op(NamedTuple):
    f: F
    arg: int | None
    out: int | None
    call: int
    ret: int | None
    channel: int = -1
    process: int = 0
    mark: bool = False


Step = Callable[[Hashable, Op], Iterable[Hashable]]


def linearizable(ops: list[Op], step: Step, initial: Hashable) -> bool:
    """Whether some order of all that is known, and of some of what is not, is allowed."""
    before = [0] * len(ops)  # who must be before it, as bits
    for one, x in enumerate(ops):
        for other, y in enumerate(ops):
            if (x.ret is not None and x.ret < y.call) or (x.channel >= 0 and x.channel == y.channel and x.call < y.call):
                before[other] |= 1 << one
    known = sum(1 << place for place, op in enumerate(ops) if op.ret is not None)
    optional = [place for place, op in enumerate(ops) if op.ret is None]
    seen: set[tuple[int, Hashable]] = set()

    def search(gone: int, state: Hashable) -> bool:
        """gone: those in the order already, and unknown ones that never took effect and so hold nobody up."""
        if gone & known == known:
            return True
        if (gone, state) in seen:
            return False
        seen.add((gone, state))
        for place, op in enumerate(ops):
            bit = 1 << place
            if gone & bit or before[place] & ~gone:
                continue
            if any(search(gone | bit, after) for after in step(state, op)):
                return True
        return any(not gone >> place & 1 and search(gone | 1 << place, state) for place in optional)

    return search(0, initial)


def fifo(state: Hashable, op: Op) -> Iterable[Hashable]:
    """State: the values in the queue, oldest first."""
    assert isinstance(state, tuple)
    if op.f is F.PUT:
        return [(*state, op.arg)]
    if op.ret is None:
        return [state[1:]] if state else []
    if op.out is None:
        return [] if state else [state]
    return [state[1:]] if state and state[0] == op.out else []


def bag(state: Hashable, op: Op) -> Iterable[Hashable]:
    """State: the values in the bag, in no order."""
    assert isinstance(state, tuple)
    if op.f is F.PUT:
        return [tuple(sorted((*state, op.arg)))]
    if op.ret is None:
        return [state[:place] + state[place + 1 :] for place in range(len(state))]
    if op.out is None:
        return [] if state else [state]
    place = state.index(op.out) if op.out in state else -1
    return [state[:place] + state[place + 1 :]] if place >= 0 else []
