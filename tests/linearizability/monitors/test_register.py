"""The monitor of registers: literal histories, brute force, Porcupine, and rules broken on purpose."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.linearizability.calls import F, calls
from checkers.linearizability.monitors import register
from checkers.linearizability.porcupine import Unavailable
from checkers.linearizability.verdict import Decision
from tests.linearizability.monitors.agree import CASES, agree, agree_with_search
from tests.linearizability.monitors.literal import invalid
from tests.linearizability.monitors.mutations import Mutant, assert_noticed
from tests.linearizability.monitors.objects import refusal
from tests.linearizability.monitors.small import columns
from tests.linearizability.monitors.wing_gong import Op


def write(value: int | None, call: int, ret: int | None, process: int = 0, *, channel: int = -1) -> Op:
    return Op(F.WRITE, value, None, call, ret, channel, process)


def read(value: int | None, call: int, ret: int | None, process: int = 0, *, channel: int = -1) -> Op:
    return Op(F.READ, None, value, call, ret, channel, process)


def decide(*ops: Op) -> Decision:
    return register.decide(columns([list(ops)]))


VALID = {
    "nothing": [],
    "one after the other": [write(1, 0, 1), read(1, 2, 3), write(2, 4, 5), read(2, 6, 7)],
    "nothing was written yet": [read(None, 0, 1), write(1, 2, 3)],
    "the initial value until the write takes effect": [write(1, 0, 5), read(None, 1, 2), read(1, 3, 4)],
    "a read that began before its write": [read(1, 0, 3), write(1, 1, 2)],
    "a read of a write that runs": [write(1, 0, 3), read(1, 1, 2)],
    "writes that overlap: in either order": [write(1, 0, 3), write(2, 1, 2), read(1, 4, 5)],
    "a write that nobody saw between two that were": [write(1, 0, 1), write(3, 2, 7), write(2, 3, 4), read(2, 5, 6)],
    "a write that nobody knows about, read later": [write(1, 0, None), write(2, 1, 2), read(2, 3, 4), read(1, 5, 6)],
    "a write that nobody knows about, never read": [write(1, 0, None), read(None, 1, 2), write(2, 3, 4), read(2, 5, 6)],
    "a read that nobody knows about": [write(1, 0, 1), read(None, 2, None)],
    "one that ends as another begins overlaps it": [write(1, 0, 1), write(2, 1, 2), read(1, 3, 4)],
    "a channel whose operations take turns": [write(1, 0, 1, channel=5), read(1, 2, 3, channel=5)],
}


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    ops = VALID[name]
    assert decide(*ops) == Decision(True, "monitor", f"{len(ops)} operations have an order that a register allows")


INVALID = {
    "nobody wrote it": (
        [write(1, 0, 1), read(7, 2, 3, 4)],
        invalid("phantom", (1,), "process 4 read 7, which nobody ever wrote"),
    ),
    "read before it was written": (
        [read(1, 0, 1, 4), write(1, 2, 3, 5)],
        invalid("read-before-written", (0, 1), "process 4 read 1 before it was written by process 5"),
    ),
    "the initial value, too late": (
        [write(1, 0, 1, 4), read(None, 2, 3, 5)],
        invalid("stale", (0, 1), "process 5 read the initial value after 1 had been written by process 4"),
    ),
    "the initial value, after another was read": (
        [write(1, 0, 9, 4), read(1, 1, 2, 6), read(None, 3, 4, 5)],
        invalid("stale", (1, 2), "process 5 read the initial value after 1 had been read by process 6"),
    ),
    "a value that was overwritten": (
        [write(1, 0, 1, 4), write(2, 2, 3, 5), read(1, 4, 5, 6)],
        invalid(
            "stale",
            (0, 1, 2),
            "value 1 was written by process 4 before 2 was written by process 5, and 2 was written by process 5 before "
            "1 was read by process 6",
        ),
    ),
    "back and forth": (
        [write(1, 0, 9, 4), write(2, 1, 8, 5), read(1, 2, 3, 6), read(2, 4, 5, 6), read(1, 6, 7, 6)],
        invalid(
            "stale",
            (2, 3, 4),
            "value 1 was read by process 6 before 2 was read by process 6, and 2 was read by process 6 before 1 was "
            "read by process 6",
        ),
    ),
    "two that each were read after the other": (
        [write(1, 0, 4, 4), write(2, 1, 5, 5), read(1, 2, 9, 6), read(1, 6, 7, 7), read(2, 8, 10, 8), read(2, 2, 3, 9)],
        invalid(
            "stale",
            (0, 3, 4, 5),
            "value 2 was read by process 9 before 1 was read by process 7, and 1 was written by process 4 before 2 was "
            "read by process 8",
        ),
    ),
    "a write that nobody knows about, seen, gone and seen": (
        [write(1, 0, None, 4), read(1, 1, 2, 5), write(2, 3, 4, 6), read(1, 5, 6, 7)],
        invalid(
            "stale",
            (1, 2, 3),
            "value 1 was read by process 5 before 2 was written by process 6, and 2 was written by process 6 before 1 "
            "was read by process 7",
        ),
    ),
    "of several the earliest": (
        [write(1, 0, 1), read(7, 2, 3, 4), read(8, 4, 5, 5)],
        invalid("phantom", (1,), "process 4 read 7, which nobody ever wrote"),
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    ops, decision = INVALID[name]
    assert decide(*ops) == decision


def test_a_failed_write_is_left_out_and_a_read_of_it_is_a_phantom() -> None:
    assert decide(read(1, 2, 3, 4)) == invalid("phantom", (0,), "process 4 read 1, which nobody ever wrote")


def test_each_object_is_judged_by_itself_and_the_first_that_fails_is_told() -> None:
    good, stale, phantom = VALID["one after the other"], INVALID["back and forth"][0], INVALID["nobody wrote it"][0]
    decision = register.decide(columns([good, good]))
    assert decision == Decision(True, "monitor", "8 operations have an order that a register allows")
    some = columns([good, stale, phantom])
    decision = register.decide(some)
    assert decision.violation is not None
    assert decision.violation.rule == "stale"
    assert [int(some.key[row]) for row in decision.violation.rows] == [1, 1, 1]


def test_the_initial_value_of_one_object_is_not_that_of_another() -> None:
    later = [read(None, 4, 5), write(1, 6, 7)]
    some = columns([[write(1, 0, 1), read(1, 2, 3)], later, [read(1, 0, 1)]], keys=[9, 4, 7])
    decision = register.decide(some)
    assert decision.violation is not None
    assert (decision.violation.rule, some.key[list(decision.violation.rows)].tolist()) == ("phantom", [7])


REFUSED = {
    "operation 1 writes 7, which was written before": calls([(F.WRITE, 7, None, 0, 1), (F.WRITE, 7, None, 2, 3)]),
    "operation 1 is neither a read nor a write": calls([(F.WRITE, 7, None, 0, 1), (F.CAS, 7, 8, 2, 3)]),
    "operation 0 writes no value": calls([(F.WRITE, None, None, 0, 1)]),
    "operation 1 returns before it is called": calls([(F.WRITE, 7, None, 0, 1), (F.WRITE, 8, None, 3, 2)]),
    "operation 1 is in an ordered channel of operations that overlap": columns(
        [[write(7, 0, 1), write(8, 2, 5, channel=3), read(8, 3, 4, channel=3)]]
    ),
    "operation 0 is in an ordered channel of operations that overlap": columns(
        [[write(7, 0, None, channel=3), read(8, 3, 4, channel=3)]]
    ),
}


def test_refused() -> None:
    for why, some in REFUSED.items():
        assert [refusal(judge, some) for judge in (register.decide, register.preconditions)] == [why, why]


@pytest.mark.parametrize("count", [2**15, 2**16 + 3])
def test_long_histories(count: int) -> None:
    """Writes of one client, each read by another; and one read too late."""
    ops = [op for n in range(count) for op in (write(n, 4 * n, 4 * n + 1), read(n, 4 * n + 2, 4 * n + 3, 1))]
    some = columns([ops])
    assert register.decide(some).valid is True
    some.out[2 * count - 1] = count - 3
    decision = register.decide(some)
    assert decision.violation is not None
    assert decision.violation.rows == (2 * count - 6, 2 * count - 4, 2 * count - 1)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**63))
def test_as_brute_force_says(seed: int) -> None:
    agree(CASES["register"], Random(seed), 300, Counter())


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_as_brute_force_says_of_a_history_that_shrinks(rng: Random) -> None:
    agree(CASES["register"], rng, 1, Counter())


def test_brute_force_met_every_rule() -> None:
    seen = Counter[str]()
    agree(CASES["register"], Random(1), 2_000, seen)
    assert seen.keys() == {"valid", "phantom", "read-before-written", "stale"}


def test_as_porcupine_says() -> None:
    try:
        agree_with_search(CASES["register"], "register", Random(1), 300)
    except Unavailable as why:
        pytest.skip(str(why))


MUTANTS = [
    # what is refused
    Mutant("register", "strange.any()", "False", test_refused),
    Mutant("register", "nothing.any()", "False", test_refused),
    Mutant("register", "twice >= 0", "False", test_refused),
    Mutant("register", "    take_turns(", "    (lambda *_: None)(", test_refused),
    Mutant("register", "is_write | (row.ret < row.size)", "row.ret < row.size", test_refused),
    Mutant("lanes", "[:-1] > line.call[rows][1:]", "[:-1] < line.call[rows][1:]", test_refused),
    # which reads count
    Mutant("register", "read = read[row.ret[read] < row.size]", "read = read[row.ret[read] <= row.size]", "register"),
    Mutant("register", "blank, read = read[nil], read[~nil]", "blank, read = read[nil], read[:0]", "register"),
    Mutant("register", "stray, read, at = read[unknown]", "stray, read, at = read[:0]", "register"),
    # one value
    Mutant("register", "early = seen < a[at]", "early = seen < 0", "register"),
    Mutant("register", "np.minimum.at(first, at, seen)", "np.maximum.at(first, at, seen)", "register"),
    Mutant("register", "    np.minimum.at(first, at, seen)\n", "", "register"),
    Mutant("register", "np.maximum.at(last, at", "np.minimum.at(last, at", "register"),
    Mutant("register", "    np.maximum.at(last, at, row.call[read])\n", "", "register"),
    # the initial value
    Mutant("register", "np.maximum.at(initial,", "np.minimum.at(initial,", "register"),
    Mutant("register", "initial[row.key[write]]", "initial[0]", "register"),
    Mutant("register", "first < (initial[0]", "last < (initial[0]", "register"),
    # two values
    Mutant("register", "latest[first + 1] = last", "latest[last + 1] = last", "register"),
    Mutant("register", "latest[first + 1] = last", "latest[first + 1] = first", "register"),
    Mutant("register", "    np.maximum.accumulate(latest, out=latest)\n", "", "register"),
    Mutant("register", "np.minimum(first, last)) > first", "np.maximum(first, last)) > first", "register"),
    Mutant("register", "np.minimum(first, last)) > first", "first) > first", "register"),
    Mutant("register", "np.minimum(first, last)) > first", "last) > first", "register"),
    Mutant("register", "np.minimum(first, last)) > first", "np.minimum(first, last)) > last", "register"),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert_noticed(mutant)
