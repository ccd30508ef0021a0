"""What a queue promises, against its definition: every order of small histories with marks, losses and unseen takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from checkers.linearizability import deliveries
from checkers.linearizability.calls import F, calls
from checkers.linearizability.monitors import MONITORS
from tests.linearizability.monitors.small import columns, spread
from tests.linearizability.monitors.wing_gong import Op, linearizable


class AtLeastOnce:
    """The queue as it is promised. free: messages that may be taken at any time without being seen; lost: those that a
    take of unknown outcome may have been of."""

    def __init__(self, ops: list[Op], drained: bool) -> None:
        seen = [op for op in ops if op.f == F.TAKE and op.ret is not None and op.out is not None]
        unmarked = {op.out for op in seen if not op.mark}
        marked = {op.out for op in seen} - unmarked
        unseen = {op.arg for op in ops if op.f == F.PUT} - unmarked - marked
        self.free = marked | (set() if drained else unseen)
        self.lost = unseen

    def step(self, state: Hashable, op: Op) -> Iterator[Hashable]:
        assert isinstance(state, tuple)
        queue, put = state
        if op.f == F.PUT:
            yield (*queue, op.arg), put | {op.arg}
        elif op.ret is None:
            yield state
            for place, value in enumerate(queue):
                if value in self.lost and self._free(queue[:place]):
                    yield queue[place + 1 :], put
        elif op.out is None:
            if self._free(queue):
                yield (), put
        elif op.out not in queue:
            if op.out in put:
                yield state  # a repeat
        else:
            place = queue.index(op.out)
            if self._free(queue[:place]) and (not op.mark or op.out in self.free):
                yield queue[place + 1 :], put

    def _free(self, values: tuple[int, ...]) -> bool:
        return all(value in self.free for value in values)

    def allows(self, ops: list[Op]) -> bool:
        return linearizable(ops, self.step, ((), frozenset()))


def history(rng: Random) -> list[Op]:
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
            value = queue.pop(0)
            returned.append(value)
            ops.append(Op(F.TAKE, None, value, 0, 0))
    if rng.random() < 0.6 and ops:
        place = rng.randrange(len(ops))
        if rng.random() < 0.5:
            ops[place] = ops[place]._replace(mark=ops[place].f == F.TAKE and not ops[place].mark)
        else:
            other = rng.randrange(len(ops))
            ops[place], ops[other] = ops[other], ops[place]
    return [op._replace(process=rng.randrange(3)) for op in spread(rng, ops)]


def judged(ops: list[Op], drained: bool) -> bool | None:
    rows = columns([ops])
    marked = rows.end == 1
    if deliveries.unmarked(rows, marked) is not None:
        return False
    first = deliveries.at_least_once(rows, marked, np.full(len(rows), drained))
    return MONITORS["fifo"](first).valid


@given(st.integers(0, 2**40))
def test_first_takings_are_judged_as_the_promise_is(seed: int) -> None:
    rng = Random(seed)
    for _ in range(40):
        ops, drained = history(rng), rng.random() < 0.5
        assert judged(ops, drained) is AtLeastOnce(ops, drained).allows(ops), (ops, drained)


def test_both_verdicts_are_met() -> None:
    rng = Random(1)
    met = Counter(judged(history(rng), rng.random() < 0.5) for _ in range(2000))
    assert min(met[True], met[False]) > 100


def vanishing(state: Hashable, op: Op) -> Iterator[Hashable]:
    assert isinstance(state, tuple)
    if op.f == F.PUT:
        yield state
        yield (*state, op.arg)
    elif op.ret is None:
        yield state
    elif op.out is None:
        yield ()
    elif op.out in state:
        yield state[state.index(op.out) + 1 :]


@given(st.integers(0, 2**40))
def test_a_queue_that_loses(seed: int) -> None:
    rng = Random(seed)
    for _ in range(40):
        ops = history(rng)
        first = deliveries.at_most_once(columns([ops]))
        assert MONITORS["fifo"](first).valid is linearizable(ops, vanishing, ()), ops


def test_an_unmarked_delivery_after_a_marked_one_names_both() -> None:
    rows = calls(
        [
            (F.PUT, 17, None, 0, 1),
            (F.TAKE, None, 17, 2, 3),
            (F.TAKE, None, 17, 4, 5),
        ]
    )
    told = deliveries.unmarked(rows, np.array([False, True, False]))
    assert told is not None
    assert (told.rule, told.rows) == ("not-marked-though-redelivered", (1, 2))
    assert told.sentence == (
        "message 17 was delivered to process 2 without a mark after it had been delivered, marked as redelivered, to "
        "process 1"
    )
    assert deliveries.unmarked(rows, np.array([False, False, True])) is None
