"""What a queue promises, made into first takings: literal deliveries, brute force, rules broken on purpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F
from checkers.linearizability.deliveries import UNMARKED, at_least_once, at_most_once, unmarked
from checkers.linearizability.monitors import bag, fifo
from checkers.linearizability.monitors.found import of_first_object
from checkers.linearizability.verdict import Decision, Violation
from tests.linearizability.monitors import small, wing_gong
from tests.linearizability.monitors.agree import Case, agree
from tests.linearizability.monitors.literal import put, take
from tests.linearizability.monitors.mutations import Mutant, assert_noticed
from tests.linearizability.monitors.wing_gong import Op, linearizable

Judge = Callable[[Calls], Decision]


def decide(calls: Calls, judge: Judge = fifo.decide, drained: bool = True) -> Decision:
    """As the checker does, but for one violation: of the first object."""
    decision = _decide(calls, judge, drained)
    return of_first_object(calls, decision, lambda rows: _decide(calls.select(rows), judge, drained))


def _decide(calls: Calls, judge: Judge, drained: bool) -> Decision:
    marked = calls.end == 1
    early = unmarked(calls, marked)
    if early is not None:
        return Decision(False, "deliveries", early.sentence, early)
    numbered = replace(calls, op=np.arange(len(calls)))
    first = at_least_once(numbered, marked, np.full(len(calls), drained))
    decision = judge(first)
    if decision.violation is None:
        return decision
    told = decision.violation
    return replace(decision, violation=replace(told, rows=tuple(sorted(int(first.op[row]) for row in told.rows))))


class Deliveries(Case):
    """What is allowed depends on what was seen."""

    def allows(self, ops: list[Op]) -> bool:
        return linearizable(ops, self.step(ops), self.initial)  # type: ignore[call-arg, arg-type]


def case(ordered: bool, drained: bool, make: Callable[[Random], list[Op]] = small.deliveries) -> Case:
    step = partial(wing_gong.at_least_once, ordered=ordered, drained=drained)
    judge = partial(decide, judge=fifo.decide if ordered else bag.decide, drained=drained)
    return Deliveries(make, step, ((), frozenset()), judge)  # type: ignore[arg-type]


CASES = {
    "queue": case(True, True),
    "queue not drained": case(True, False),
    "bag": case(False, True),
    "bag not drained": case(False, False),
    "queue whose consumers die": case(True, True, small.dying_consumers),
    "queue whose consumers die, not drained": case(True, False, small.dying_consumers),
}


def vanishing(state: Hashable, op: Op) -> Iterable[Hashable]:
    """A queue that delivers at most once."""
    assert isinstance(state, tuple)
    if op.f is F.PUT:
        return [state, (*state, op.arg)]
    if op.ret is None:
        return [state]
    if op.out is None:
        return [()]
    return [state[state.index(op.out) + 1 :]] if op.out in state else []


def contradicted(ops: list[Op]) -> set[int | None]:
    """Messages whose deliveries without a mark were all called after another one of it had returned."""
    seen = [op for op in ops if op.f is F.TAKE and op.ret is not None and op.out is not None]
    begun = {op.out: min(one.call for one in seen if one.out == op.out and not one.mark) for op in seen if not op.mark}
    return {op.out for op in seen if op.ret is not None and op.ret < begun.get(op.out, 0)}


def rows(calls: Calls) -> list[tuple[int, int, int]]:
    """What is left, in short: (value, call, ret) of puts, then of takes."""
    puts_first = sorted(range(len(calls)), key=lambda row: (calls.f[row], row))
    value = np.maximum(calls.arg, calls.out)
    return [(int(value[row]), int(calls.call[row]), int(calls.ret[row])) for row in puts_first]


def takings(*ops: Op, drained: bool = True) -> list[tuple[int, int, int]]:
    calls = small.columns([list(ops)])
    return rows(at_least_once(calls, calls.end == 1, np.full(len(calls), drained)))


def test_a_delivery_without_a_mark_is_the_first_taking_and_repeats_are_free() -> None:
    assert takings(put(1, 0, 1), take(1, 2, 3), take(1, 4, 9, mark=True)) == [(1, 0, 1), (1, 2, 3)]


def test_a_repeat_that_is_seen_sooner_shows_that_the_first_taking_was_over() -> None:
    assert takings(put(1, 0, 1), take(1, 2, 9), take(1, 4, 5, mark=True)) == [(1, 0, 1), (1, 2, 5)]


def test_a_message_seen_with_marks_only_was_taken_at_any_time_since_its_put() -> None:
    assert takings(put(1, 0, 1), take(1, 4, 9, mark=True), take(1, 6, 7, mark=True)) == [(1, 0, 1), (1, 0, 7)]


def test_of_several_without_a_mark_any_may_be_the_first() -> None:
    assert takings(put(1, 0, 1), take(1, 4, 9), take(1, 6, 7)) == [(1, 0, 1), (1, 4, 7)]


def test_of_several_that_return_at_once_one_is_left() -> None:
    assert takings(put(1, 0, 1), take(1, 4, 9, mark=True), take(1, 6, 9, mark=True)) == [(1, 0, 1), (1, 0, 9)]


def test_a_message_never_seen_is_judged_if_the_queue_was_drained() -> None:
    unseen = [put(1, 0, 1), put(2, 2, 3), take(2, 4, 5)]
    assert takings(*unseen) == [(1, 0, 1), (2, 2, 3), (2, 4, 5)]
    assert takings(*unseen, drained=False) == [(2, 2, 3), (2, 4, 5)]
    assert not decide(small.columns([unseen])).valid
    assert decide(small.columns([unseen]), drained=False).valid


def test_only_what_a_channel_alone_delivered_first_is_in_its_order() -> None:
    ops = [
        put(1, 0, 1), put(2, 2, 3), put(3, 4, 5), take(1, 6, 20, channel=8), take(2, 7, 21, channel=8, mark=True),
        take(3, 8, 22, channel=8), take(3, 9, 23, channel=9), take(None, 10, None, channel=8),
    ]  # fmt: skip
    calls = small.columns([ops])
    first = at_least_once(calls, calls.end == 1, np.full(len(calls), True))
    assert sorted(zip(first.out.tolist(), first.channel.tolist(), strict=True))[-3:] == [(1, 8), (2, -1), (3, -1)]
    assert decide(calls).valid


def test_a_message_must_not_be_new_after_it_was_delivered_again() -> None:
    calls = small.columns([[put(1, 0, 1), take(1, 2, 3, process=4, mark=True), take(1, 4, 5, process=6)]])
    sentence = "message 1 was delivered to process 6 without a mark "
    sentence += "after it had been delivered, marked as redelivered, to process 4"
    assert unmarked(calls, calls.end == 1) == Violation(UNMARKED, (1, 2), sentence)
    overlap = small.columns([[put(1, 0, 1), take(1, 2, 5, mark=True), take(1, 4, 6)]])
    assert unmarked(overlap, overlap.end == 1) is None


def test_a_message_that_contradicts_itself_is_left_out() -> None:
    ops = [
        put(1, 0, 9, channel=7), put(2, 1, 2, channel=7), take(2, 3, 4, mark=True), take(2, 5, 6), take(None, 10, None),
        take(1, 11, 12),
    ]  # fmt: skip
    calls = small.columns([ops])
    left = at_least_once(calls, calls.end == 1, np.full(len(calls), True))
    assert rows(left) == [(1, 0, 2), (NONE, 10, NEVER), (1, 11, 12)]


def test_messages_of_two_queues_are_not_the_same() -> None:
    calls = small.columns([[put(1, 0, 1), take(1, 2, 3, mark=True)], [put(1, 4, 5), take(1, 6, 7)]])
    assert unmarked(calls, calls.end == 1) is None
    left = at_least_once(calls, calls.end == 1, np.full(len(calls), True))
    assert rows(left) == [(1, 0, 1), (1, 4, 5), (1, 0, 3), (1, 6, 7)]


def test_at_most_once_leaves_out_what_may_have_vanished() -> None:
    ops = [put(1, 0, 1), put(2, 2, 3), take(None, 4, None), take(2, 5, 6), take(None, 7, 8), put(3, 9, None)]
    calls = at_most_once(small.columns([ops]))
    assert calls.op.tolist() == [1, 3, 4]
    assert fifo.decide(calls).valid
    assert not fifo.decide(at_most_once(small.columns([[put(1, 0, 1), take(1, 2, 3), take(1, 4, 5)]]))).valid


def test_what_is_left_out_shows_that_a_put_before_it_was_over() -> None:
    ops = [put(1, 0, 9, channel=7), put(2, 1, 2, channel=7), take(None, 3, 4), take(1, 10, 11)]
    assert takings(*ops, drained=False)[0] == (1, 0, 2)
    assert not decide(small.columns([ops]), drained=False).valid
    assert rows(at_most_once(small.columns([ops])))[0] == (1, 0, 2)
    other = [put(1, 0, 9, channel=7), put(2, 1, 2, channel=6), take(None, 3, 4), take(1, 10, 11)]
    assert takings(*other, drained=False)[0] == (1, 0, 9)


def test_two_puts_that_are_left_alone() -> None:
    ops = [put(1, 0, 9, channel=7), put(2, 1, 2, channel=7), put(3, 3, 5, channel=7), take(2, 10, 11), take(1, 12, 13)]
    assert takings(*ops, drained=False)[:2] == [(1, 0, 5), (2, 1, 2)]


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(list(CASES)), st.integers(0, 2**63))
def test_as_brute_force_says(name: str, seed: int) -> None:
    agree(CASES[name], Random(seed), 300, Counter())


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(list(CASES)), st.randoms(use_true_random=False))
def test_as_brute_force_says_of_a_history_that_shrinks(name: str, rng: Random) -> None:
    agree(CASES[name], rng, 1, Counter())


def _over(op: Op, ops: list[Op], gone: set[int | None]) -> Op:
    """A put is over when one that is left out is, which came after it in its channel: so that one shows."""
    if op.f is not F.PUT or op.channel < 0:
        return op
    left_out = [one for one in ops if one.f is F.PUT and one.arg in gone and one.channel == op.channel]
    later = [one.ret for one in left_out if one.call > op.call and one.ret is not None]
    return op._replace(ret=min([*later, *([] if op.ret is None else [op.ret])], default=None))


def agree_without_contradicted(seed: int) -> Counter[bool | None]:
    rng, met = Random(seed), Counter[bool | None]()
    for _ in range(300):
        ops = small.deliveries(rng)
        late = max((max(op.call, op.ret or 0) for op in ops), default=0)
        for op in ops[:1]:
            if op.f is F.PUT:
                ops += [take(op.arg, late + 1, late + 2, mark=True), take(op.arg, late + 3, late + 4)]
        if gone := contradicted(ops):
            calls, drained = small.columns([ops]), rng.random() < 0.5
            first = at_least_once(calls, calls.end == 1, np.full(len(calls), drained))
            assert (first.ret >= first.call).all()
            left = [_over(op, ops, gone) for op in ops if (op.arg if op.f is F.PUT else op.out) not in gone]
            valid = fifo.decide(first).valid
            assert valid is CASES["queue" if drained else "queue not drained"].allows(left), (ops, drained)
            met[valid] += 1
    return met


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**63))
def test_without_messages_that_contradict_themselves_it_is_as_brute_force_says(seed: int) -> None:
    agree_without_contradicted(seed)


def test_what_is_left_without_them_is_valid_at_times_and_at_times_not() -> None:
    met = agree_without_contradicted(1) + agree_without_contradicted(2)
    assert min(met[True], met[False]) > 0, met


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**63))
def test_a_queue_that_loses_as_brute_force_says(seed: int) -> None:
    rng = Random(seed)
    for _ in range(100):
        ops = small.dying_consumers(rng)
        first = at_most_once(small.columns([ops]))
        assert fifo.decide(first).valid is linearizable(ops, vanishing, ()), ops


def test_brute_force_met_both_verdicts_of_consumers_that_die() -> None:
    for name in CASES:
        if "die" in name:
            seen = Counter[str]()
            agree(CASES[name], Random(1), 2_000, seen)
            assert min(seen["valid"], sum(seen.values()) - seen["valid"]) > 100, seen


def test_brute_force_met_every_rule() -> None:
    seen = Counter[str]()
    agree(CASES["queue"], Random(1), 3_000, seen)
    assert {"valid", "inversion", "overtaken", "empty-though-not", "phantom", UNMARKED} <= seen.keys()
    assert seen["refused"] == 0


def noticed_by(name: str) -> Callable[[], None]:
    """Brute force."""
    return lambda: agree(CASES[name], Random(1), 10_000, Counter())


DELIVERIES = "checkers.linearizability.deliveries"
QUEUE, NOT_DRAINED = noticed_by("queue"), noticed_by("queue not drained")
MARKED_LATER = test_a_message_must_not_be_new_after_it_was_delivered_again
CONTRADICTED = test_a_message_that_contradicts_itself_is_left_out
ALONE = test_only_what_a_channel_alone_delivered_first_is_in_its_order
LEFT_OUT = test_what_is_left_out_shows_that_a_put_before_it_was_over
VANISHED = test_at_most_once_leaves_out_what_may_have_vanished
MUTANTS = [
    Mutant(DELIVERIES, "np.minimum.at(begin, of_put[only_marked], calls.call[put[only_marked]])", "pass", QUEUE),
    Mutant(DELIVERIES, "_over(calls, put[~keep[put]])[rows]", "calls.ret[rows]", LEFT_OUT),
    Mutant(DELIVERIES, "ret=_over(calls, np.flatnonzero(gone))", "ret=calls.ret", LEFT_OUT),
    Mutant(DELIVERIES, "np.isin(rows, gone)", "rows >= 0", test_two_puts_that_are_left_alone),
    Mutant(DELIVERIES, "(plain[of_put] == 0) & ~unseen[of_put]", "plain[of_put] < 0", QUEUE),
    Mutant(DELIVERIES, "alone[plain != 1] = -1", "pass", ALONE),
    Mutant(DELIVERIES, "channel[(ret == NEVER) & (calls.f[rows] == F.TAKE)] = -1", "pass", ALONE),
    Mutant(DELIVERIES, "keep[seen] = first[seen] & ~", "keep[seen] = ~", QUEUE),
    Mutant(DELIVERIES, "first[seen] & ~impossible[value[seen]]", "first[seen]", CONTRADICTED),
    Mutant(DELIVERIES, " & ~impossible[of_put]", "", CONTRADICTED),
    Mutant(DELIVERIES, "drained[put] | ~unseen[of_put]", "drained[put]", NOT_DRAINED),
    Mutant(DELIVERIES, "drained[put] | ~unseen[of_put]", "True", NOT_DRAINED),
    Mutant(DELIVERIES, "drained[put] | ~unseen[of_put]", "~unseen[of_put]", QUEUE),
    Mutant(DELIVERIES, "begin[of], end[of], alone[of]", "calls.call[rows[taken]], end[of], alone[of]", QUEUE),
    Mutant(DELIVERIES, "(begin > end)[value[seen]]", "(begin < 0)[value[seen]]", MARKED_LATER),
    Mutant(DELIVERIES, "may = seen[~marked[seen] | (plain[value[seen]] == 0)]", "may = seen", QUEUE),
    Mutant(DELIVERIES, "(end, value[seen], calls.ret[seen])", "(end, value[may], calls.ret[may])", QUEUE),
    Mutant(DELIVERIES, "gone[put] = ~taken[value[put]]", "pass", VANISHED),
    Mutant(DELIVERIES, "(put | (calls.ret != NEVER))", "True", VANISHED),
    Mutant(DELIVERIES, "numbers(what[some], key)", "numbers(what[some])", test_messages_of_two_queues_are_not_the_same),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert_noticed(mutant)
