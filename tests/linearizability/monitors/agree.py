"""A monitor against the definition: the same verdict for each history, alone and among other objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from random import Random
from typing import NamedTuple

from checkers.linearizability.calls import Calls
from checkers.linearizability.monitors import MONITORS
from checkers.linearizability.porcupine import search
from checkers.linearizability.verdict import Decision, Refused
from tests.linearizability.monitors import objects, small, wing_gong
from tests.linearizability.monitors.wing_gong import Op, Step, linearizable


class Case(NamedTuple):
    """How to make histories, what they mean, and who decides them."""

    make: Callable[[Random], list[Op]]
    step: Step
    initial: Hashable
    decide: Callable[[Calls], Decision]

    def allows(self, ops: list[Op]) -> bool:
        """Whether there is an order of them."""
        return linearizable(ops, self.step, self.initial)


CASES = {
    "fifo": Case(small.queue, wing_gong.fifo, (), MONITORS["fifo"]),
    "bag": Case(lambda rng: small.queue(rng, False), wing_gong.bag, (), MONITORS["bag"]),
    "fifo-channels": Case(lambda rng: small.queue(rng, lanes=True), wing_gong.fifo, (), MONITORS["fifo"]),
    "bag-channels": Case(lambda rng: small.queue(rng, False, lanes=True), wing_gong.bag, (), MONITORS["bag"]),
    "fifo-unseen": Case(small.unseen, wing_gong.fifo, (), MONITORS["fifo"]),
    "register": Case(objects.register, wing_gong.register, None, MONITORS["register"]),
    "lock": Case(objects.lock, wing_gong.lock, False, MONITORS["lock"]),
    "fenced-lock": Case(
        lambda rng: objects.lock(rng, tokens=True), wing_gong.fenced_lock, (False, -100), MONITORS["fenced-lock"]
    ),
    "set": Case(objects.one_set, wing_gong.one_set, frozenset(), MONITORS["set"]),
    "log": Case(objects.log, wing_gong.log, (), MONITORS["log"]),
    "log-channels": Case(lambda rng: objects.log(rng, lanes=True), wing_gong.log, (), MONITORS["log"]),
}


def agree(case: Case, rng: Random, count: int, seen: Counter[str]) -> None:
    """Linearizable histories are decided twenty at once, as objects of one. The others each by itself, and some among
    linearizable ones, where it must be their object that is blamed."""
    good: list[list[Op]] = []
    bad: list[list[Op]] = []
    for _ in range(count):
        ops = case.make(rng)
        if case.allows(ops):
            good.append(ops)
            continue
        decision = _decide(case, [ops])
        seen[decision.violation.rule if decision and decision.violation else "refused"] += 1
        assert decision is None or decision.valid is False, (decision, ops)
        if decision is not None and len(good) > 3 and rng.random() < 0.1:
            several = [*good[-3:], ops, *good[:2], *bad[-1:]]
            among = _decide(case, several)
            assert among is None or (among.violation and _objects(among, several) == {3}), (among, several)
        if decision is not None:
            bad.append(ops)
    for start in range(0, len(good), 20):
        _valid(case, good[start : start + 20], seen)


def agree_with_search(case: Case, model: str, rng: Random, count: int) -> None:
    """The same verdicts as Porcupine's. Raises Unavailable where there is none."""
    for _ in range(count):
        ops = case.make(rng)
        decision = _decide(case, [ops])
        if decision is not None:
            assert search(small.columns([ops]), model).valid is decision.valid, (decision, ops)


def _valid(case: Case, histories: list[list[Op]], seen: Counter[str]) -> None:
    decision = _decide(case, histories)
    if decision is None and len(histories) > 1:  # one of them is refused
        for ops in histories:
            _valid(case, [ops], seen)
        return
    seen["refused" if decision is None else "valid"] += len(histories)
    if decision is not None and not decision.valid:
        raise AssertionError(decision, [histories[place] for place in _objects(decision, histories)])


def _decide(case: Case, histories: list[list[Op]]) -> Decision | None:
    try:
        return case.decide(small.columns(histories))
    except Refused:
        return None


def _objects(decision: Decision, histories: list[list[Op]]) -> set[int]:
    assert decision.violation is not None
    return {int(small.columns(histories).key[row]) for row in decision.violation.rows}
