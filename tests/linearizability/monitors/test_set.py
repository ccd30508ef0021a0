"""The monitor of sets: literal histories, brute force, Porcupine, and rules broken on purpose."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.linearizability.calls import F, calls
from checkers.linearizability.monitors import set as set_
from checkers.linearizability.porcupine import Unavailable
from checkers.linearizability.verdict import Decision
from tests.linearizability.monitors.agree import CASES, agree, agree_with_search
from tests.linearizability.monitors.literal import invalid
from tests.linearizability.monitors.mutations import Mutant, assert_noticed
from tests.linearizability.monitors.objects import refusal
from tests.linearizability.monitors.small import columns
from tests.linearizability.monitors.wing_gong import Op


def add(element: int | None, call: int, ret: int | None, process: int = 1, *, channel: int = -1) -> Op:
    return Op(F.ADD, element, None, call, ret, channel, process)


def remove(element: int, call: int, ret: int | None, process: int = 2, *, channel: int = -1) -> Op:
    return Op(F.REMOVE, element, None, call, ret, channel, process)


def present(element: int, call: int, ret: int, process: int = 3) -> Op:
    return Op(F.CONTAINS, element, 1, call, ret, -1, process)


def absent(element: int, call: int, ret: int, process: int = 4, *, channel: int = -1) -> Op:
    return Op(F.CONTAINS, element, 0, call, ret, channel, process)


def unknown(element: int, call: int) -> Op:
    return Op(F.CONTAINS, element, None, call, None, -1, 5)


def decide(*ops: Op) -> Decision:
    return set_.decide(columns([list(ops)]))


VALID = {
    "nothing": [],
    "never added": [absent(7, 0, 1), remove(7, 2, 3), absent(7, 4, 5)],
    "added and removed": [
        absent(7, 0, 1), add(7, 2, 3), present(7, 4, 5), remove(7, 6, 7), absent(7, 8, 9),
    ],
    "removed, then added": [remove(7, 0, 1), add(7, 2, 3), present(7, 4, 5)],
    "removed while it is added: gone": [add(7, 0, 3), remove(7, 1, 2), absent(7, 4, 5)],
    "removed while it is added: there": [add(7, 0, 3), remove(7, 1, 2), present(7, 4, 5)],
    "there for a moment": [add(7, 0, 9), remove(7, 1, 8), absent(7, 2, 3), present(7, 4, 5), absent(7, 6, 7)],
    "absent while it is added": [add(7, 0, 3), absent(7, 1, 2)],
    "present while it is removed": [add(7, 0, 1), remove(7, 2, 5), present(7, 3, 4)],
    "a contains that began before": [present(7, 0, 3), add(7, 1, 2)],
    "an add that nobody knows about did not happen": [add(7, 0, None), absent(7, 1, 2)],
    "or did": [add(7, 0, None), present(7, 1, 2)],
    "a remove that nobody knows about did not happen": [add(7, 0, 1), remove(7, 2, None), present(7, 3, 4)],
    "or did later": [add(7, 0, 1), remove(7, 2, None), present(7, 3, 4), absent(7, 5, 6)],
    "a contains that nobody knows about": [unknown(7, 0), unknown(8, 1)],
    "two elements": [add(7, 0, 1), add(8, 2, 3), remove(7, 4, 5), present(8, 6, 7), absent(7, 8, 9)],
    "one that ends as another begins overlaps it": [add(7, 0, 1), absent(7, 1, 2)],
}  # fmt: skip


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    ops = VALID[name]
    assert decide(*ops) == Decision(True, "monitor", f"{len(ops)} operations have an order that a set allows")


INVALID = {
    "nobody added it": (
        [present(7, 0, 1)],
        invalid("phantom", (0,), "process 3 found 7 present, which nobody ever added"),
    ),
    "before it was added": (
        [present(7, 0, 1), add(7, 2, 3)],
        invalid("present-before-added", (0, 1), "process 3 found 7 present before process 1 added it"),
    ),
    "absent though added": (
        [add(7, 0, 1), absent(7, 2, 3)],
        invalid(
            "absent-though-present",
            (0, 1),
            "7 was added by process 1, then absent for process 4, and nobody ever removed it",
        ),
    ),
    "absent though found": (
        [add(7, 0, None), present(7, 1, 2), absent(7, 3, 4)],
        invalid(
            "absent-though-present",
            (1, 2),
            "7 was found present by process 3, then absent for process 4, and nobody ever removed it",
        ),
    ),
    "absent before it is removed": (
        [add(7, 0, 1), absent(7, 2, 3), remove(7, 4, 5)],
        invalid(
            "absent-though-present",
            (0, 1, 2),
            "7 was added by process 1, then absent for process 4, before process 2 began to remove it",
        ),
    ),
    "absent in between": (
        [add(7, 0, 1), remove(7, 2, 9), absent(7, 3, 4), present(7, 5, 6)],
        invalid(
            "absent-though-present",
            (0, 2, 3),
            "7 was added by process 1, then absent for process 4, then found present by process 3, though added only "
            "once",
        ),
    ),
    "present though removed": (
        [add(7, 0, 1), remove(7, 2, 3), present(7, 4, 5)],
        invalid(
            "present-though-removed",
            (0, 1, 2),
            "7 was added by process 1, and removed by process 2, after which process 3 still found it present",
        ),
    ),
    "removed too early to be gone": (
        [remove(7, 0, 1), add(7, 2, 3), absent(7, 4, 5)],
        invalid(
            "present-though-removed",
            (0, 1, 2),
            "7 was added by process 1, and removed by process 2 before it was added, while it was absent for process 4",
        ),
    ),
    "there, gone, and there, though it was added only once": (
        [add(7, 0, 5), remove(7, 1, 4), absent(7, 6, 7), present(7, 8, 9)],
        invalid(
            "absent-though-present",
            (0, 2, 3),
            "7 was added by process 1, then absent for process 4, then found present by process 3, though added only "
            "once",
        ),
    ),
    "found after it was removed, and gone too early for having been removed first": (
        [add(7, 0, 3), remove(7, 1, 5), present(7, 6, 9), absent(7, 7, 8)],
        invalid(
            "present-though-removed",
            (0, 1, 2, 3),
            "7 was added by process 1, and removed by process 2, after which process 3 still found it present, while "
            "it was absent for process 4",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    ops, decision = INVALID[name]
    assert decide(*ops) == decision


def test_of_several_elements_the_one_that_fails_first_is_told() -> None:
    some = [add(8, 0, 1), add(7, 2, 3), absent(7, 4, 5), absent(8, 6, 7)]
    assert decide(*some).reason.startswith("8 was added by process 1, then absent")


def test_each_object_is_judged_by_itself_and_the_first_that_fails_is_told() -> None:
    good, lost, risen = VALID["two elements"], INVALID["absent in between"][0], INVALID["nobody added it"][0]
    assert set_.decide(columns([good, good])).valid is True
    some = columns([good, lost, risen])
    decision = set_.decide(some)
    assert decision.violation is not None
    assert decision.violation.rule == "absent-though-present"
    assert [int(some.key[row]) for row in decision.violation.rows] == [1, 1, 1]


def test_the_same_element_of_two_objects_is_not_the_same() -> None:
    far = [add(10**15, 0, 1), present(10**15, 2, 3)]
    some = columns([[add(7, 0, 1)], [absent(7, 2, 3)], far], keys=[10**12, -3, 0])
    assert set_.decide(some).valid is True


REFUSED = {
    "operation 1 is neither an add, a remove nor a contains": calls([(F.ADD, 7, None, 0, 1), (F.READ, None, 7, 2, 3)]),
    "operation 0 names no element": columns([[add(None, 0, 1)]]),
    "operation 1 adds 7 for the second time": columns([[add(7, 0, 1), add(7, 2, 3)]]),
    "operation 1 removes 7 for the second time": columns([[remove(7, 0, 1), remove(7, 2, 3)]]),
    "operation 1 answers neither present (1) nor absent (0)": calls([(F.ADD, 7, None, 0, 1), (F.CONTAINS, 7, 2, 2, 3)]),
    "operation 0 answers neither present (1) nor absent (0)": calls([(F.CONTAINS, 7, None, 2, 3)]),
    "operation 1 returns before it is called": columns([[add(7, 0, 1), remove(7, 3, 2)]]),
    "operation 0 is in an ordered channel of operations that overlap": columns(
        [[add(7, 0, 3, channel=2), absent(7, 1, 2, channel=2)]]
    ),
}


def test_refused() -> None:
    for why, some in REFUSED.items():
        assert [refusal(judge, some) for judge in (set_.decide, set_.preconditions)] == [why, why]


@pytest.mark.parametrize("count", [2**15, 2**16 + 3])
def test_long_histories(count: int) -> None:
    """Elements that come and go; and one that is gone too early."""
    ops: list[Op] = []
    for n in range(count):
        at = 6 * n
        ops += [add(n, at, at + 1), present(n, at + 2, at + 3), remove(n, at + 4, at + 5)]
    some = columns([ops])
    assert set_.decide(some).valid is True
    some.out[3 * (count - 5) + 1] = 0
    decision = set_.decide(some)
    assert decision.violation is not None
    assert decision.violation.rows == tuple(3 * (count - 5) + place for place in range(3))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**63))
def test_as_brute_force_says(seed: int) -> None:
    agree(CASES["set"], Random(seed), 300, Counter())


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_as_brute_force_says_of_a_history_that_shrinks(rng: Random) -> None:
    agree(CASES["set"], rng, 1, Counter())


def test_brute_force_met_every_rule() -> None:
    seen = Counter[str]()
    agree(CASES["set"], Random(1), 2_000, seen)
    assert seen.keys() == {
        "valid", "phantom", "present-before-added", "absent-though-present", "present-though-removed",
    }  # fmt: skip


def test_as_porcupine_says() -> None:
    try:
        agree_with_search(CASES["set"], "set", Random(1), 300)
    except Unavailable as why:
        pytest.skip(str(why))


MUTANTS = [
    # what is refused
    Mutant("set", "strange.any()", "False", test_refused),
    Mutant("set", "nothing.any()", "False", test_refused),
    Mutant("set", "answer.any()", "False", test_refused),
    Mutant("set", "again.any()", "False", test_refused),
    Mutant("set", "    take_turns(", "    (lambda *_: None)(", test_refused),
    # what was seen
    Mutant("set", "asked & (calls.out == 1)", "asked & (calls.out == 0)", "set"),
    Mutant("set", "early = row.ret[present] < a[of]", "early = row.ret[present] < b[of]", "set"),
    Mutant("set", "early = row.ret[present] < a[of]", "early = row.call[present] < a[of]", "set"),
    Mutant("set", "early = row.ret[present] < a[of]", "early = row.ret[present] < 0", "set"),
    Mutant("set", "    np.minimum.at(x, of, row.ret[present])\n", "", "set"),
    Mutant("set", "np.minimum.at(x, of, row.ret[present])", "np.minimum.at(x, of, row.call[present])", "set"),
    Mutant("set", "    np.maximum.at(seen, of, row.call[present])\n", "", "set"),
    Mutant("set", "np.maximum.at(seen, of, row.call[present])", "np.maximum.at(seen, of, row.ret[present])", "set"),
    Mutant("set", "    y = np.maximum(y, seen)\n", "", "set"),
    # two orders
    Mutant("set", "after = s > x[of]", "after = s > a[of]", "set"),
    Mutant("set", "after = s > x[of]", "after = e > x[of]", "set"),
    Mutant("set", "(a > d) | (seen > d)", "seen > d", "set"),
    Mutant("set", "(a > d) | (seen > d)", "a > d", "set"),
    Mutant("set", "(a > d) | (seen > d)", "(a > c) | (seen > d)", "set"),
    Mutant("set", "(a > d) | (seen > d)", "(a > d) | (seen > c)", "set"),
    Mutant("set", "c >= x\n", "d >= x\n", "set"),
    Mutant("set", "c >= x\n", "c >= a\n", "set"),
    Mutant("set", "added_first[of[after & (e < y[of])]] = True", "added_first[of[after]] = True", "set"),
    Mutant("set", "after & (e < y[of])", "after & (s < y[of])", "set"),
    Mutant("set", "after & (e < y[of])", "after & (e < d[of])", "set"),
    Mutant("set", "    removed_first[of[after]] = True\n", "", "set"),
    Mutant("set", "added_first & removed_first", "added_first", "set"),
    Mutant("set", "added_first & removed_first", "removed_first", "set"),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert_noticed(mutant)
