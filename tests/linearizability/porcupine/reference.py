"""What linearizability means, written to be right: every order is tried. And small random histories to try it on.

An object here is a function: (state, operation) -> all states it may be in after it; none where it cannot have answered
so. The operation's outcome may be unknown.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F, calls

State = Any


@dataclass(frozen=True)
class Op:
    """One operation; arg and out None: nothing."""

    f: F
    arg: int | None
    out: int | None
    process: int = 0
    unknown: bool = False


Step = Callable[[State, Op], Iterable[State]]


@dataclass(frozen=True)
class Object:
    """An object, and the operations to try on it: (f, args, outs)."""

    start: State
    step: Step
    operations: tuple[tuple[F, tuple[int | None, ...], tuple[int | None, ...]], ...]


def linearizable(history: Calls, thing: Object) -> bool:
    """Whether each key has an order."""
    return all(_key(history, np.flatnonzero(history.key == key).tolist(), thing) for key in np.unique(history.key))


def op(history: Calls, row: int) -> Op:
    def cell(column: Any) -> int | None:
        number = int(column[row])
        return None if number == NONE else number

    return Op(
        F(int(history.f[row])),
        cell(history.arg),
        cell(history.out),
        int(history.process[row]),
        history.ret[row] == NEVER,
    )


def _key(history: Calls, rows: list[int], thing: Object) -> bool:
    call, ret, channel = history.call.tolist(), history.ret.tolist(), history.channel.tolist()
    ops = {row: op(history, row) for row in rows}
    seen: set[tuple[tuple[int, ...], Hashable]] = set()

    def earlier(one: int, other: int) -> bool:
        return channel[one] >= 0 and channel[one] == channel[other] and one < other

    def search(left: tuple[int, ...], state: State) -> bool:
        if all(ops[row].unknown for row in left):
            return True
        if (left, state) in seen:
            return False
        seen.add((left, state))
        for row in left:
            known = [other for other in left if other != row and not ops[other].unknown]
            if any(ret[other] < call[row] or earlier(other, row) for other in known):
                continue
            # What is unknown and came before it in its channel has had its chance.
            rest = tuple(other for other in left if other != row and not earlier(other, row))
            if any(search(rest, after) for after in thing.step(state, ops[row])):
                return True
        return False

    return search(tuple(rows), thing.start)


# --- the objects ---


def _register(start: int | None) -> Step:
    def step(value: int | None, op: Op) -> Iterable[State]:
        if op.f == F.READ:
            return [value] if op.unknown or value == op.out or (op.out is None and value == start) else []
        if op.f == F.WRITE:
            return [op.arg]
        if op.f == F.CAS:
            return [op.out] if value == op.arg else []
        return [value] if value != op.arg else []

    return step


def register(start: int | None = None) -> Object:
    values = (1, 2, 3)
    return Object(start, _register(start), ((F.READ, (None,), (None, *values)), (F.WRITE, values, (None,))))


def cas_register(start: int | None = None) -> Object:
    values = (1, 2, 3)
    return Object(
        start,
        _register(start),
        (
            (F.READ, (None,), (None, *values)),
            (F.WRITE, values, (None,)),
            (F.CAS, values, values),
            (F.CAS_REFUSED, values, (None,)),
        ),
    )


def fifo_queue() -> Object:
    def step(queue: tuple[int, ...], op: Op) -> Iterable[State]:
        if op.f == F.PUT:
            return [(*queue, op.arg)]
        if op.unknown or (queue and queue[0] == op.out):
            return [queue[1:]]
        return [queue] if op.out is None and not queue else []

    return Object((), step, ((F.PUT, (1, 2, 3, 4), (None,)), (F.TAKE, (None,), (None, 1, 2, 3, 4))))


def bag() -> Object:
    def step(bag: tuple[int, ...], op: Op) -> Iterable[State]:
        if op.f == F.PUT:
            return [tuple(sorted((*bag, op.arg or 0)))]
        if op.out is None and not op.unknown:
            return [] if bag else [bag]
        places = [place for place, value in enumerate(bag) if op.unknown or value == op.out]
        return [bag[:place] + bag[place + 1 :] for place in places]

    return Object((), step, ((F.PUT, (1, 2, 3), (None,)), (F.TAKE, (None,), (None, 1, 2, 3))))


def set_(lists: tuple[tuple[int, ...], ...] = ()) -> Object:
    def step(members: frozenset[int], op: Op) -> Iterable[State]:
        if op.f == F.ADD:
            return [members | {op.arg}]
        if op.f == F.REMOVE:
            return [members - {op.arg}]
        if op.f == F.CONTAINS:
            return [members] if op.unknown or (op.arg in members) == (op.out == 1) else []
        listed = [] if op.out is None else list(lists[op.out])
        return [members] if op.unknown or sorted(members) == sorted(listed) else []

    operations: tuple[Any, ...] = (
        (F.ADD, (1, 2), (None,)),
        (F.REMOVE, (1, 2), (None,)),
        (F.CONTAINS, (1, 2), (0, 1)),
    )
    if lists:
        operations += ((F.READ, (None,), (None, *range(len(lists)))),)
    return Object(frozenset(), step, operations)


def counter(start: int = 0) -> Object:
    def step(count: int, op: Op) -> Iterable[State]:
        if op.f == F.ADD:
            return [count + (op.arg or 0)]
        return [count] if op.unknown or count == (start if op.out is None else op.out) else []

    return Object(start, step, ((F.ADD, (1, 2, -1), (None,)), (F.READ, (None,), (None, *range(-2, 7)))))


def log() -> Object:
    def step(entries: tuple[int, ...], op: Op) -> Iterable[State]:
        if op.f == F.APPEND:
            return [(*entries, op.arg)] if op.unknown or op.out in (None, len(entries)) else []
        there = dict(enumerate(entries))
        return [entries] if op.unknown or there.get(op.arg or 0) == op.out else []

    return Object((), step, ((F.APPEND, (1, 2, 3), (None, 0, 1, 2, 3)), (F.FETCH, (0, 1, 2, 3), (None, 1, 2, 3))))


def lock(limit: int, owned: bool, fenced: bool) -> Object:
    tokens = range(-8, 12)  # enough for histories of eight, whose tokens that are told are from 1 to 6

    def step(state: tuple[int | None, int, int], op: Op) -> Iterable[State]:
        owner, count, last = state
        room = count == 0 or (owner == op.process and limit != 1 and (limit == 0 or count < limit))
        if op.f == F.TRY:
            return [] if room and not op.unknown else [state]
        if op.f == F.RELEASE:
            if count == 0 or (owned and owner != op.process):
                return []
            return [(None if count == 1 else owner, count - 1, last)]
        if not room:
            return []
        told = op.out is not None and not op.unknown
        if not fenced:
            return [(op.process, count + 1, last)]
        given = [last] if count else [token for token in tokens if token > last]
        return [(op.process, count + 1, token) for token in given if not told or token == op.out]

    return Object(
        (None, 0, -9),
        step,
        ((F.ACQUIRE, (None,), (None, *(range(1, 7) if fenced else ()))), (F.TRY, (None,), (None,)),
         (F.RELEASE, (None,), (None,))),
    )  # fmt: skip


def multi_register(transactions: tuple[tuple[tuple[str, int, int], ...], ...], start: dict[int, int]) -> Object:
    def step(state: tuple[tuple[int, int], ...], op: Op) -> Iterable[State]:
        held = dict(state)
        for kind, register, value in transactions[op.arg or 0]:
            if kind == "write":
                held[register] = value
            elif held.get(register, NONE) != value and not op.unknown:
                return []
        return [tuple(sorted(held.items()))]

    return Object(tuple(sorted(start.items())), step, ((F.TXN, tuple(range(len(transactions))), (None,)),))


def key_value(words: tuple[str, ...]) -> Object:
    def step(text: str, op: Op) -> Iterable[State]:
        if op.f == F.READ:
            return [text] if op.unknown or text == ("" if op.out is None else words[op.out]) else []
        return [words[op.arg or 0] if op.f == F.WRITE else text + words[op.arg or 0]]

    places = tuple(range(len(words)))
    return Object(
        "", step, ((F.READ, (None,), (None, *places)), (F.WRITE, places[:2], (None,)), (F.APPEND, places[:2], (None,)))
    )


def subset_register(lists: tuple[tuple[int, ...], ...]) -> Object:
    def listed(op: Op) -> frozenset[int]:
        return frozenset(() if op.out is None else lists[op.out])

    def step(stored: frozenset[int], op: Op) -> Iterable[State]:
        if op.f == F.WRITE:
            values = lists[op.arg or 0]
            return [
                frozenset(value for place, value in enumerate(values) if chosen >> place & 1)
                for chosen in range(1 << len(values))
            ]
        if op.f == F.FETCH:
            return [stored] if op.unknown or listed(op) <= stored else []
        return [stored] if op.unknown or listed(op) == stored else []

    places = tuple(range(len(lists)))
    return Object(
        frozenset(),
        step,
        ((F.WRITE, places, (None,)), (F.READ, (None,), (None, *places)), (F.FETCH, (None,), (None, *places))),
    )


# --- histories ---


def random_history(thing: Object, draw: random.Random, length: int) -> Calls:
    """Operations in some order, with answers that mostly fit it, in intervals that overlap, touch, or never end."""
    keys = draw.choice((1, 1, 2))
    states: list[State] = [thing.start] * keys
    rows: list[tuple[F, int | None, int | None, int, int | None]] = []
    extra: list[tuple[int, int, int]] = []
    pipelined = draw.random() < 0.3
    wide = draw.choice((2, 6, 25))
    for place in range(length):
        f, args, outs = draw.choice(thing.operations)
        arg, process, key = draw.choice(args), draw.randrange(3), draw.randrange(keys)
        unknown = draw.random() < 0.2
        fitting = [out for out in outs if list(thing.step(states[key], Op(f, arg, out, process)))]
        out = draw.choice(fitting) if fitting and draw.random() < 0.9 else draw.choice(outs)
        if not unknown or draw.random() < 0.7:
            after = list(thing.step(states[key], Op(f, arg, out, process)))
            states[key] = draw.choice(after) if after else states[key]
        start = 10 * place - draw.randrange(wide)
        end = None if unknown else 10 * place + draw.randrange(wide)
        rows.append((f, arg, out if not unknown or f == F.CAS else None, start, end))
        extra.append((process, key, draw.randrange(2) if pipelined and draw.random() < 0.7 else -1))
    made = calls(rows, keys=[key for _, key, _ in extra])
    order = made.op  # where each row was in `rows`
    return Calls(
        made.f, made.arg, made.out, made.call, made.ret, made.key,
        np.asarray([process for process, _, _ in extra], dtype=np.int64)[order],
        np.asarray([channel for _, _, channel in extra], dtype=np.int64)[order],
        made.op, made.end,
    )  # fmt: skip
