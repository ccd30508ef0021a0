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
            if (x.ret is not None and x.ret < y.call) or (
                x.channel >= 0 and x.channel == y.channel and (x.call, one) < (y.call, other)
            ):
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


def register(state: Hashable, op: Op) -> Iterable[Hashable]:
    """State: the value, None at first."""
    if op.f is F.WRITE:
        return [op.arg]
    return [state] if op.ret is None or state == op.out else []


def lock(state: Hashable, op: Op) -> Iterable[Hashable]:
    """State: whether it is held."""
    if op.f is F.TRY:
        return [state] if state or op.ret is None else []
    return [op.f is F.ACQUIRE] if state == (op.f is F.RELEASE) else []


def fenced_lock(state: Hashable, op: Op) -> Iterable[Hashable]:
    """State: whether it is held, and the least that the next token can be."""
    assert isinstance(state, tuple)
    held, token = state
    if op.f is F.TRY:
        return [state] if held or op.ret is None else []
    if held != (op.f is F.RELEASE):
        return []
    if op.f is F.RELEASE:
        return [(False, token)]
    if op.out is None or op.ret is None:
        return [(True, token + 1)]
    return [(True, op.out + 1)] if op.out >= token else []


def one_set(state: Hashable, op: Op) -> Iterable[Hashable]:
    """State: its elements."""
    assert isinstance(state, frozenset)
    if op.f is F.ADD:
        return [state | {op.arg}]
    if op.f is F.REMOVE:
        return [state - {op.arg}]
    return [state] if op.ret is None or (op.arg in state) == op.out else []


def log(state: Hashable, op: Op) -> Iterable[Hashable]:
    """State: the values by offset."""
    assert isinstance(state, tuple)
    if op.f is F.APPEND:
        return [(*state, op.arg)] if op.ret is None or op.out == len(state) else []
    assert op.arg is not None
    there = state[op.arg] if 0 <= op.arg < len(state) else None
    return [state] if op.ret is None or there == op.out else []


def at_least_once(ops: list[Op], ordered: bool = True, drained: bool = True) -> Step:
    """State: the values never taken, oldest first, and those taken. What was seen with marks only may have been taken
    unseen at any time; what was never seen too, unless the queue was drained. ordered: of a queue, else of a bag."""
    seen = {op.out for op in ops if op.f is F.TAKE and op.ret is not None and op.out is not None}
    hidden = seen if drained else {*seen, *(op.arg for op in ops)}
    plain = {op.out for op in ops if op.out in seen and op.ret is not None and not op.mark}

    def step(state: Hashable, op: Op) -> Iterable[Hashable]:
        assert isinstance(state, tuple)
        queue, taken = state
        if op.f is F.PUT:
            return vanished((*queue, op.arg), taken)
        heads = queue[:1] if ordered else queue
        if op.ret is None:
            return [each for value in heads if value not in plain for each in vanished(without(queue, value), taken)]
        if op.out is None:
            return [] if queue else [state]
        if op.out in taken:
            return [state]
        if op.out in heads and not op.mark:
            return vanished(without(queue, op.out), taken | {op.out})
        return []

    def vanished(queue: tuple[int | None, ...], taken: frozenset[int | None]) -> list[Hashable]:
        """What the state may be a while later."""
        found: list[Hashable] = [(queue, taken)]
        for value in queue[:1] if ordered else queue:
            if value in hidden and value not in plain:
                found += vanished(without(queue, value), taken | {value})
        return found

    return step


def without(queue: tuple[int | None, ...], value: int | None) -> tuple[int | None, ...]:
    """The others."""
    return tuple(other for other in queue if other != value)
