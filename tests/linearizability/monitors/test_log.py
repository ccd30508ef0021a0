"""The monitor of logs: literal histories, brute force, Porcupine, and rules broken on purpose."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.linearizability.calls import F, calls
from checkers.linearizability.monitors import log
from checkers.linearizability.porcupine import Unavailable
from checkers.linearizability.verdict import Decision
from tests.linearizability.monitors.agree import CASES, agree, agree_with_search
from tests.linearizability.monitors.literal import invalid
from tests.linearizability.monitors.mutations import Mutant, assert_noticed
from tests.linearizability.monitors.objects import refusal
from tests.linearizability.monitors.small import columns
from tests.linearizability.monitors.wing_gong import Op


def append(value: int, offset: int | None, call: int, ret: int | None, process: int = 1, *, channel: int = -1) -> Op:
    return Op(F.APPEND, value, offset, call, ret, channel, process)


def fetch(offset: int, value: int | None, call: int, ret: int | None, process: int = 2, *, channel: int = -1) -> Op:
    return Op(F.FETCH, offset, value, call, ret, channel, process)


def decide(*ops: Op) -> Decision:
    return log.decide(columns([list(ops)]))


VALID = {
    "nothing": [],
    "one after the other": [append(7, 0, 0, 1), append(8, 1, 2, 3), fetch(0, 7, 4, 5), fetch(1, 8, 6, 7)],
    "nothing there yet": [fetch(0, None, 0, 1), append(7, 0, 2, 3), fetch(1, None, 4, 5)],
    "nothing at offsets that cannot be": [fetch(-1, None, 0, 1), fetch(10**12, None, 2, 3)],
    "appends that overlap: in either order": [append(7, 1, 0, 3), append(8, 0, 1, 2)],
    "a fetch while it is appended": [append(7, 0, 0, 5), fetch(0, None, 1, 2), fetch(0, 7, 3, 4)],
    "a fetch that began before": [fetch(0, 7, 0, 3), append(7, 0, 1, 2)],
    "an append that nobody knows about, seen": [append(7, None, 0, None), append(8, 1, 1, 2), fetch(0, 7, 3, 4)],
    "never seen: it fills a hole": [append(7, None, 0, None), append(8, 1, 1, 2)],
    "never seen: it did not happen": [append(7, None, 0, None), append(8, 0, 1, 2)],
    "a hole filled just in time": [append(8, 1, 0, 3), append(7, None, 1, None), fetch(1, 8, 2, 4)],
    "two holes, two that may fill them": [
        append(7, None, 0, None), append(8, 1, 1, 2), append(9, None, 3, None), append(10, 3, 4, 5),
    ],
    "a fetch that nobody knows about": [append(7, 0, 0, 1), fetch(0, None, 2, None)],
    "a channel whose appends overlap": [append(7, 0, 0, 3, channel=1), append(8, 1, 1, 2, channel=1)],
    "channels that take turns, at the same time": [
        append(7, 0, 0, 3, channel=1), fetch(0, 7, 2, 5, channel=2), fetch(0, 7, 6, 8, channel=2),
        append(8, 1, 4, 7, channel=1),
    ],
    "one of nobody knows what in such a channel": [
        append(7, 0, 0, 3, channel=1), append(9, None, 1, None, channel=1), append(8, 1, 2, 4, channel=1),
    ],
    "one that ends as another begins overlaps it": [append(7, 1, 0, 1), append(8, 0, 1, 2)],
}  # fmt: skip


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    ops = VALID[name]
    assert decide(*ops) == Decision(True, "monitor", f"{len(ops)} operations have an order that a log allows")


INVALID = {
    "nobody appended it": (
        [fetch(0, 7, 0, 1)],
        invalid("phantom", (0,), "process 2 fetched 7 at offset 0, which nobody ever appended"),
    ),
    "before it was appended": (
        [fetch(0, 7, 0, 1), append(7, 0, 2, 3)],
        invalid("fetched-before-appended", (0, 1), "process 2 fetched 7 before process 1 appended it"),
    ),
    "at another offset": (
        [append(7, 0, 0, 1), append(8, 1, 2, 3), fetch(1, 7, 4, 5)],
        invalid("another-value", (0, 2), "process 2 fetched 7 at offset 1, but it was appended at offset 0"),
    ),
    "at two offsets": (
        [append(7, None, 0, None), append(8, None, 1, None), fetch(0, 7, 2, 3), fetch(1, 7, 4, 5, 3)],
        invalid("another-value", (2, 3), "process 2 fetched 7 at offset 0, and process 3 at offset 1"),
    ),
    "below": (
        [append(7, -2, 0, 1)],
        invalid("another-value", (0,), "value 7 was appended at offset -2, below 0"),
    ),
    "fetched below": (
        [append(7, None, 0, None), fetch(-1, 7, 1, 2)],
        invalid("another-value", (0, 1), "process 2 fetched 7 at offset -1, below 0"),
    ),
    "two at one": (
        [append(7, 0, 0, 1), append(8, 0, 2, 3)],
        invalid("offset-shared", (0, 1), "values 7 and 8 are both at offset 0"),
    ),
    "two at one, of which one was fetched": (
        [append(7, None, 0, None), append(8, 0, 1, 2), fetch(0, 7, 3, 4)],
        invalid("offset-shared", (1, 2), "values 7 and 8 are both at offset 0"),
    ),
    "beyond all that were appended": (
        [append(7, 0, 0, 1), append(8, 2, 2, 3)],
        invalid("hole", (1,), "value 8 is at offset 2, and not that many values were appended"),
    ),
    "a hole": (
        [append(8, 1, 0, 1), append(7, None, 2, None)],
        invalid("hole", (0,), "value 8 is at offset 1, while nothing can have been appended at offset 0 by then"),
    ),
    "two holes, and one that may fill one": (
        [append(7, None, 0, None), append(8, 2, 1, 2), append(9, 3, 3, 4), append(6, None, 5, None)],
        invalid("hole", (1,), "value 8 is at offset 2, while nothing can have been appended at offset 1 by then"),
    ),
    "out of order": (
        [append(7, 1, 0, 1), append(8, 0, 2, 3, 4)],
        invalid(
            "offsets-out-of-order",
            (0, 1),
            "value 7 was appended at offset 1, by process 1, before the append of 8 was called, by process 4, at "
            "offset 0",
        ),
    ),
    "out of order, as was fetched": (
        [append(7, 1, 0, 9), fetch(1, 7, 1, 2), append(8, None, 3, None, 4), fetch(0, 8, 4, 5)],
        invalid(
            "offsets-out-of-order",
            (1, 2, 3),
            "value 7 was fetched at offset 1, by process 2, before the append of 8 was called, by process 4, at "
            "offset 0",
        ),
    ),
    "nothing there, though it was": (
        [append(7, 0, 0, 1), fetch(0, None, 2, 3)],
        invalid(
            "nothing-though-appended",
            (0, 1),
            "value 7 was appended at offset 0, by process 1, before process 2 found nothing yet at offset 0",
        ),
    ),
    "nothing there, though there was something further on": (
        [append(6, 0, 0, 9), append(7, 1, 1, 2), fetch(0, None, 3, 4, 5)],
        invalid(
            "nothing-though-appended",
            (1, 2),
            "value 7 was appended at offset 1, by process 1, before process 5 found nothing yet at offset 0",
        ),
    ),
    "against the order of a channel": (
        [append(7, 1, 0, 3, 4, channel=1), append(8, 0, 1, 2, 4, channel=1)],
        invalid(
            "offsets-out-of-order",
            (0, 1),
            "process 4 sent 7 before 8 in one channel, but 7 is at offset 1, and 8 at 0",
        ),
    ),
    "against the order of a channel, as was fetched": (
        [append(7, None, 0, None, 4, channel=1), append(8, 0, 1, 2, 4, channel=1), fetch(1, 7, 3, 4)],
        invalid(
            "offsets-out-of-order",
            (0, 1, 2),
            "process 4 sent 7 before 8 in one channel, but 7 is at offset 1, and 8 at 0",
        ),
    ),
    "where two are at one offset, no more is told": (
        [append(7, 1, 0, 1), append(8, 0, 2, 3), append(9, 0, 4, 5)],
        invalid("offset-shared", (1, 2), "values 8 and 9 are both at offset 0"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    ops, decision = INVALID[name]
    assert decide(*ops) == decision


def test_each_object_is_judged_by_itself_and_the_first_that_fails_is_told() -> None:
    good, turned, hole = VALID["one after the other"], INVALID["out of order"][0], INVALID["a hole"][0]
    assert log.decide(columns([good, good])).valid is True
    some = columns([good, turned, hole])
    decision = log.decide(some)
    assert decision.violation is not None
    assert decision.violation.rule == "offsets-out-of-order"
    assert [int(some.key[row]) for row in decision.violation.rows] == [1, 1]


def test_holes_of_one_object_are_not_filled_by_another() -> None:
    some = columns([[append(7, None, 0, None)], [append(8, 1, 1, 2), append(9, None, 3, None)]], keys=[10**12, 5])
    assert log.decide(some) == invalid(
        "hole", (1,), "value 8 is at offset 1, while nothing can have been appended at offset 0 by then"
    )


REFUSED = {
    "operation 1 is neither an append nor a fetch": calls([(F.APPEND, 7, 0, 0, 1), (F.READ, None, 7, 2, 3)]),
    "operation 0 appends no value": calls([(F.APPEND, None, 0, 0, 1)]),
    "operation 0 is an append whose offset was not told": calls([(F.APPEND, 7, None, 0, 1)]),
    "operation 1 appends 7, which was appended before": calls([(F.APPEND, 7, 0, 0, 1), (F.APPEND, 7, 1, 2, 3)]),
    "operation 1 returns before it is called": calls([(F.APPEND, 7, 0, 0, 1), (F.APPEND, 8, 1, 3, 2)]),
    "operation 1 is a fetch in an ordered channel of operations that overlap": columns(
        [[append(7, 0, 0, 3, channel=1), fetch(0, 7, 1, 2, channel=1)]]
    ),
    "operation 1 may fill a hole, in an ordered channel with overlaps": columns(
        [[append(7, 1, 0, 3, channel=1), append(8, None, 1, None, channel=1)]]
    ),
}


def test_refused() -> None:
    for why, some in REFUSED.items():
        assert refusal(log.decide, some) == why
        assert refusal(log.preconditions, some) == (None if "hole" in why else why)


@pytest.mark.parametrize("count", [2**15, 2**16 + 3])
def test_long_histories(count: int) -> None:
    """Appends, each fetched; and one fetch that finds nothing where there is something."""
    ops: list[Op] = []
    for n in range(count):
        ops += [append(9 * n, n, 4 * n, 4 * n + 1), fetch(n, 9 * n, 4 * n + 2, 4 * n + 3)]
    some = columns([ops])
    assert log.decide(some).valid is True
    some.out[2 * count - 5] = columns([[fetch(0, None, 0, 1)]]).out[0]
    decision = log.decide(some)
    assert decision.violation is not None
    assert decision.violation.rows == (2 * count - 6, 2 * count - 5)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**63), st.sampled_from(["log", "log-channels"]))
def test_as_brute_force_says(seed: int, name: str) -> None:
    agree(CASES[name], Random(seed), 300, Counter())


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["log", "log-channels"]))
def test_as_brute_force_says_of_a_history_that_shrinks(rng: Random, name: str) -> None:
    agree(CASES[name], rng, 1, Counter())


def test_brute_force_met_every_rule() -> None:
    seen = Counter[str]()
    agree(CASES["log"], Random(1), 2_000, seen)
    assert seen.keys() == {
        "valid", "phantom", "fetched-before-appended", "another-value", "offset-shared", "hole",
        "offsets-out-of-order", "nothing-though-appended",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["log", "log-channels"])
def test_as_porcupine_says(name: str) -> None:
    try:
        agree_with_search(CASES[name], "log", Random(1), 300)
    except Unavailable as why:
        pytest.skip(str(why))


MUTANTS = [
    # what is refused
    Mutant("log", "strange.any()", "False", test_refused),
    Mutant("log", "blank.any()", "False", test_refused),
    Mutant("log", "untold.any()", "False", test_refused),
    Mutant("log", "twice >= 0", "False", test_refused),
    Mutant("log", "if len(mixed):", "if False:", test_refused),
    Mutant("log", "if len(loose) and not bad.any() and found.at is None:", "if False:", "log-channels"),
    # one value
    Mutant("log", "negative = known & (offset < 0)", "negative = known & (offset < -9)", "log"),
    Mutant("log", "fetch = fetch[row.ret[fetch] < row.size]", "fetch = fetch[row.ret[fetch] <= row.size]", "log"),
    Mutant("log", "    if unknown.any():\n        stray, fetch", "    if False:\n        stray, fetch", "log"),
    Mutant("log", "early = row.ret[fetch] <", "early = 0 * of >", lambda: test_invalid("before it was appended")),
    Mutant("log", "early = row.ret[fetch] < row", "early = row.call[fetch] < row", "log"),
    Mutant("log", "    offset[of[guessed]] = calls.arg[fetch[guessed]]\n", "", "log"),
    Mutant("log", "(offset[of] != calls.arg[fetch]) | (offset[of] < 0)", "offset[of] < 0", "log"),
    Mutant("log", "(offset[of] != calls.arg[fetch]) | (offset[of] < 0)", "offset[of] != calls.arg[fetch]", "log"),
    # one offset
    Mutant("log", "far = log.offset >= room[of_append]", "far = log.offset > room[of_append]", "log"),
    Mutant("log", "shared = at[slot] != placed", "shared = at[slot] < 0", "log"),
    Mutant("log", "np.minimum.at(b, log.of", "np.maximum.at(b, log.of", "log"),
    Mutant("log", "    np.minimum.at(b, log.of, row.ret[log.fetch])\n", "", "log"),
    # their order
    Mutant("log", "low[slot], high[slot] = a[placed], b[placed]", "low[slot], high[slot] = -1, b[placed]", "log"),
    Mutant("log", "low[slot], high[slot] = a[placed], b[placed]", "low[slot], high[slot] = a[placed], size", "log"),
    Mutant("log", "row.call[log.nothing[inside]])", "row.ret[log.nothing[inside]])", "log"),
    Mutant("log", "np.maximum.at(low,", "np.minimum.at(low,", "log"),
    Mutant("log", "inside = (offset >= 0) & ", "inside = (offset > 0) & ", "log"),
    Mutant("log", "inside = (offset >= 0) & ", "inside = ", "log"),
    Mutant("log", "    np.maximum.accumulate(low, out=low)\n", "", "log"),
    Mutant("log", "high[::-1] = np.minimum.accumulate(high[::-1])", "np.minimum.accumulate(high)", "log"),
    Mutant("log", "late = (low[slot] > b[placed])", "late = (low[slot] > a[placed])", "log"),
    Mutant("log", "late = (low[slot] > b[placed])", "late = (a[placed] > b[placed])", "log"),
    Mutant("log", " & (b[placed] < limit)", "", lambda: test_invalid("where two are at one offset, no more is told")),
    # channels
    Mutant("log", "np.diff(log.offset[sent]) < 0", "np.diff(log.offset[sent]) > 0", "log-channels"),
    Mutant("log", "& (lane[1:] == lane[:-1]))[: len", ")[: len", "log-channels"),
    Mutant("log", "told = log.offset[log.pipelined] >= 0", "told = log.pipelined >= 0", "log-channels"),
    Mutant("lanes", "~other[1:] & (line", "(line", lambda: test_valid("channels that take turns, at the same time")),
    Mutant("lanes", "other[1:] |= ", "other[1:] &= ", "log-channels"),
    # holes
    Mutant("log", "(at < 0) & (high < np.minimum(end, limit))", "high < np.minimum(end, limit)", "log"),
    Mutant("log", "(at < 0) & (high < np.minimum(end, limit))", "(at < 0) & (high < limit)", "log"),
    Mutant("log", "(row.ret[log.append] == size) & (log.offset < 0)", "row.ret[log.append] == size", "log"),
    Mutant("log", "bad = missed(row, fillers, deadline)", "bad = missed(row, fillers, deadline + 99)", "log"),
    Mutant("log", "bad = missed(row, fillers, deadline)", "bad = deadline < 0", "log"),
    Mutant("log", "bad = missed(row, fillers, deadline)", "bad = missed(row, fillers[:1].repeat(99), deadline)", "log"),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert_noticed(mutant)
