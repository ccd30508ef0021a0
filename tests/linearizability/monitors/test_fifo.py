"""The monitor of FIFO queues: literal histories, brute force, Porcupine, and rules broken on purpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.linearizability.calls import F, calls
from checkers.linearizability.monitors import fifo
from checkers.linearizability.porcupine import Unavailable
from checkers.linearizability.verdict import Decision, Refused
from tests.linearizability.monitors.agree import CASES, agree, agree_with_search
from tests.linearizability.monitors.literal import invalid, put, take
from tests.linearizability.monitors.mutations import Mutant, assert_noticed
from tests.linearizability.monitors.small import columns
from tests.linearizability.monitors.wing_gong import Op


def decide(*ops: Op) -> Decision:
    return fifo.decide(columns([list(ops)]))


VALID = {
    "nothing": [],
    "in order": [put(1, 0, 1), put(2, 2, 3), take(1, 4, 5), take(2, 6, 7)],
    "puts overlap: in either order": [put(1, 0, 3), put(2, 1, 2), take(2, 4, 5), take(1, 6, 7)],
    "takes overlap: in either order": [put(1, 0, 1), put(2, 2, 3), take(2, 4, 6), take(1, 5, 7)],
    "what is last is still inside": [put(1, 0, 1), put(2, 2, 3), take(1, 4, 5)],
    "a take that began before its put": [take(1, 0, 3), put(1, 1, 2)],
    "a take within its put": [put(1, 0, 3), take(1, 1, 2)],
    "a put that nobody knows about took effect": [put(1, 0, None), put(2, 1, 2), take(1, 3, 4), take(2, 5, 6)],
    "or did not": [put(1, 0, None), put(2, 1, 2), take(2, 3, 4)],
    "or later": [put(1, 0, None), put(2, 1, 2), take(2, 3, 4), take(1, 5, 6)],
    "an unknown take took it": [put(1, 0, 1), put(2, 2, 3), take(None, 4, None), take(2, 5, 6)],
    "an unknown take, called late, but in time": [put(1, 0, 1), put(2, 2, 3), take(2, 4, 6), take(None, 5, None)],
    "two unknown takes took two": [
        put(1, 0, 1), put(2, 2, 3), take(None, 4, None), take(None, 5, None), put(3, 6, 7), take(3, 8, 9),
    ],
    "empty before, between and after": [
        take(None, 0, 1), put(1, 2, 5), take(None, 3, 4), take(1, 6, 9), take(None, 7, 8), take(None, 10, 11),
    ],
    "empty for a moment": [put(1, 0, 1), take(None, 2, 7), take(1, 3, 4), put(2, 5, 6)],
    "empty, an unknown take took it": [put(1, 0, 1), take(None, 2, None), take(None, 3, 4)],
    "empty, while a put that nobody knows about had not taken effect": [put(1, 0, None), take(None, 1, 2)],
    "a return and a call at the same time overlap": [put(1, 0, 1), put(2, 1, 2), take(2, 3, 4), take(1, 5, 6)],
}  # fmt: skip


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    assert decide(*VALID[name]) == Decision(True, "monitor", f"{len(VALID[name])} operations have a FIFO order")


INVALID = {
    "inversion": (
        [put(1, 0, 1), put(2, 2, 3), take(2, 4, 5, process=4), take(1, 6, 7, process=5)],
        invalid(
            "inversion",
            (0, 1, 2, 3),
            "message 1 was confirmed before 2 was published, yet 2 was consumed first, by process 4, and 1 only then, "
            "by process 5",
        ),
    ),
    "the last of those overtaken is named": (
        [put(1, 0, 2), put(2, 1, 3), put(3, 4, 5), take(3, 6, 7, process=4), take(1, 8, 9), take(2, 10, 11, process=5)],
        invalid(
            "inversion",
            (1, 2, 3, 5),
            "message 2 was confirmed before 3 was published, yet 3 was consumed first, by process 4, and 2 only then, "
            "by process 5",
        ),
    ),
    "overtaken": (
        [put(1, 0, 1), put(2, 2, 3), take(2, 4, 5, process=4)],
        invalid(
            "overtaken",
            (0, 1, 2),
            "message 1 was confirmed before 2 was published, yet 2 was consumed, by process 4, and 1 never was",
        ),
    ),
    "overtaken, and an unknown take came too late": (
        [put(1, 0, 1), put(2, 2, 3), take(2, 4, 5, process=4), take(None, 6, None)],
        invalid(
            "overtaken",
            (0, 1, 2),
            "message 1 was confirmed before 2 was published, yet 2 was consumed, by process 4, and 1 never was",
        ),
    ),
    "two overtaken, with one unknown take": (
        [put(1, 0, 1), put(2, 2, 3), put(3, 4, 5), take(None, 6, None), take(3, 7, 8, process=4)],
        invalid(
            "overtaken",
            (1, 2, 4),
            "message 2 was confirmed before 3 was published, yet 3 was consumed, by process 4, and 2 never was; "
            "1 consume of unknown outcome cannot account for all such messages",
        ),
    ),
    "duplicate": (
        [put(1, 0, 1), take(1, 2, 3, process=4), take(1, 4, 5, process=6)],
        invalid("duplicate", (1, 2), "message 1 was consumed twice, by process 4 and by process 6"),
    ),
    "phantom": ([put(1, 0, 1), take(9, 2, 3)], invalid("phantom", (1,), "message 9 was consumed, but never published")),
    "fresh": (
        [take(1, 0, 1, process=3), put(1, 2, 3)],
        invalid("consumed-before-published", (0, 1), "message 1 was consumed by process 3 before it was published"),
    ),
    "empty, though a message was there": (
        [put(1, 0, 1), take(None, 2, 3, process=4), take(1, 4, 5)],
        invalid("empty-though-not", (0, 1), "process 4 was told that the queue is empty, while it held message 1"),
    ),
    "empty, though one after another was there": (
        [put(1, 0, 2), put(2, 1, 4), take(None, 3, 8, process=4), take(1, 6, 7), take(2, 9, 10)],
        invalid(
            "empty-though-not", (0, 1, 2), "process 4 was told that the queue is empty, while it held message 1, then 2"
        ),
    ),
    "empty, though one is still there": (
        [put(1, 0, 1), take(None, 2, 3, process=4)],
        invalid("empty-though-not", (0, 1), "process 4 was told that the queue is empty, while it held message 1"),
    ),
    "empty, though an unknown take can have taken but one": (
        [put(1, 0, 1), put(2, 2, 3), take(None, 4, None), take(None, 5, 6, process=7)],
        invalid(
            "empty-though-not",
            (0, 3),
            "process 7 was told that the queue is empty, while it held message 1; "
            "1 consume of unknown outcome cannot account for all such messages",
        ),
    ),
    "empty before the unknown take": (
        [put(1, 0, 1), take(None, 2, 3, process=7), take(None, 4, None)],
        invalid("empty-though-not", (0, 1), "process 7 was told that the queue is empty, while it held message 1"),
    ),
    "of several the earliest": (
        [put(1, 0, 1), take(1, 2, 3), take(1, 4, 5), take(None, 6, 7), take(8, 8, 9)],
        invalid("duplicate", (1, 2), "message 1 was consumed twice, by process 0 and by process 0"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    ops, decision = INVALID[name]
    assert decide(*ops) == decision


def test_a_failed_put_is_left_out_and_its_consumption_is_a_phantom() -> None:
    assert decide(take(1, 2, 3)) == invalid("phantom", (0,), "message 1 was consumed, but never published")


def test_each_object_is_judged_by_itself_and_the_first_that_fails_is_told() -> None:
    good, inverted, lost = VALID["in order"], INVALID["inversion"][0], INVALID["overtaken"][0]
    assert fifo.decide(columns([good, good])) == Decision(True, "monitor", "8 operations have a FIFO order")
    # rows are interleaved by call: the second object's are 1, 3, 5, 6 of these
    decision = fifo.decide(columns([VALID["what is last is still inside"], inverted, lost]))
    assert decision.violation is not None
    assert (decision.violation.rule, decision.violation.rows) == ("inversion", (1, 4, 7, 9))


def test_far_apart() -> None:
    """Objects, values and times may be any numbers."""
    far = [put(-(2**62), 0, 1), put(2**62, 2, 3), take(2**62, 4, 5), take(-(2**62), 6, 2**62)]
    same = columns([far, VALID["in order"], VALID["in order"]], keys=[2**61, -5, 10**12])
    decision = fifo.decide(same)
    assert decision.violation is not None
    assert (decision.violation.rule, same.key[list(decision.violation.rows)].tolist()) == ("inversion", [2**61] * 4)


def test_many_objects() -> None:
    histories = (
        [[put(1, 0, 1), take(1, 8, 9)]]
        + [[put(1, 0, 1)]] * (2**16 - 1)
        + [[put(2, 2, 3), take(2, 4, 5)], INVALID["inversion"][0]]
    )
    assert fifo.decide(columns(histories[:-1])) == Decision(True, "monitor", "65,539 operations have a FIFO order")
    assert fifo.decide(columns(histories)).reason == INVALID["inversion"][1].reason


def test_the_earliest_is_told() -> None:
    assert decide(put(1, 0, 1), put(2, 2, 3), take(8, 4, 9), take(2, 5, 6), take(9, 7, 8)) == invalid(
        "overtaken",
        (0, 1, 3),
        "message 1 was confirmed before 2 was published, yet 2 was consumed, by process 0, and 1 never was",
    )  # fmt: skip
    assert decide(take(8, 4, 9), take(9, 7, 8)) == invalid(
        "phantom", (1,), "message 9 was consumed, but never published"
    )  # fmt: skip


REFUSED = {
    "operation 1 puts 7, which was put before": calls([(F.PUT, 7, None, 0, 1), (F.PUT, 7, None, 2, 3)]),
    "operation 1 is neither a put nor a take": calls([(F.PUT, 7, None, 0, 1), (F.READ, None, 7, 2, 3)]),
    "operation 0 puts no value": calls([(F.PUT, None, None, 0, 1)]),
    "operation 1 returns before it is called": calls([(F.PUT, 7, None, 0, 1), (F.PUT, 8, None, 3, 2)]),
    "operation 0 is not in the order of the calls": calls(
        [(F.PUT, 7, None, 0, 1), (F.PUT, 8, None, 2, 3)]
    ).select(np.asarray([1, 0])),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why: str) -> None:
    for judge in (fifo.decide, fifo.preconditions):
        with pytest.raises(Refused) as refused:
            judge(REFUSED[why])
        assert str(refused.value) == why


def test_the_same_value_in_two_objects_is_not_the_same() -> None:
    some = columns([[put(7, 0, 1), take(7, 2, 3)], [put(7, 0, 1)]])
    assert fifo.decide(some) == Decision(True, "monitor", "3 operations have a FIFO order")


def overlapping(count: int) -> list[Op]:
    """Puts of 0, 1, ..., each taken three puts later, all overlapping their neighbours."""
    puts = [put(value, 10 * value, 10 * value + 15) for value in range(count)]
    return puts + [take(value, 10 * value + 31, 10 * value + 46) for value in range(count)]


@pytest.mark.parametrize("count", [2**14, 2**16 + 3])
def test_long_histories(count: int) -> None:
    ops = overlapping(count)
    assert decide(*ops) == Decision(True, "monitor", f"{2 * count:,} operations have a FIFO order")
    one, other = count + 100, count + 103  # takes that do not overlap
    ops[one], ops[other] = ops[one]._replace(out=103), ops[other]._replace(out=100)
    decision = decide(*ops)
    assert decision.reason == (
        "message 100 was confirmed before 103 was published, yet 103 was consumed first, by process 0, "
        "and 100 only then, by process 0"
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**63))
def test_as_brute_force_says(seed: int) -> None:
    agree(CASES["fifo"], Random(seed), 250, Counter())


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_as_brute_force_says_of_a_history_that_shrinks(rng: Random) -> None:
    agree(CASES["fifo"], rng, 1, Counter())


def test_brute_force_met_every_rule() -> None:
    seen = Counter[str]()
    agree(CASES["fifo"], Random(1), 2_000, seen)
    assert seen.keys() == {
        "valid", "inversion", "overtaken", "duplicate", "phantom", "consumed-before-published", "empty-though-not",
    }  # fmt: skip


def test_as_porcupine_says() -> None:
    try:
        agree_with_search(CASES["fifo"], "fifo-queue", Random(1), 300)
    except Unavailable as why:
        pytest.skip(str(why))


def refused(why: str) -> Callable[[], None]:
    """The test of it."""
    return partial(test_refused, why)


MUTANTS = [
    # what is a value's place, and what is wrong with it alone
    Mutant("queues", "if strange.any()", "if False", refused("operation 1 is neither a put nor a take")),
    Mutant("queues", "if nothing.any()", "if False", refused("operation 0 puts no value")),
    Mutant("queues", "if twice >= 0", "if False", refused("operation 1 puts 7, which was put before")),
    Mutant("queues", "open_ = calls.ret[take] == NEVER", "open_ = calls.ret[take] != NEVER", "fifo"),
    Mutant("queues", "unknown = at < 0", "unknown = at < -1", "fifo"),
    Mutant("queues", "if np.count_nonzero(taken >= 0) < len(take)", "if False", "fifo"),
    Mutant("queues", "all_.d < all_.a", "all_.c < all_.a", "fifo"),
    Mutant("queues", "all_.d < all_.a", "all_.d < all_.b", "fifo"),
    Mutant("queues", "jokers=np.sort(row.call[jokers])", "jokers=np.sort(row.call[jokers][1:])", "fifo"),
    # order
    Mutant("fifo", "latest.take(all_.a) > all_.d", "latest.take(all_.a) > all_.c", "fifo"),
    Mutant("fifo", "latest.take(all_.a) > all_.d", "latest.take(all_.b) > all_.d", "fifo"),
    Mutant("fifo", "latest.take(all_.a) > all_.d", "latest.take(all_.a) > all_.line.size", "fifo"),
    Mutant("fifo", "latest[all_.b] = np.where(lost, -1, all_.c)", "latest[all_.b] = all_.c", "fifo"),
    Mutant("fifo", "latest[all_.b] = ", "latest[all_.a] = ", "fifo"),
    Mutant("fifo", "lost & (all_.b < all_.line.size)", "lost", "fifo"),
    Mutant("fifo", "earliest[all_.a] = all_.d", "earliest[all_.a] = all_.c", "fifo"),
    Mutant("fifo", "earliest[all_.a] = all_.d", "earliest[all_.b] = all_.d", "fifo"),
    Mutant("fifo", "lost[np.argsort(all_.b[lost])]", "lost", "fifo"),
    Mutant("fifo", "must = due < all_.line.end(all_.b[lost])", "must = due < all_.line.size", "fifo"),
    Mutant("matching", "served > deadlines", "served < 0", "fifo"),
    Mutant("matching", "at = np.searchsorted(calls, start) + nth", "at = np.searchsorted(calls, start)", "fifo"),
    Mutant("matching", "at = np.searchsorted(calls, start) + nth", "at = nth", "fifo"),
    # empty answers
    Mutant("fifo", "if len(all_.empty):", "if False:", "fifo"),
    Mutant("queues", "before[e] == before[s]", "before[e] == before[s] + 1", "fifo"),
    Mutant("queues", "covered(all_, begin, end) <= 0", "covered(all_, begin, end) <= 1", "fifo"),
    Mutant("queues", "surplus(all_, owed) <= 0", "surplus(all_, owed) <= 1", "fifo"),
    Mutant("queues", "spans = begin < end", "spans = begin > end", "fifo"),
    Mutant("queues", "change[all_.jokers] = -1", "change[all_.jokers] = -2", "fifo"),
    Mutant("queues", "np.repeat(total[all_.line.starts[:-1]], np.diff(all_.line.starts))", "total[0]", "fifo"),
    # what is called, and told, first
    Mutant("found", "int(ranks[place]) < self.at", "int(ranks[place]) > self.at", test_the_earliest_is_told),
    Mutant("found", "places[np.argmin(ranks[places])]", "places[0]", test_the_earliest_is_told),
    Mutant("ranks", "if late.any()", "if False", refused("operation 0 is not in the order of the calls")),
    Mutant("ranks", "if early.any()", "if False", refused("operation 1 returns before it is called")),
    Mutant("ranks", "np.concatenate((call, last)), kind", "np.concatenate((last, call)), kind", "fifo"),
    Mutant("ranks", "top <= SPARE * len(call)", "top > SPARE * len(call)", test_far_apart),
    Mutant("ranks", "np.count_nonzero(seen) == len(call) + len(last)", "True", "fifo"),
    Mutant("ranks", "high - low <= 4 * len(keys)", "high - low > 4 * len(keys)", test_far_apart),
    Mutant("ranks", 'kind="stable")\n    high', 'kind="stable")\n    high = numbers[:0]\n    #', test_many_objects),
    Mutant("values", "if span * many > room", "if False", test_far_apart),
    Mutant(
        "values", "own = values if key is None else values + key * span\n    table", "own = values\n    table", "fifo"
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert_noticed(mutant)
