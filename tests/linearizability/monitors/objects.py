"""Small random histories of registers, locks, sets and logs: run one, spread the operations, spoil some."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from checkers.linearizability.calls import Calls, F
from checkers.linearizability.verdict import Refused
from tests.linearizability.monitors.small import spread, squeeze
from tests.linearizability.monitors.wing_gong import Op


def register(rng: Random) -> list[Op]:
    """Reads, and writes of values once each."""
    ops: list[Op] = []
    value: int | None = None
    fresh = iter(rng.sample(range(20 if rng.random() < 0.9 else 10**12), 12))
    unknown, reads = rng.choice((0, 0, 0.2)), rng.choice((0.4, 0.6, 0.8))
    for _ in range(rng.randint(1, 9)):
        ret = None if rng.random() < unknown else 0
        if rng.random() < reads:
            ops.append(Op(F.READ, None, None if ret is None else value, 0, ret, -1, rng.randrange(4)))
        else:
            wrote = next(fresh)
            ops.append(Op(F.WRITE, wrote, None, 0, ret, -1, rng.randrange(4)))
            value = wrote if ret == 0 or rng.random() < 0.6 else value
    return spoilt(rng, spread(rng, ops), F.READ, [op.arg for op in ops if op.f is F.WRITE] + [None, 77])


def spoilt(rng: Random, ops: list[Op], f: F, values: list[int | None]) -> list[Op]:
    """Most of them with a planted corruption or two: another answer of an f, another time, an operation less."""
    if rng.random() < 0.8:
        for _ in range(rng.randint(1, 2)):
            kind = rng.randrange(8)
            known = [place for place, op in enumerate(ops) if op.f is f and op.ret is not None]
            if kind == 0 and known:
                place = rng.choice(known)
                ops[place] = ops[place]._replace(out=rng.choice(values))
            elif kind == 1 and ops:
                del ops[rng.randrange(len(ops))]
            else:
                squeeze(rng, ops)
    return ops


def lock(rng: Random, tokens: bool = False) -> list[Op]:
    """Processes take turns, each with one operation at a time, the last perhaps unknown; some are refused."""
    times = iter(range(1000))
    ops: list[Op] = []
    token, holder, names = rng.randrange(3), None, iter(range(100))
    processes = {next(names): 0.0 for _ in range(rng.randint(1, 4))}  # when it is free again
    slack = rng.choice((0.3, 1.0, 3.0))
    raw: list[tuple[F, int | None, float, float | None, int]] = []
    for _ in range(rng.randint(1, 9)):
        at = float(next(times))
        free = [process for process, since in processes.items() if since < at]
        if not free:
            continue
        process = holder if holder in free and rng.random() < 0.6 else rng.choice(free)
        call = max(at - rng.random() * slack, processes[process] + 1e-6)
        ret: float | None = at + rng.random() * slack
        unknown = rng.random() < 0.08
        out = None
        if process == holder:
            f, holder = F.RELEASE, None
            if unknown and rng.random() < 0.5:
                holder = -1  # it did not take effect, and nobody will release it
        elif holder is None:
            f, holder = F.ACQUIRE, process
            token += rng.choice((1, 1, 2))
            out = token if rng.random() < 0.8 else None
            if unknown:
                out, holder = None, rng.choice((None, -1))
        else:
            f = F.TRY
        if unknown:
            ret = None
            if f is not F.TRY:
                del processes[process]
                processes[next(names) + 50] = at
        if process in processes:
            processes[process] = ret if ret is not None else at
        raw.append((f, out, call, ret, process))
    moments = sorted({time for _, _, call, ret, _ in raw for time in (call, ret) if time is not None})
    rank = {time: place for place, time in enumerate(moments)}
    for f, out, call, ret, process in raw:
        ops.append(Op(f, None, out if tokens else None, rank[call], None if ret is None else rank[ret], -1, process))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        ops = inserted(rng, ops, len(moments) + 4)
    if tokens and rng.random() < 0.3:
        acquires = [place for place, op in enumerate(ops) if op.f is F.ACQUIRE and op.ret is not None]
        if acquires:
            place = rng.choice(acquires)
            ops[place] = ops[place]._replace(out=rng.randrange(6))
    return spoilt(rng, ops, F.TRY, [None])


def inserted(rng: Random, ops: list[Op], top: int) -> list[Op]:
    """With somebody refused at any time."""
    call = rng.randrange(top)
    ret = call + rng.choice((1, 1, 2, 3, 5))

    def later(rank: int) -> int:
        rank += rank >= call
        return rank + (rank >= ret)

    moved = [op._replace(call=later(op.call), ret=None if op.ret is None else later(op.ret)) for op in ops]
    return [*moved, Op(F.TRY, None, None, call, ret, -1, 99)]


def one_set(rng: Random) -> list[Op]:
    """Two elements, each added once and removed once, or neither, among contains."""
    ops: list[Op] = []
    todo = [(f, element) for f in (F.ADD, F.REMOVE) for element in (3, 4 if rng.random() < 0.9 else 10**13)]
    rng.shuffle(todo)
    members: set[int] = set()
    elements = sorted({element for _, element in todo})
    unknown = rng.choice((0, 0, 0.2))
    for _ in range(rng.randint(1, 9)):
        ret = None if rng.random() < unknown else 0
        if todo and rng.random() < 0.4:
            f, element = todo.pop()
            if ret == 0 or rng.random() < 0.5:
                members = members | {element} if f is F.ADD else members - {element}
            ops.append(Op(f, element, None, 0, ret, -1, rng.randrange(4)))
        else:
            element = elements[0] if rng.random() < 0.8 else elements[1]
            out = None if ret is None else int(element in members)
            ops.append(Op(F.CONTAINS, element, out, 0, ret, -1, rng.randrange(4)))
    return spoilt(rng, spread(rng, ops), F.CONTAINS, [0, 1])


def log(rng: Random, lanes: bool = False) -> list[Op]:
    """Appends with offsets, fetches of them and beyond. lanes: in ordered channels, fetches now and then."""
    ops: list[Op] = []
    entries: list[int] = []
    fresh = iter(rng.sample(range(20 if rng.random() < 0.9 else 10**12), 12))
    unknown, appends = rng.choice((0, 0.15, 0.4)), rng.choice((0.4, 0.6, 0.8))
    for _ in range(rng.randint(1, 9)):
        ret = None if rng.random() < unknown else 0
        if rng.random() < appends:
            value = next(fresh)
            lane = rng.choice((-1, 0, 1)) if lanes else -1
            ops.append(Op(F.APPEND, value, None if ret is None else len(entries), 0, ret, lane, rng.randrange(4)))
            if ret == 0 or rng.random() < 0.6:
                entries.append(value)
        else:
            offset = rng.randint(-1 if rng.random() < 0.1 else 0, len(entries) + 1)
            there = entries[offset] if 0 <= offset < len(entries) and ret == 0 else None
            lane = 1 if lanes and rng.random() < 0.1 else -1
            ops.append(Op(F.FETCH, offset, there, 0, ret, lane, rng.randrange(4)))
    ops = spread(rng, ops, lanes)
    known = [place for place, op in enumerate(ops) if op.f is F.APPEND and op.ret is not None]
    if known and rng.random() < 0.2:
        place = rng.choice(known)
        ops[place] = ops[place]._replace(out=rng.randint(-1, len(known) + 1))
    return spoilt(rng, ops, F.FETCH, [op.arg for op in ops if op.f is F.APPEND] + [None, 77])


def refusal(judge: Callable[[Calls], object], some: Calls) -> str | None:
    """Why somebody refuses to judge."""
    try:
        judge(some)
    except Refused as why:
        return str(why)
    return None
