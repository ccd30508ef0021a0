"""Queues and bags with ordered channels whose operations overlap: literal histories, brute force, Porcupine, and rules
broken on purpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.linearizability.monitors import bag, fifo
from checkers.linearizability.porcupine import Unavailable
from checkers.linearizability.verdict import Decision, Refused
from tests.linearizability.monitors.agree import CASES, agree, agree_with_search
from tests.linearizability.monitors.literal import invalid, put, take
from tests.linearizability.monitors.mutations import Mutant, assert_noticed
from tests.linearizability.monitors.small import columns

PIPELINED = [put(1, 0, 3, channel=7), put(2, 1, 2, channel=7)]
SWAPPED = [*PIPELINED, take(2, 4, 5), take(1, 6, 7)]

VALID = {
    "taken in the order of the channel": [*PIPELINED, take(1, 4, 5), take(2, 6, 7)],
    "two channels: in either order": [put(1, 0, 3, channel=7), put(2, 1, 2, channel=8), take(2, 4, 5), take(1, 6, 7)],
    "taken in the order of their channel": [
        put(1, 0, 3), put(2, 1, 2), take(2, 4, 7, channel=8), take(1, 5, 6, channel=8),
    ],
    "an unknown take took the one before": [*PIPELINED, take(None, 3, None), take(2, 4, 5)],
    "a put nobody knows about, never seen, holds nobody up": [
        put(1, 0, None, channel=7), put(2, 1, 2, channel=7), take(2, 3, 4),
    ],
    "both, one at a time, in a channel": [
        put(1, 0, 1, channel=7), take(1, 2, 3, channel=7), take(None, 4, None, channel=7),
    ],
    "unknown takes for what was overtaken, and for an empty answer": [
        put(1, 0, 5), put(2, 1, 20, channel=7), put(3, 2, 21, channel=7), take(None, 3, None), take(None, 4, None),
        take(None, 6, 7), take(3, 22, 23),
    ],
    "empty answers share a moment, so that an unknown take is left for what was overtaken before": [
        put(1, 0, 5), put(2, 1, 20, channel=7), put(3, 2, 21, channel=7), take(None, 4, None),
        take(None, 6, 30), take(3, 22, 23), take(None, 24, None), take(None, 25, 26),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    some = columns([VALID[name]])
    assert fifo.decide(some) == Decision(True, "monitor", f"{len(some)} operations have a FIFO order")
    assert bag.decide(some) == Decision(True, "monitor", f"{len(some)} operations have an order that a bag allows")


LOST = invalid(
    "overtaken", (0, 1, 2), "message 1 was published before 2, in channel 7; yet 2 was consumed, and 1 never was"
)
NOT_FIFO = {
    "swapped": (
        SWAPPED,
        invalid(
            "cycle",
            (0, 1, 2, 3),
            "message 2 was consumed before 1 was asked for; message 1 was published before 2, in channel 7: "
            "so no order is first in, first out",
        ),
    ),
    "swapped within two channels": (
        [*PIPELINED, take(2, 4, 7, channel=8), take(1, 5, 6, channel=8)],
        invalid(
            "cycle",
            (0, 1, 2, 3),
            "message 1 was published before 2, in channel 7; message 2 was consumed before 1, in channel 8: "
            "so no order is first in, first out",
        ),
    ),
    "swapped all around": (
        [
            put(1, 0, 10, channel=7), put(2, 1, 11, channel=7), put(3, 2, 12, channel=9), put(4, 3, 13, channel=9),
            take(2, 20, 30, channel=5), take(3, 21, 31, channel=5),
            take(4, 22, 32, channel=6), take(1, 23, 33, channel=6),
        ],
        invalid(
            "cycle",
            (0, 1, 2, 3, 4, 5, 6, 7),
            "message 1 was published before 2, in channel 7; message 2 was consumed before 3, in channel 5; "
            "message 3 was published before 4, in channel 9; message 4 was consumed before 1, in channel 6: "
            "so no order is first in, first out",
        ),
    ),
    "out of order by time, beside a channel": (
        [put(1, 0, 1), put(2, 2, 5, channel=7), put(3, 3, 4, channel=7), take(3, 6, 7), take(1, 8, 9), take(2, 10, 11)],
        invalid(
            "cycle",
            (0, 2, 3, 4),
            "message 1 was confirmed before 3 was published; message 3 was consumed before 1 was asked for: "
            "so no order is first in, first out",
        ),
    ),
    "swapped by a channel of takes, and by time": (
        [
            put(1, 0, 20), put(2, 2, 3), put(3, 4, 5), take(3, 21, 30, channel=8), take(1, 22, 23, channel=8),
            take(2, 24, 25),
        ],
        invalid(
            "cycle",
            (1, 2, 3, 4, 5),
            "message 2 was confirmed before 3 was published; message 3 was consumed before 1, in channel 8; "
            "message 1 was consumed before 2 was asked for: so no order is first in, first out",
        ),
    ),
    "overtaken in its channel": (
        [*PIPELINED, take(2, 4, 5)],
        LOST,
    ),
    "overtaken, and an unknown take came too late": (
        [*PIPELINED, take(2, 4, 5), take(None, 6, None)],
        LOST,
    ),
    "two overtaken, with one unknown take": (
        [put(1, 0, 4, channel=7), put(2, 1, 3, channel=7), put(3, 2, 5, channel=7), take(None, 6, None), take(3, 7, 8)],
        invalid(
            "overtaken",
            (1, 2, 4),
            "message 2 was published before 3, in channel 7; yet 3 was consumed, and 2 never was; "
            "1 consume of unknown outcome cannot account for all such messages",
        ),
    ),
    "one unknown take for what was overtaken, none for an empty answer": (
        [
            put(1, 0, 5), put(2, 1, 20, channel=7), put(3, 2, 21, channel=7), take(None, 3, None),
            take(None, 6, 7, process=4), take(3, 22, 23),
        ],
        invalid(
            "empty-though-not",
            (0, 4),
            "process 4 was told that the queue is empty, while it held message 1; "
            "1 consume of unknown outcome cannot account for all such messages",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_FIFO)
def test_not_fifo_but_a_bag(name: str) -> None:
    ops, decision = NOT_FIFO[name]
    assert fifo.decide(columns([ops])) == decision
    assert bag.decide(columns([ops])).valid


EARLY = [
    take(1, 0, 10, channel=8), take(2, 1, 3, channel=8, process=4), put(2, 2, 9), put(1, 5, 6),
]  # fmt: skip
HELD_BACK = [
    put(1, 0, 10, channel=7), put(2, 1, 2, channel=7), take(2, 3, 14), take(None, 4, 5, process=4), take(1, 11, 12),
]  # fmt: skip
EMPTY = invalid("empty-though-not", (1, 3), "process 4 was told that the queue is empty, while it held message 2")


def test_consumed_after_one_that_was_published_only_later() -> None:
    sentence = "message 1 was consumed before 2, in channel 8, and 2 was consumed before 1 was published"
    assert bag.decide(columns([EARLY])) == invalid("consumed-before-published", (0, 1, 3), sentence)
    assert not fifo.decide(columns([EARLY])).valid


def test_an_empty_answer_after_a_put() -> None:
    assert fifo.decide(columns([HELD_BACK])) == EMPTY
    assert bag.decide(columns([HELD_BACK])) == EMPTY


def test_an_empty_answer_after_a_take_of_what_was_put_later_in_a_channel() -> None:
    ops = [put(1, 0, 20, channel=7), put(2, 1, 15, channel=7), take(2, 2, 3), take(None, 4, 5), take(1, 21, 22)]
    assert not bag.decide(columns([ops])).valid


def test_an_empty_answer_before_a_put_of_what_was_taken_earlier_in_a_channel() -> None:
    ops = [put(2, 0, 1), take(1, 2, 20, channel=8), take(2, 3, 21, channel=8), take(None, 4, 5), put(1, 6, 7)]
    assert not bag.decide(columns([ops])).valid


def test_a_value_taken_twice_in_a_channel_disturbs_no_other() -> None:
    twice = [
        put(2, 0, 1),
        put(1, 2, 3),
        *(take(value, call, 13 - call, channel=8) for value, call in ((2, 4), (1, 5), (1, 6))),
    ]
    decision = bag.decide(columns([[put(5, 20, 21), take(5, 22, 23)], twice]))
    assert decision.violation is not None
    assert (decision.violation.rule, decision.violation.rows) == ("duplicate", (3, 4))


def test_an_unknown_take_took_the_next_one_but_not_the_first() -> None:
    ops = [*HELD_BACK]
    ops[2] = take(None, 3, None)
    assert bag.decide(columns([ops])) == EMPTY
    assert not fifo.decide(columns([ops])).valid


MIXED = "operation 1 is in a channel of both puts and takes that overlap"
BLANK = "operation 2 is an empty or unknown take in a channel whose takes overlap"
REFUSED = {
    "a put and a take that overlap": ([put(1, 0, 3, channel=7), take(1, 1, 2, channel=7)], MIXED),
    "an unknown take": ([put(1, 0, 1), take(1, 2, 5, channel=7), take(None, 3, None, channel=7)], BLANK),
    "an empty answer": ([put(1, 0, 1), take(1, 2, 5, channel=7), take(None, 3, 4, channel=7)], BLANK),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    ops, why = REFUSED[name]
    for judge in (fifo.decide, bag.decide, fifo.preconditions, bag.preconditions):
        with pytest.raises(Refused) as refused:
            judge(columns([ops]))
        assert str(refused.value) == why


def test_a_channel_of_several_objects_orders_each_by_itself() -> None:
    good = VALID["taken in the order of the channel"]
    assert fifo.decide(columns([good, good, good])).valid
    assert fifo.decide(columns([PIPELINED, [put(1, 0, 1), take(1, 4, 5, channel=7)]])).valid
    decision = fifo.decide(columns([[PIPELINED[0]], SWAPPED, NOT_FIFO["overtaken in its channel"][0]]))
    assert decision.violation is not None
    assert (decision.violation.rule, decision.violation.rows) == ("cycle", (1, 3, 5, 7))


def test_the_first_object_that_fails_is_told_whichever_rule_found_it() -> None:
    decision = fifo.decide(columns([SWAPPED, [take(9, 0, 1)]]))
    assert decision.violation is not None
    assert (decision.violation.rule, decision.violation.rows) == ("cycle", (0, 2, 3, 4))


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(["fifo-channels", "bag-channels", "fifo-unseen"]), st.integers(0, 2**63))
def test_as_brute_force_says(case: str, seed: int) -> None:
    agree(CASES[case], Random(seed), 500, Counter())


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["fifo-channels", "bag-channels", "fifo-unseen"]), st.randoms(use_true_random=False))
def test_as_brute_force_says_of_a_history_that_shrinks(case: str, rng: Random) -> None:
    agree(CASES[case], rng, 1, Counter())


def test_brute_force_met_every_rule_and_few_are_refused() -> None:
    seen = Counter[str]()
    agree(CASES["fifo-channels"], Random(1), 2_000, seen)
    assert {"valid", "cycle", "overtaken", "empty-though-not", "phantom", "duplicate"} <= seen.keys()
    assert seen["refused"] < 5
    seen = Counter[str]()
    agree(CASES["fifo-unseen"], Random(1), 1_000, seen)
    assert seen["refused"] == 0


@pytest.mark.parametrize(("case", "model"), [("fifo-channels", "fifo-queue"), ("bag-channels", "bag")])
def test_as_porcupine_says(case: str, model: str) -> None:
    try:
        agree_with_search(CASES[case], model, Random(1), 200)
    except Unavailable as why:
        pytest.skip(str(why))


def refused(name: str) -> Callable[[], None]:
    """The test of it."""
    return partial(test_refused, name)


def not_fifo(name: str) -> Callable[[], None]:
    """The test of it."""
    return partial(test_not_fifo_but_a_bag, name)


MUTANTS = [
    # which operations a channel orders
    Mutant(
        "channels",
        "(row.key[rows][1:] != row.key[rows][:-1])",
        "False",
        test_a_channel_of_several_objects_orders_each_by_itself,
    ),
    Mutant(
        "channels",
        "rows = rows[grouped(row.key[rows])]",
        "pass",
        test_a_channel_of_several_objects_orders_each_by_itself,
    ),
    Mutant(
        "channels",
        "row.ret[rows][:-1] > row.call[rows][1:]",
        "row.ret[rows][:-1] < row.call[rows][1:]",
        "fifo-channels",
    ),
    Mutant("channels", "if mixed.any()", "if False", refused("a put and a take that overlap")),
    Mutant("channels", "if blank.any()", "if False", refused("an empty answer")),
    Mutant(
        "channels",
        "first = all_.take[all_.taken[place]] == rows[is_take]",
        "first = place == place",
        test_a_value_taken_twice_in_a_channel_disturbs_no_other,
    ),
    Mutant(
        "channels", "kept = (all_.taken[place] >= 0) | (all_.b[place] < row.size)", "kept = place >= 0", "bag-channels"
    ),
    # cycles
    Mutant("channels", "lift = self.of * (size + 2)", "lift = 0", "fifo-channels"),
    Mutant("channels", "self.put.climb(ranks, size)", "pass", "fifo-channels"),
    Mutant("channels", "self.take.climb(ranks, size)", "pass", "fifo-channels"),
    Mutant("channels", "while not (top_a > self.b).any():", "while True:\n            break", "fifo-channels"),
    Mutant(
        "channels",
        "np.append(-1, top_a[by_d])",
        "np.append(-1, self.a[by_d])",
        not_fifo("swapped by a channel of takes, and by time"),
    ),
    Mutant("channels", "np.maximum(top_a, so_far[before], out=top_a)", "pass", "fifo-channels"),
    Mutant("channels", "by_d = np.argsort(self.d)", "by_d = np.argsort(self.a)", "fifo-channels"),
    Mutant("channels", "over = (top_a > graph.b) | (top_c > graph.d)", "over = top_c > graph.d", "fifo-channels"),
    Mutant("channels", "over = (top_a > graph.b) | (top_c > graph.d)", "over = top_a > graph.b", "fifo-channels"),
    Mutant("channels", "else graph.knot(top_a, top_c)", "else -1", "fifo-channels"),
    Mutant(
        "channels",
        "np.minimum(all_.b, d)",
        "all_.b.astype(np.int64)",
        test_an_empty_answer_after_a_take_of_what_was_put_later_in_a_channel,
    ),
    Mutant(
        "channels",
        "np.maximum(all_.a, all_.c)",
        "all_.c",
        test_an_empty_answer_before_a_put_of_what_was_taken_earlier_in_a_channel,
    ),
    # what was overtaken
    Mutant("channels", "due = np.where(due < row.end(all_.a[lost]), due, row.size)", "pass", "fifo-channels"),
    Mutant("channels", 'by_due = np.argsort(due, kind="stable")', "by_due = np.arange(len(due))", "fifo-unseen"),
    Mutant(
        "channels",
        "(graph.size - latest[lost] for latest in graph.back().greatest())",
        "(graph.size - ends[lost] for ends in (graph.back().a, graph.back().c))",
        "fifo-channels",
    ),
    Mutant("channels", "self.chains.back(), size)", "self.chains, size)", "fifo-channels"),
    # empty answers
    Mutant("channels", "chains_.climb(until, graph.size)", "pass", test_an_empty_answer_after_a_put),
    Mutant("channels", "chains_.back().climb(gone, graph.size)", "pass", "bag-channels"),
    Mutant("channels", "found.first(latest > all_.d", "found.first(latest > all_.line.size", "bag-channels"),
    Mutant("channels", "chain.climb(latest, row.size)", "pass", "bag-channels"),
    Mutant("queues", "np.add.at(change, owed, 1)", "change[owed] = 1", "bag-channels"),
    Mutant("moments", "covered(all_, begin, until) <= 0", "covered(all_, begin, until) <= 1", "fifo-unseen"),
    Mutant("moments", "np.cumsum(asked[:-1]) > 0", "np.cumsum(asked[:-1]) > 1", "fifo-unseen"),
    Mutant("moments", "some = lost.begin < lost.due", "some = lost.begin < 0", "fifo-unseen"),
    Mutant("moments", "called += 1", "called += 2", "fifo-unseen"),
    Mutant("moments", "if last.moment >= what]", "if last.moment > what]", "fifo-unseen"),
    Mutant("moments", "if last.moment >= what]", "]", "fifo-unseen"),
    Mutant(
        "moments",
        "last.need + (last.moment < what)",
        "last.need",
        not_fifo("one unknown take for what was overtaken, none for an empty answer"),
    ),
    Mutant("moments", "last.need + (last.moment < what)", "last.need + 1", "fifo-unseen"),
    Mutant(
        "moments",
        "if last.need <= called]",
        "]",
        not_fifo("one unknown take for what was overtaken, none for an empty answer"),
    ),
    Mutant("moments", "there.pop(bisect_right(there, what) - 1)", "pass", "fifo-unseen"),
    Mutant("moments", "- bisect_right(there, last.moment)", "", "fifo-unseen"),
    Mutant("moments", "if need <= called:", "if need < called:", "fifo-unseen"),
    Mutant("moments", "if need <= called:", "if True:", "fifo-unseen"),
    Mutant(
        "moments",
        "*(last for last in lasts if last.need < need), ",
        "",
        partial(
            test_valid, "empty answers share a moment, so that an unknown take is left for what was overtaken before"
        ),
    ),
    Mutant(
        "found",
        "if other is None or other.violation is None",
        "if True",
        test_the_first_object_that_fails_is_told_whichever_rule_found_it,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert_noticed(mutant)
