"""The monitor of locks: literal histories, brute force, Porcupine, and rules broken on purpose."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.linearizability.calls import F, calls
from checkers.linearizability.monitors import lock
from checkers.linearizability.porcupine import Unavailable
from checkers.linearizability.verdict import Decision
from tests.linearizability.monitors.agree import CASES, agree, agree_with_search
from tests.linearizability.monitors.literal import invalid
from tests.linearizability.monitors.mutations import Mutant, assert_noticed
from tests.linearizability.monitors.objects import refusal
from tests.linearizability.monitors.small import columns
from tests.linearizability.monitors.wing_gong import Op


def acquire(process: int, call: int, ret: int | None, token: int | None = None, *, channel: int = -1) -> Op:
    return Op(F.ACQUIRE, None, token, call, ret, channel, process)


def release(process: int, call: int, ret: int | None, *, channel: int = -1) -> Op:
    return Op(F.RELEASE, None, None, call, ret, channel, process)


def refused(process: int, call: int, ret: int | None, *, channel: int = -1) -> Op:
    return Op(F.TRY, None, None, call, ret, channel, process)


def decide(*ops: Op) -> Decision:
    return lock.decide(columns([list(ops)]))


def fenced(*ops: Op) -> Decision:
    return lock.decide_fenced(columns([list(ops)]))


VALID = {
    "nothing": [],
    "one after the other": [acquire(0, 0, 1), release(0, 2, 3), acquire(1, 4, 5), release(1, 6, 7)],
    "again and again": [acquire(0, 0, 1), release(0, 2, 3), acquire(0, 4, 5), release(0, 6, 7)],
    "an acquire that waits": [acquire(0, 0, 1), acquire(1, 2, 5), release(0, 3, 4), release(1, 6, 7)],
    "a release that takes its time": [acquire(0, 0, 1), release(0, 2, 5), acquire(1, 3, 4)],
    "acquires that overlap": [acquire(0, 0, 5), acquire(1, 1, 2), release(1, 3, 4)],
    "never released": [acquire(0, 0, 1)],
    "refused while it is held": [acquire(0, 0, 1), refused(1, 2, 3), release(0, 4, 5)],
    "refused while it may be held already": [acquire(0, 0, 3), refused(1, 1, 2)],
    "refused while it may be held still": [acquire(0, 0, 1), release(0, 2, 5), refused(1, 3, 4)],
    "refused between two that follow closely": [
        acquire(0, 0, 1), release(0, 2, 7), acquire(1, 3, 8), refused(2, 4, 5), release(1, 9, 10),
    ],
    "refused by one that never returned": [acquire(0, 0, None), refused(1, 1, 2)],
    "refused after one whose release nobody knows about": [acquire(0, 0, 1), release(0, 2, None), refused(1, 3, 4)],
    "which may have been released": [acquire(0, 0, 1), release(0, 2, None), acquire(1, 3, 4)],
    "an acquire that nobody knows about did not happen": [acquire(0, 0, None), acquire(1, 1, 2), release(1, 3, 4)],
    "or happened at last": [
        acquire(0, 0, None), acquire(1, 1, 2), release(1, 3, 6), refused(2, 4, 5), refused(2, 7, 8),
    ],
    "a try that nobody knows about": [refused(0, 0, None), refused(0, 1, None)],
    "a process is refused while it acquires": [acquire(0, 0, 3), refused(0, 1, 2)],
    "one that ends as another begins overlaps it": [
        acquire(0, 0, 1), release(0, 2, 3), acquire(1, 3, 4), refused(2, 4, 5),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    ops = VALID[name]
    expected = Decision(True, "monitor", f"{len(ops)} operations have an order that a lock allows")
    assert decide(*ops) == expected
    assert fenced(*ops) == expected


INVALID = {
    "held by two": (
        [acquire(0, 0, 1), acquire(1, 2, 3), release(0, 4, 5), release(1, 6, 7)],
        invalid(
            "held-twice", (0, 1, 2), "process 1 acquired the lock while process 0 held it, which released it only later"
        ),
    ),
    "held for ever, and by another": (
        [acquire(0, 0, 1), acquire(1, 2, 3)],
        invalid("held-twice", (0, 1), "process 1 acquired the lock while process 0 held it, which never released it"),
    ),
    "held for long, by one and later by another": (
        [acquire(0, 0, 1), acquire(1, 2, 3), release(1, 4, 5), acquire(2, 6, 7), release(0, 8, 9)],
        invalid(
            "held-twice", (0, 1, 4), "process 1 acquired the lock while process 0 held it, which released it only later"
        ),
    ),
    "acquired twice by one": (
        [acquire(0, 0, 1), acquire(0, 2, 3)],
        invalid("held-twice", (0, 1), "process 0 acquired the lock while process 0 held it, which never released it"),
    ),
    "refused before anybody held it": (
        [refused(1, 0, 1), acquire(0, 2, 3)],
        invalid(
            "refused-though-free", (0,), "process 1 was refused the lock, which nobody can have held by then"
        ),
    ),
    "refused after it was released": (
        [acquire(0, 0, 1), release(0, 2, 3), refused(1, 4, 5), acquire(2, 6, 7)],
        invalid(
            "refused-though-free",
            (1, 2),
            "process 1 was refused the lock, which nobody can have held since process 0 had released it",
        ),
    ),
    "an acquire that nobody knows about came too late": (
        [acquire(0, 0, 1), release(0, 2, 3), refused(1, 4, 5), acquire(2, 6, None)],
        invalid(
            "refused-though-free",
            (1, 2),
            "process 1 was refused the lock, which nobody can have held since process 0 had released it",
        ),
    ),
    "an acquire that nobody knows about cannot have happened before others": (
        [acquire(2, 0, None), refused(1, 1, 2), acquire(0, 3, 4)],
        invalid(
            "refused-though-free", (1,), "process 1 was refused the lock, which nobody can have held by then"
        ),
    ),
    "refused before, by one that waited": (
        [acquire(1, 0, 14), refused(2, 5, 6), acquire(0, 10, 11), release(0, 12, 13), release(1, 15, 16)],
        invalid("refused-though-free", (1,), "process 2 was refused the lock, which nobody can have held by then"),
    ),
    "of several the earliest": (
        [refused(1, 0, 1), acquire(0, 2, 3), acquire(1, 4, 5)],
        invalid(
            "held-twice", (1, 2), "process 1 acquired the lock while process 0 held it, which never released it"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    ops, decision = INVALID[name]
    assert decide(*ops) == decision
    assert fenced(*ops) == decision


TOKENS = {
    "not greater": (
        [acquire(0, 0, 1, 7), release(0, 2, 3), acquire(1, 4, 5, 7)],
        invalid(
            "token-not-greater", (0, 2), "process 1 acquired the lock with fencing token 7, after process 0 with 7"
        ),
    ),
    "not told where two hold it": (
        [acquire(0, 0, 1, 7), release(0, 2, 3), acquire(1, 4, 5, 7), acquire(2, 6, 7, 8)],
        invalid("held-twice", (2, 3), "process 2 acquired the lock while process 1 held it, which never released it"),
    ),
    "too few in between": (
        [
            acquire(0, 0, 1, 7), release(0, 2, 3), acquire(1, 4, 5), release(1, 6, 7), acquire(2, 8, 9),
            release(2, 10, 11), acquire(3, 12, 13, 9),
        ],
        invalid(
            "token-not-greater",
            (0, 6),
            "process 3 acquired the lock with fencing token 9, after process 0 with 7 and 2 more holds without a token",
        ),
    ),
    "enough in between": (
        [acquire(0, 0, 1, 7), release(0, 2, 3), acquire(1, 4, 5), release(1, 6, 7), acquire(3, 12, 13, 9)],
        Decision(True, "monitor", "5 operations have an order that a lock allows"),
    ),
    "the first may be any": (
        [acquire(0, 0, 1, -3), release(0, 2, 3), acquire(1, 4, 5, 0)],
        Decision(True, "monitor", "3 operations have an order that a lock allows"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOKENS)
def test_tokens(name: str) -> None:
    ops, decision = TOKENS[name]
    assert fenced(*ops) == decision


def test_each_object_is_judged_by_itself_and_the_first_that_fails_is_told() -> None:
    good, twice = VALID["one after the other"], INVALID["held by two"][0]
    free = INVALID["refused after it was released"][0]
    assert lock.decide(columns([good, good])).valid is True
    some = columns([good, free, twice])
    decision = lock.decide(some)
    assert decision.violation is not None
    assert decision.violation.rule == "refused-though-free"
    assert [int(some.key[row]) for row in decision.violation.rows] == [1, 1]


def test_what_one_object_is_held_for_does_not_count_for_another() -> None:
    some = columns([[acquire(0, 0, 1)], [refused(1, 2, 3)], [acquire(0, 4, 5), release(0, 6, 7)]], keys=[5, 6, 7])
    assert lock.decide(some) == invalid(
        "refused-though-free", (1,), "process 1 was refused the lock, which nobody can have held by then"
    )


def test_tokens_of_one_object_are_not_those_of_another() -> None:
    assert lock.decide_fenced(columns([[acquire(0, 0, 1, 7)], [acquire(0, 2, 3, 5)]])).valid is True


REFUSED = {
    "operation 1 is neither an acquire, a try nor a release": calls(
        [(F.ACQUIRE, None, None, 0, 1), (F.READ, None, 7, 2, 3)]
    ),
    "operation 0 releases what its process did not acquire": columns([[release(0, 0, 1)]]),
    "operation 1 releases what its process did not acquire": columns([[acquire(0, 0, 1), release(1, 2, 3)]]),
    "operation 2 releases what its process did not acquire": columns(
        [[acquire(0, 0, 1), release(0, 2, 3), release(0, 4, 5)]]
    ),
    "operation 1 begins while another of its process runs": columns([[acquire(0, 0, 5), release(0, 2, 3)]]),
    "operation 1 follows one of its process of unknown outcome": columns([[acquire(0, 0, None), acquire(0, 2, 3)]]),
    "operation 1 returns before it is called": columns([[acquire(0, 0, 1), acquire(1, 3, 2)]]),
    "operation 0 is in an ordered channel of operations that overlap": columns(
        [[acquire(0, 0, 3, channel=2), acquire(1, 1, 2, channel=2)]]
    ),
}


def test_refused() -> None:
    for why, some in REFUSED.items():
        judges = (lock.decide, lock.decide_fenced, lock.preconditions)
        assert [refusal(judge, some) for judge in judges] == [why] * 3


@pytest.mark.parametrize("count", [2**15, 2**16 + 3])
def test_long_histories(count: int) -> None:
    """A lock handed around, each hold with somebody refused; and one refused too late."""
    ops: list[Op] = []
    for n in range(count):
        at = 6 * n
        ops += [acquire(n % 7, at, at + 1, n), refused(8, at + 2, at + 3), release(n % 7, at + 4, at + 5)]
    some = columns([ops])
    assert lock.decide_fenced(some).valid is True
    decision = lock.decide(columns([[*ops, refused(9, 6 * count, 6 * count + 1)]]))
    assert decision.violation is not None
    assert decision.violation.rows == (3 * count - 1, 3 * count)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**63), st.sampled_from(["lock", "fenced-lock"]))
def test_as_brute_force_says(seed: int, name: str) -> None:
    agree(CASES[name], Random(seed), 300, Counter())


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["lock", "fenced-lock"]))
def test_as_brute_force_says_of_a_history_that_shrinks(rng: Random, name: str) -> None:
    agree(CASES[name], rng, 1, Counter())


def test_brute_force_met_every_rule() -> None:
    seen = Counter[str]()
    agree(CASES["fenced-lock"], Random(1), 2_000, seen)
    assert seen.keys() == {"valid", "refused", "held-twice", "refused-though-free", "token-not-greater"}


@pytest.mark.parametrize(("name", "model"), [("lock", "mutex"), ("fenced-lock", "fenced-lock")])
def test_as_porcupine_says(name: str, model: str) -> None:
    try:
        agree_with_search(CASES[name], model, Random(1), 300)
    except Unavailable as why:
        pytest.skip(str(why))


MUTANTS = [
    # what is refused
    Mutant("lock", "strange.any()", "False", test_refused),
    Mutant("lock", "overlap.any()", "False", test_refused),
    Mutant("lock", "stray.any()", "False", test_refused),
    Mutant("lock", "    take_turns(", "    (lambda *_: None)(", test_refused),
    Mutant("lock", "follows & np.append(False, acquires[:-1])", "np.append(False, acquires[:-1])", test_refused),
    Mutant("lock", "follows & np.append(False, acquires[:-1])", "follows", test_refused),
    # holds
    Mutant("lock", "mine = np.flatnonzero(acquires & known)", "mine = np.flatnonzero(acquires)", "lock"),
    Mutant("lock", "order = np.argsort(row.ret[acquire])", "order = np.argsort(row.call[acquire])", "lock"),
    Mutant("lock", "c = np.where(release < 0, end,", "c = np.where(release < 0, b,", "lock"),
    Mutant("lock", "end, row.call[release])", "end, row.ret[release])", "lock"),
    Mutant("lock", "end, np.minimum(row.ret[release], end))", "end, row.call[release])", "lock"),
    Mutant("lock", "rows[acquires & ~known]", "rows[acquires & known]", "lock"),
    # held by two
    Mutant("lock", "c[:-1] > b[1:]", "c[:-1] < b[1:]", "lock"),
    Mutant("lock", "c[:-1] > b[1:]", "c[:-1] > holds.a[1:]", "lock"),
    Mutant("lock", "c[:-1] > b[1:]", "holds.d[:-1] > b[1:]", "lock"),
    Mutant("lock", "row.ret < limit", "row.ret < holds.line.size", lambda: test_invalid("of several the earliest")),
    # refused
    Mutant("lock", "np.maximum(a[1:], c[:-1])", "a[1:]", lambda: test_invalid("refused before, by one that waited")),
    Mutant("lock", "np.maximum(a[1:], c[:-1])", "np.maximum(a[1:], d[:-1])", "lock"),
    Mutant("lock", "np.maximum(a[1:], c[:-1])", "c[:-1]", "lock"),
    Mutant("lock", "np.maximum(a[1:], c[:-1])", "b[1:]", "lock"),
    Mutant("lock", "np.searchsorted(begin, e) - 1", "np.searchsorted(begin, s) - 1", "lock"),
    Mutant("lock", "d[at] > s", "d[at] > e", "lock"),
    Mutant("lock", "d[at] > s", "c[at] > s", "lock"),
    Mutant("lock", "(at >= 0) & ", "", "lock"),
    # by one that nobody knows about
    Mutant("lock", "if len(holds.ghost):", "if False:", "lock"),
    Mutant("lock", "np.searchsorted(ghost, row.start(s))", "np.searchsorted(ghost, 0 * s)", "lock"),
    Mutant("lock", "np.maximum(first, last) < e", "first < e", "lock"),
    Mutant("lock", "np.maximum(first, last) < e", "last < e", "lock"),
    Mutant("lock", "np.maximum(first, last) < e", "np.maximum(first, last) < s", "lock"),
    # tokens
    Mutant("lock", "calls.out[holds.acquire[told]] - told", "calls.out[holds.acquire[told]]", "fenced-lock"),
    Mutant("lock", "token[1:] < token[:-1]", "token[1:] <= token[:-1]", "fenced-lock"),
    Mutant("lock", " & (start[1:] == start[:-1])", "", "fenced-lock"),
    Mutant("lock", "!= NONE) & (b < limit)", "!= NONE)", lambda: test_tokens("not told where two hold it")),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert_noticed(mutant)
