"""One leader at a time: literal histories, a reference that looks at every moment, and elections without fault."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.history import History
from chaos.model.op import INFO, INVOKE, OBSERVER
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.leaders import Leaders
from tests.checkers.histories import MS, Cases, Story, judge

CASES = Cases()
case = CASES.add
COUNTS = [
    "views", "terms", "claims", "changes", "overlaps", "restarts-backwards",
    "two-leaders", "term-backwards", "dual-confirm", "succession",
]  # fmt: skip


def result(
    verdict: Verdict, reason: str, *anomalies: Anomaly, held: Any = (), longest: int = 0, **counts: int
) -> Result:
    """Claims as (node, term, start, end) in ms, of queue q."""
    said = [
        {"key": "q", "node": node, "term": term, "start": start * MS, "end": end * MS}
        for node, term, start, end in held
    ]
    named = (
        dict.fromkeys(COUNTS, 0)
        | {"claims": len(said)}
        | {name.replace("_", "-"): count for name, count in counts.items()}
    )
    sure = [(start * MS, end * MS) for _, term, start, end in held if term is not None]
    vacant = [start - max(end for _, end in sure[:place]) for place, (start, _) in enumerate(sure) if place]
    metrics = {"claims": said, "longest_overlap": longest * MS, "longest_vacancy": max([0, *vacant])}
    return Result("leaders", verdict, reason, named, anomalies, metrics)


@case(result(Verdict.VALID, "one leader in the only term", held=[("n1", 1, 1, 1)], views=1, terms=1))
def _one_term(story: Story) -> None:
    story.at(MS).sample("n1", "leader", 1)


@case(
    result(
        Verdict.VALID, "one leader in each of 2 terms", held=[("n1", 1, 0, 1), ("n2", 2, 4, 4)],
        views=4, terms=2, changes=1,
    )
)  # fmt: skip
def _samples(story: Story) -> None:
    story.sample("n1", "leader", 1)
    story.at(2 * MS).sample("n1", "leader", 1)
    story.at(3 * MS).sample("n1", "follower", 2)
    story.at(4 * MS).sample("n2", "leader", 2)
    story.row(OBSERVER, INFO, "leader", node="n3", key="q", error="no answer")


@case(
    result(
        Verdict.VALID, "one leader in each of 3 terms", held=[("n1", 1, 0, 3), ("n2", 2, 3, 4), ("n2", 3, 4, 5)],
        views=4, terms=3, changes=2,
    )
)  # fmt: skip
def _beliefs(story: Story) -> None:
    story.belief("n1", "leader", 1)
    story.at(3 * MS).belief("n1", "follower", 2)
    story.at(3 * MS).belief("n2", "leader", 2)
    story.at(4 * MS).belief("n2", "leader", 3)
    story.at(5 * MS).exit("n2", asked=True)
    story.at(9 * MS).drain()


@case(result(Verdict.NOT_APPLICABLE, "no terms to compare"))
def _nobody_said_anything(story: Story) -> None:
    story.publish(1)


@case(
    result(
        Verdict.NOT_APPLICABLE, "no terms to compare", held=[("n1", None, 0, 3), ("n2", None, 1, 1)], views=3, changes=1
    )
)
def _leaders_without_terms(story: Story) -> None:
    story.sample("n1", "leader", None)
    story.at(1 * MS).sample("n2", "leader", None)
    story.at(4 * MS).sample("n1", "leader", None)


@case(
    result(
        Verdict.NOT_APPLICABLE, "no terms to compare", held=[("n1", None, 0, 19), ("n2", None, 5, 29)],
        views=4, changes=1,
    )
)  # fmt: skip
def _without_terms_two_samples_prove_nothing(story: Story) -> None:
    """Leadership may have been lost and won again between them."""
    story.sample("n1", "leader", None)
    story.at(5 * MS).sample("n2", "leader", None)
    story.at(6 * MS).publish(1, node="n1")
    story.publish(2, node="n2")
    story.at(20 * MS).sample("n1", "leader", None)
    story.at(30 * MS).sample("n2", "leader", None)


@case(result(Verdict.NOT_APPLICABLE, "no terms to compare", views=1))
def _only_followers(story: Story) -> None:
    story.sample("n1", "follower", 3)


@case(
    result(
        Verdict.INVALID, "1 two-leaders",
        Anomaly("two-leaders", "n1 and n2 both led q in term 1", (0, 2), {"term": 1}),
        held=[("n1", 1, 0, 4), ("n2", 1, 9, 9)], views=3, terms=1, changes=1, two_leaders=1,
    )
)  # fmt: skip
def _two_leaders_of_one_term(story: Story) -> None:
    story.sample("n1", "leader", 1)
    story.at(5 * MS).sample("n1", "leader", 1)
    story.at(9 * MS).sample("n2", "leader", 1)


LED = [("n1", 1, 1, 3), ("n2", 2, 5, 6), ("n1", 3, 7, 9)]


def three_reigns(story: Story) -> None:
    for at, node, role, term in (
        (1, "n1", "leader", 1), (3, "n1", "follower", 1), (5, "n2", "leader", 2), (6, "n2", "follower", 2),
        (7, "n1", "leader", 3), (9, "n1", "follower", 3),
    ):  # fmt: skip
        story.at(at * MS).belief(node, role, term)


@case(result(Verdict.VALID, "led in turn: n1, n2, n1", held=LED, views=6, terms=3, changes=2), succession="n1,n2,n1")
def _led_in_turn(story: Story) -> None:
    three_reigns(story)


@case(
    result(Verdict.VALID, "led in turn: n1, n2", held=[("n1", 1, 1, 2), ("n1", 2, 2, 3), ("n2", 3, 4, 4)],
           views=4, terms=3, changes=2),
    succession="n1,n2",
)  # fmt: skip
def _again_itself_in_a_later_term(story: Story) -> None:
    story.at(1 * MS).belief("n1", "leader", 1)
    story.at(2 * MS).belief("n1", "leader", 2)
    story.at(3 * MS).belief("n1", "follower", 3)
    story.at(4 * MS).belief("n2", "leader", 3)


@case(
    result(
        Verdict.INVALID, "1 succession",
        Anomaly("succession", "n2 led q where n3 was to lead", (2,)),
        held=LED, views=6, terms=3, changes=2, succession=1,
    ),
    succession="n1, n3",
)  # fmt: skip
def _another_one_followed(story: Story) -> None:
    three_reigns(story)


@case(
    result(
        Verdict.INVALID, "1 succession",
        Anomaly("succession", "n3 never led q, and was to follow n1", (4,)),
        held=LED, views=6, terms=3, changes=2, succession=1,
    ),
    succession=["n1", "n2", "n1", "n3"],
)  # fmt: skip
def _one_who_never_led(story: Story) -> None:
    three_reigns(story)


@case(
    Result(
        "leaders", Verdict.VALID, "one leader in each of 2 terms",
        dict.fromkeys(COUNTS, 0) | {"views": 2, "terms": 2, "claims": 2}, (),
        {
            "claims": [
                {"key": "a", "node": "n1", "term": 1, "start": 0, "end": 0},
                {"key": "b", "node": "n2", "term": 1, "start": MS, "end": MS},
            ],
            "longest_overlap": 0, "longest_vacancy": 0,
        },
    )
)  # fmt: skip
def _one_term_of_two_queues(story: Story) -> None:
    story.sample("n1", "leader", 1, scope="a")
    story.sample("n2", "leader", 1, scope="b")


@case(
    result(
        Verdict.INVALID, "1 term-backwards",
        Anomaly("term-backwards", "n1 went back from term 5 to term 4 of q without a restart", (1, 2)),
        held=[("n2", 5, 8, 8)], views=5, terms=1, term_backwards=1,
    )
)  # fmt: skip
def _a_term_backwards(story: Story) -> None:
    story.sample("n1", "follower", 3)
    story.at(2 * MS).sample("n1", "follower", 5)
    story.at(4 * MS).sample("n1", "follower", 4)
    story.at(6 * MS).sample("n1", "follower", 4)
    story.at(8 * MS).sample("n2", "leader", 5)


@case(result(Verdict.NOT_APPLICABLE, "no terms to compare", views=2, restarts_backwards=1))
def _a_term_backwards_across_a_restart(story: Story) -> None:
    story.sample("n1", "follower", 5, incarnation=1)
    story.at(9 * MS).sample("n1", "follower", 4, incarnation=2)


@case(result(Verdict.NOT_APPLICABLE, "no terms to compare", views=4))
def _a_term_that_begins_anew_after_the_replica_was_taken_away(story: Story) -> None:
    story.sample("n1", "follower", 5)
    story.at(4 * MS).sample("n1", "removed", 5)
    story.at(9 * MS).sample("n1", "follower", 0)
    story.at(12 * MS).sample("n1", "follower", 5)


@case(
    result(
        Verdict.INVALID, "1 term-backwards",
        Anomaly("term-backwards", "n1 went back from term 5 to term 4 of q without a restart", (2, 3)),
        held=[("n2", 5, 12, 12)], views=5, terms=1, term_backwards=1,
    )
)  # fmt: skip
def _a_term_backwards_of_the_replica_that_came_after(story: Story) -> None:
    story.sample("n1", "follower", 6)
    story.at(2 * MS).sample("n1", "removed", None)
    story.at(4 * MS).sample("n1", "follower", 5)
    story.at(9 * MS).sample("n1", "follower", 4)
    story.at(12 * MS).sample("n2", "leader", 5)


@case(result(Verdict.NOT_APPLICABLE, "no terms to compare", views=2))
def _a_term_that_may_have_been_seen_in_the_other_order(story: Story) -> None:
    story.at(5 * MS).sample("n1", "follower", 5)
    story.at(6 * MS).sample("n1", "follower", 4, took=2 * MS)


@case(result(Verdict.NOT_APPLICABLE, "no terms to compare", views=2))
def _a_term_of_unknown_lives(story: Story) -> None:
    story.sample("n1", "follower", 5, incarnation=None)
    story.at(9 * MS).sample("n1", "follower", 4, incarnation=None)


def both_lead(story: Story) -> None:
    """n1 surely leads from 0 to 19 ms, n2 from 5 to 29 ms."""
    story.at(0).sample("n1", "leader", 1)
    story.at(5 * MS).sample("n2", "leader", 2)


def both_led(story: Story) -> None:
    story.at(20 * MS).sample("n1", "leader", 1)
    story.at(30 * MS).sample("n2", "leader", 2)


HELD = [("n1", 1, 0, 19), ("n2", 2, 5, 29)]
STALE: dict[str, Any] = {"held": HELD, "longest": 14, "views": 4, "terms": 2, "changes": 1, "overlaps": 1}


@case(
    result(
        Verdict.INVALID, "1 dual-confirm",
        Anomaly(
            "dual-confirm",
            "messages 1 and 2 of q were confirmed through n1 and n2 while both held themselves leader "
            "(terms 1 and 2) for 14.0 ms",
            (0, 1, 2, 3, 4, 5, 6, 7), {"start": 5 * MS, "end": 19 * MS},
        ),
        dual_confirm=1, **STALE,
    )
)  # fmt: skip
def _confirmed_through_both(story: Story) -> None:
    both_lead(story)
    story.at(6 * MS).publish(1, node="n1")
    story.publish(2, node="n2")
    both_led(story)


@case(result(Verdict.VALID, "one leader in each of 2 terms", dual_confirm=1, **STALE), dual_confirm=False)
def _confirmed_through_both_where_only_terms_are_promised(story: Story) -> None:
    both_lead(story)
    story.at(6 * MS).publish(1, node="n1")
    story.publish(2, node="n2")
    both_led(story)


@case(result(Verdict.VALID, "one leader in each of 2 terms", **STALE))
def _confirmed_through_one_only(story: Story) -> None:
    both_lead(story)
    story.at(6 * MS).publish(1, node="n1", end=INFO)
    story.publish(2, node="n2")
    both_led(story)


@case(result(Verdict.VALID, "one leader in each of 2 terms", **STALE))
def _invoked_before_both_led(story: Story) -> None:
    story.at(0).sample("n1", "leader", 1)
    early = story.at(5 * MS).begin(0, "publish", key="q", value=1, node="n1")
    story.at(5 * MS).sample("n2", "leader", 2)
    story.end(early)
    story.publish(2, node="n2")
    both_led(story)


@case(result(Verdict.VALID, "one leader in each of 2 terms", **STALE))
def _confirmed_after_both_led(story: Story) -> None:
    both_lead(story)
    late = story.begin(0, "publish", key="q", value=1, node="n1")
    story.publish(2, node="n2")
    story.at(19 * MS).end(late)
    both_led(story)


@case(result(Verdict.VALID, "one leader in each of 2 terms", **STALE))
def _confirmed_through_a_follower(story: Story) -> None:
    both_lead(story)
    story.at(6 * MS).publish(1, node="n3")
    story.publish(2, node="n2")
    both_led(story)


@case(result(Verdict.VALID, "one leader in each of 2 terms", **STALE))
def _confirmed_in_another_queue(story: Story) -> None:
    both_lead(story)
    story.at(6 * MS).publish(1, "other", node="n1")
    story.publish(2, node="n2")
    both_led(story)


@case(
    result(
        Verdict.VALID, "one leader in each of 2 terms",
        held=[("n1", 1, 0, 0), ("n2", 2, 5, 29), ("n1", 1, 20, 20)], views=4, terms=2, changes=1,
    )
)  # fmt: skip
def _a_restart_between_two_samples_proves_nothing(story: Story) -> None:
    both_lead(story)
    story.at(6 * MS).publish(1, node="n1")
    story.publish(2, node="n2")
    story.at(20 * MS).sample("n1", "leader", 1, incarnation=2)
    story.at(30 * MS).sample("n2", "leader", 2)


@case(
    result(
        Verdict.INVALID, "1 dual-confirm",
        Anomaly(
            "dual-confirm",
            "messages 1 and 2 of q were confirmed through n1 and n2 while both held themselves leader for 14.0 ms",
            (0, 1, 2, 3, 4, 5, 6, 7), {"start": 5 * MS, "end": 19 * MS},
        ),
        held=[("n1", None, 0, 19), ("n2", None, 5, 29)], views=4, changes=1, dual_confirm=1,
    )
)  # fmt: skip
def _confirmed_through_both_of_brokers_without_terms(story: Story) -> None:
    story.at(0).sample("n1", "leader", None, reign="<0.7.0>")
    story.at(5 * MS).sample("n2", "leader", None, reign="<0.7.0>")  # another's of the same name
    story.at(6 * MS).publish(1, node="n1")
    story.publish(2, node="n2")
    story.at(20 * MS).sample("n1", "leader", None, reign="<0.7.0>")
    story.at(30 * MS).sample("n2", "leader", None, reign="<0.7.0>")


@case(
    result(
        Verdict.NOT_APPLICABLE, "no terms to compare",
        held=[("n1", None, 0, 0), ("n2", None, 0, 29), ("n1", None, 20, 20)], views=4, changes=2,
    )
)  # fmt: skip
def _another_reign_proves_nothing_of_the_time_between(story: Story) -> None:
    story.at(0).sample("n1", "leader", None, reign="<0.7.0>")
    story.at(0).sample("n2", "leader", None, reign="<0.7.0>")
    story.at(6 * MS).publish(1, node="n1")
    story.publish(2, node="n2")
    story.at(20 * MS).sample("n1", "leader", None, reign="<0.9.0>")
    story.at(30 * MS).sample("n2", "leader", None, reign="<0.7.0>")


@case(
    result(
        Verdict.INVALID, "1 dual-confirm",
        Anomaly(
            "dual-confirm",
            "messages 1 and 2 of q were confirmed through n1 and n2 while both held themselves leader "
            "(terms 1 and 2) for 5.0 ms",
            (0, 1, 2, 3, 4, 5), {"start": MS, "end": 6 * MS},
        ),
        held=[("n1", 1, 0, 6), ("n2", 2, 1, 9)], longest=5, views=2, terms=2, changes=1, overlaps=1, dual_confirm=1,
    )
)  # fmt: skip
def _confirmed_through_both_by_their_beliefs(story: Story) -> None:
    story.belief("n1", "leader", 1)
    story.belief("n2", "leader", 2)
    story.publish(1, node="n1")
    story.publish(2, node="n2")
    story.at(6 * MS).exit("n1", asked=True)
    story.at(9 * MS).drain()


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(Leaders(), case.history(), case.options) == case.expected


NODES = ("n1", "n2", "n3")


def anything(random: Random, steps: int) -> History:
    """Beliefs and confirms in any order, a tick apart (or none)."""
    story, now = Story(), 0
    open_: list[int] = []
    for _ in range(steps):
        now += random.choice([0, 1, 1, 3])
        story.at(now)
        kind = random.choice(["belief", "belief", "publish", "publish", "end", "end", "exit"])
        node = random.choice(NODES[:2] if random.random() < 0.8 else NODES)
        if kind == "belief":
            story.belief(node, random.choice(["leader", "leader", "follower"]), random.randint(1, 3), incarnation=None)
        elif kind == "publish":
            open_.append(story.begin(0, "publish", key="q", value=len(story.ops), node=node))
        elif kind == "end" and open_:
            story.end(open_.pop(random.randrange(len(open_))))
        elif kind == "exit" and random.random() < 0.3:
            story.exit(node, asked=True)
    return story.history()


def by_moments(history: History) -> tuple[int, bool]:
    """How many terms had two leaders, and whether any two confirms were dual, by looking at every nanosecond."""
    ops = list(history)
    last = ops[-1].time if ops else 0
    leads: dict[str, list[tuple[int | None, int] | None]] = {node: [None] * (last + 2) for node in NODES}
    times_deposed = dict.fromkeys(NODES, 0)  # even for less than a nanosecond
    for op in ops:
        if op.f in ("belief", "exit") and op.node:
            leading = op.f == "belief" and (op.detail or {})["role"] == "leader"
            times_deposed[op.node] += not leading
            leads[op.node][op.time : last] = [(op.term, times_deposed[op.node]) if leading else None] * (last - op.time)
    leaders: dict[int | None, set[str | None]] = {}
    for op in ops:
        if op.f == "belief" and (op.detail or {})["role"] == "leader":
            leaders.setdefault(op.term, set()).add(op.node)
    ends = {op.op: op for op in ops if op.op is not None}
    confirmed = [(op, ends[op.index]) for op in ops if op.f == "publish" and op.type is INVOKE and op.index in ends]
    dual = False
    for one, one_end in confirmed:
        for other, other_end in confirmed:
            # a claim holds up to the moment of the next belief, and both were claimed before the first invocation
            span = range(min(one.time, other.time) - 1, max(one_end.time, other_end.time) + 1)
            if one.node != other.node and one.node and other.node and span.start >= 0:
                terms = [{leads[str(op.node)][moment] for moment in span} for op in (one, other)]
                dual = dual or all(len(held) == 1 and None not in held for held in terms)
    return sum(len(nodes) > 1 for nodes in leaders.values()), dual


@given(st.integers(0, 2**32), st.integers(0, 40))
def test_agrees_with_looking_at_every_moment(seed: int, steps: int) -> None:
    history = anything(Random(seed), steps)
    counts = judge(Leaders(), history).counts
    assert (counts["two-leaders"], counts["dual-confirm"] > 0) == by_moments(history)


def elections(random: Random, steps: int) -> History:
    """Nodes that elect one leader a term; a deposed one may not know it yet, and confirms nothing that is new.

    Each node is sampled, one question at a time, and each answer is true at some moment between question and answer.
    """
    story = Story()
    term = dict.fromkeys(NODES, 1)
    role = dict.fromkeys(NODES, "follower")
    life = dict.fromkeys(NODES, 1)
    asked: dict[str, tuple[int, Any]] = {}
    elected = None
    sending: list[tuple[int, str, int]] = []
    for _ in range(steps):
        node = random.choice(NODES)
        kind = random.choice(["elect", "hear", "kill", "ask", "ask", "tell", "answer", "publish", "publish", "confirm"])
        highest = max(term.values())
        if kind == "elect" and random.random() < 0.1:
            term[node], role[node], elected = highest + 1, "leader", node
        elif kind == "hear" and random.random() < 0.2 and term[node] < highest:
            term[node], role[node] = highest, "follower"
        elif kind == "kill" and random.random() < 0.05:
            life[node], role[node] = life[node] + 1, "follower"
            asked.pop(node, None)
        elif kind == "ask" and node not in asked:
            asked[node] = (story.now, None)
        elif kind == "tell" and node in asked:
            asked[node] = (asked[node][0], (role[node], term[node], life[node]))
        elif kind == "answer" and node in asked and asked[node][1]:
            since, (its_role, its_term, its_life) = asked.pop(node)
            story.sample(node, its_role, its_term, took=story.now - since, incarnation=its_life)
        elif kind == "publish":
            sending.append((story.begin(0, "publish", key="q", value=len(story.ops), node=node), node, highest))
        elif kind == "confirm" and sending:
            op, through, since = sending.pop(random.randrange(len(sending)))
            # by the newest leader; or by the deposed one it went through, if it got there before it was deposed
            its_own = elected == through or since == term[through]
            if elected and (role[through] != "leader" or its_own):
                story.end(op)
        story.now += random.choice([0, MS, MS, 5 * MS])
    return story.history()


@given(st.integers(0, 2**32), st.integers(10, 400))
def test_elections_with_one_leader_a_term_are_never_faulted(seed: int, steps: int) -> None:
    assert judge(Leaders(), elections(Random(seed), steps)).anomalies == ()


def test_the_elections_are_worth_something() -> None:
    results = [judge(Leaders(), elections(Random(seed), 400)) for seed in range(20)]
    assert sum(result.counts["overlaps"] for result in results) > 0
    assert sum(result.counts["changes"] for result in results) > 20
