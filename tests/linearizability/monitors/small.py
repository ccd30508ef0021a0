"""Small random histories: run an object, spread each operation around the moment it took effect, then spoil some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F
from tests.linearizability.monitors.wing_gong import Op

Spoil = Callable[[Random, list[Op]], None]
Make = Callable[[Random], list[Op]]


def columns(histories: Sequence[list[Op]], keys: Sequence[int] | None = None) -> Calls:
    """Histories as the objects 0, 1, ... of one: their rows interleaved by call. `end` says who is marked."""
    numbered = range(len(histories)) if keys is None else keys
    rows = [
        (op.call, key, place, op) for key, ops in zip(numbered, histories, strict=True) for place, op in enumerate(ops)
    ]
    rows.sort(key=lambda row: row[:3])

    def column(cells: list[int | None]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.asarray([NONE if cell is None else cell for cell in cells], dtype=np.int64)

    ops = [row[3] for row in rows]
    return Calls(
        f=np.asarray([op.f for op in ops], dtype=np.int8),
        arg=column([op.arg for op in ops]),
        out=column([op.out for op in ops]),
        call=column([op.call for op in ops]),
        ret=column([NEVER if op.ret is None else op.ret for op in ops]),
        key=column([row[1] for row in rows]),
        process=column([op.process for op in ops]),
        channel=column([op.channel for op in ops]),
        op=column([row[2] for row in rows]),
        end=column([int(op.mark) for op in ops]),
    )


def spread(rng: Random, ops: list[Op], lanes: bool = False) -> list[Op]:
    """Times for operations that took effect in the order given: ranks, all distinct, or now and then a few ties.

    lanes: those of one channel are called in order too.
    """
    width = rng.choice((0.3, 1.0, 2.0, 4.0))
    times: list[list[float]] = []
    last: dict[int, float] = {}
    for place, op in enumerate(ops):
        call = place - rng.random() * width
        if lanes and op.channel >= 0:
            call = max(call, last.get(op.channel, call) + 1e-6)
            call = min(call, place)
            last[op.channel] = call
        times.append([call, place + rng.random() * width])
    if rng.random() < 0.1:
        times = [[round(call), round(ret)] for call, ret in times]
    order = sorted({time for pair in times for time in pair})
    rank = {time: place for place, time in enumerate(order)}
    return [
        op._replace(call=rank[call], ret=None if op.ret is None else rank[ret])
        for op, (call, ret) in zip(ops, times, strict=True)
    ]


def queue(rng: Random, first_in_first_out: bool = True, most: int = 9, lanes: bool = False) -> list[Op]:
    """A queue or a bag, with empty answers, unknown puts and takes, and now and then something spoilt."""
    ops: list[Op] = []
    inside: list[int] = []
    fresh = iter(rng.sample(range(40), 30) if rng.random() < 0.9 else rng.sample(range(10**9), 30))
    unknown = rng.choice((0, 0, 0.15, 0.3))
    lean = rng.choice((0.4, 0.5, 0.7))
    for _ in range(rng.randint(1, most)):
        open_ = rng.random() < unknown
        ret = None if open_ else 0
        process = rng.randrange(4)
        if rng.random() < lean:
            value = next(fresh)
            ops.append(Op(F.PUT, value, None, 0, ret, rng.choice((-1, 0, 1)) if lanes else -1, process))
            if not open_ or rng.random() < 0.6:
                inside.append(value)
        else:
            out = None
            if inside and (not open_ or rng.random() < 0.6):
                out = inside.pop(0 if first_in_first_out else rng.randrange(len(inside)))
            ordered = lanes and not open_ and out is not None
            ops.append(
                Op(F.TAKE, None, None if open_ else out, 0, ret, rng.choice((-1, 2, 3)) if ordered else -1, process)
            )
    ops = spread(rng, ops, lanes)
    if rng.random() < 0.8:
        spoil_queue(rng, ops)
    return ops


def spoil_queue(rng: Random, ops: list[Op]) -> None:
    """A planted corruption, or two: exchanged, lost, invented or repeated values, false empties, shortened times."""
    for _ in range(rng.randint(1, 2)):
        takes = [place for place, op in enumerate(ops) if op.f is F.TAKE and op.ret is not None]
        seen = [place for place in takes if ops[place].out is not None]
        kind = rng.randrange(6)
        if kind == 0 and len(seen) > 1:
            one, other = rng.sample(seen, 2)
            ops[one], ops[other] = ops[one]._replace(out=ops[other].out), ops[other]._replace(out=ops[one].out)
        elif kind == 1 and seen:
            del ops[rng.choice(seen)]
        elif kind == 2 and seen:
            place = rng.choice(seen)
            ops[place] = ops[place]._replace(out=None, channel=-1)
        elif kind == 3 and takes and rng.random() < 0.3:
            place = rng.choice(takes)
            ops[place] = ops[place]._replace(out=rng.choice([ops[rng.choice(takes)].out, 41]))
        else:
            squeeze(rng, ops)


def squeeze(rng: Random, ops: list[Op]) -> None:
    """Another call or return for one operation, at a rank of its own."""
    if not ops:
        return
    place = rng.randrange(len(ops))
    top = max(max(op.call, op.ret or 0) for op in ops) + 1
    at = rng.randint(0, top)
    ops[:] = [
        op._replace(call=op.call + (op.call >= at), ret=None if op.ret is None else op.ret + (op.ret >= at))
        for op in ops
    ]
    op = ops[place]
    if rng.random() < 0.5 and (op.ret is None or at < op.ret):
        ops[place] = op._replace(call=at)
    elif op.ret is not None and at > op.call:
        ops[place] = op._replace(ret=at)


def unseen(rng: Random) -> list[Op]:
    """A queue with ordered channels, of which much is taken unseen, and many empty answers."""
    ops: list[Op] = []
    inside: list[int] = []
    fresh = iter(range(30))
    for _ in range(rng.randint(5, 10)):
        kind = rng.random()
        if kind < 0.4:
            ops.append(Op(F.PUT, next(fresh), None, 0, 0, rng.choice((-1, 0, 0, 1))))
            inside.append(len(ops) - 1)
        elif kind < 0.6:
            ops.append(Op(F.TAKE, None, None, 0, None))
            if inside and rng.random() < 0.8:
                inside.pop(0)
        elif kind < 0.75 or not inside:
            ops.append(Op(F.TAKE, None, None, 0, 0))
        else:
            ops.append(Op(F.TAKE, None, ops[inside.pop(0)].arg, 0, 0, rng.choice((-1, 2, 3))))
    ops = spread(rng, ops, lanes=True)
    if rng.random() < 0.3:
        squeeze(rng, ops)
    return ops


def deliveries(rng: Random) -> list[Op]:
    """Deliveries marked as repeats or not; in channels now and then. What the broker returned may have been taken by a
    client that never saw it."""
    ops: list[Op] = []
    queue: list[int] = []
    taken: list[int] = []
    held: list[int] = []
    fresh = iter(rng.sample(range(40), 30))
    lanes, hidden, unknown = rng.random() < 0.4, rng.choice((0, 0.2, 0.4)), rng.choice((0, 0.15))
    for _ in range(rng.randint(1, 9)):
        process, kind = rng.randrange(4), rng.random()
        if queue and rng.random() < hidden:
            held.append(queue.pop(0))
        if kind < 0.4:
            value = next(fresh)
            ret = None if rng.random() < unknown else 0
            ops.append(Op(F.PUT, value, None, 0, ret, rng.choice((-1, 0, 1)) if lanes else -1, process))
            if ret == 0 or rng.random() < 0.6:
                queue.append(value)
        elif rng.random() < unknown:
            ops.append(Op(F.TAKE, None, None, 0, None, -1, process))
            if queue and rng.random() < 0.7:
                queue.pop(0)
        elif held and rng.random() < 0.6:
            taken.append(held.pop(rng.randrange(len(held))))
            ops.append(Op(F.TAKE, None, taken[-1], 0, 0, -1, process, True))
        elif taken and rng.random() < 0.3:
            ops.append(Op(F.TAKE, None, rng.choice(taken), 0, 0, -1, process, True))
        elif queue:
            taken.append(queue.pop(0))
            ops.append(Op(F.TAKE, None, taken[-1], 0, 0, rng.choice((-1, 2, 3)) if lanes else -1, process))
        else:
            ops.append(Op(F.TAKE, None, None, 0, 0, -1, process))
    ops = spread(rng, ops, lanes)
    if rng.random() < 0.8:
        spoil_queue(rng, ops)
        if ops and rng.random() < 0.4:
            place = rng.randrange(len(ops))
            ops[place] = ops[place]._replace(mark=not ops[place].mark)
    plain: dict[int | None, int] = {}
    for op in ops:
        if op.f is F.TAKE and op.ret is not None and not op.mark:
            plain[op.out] = plain.get(op.out, 0) + 1
    return [op if op.f is F.PUT or (not op.mark and plain.get(op.out) == 1) else op._replace(channel=-1) for op in ops]


def dying_consumers(rng: Random) -> list[Op]:
    """A queue that is sometimes asked by a consumer that dies, whose messages come again with a mark; often spoilt."""
    ops: list[Op] = []
    queue: list[int] = []
    returned: list[int] = []
    fresh = iter(range(1, 30))
    for _ in range(rng.randint(2, 9)):
        what = rng.random()
        if what < 0.4:
            queue.append(next(fresh))
            ops.append(Op(F.PUT, queue[-1], None, 0, None if rng.random() < 0.1 else 0))
        elif what < 0.5 and queue:
            returned.append(queue.pop(0))  # taken, and not seen
            if rng.random() < 0.5:
                ops.append(Op(F.TAKE, None, None, 0, None))
        elif what < 0.6 and returned:
            ops.append(Op(F.TAKE, None, rng.choice(returned), 0, 0, mark=True))
        elif what < 0.7 and not queue:
            ops.append(Op(F.TAKE, None, None, 0, 0))
        elif queue:
            returned.append(queue.pop(0))
            ops.append(Op(F.TAKE, None, returned[-1], 0, 0))
    if rng.random() < 0.6 and ops:
        place = rng.randrange(len(ops))
        if rng.random() < 0.5:
            ops[place] = ops[place]._replace(mark=ops[place].f is F.TAKE and not ops[place].mark)
        else:
            other = rng.randrange(len(ops))
            ops[place], ops[other] = ops[other], ops[place]
    return [op._replace(process=rng.randrange(3)) for op in spread(rng, ops)]
