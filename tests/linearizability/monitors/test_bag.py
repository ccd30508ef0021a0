"""The monitor of bags: literal histories, brute force, Porcupine, and rules broken on purpose. What it shares with that
of FIFO queues, one value at a time and empty answers, is told there."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.linearizability.calls import F, calls
from checkers.linearizability.monitors import bag
from checkers.linearizability.porcupine import Unavailable
from checkers.linearizability.verdict import Decision, Refused
from tests.linearizability.monitors.agree import CASES, agree, agree_with_search
from tests.linearizability.monitors.literal import invalid, put, take
from tests.linearizability.monitors.mutations import Mutant, assert_noticed
from tests.linearizability.monitors.small import columns
from tests.linearizability.monitors.wing_gong import Op


def decide(*ops: Op) -> Decision:
    return bag.decide(columns([list(ops)]))


VALID = {
    "nothing": [],
    "out of order": [put(1, 0, 1), put(2, 2, 3), take(2, 4, 5), take(1, 6, 7)],
    "one never seen again": [put(1, 0, 1), put(2, 2, 3), take(2, 4, 5)],
    "empty, an unknown take took it": [put(1, 0, 1), take(None, 2, None), take(None, 3, 4)],
    "empty for a moment": [put(1, 0, 1), take(None, 2, 7), take(1, 3, 4), put(2, 5, 6)],
    "empty before a put that nobody knows about took effect": [put(1, 0, None), take(None, 1, 2), take(1, 3, 4)],
    "empty while a put and a take are under way": [put(1, 0, 5), take(None, 1, 2), take(1, 3, 6), take(None, 7, 8)],
}


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    count = len(VALID[name])
    assert decide(*VALID[name]) == Decision(True, "monitor", f"{count} operations have an order that a bag allows")


INVALID = {
    "duplicate": (
        [put(1, 0, 1), take(1, 2, 3, process=4), take(1, 4, 5, process=6)],
        invalid("duplicate", (1, 2), "message 1 was consumed twice, by process 4 and by process 6"),
    ),
    "phantom": ([take(9, 2, 3)], invalid("phantom", (0,), "message 9 was consumed, but never published")),
    "fresh": (
        [take(1, 0, 1, process=3), put(1, 2, 3)],
        invalid("consumed-before-published", (0, 1), "message 1 was consumed by process 3 before it was published"),
    ),
    "empty, though one after another was there": (
        [put(1, 0, 2), put(2, 1, 4), take(None, 3, 8, process=4), take(1, 6, 7), take(2, 9, 10)],
        invalid(
            "empty-though-not", (0, 1, 2), "process 4 was told that the queue is empty, while it held message 1, then 2"
        ),
    ),
    "empty, though four after each other were there": (
        [
            put(1, 0, 1), take(None, 2, 19, process=4), put(2, 3, 4), take(1, 5, 6), put(3, 7, 8), take(2, 9, 10),
            put(4, 11, 12), take(3, 13, 14),
        ],
        invalid(
            "empty-though-not",
            (0, 1, 2, 4),
            "process 4 was told that the queue is empty, while it held message 1, then 2, then 3, then others",
        ),
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
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    ops, decision = INVALID[name]
    assert decide(*ops) == decision


def test_each_object_is_judged_by_itself_and_the_first_that_fails_is_told() -> None:
    # the unknown take of one object is of no use to another
    served, lost = VALID["empty, an unknown take took it"], [put(1, 0, 1), take(None, 3, 4)]
    assert bag.decide(columns([served, served])).valid
    decision = bag.decide(columns([served, lost, INVALID["phantom"][0]]))
    assert decision.violation is not None
    assert (decision.violation.rule, decision.violation.rows) == ("empty-though-not", (1, 5))


def test_refused() -> None:
    twice = calls([(F.PUT, 7, None, 0, 1), (F.PUT, 7, None, 2, 3)])
    for judge in (bag.decide, bag.preconditions):
        with pytest.raises(Refused, match="operation 1 puts 7, which was put before"):
            judge(twice)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**63))
def test_as_brute_force_says(seed: int) -> None:
    agree(CASES["bag"], Random(seed), 250, Counter())


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_as_brute_force_says_of_a_history_that_shrinks(rng: Random) -> None:
    agree(CASES["bag"], rng, 1, Counter())


def test_brute_force_met_every_rule() -> None:
    seen = Counter[str]()
    agree(CASES["bag"], Random(1), 1_000, seen)
    assert seen.keys() == {"valid", "duplicate", "phantom", "consumed-before-published", "empty-though-not"}


def test_as_porcupine_says() -> None:
    try:
        agree_with_search(CASES["bag"], "bag", Random(1), 300)
    except Unavailable as why:
        pytest.skip(str(why))


MUTANTS = [
    Mutant("bag", "elif len(all_.empty):", "elif False:", "bag"),
    Mutant("bag", "lost = all_.taken < 0", "lost = all_.taken < -1", "bag"),
    Mutant("bag", "lost = all_.taken < 0", "lost = all_.taken >= 0", "bag"),
    Mutant("bag", "np.where(lost, 0, all_.c)", "all_.c", "bag"),
    Mutant("bag", "np.where(lost, 0, all_.c)", "np.where(lost, 0, all_.d)", "bag"),
    Mutant("bag", "found, all_.b, np", "found, all_.a, np", "bag"),
    Mutant("bag", "np.where(lost, all_.b,", "np.where(lost, all_.a,", "bag"),
    Mutant("bag", "if chains is not None", "if False", "bag-channels"),
    Mutant("queues", "all_.d < all_.a", "all_.d < 0", "bag"),
    Mutant("queues", "surplus(all_, owed) <= 0", "surplus(all_, owed) <= 1", "bag"),
    Mutant("queues", "covered(all_, begin, end) <= 0", "covered(all_, begin, end) <= 1", "bag"),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert_noticed(mutant)
