"""Stretches of a history against the whole of it: the same verdicts, wherever they end."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.model.history import History
from chaos.model.op import FAIL, INFO
from chaos.model.verdict import Result, Verdict
from checkers import stretches
from checkers.base import Checker
from checkers.linearizable import Linearizable
from checkers.order import Order
from checkers.stretches import Rule, Stretches, cuts, facts_of, pieces_of
from checkers.stretches.facts import Tally
from tests.checkers.flawed import FLAWS, Flawed
from tests.checkers.histories import Story, judge, taken_back
from tests.linearizability.monitors.mutations import Mutant, planted

Write = Callable[[Story], None]


@contextmanager
def long_from(size: int, piece: int = 7) -> Iterator[None]:
    """As if a history of more rows were long."""
    with patch.object(stretches, "LONG", size), patch("checkers.stretches.read.PIECE", piece):
        yield


def many(history: History, size: int) -> int:
    """In how many stretches order is judged."""
    read = pieces_of(history)
    return len(list(Stretches(read, facts_of(read), Rule(), size)))


def in_order(story: Story, *ids: int, queue: str = "q") -> None:
    """Messages that have nothing to do with the others, each one by itself."""
    for id_ in ids:
        story.publish(id_, queue, process=7)
    for id_ in ids:
        story.deliver(id_, queue, process=17, redelivered=False)


# What is wrong is seen in none of the parts if a history is cut where it may not be. By name, with the promise.
LITERAL: dict[str, tuple[Write, Checker, Verdict, dict[str, Any]]] = {}


def literal(checker: Checker, verdict: Verdict, **options: Any) -> Callable[[Write], Write]:
    def record(write: Write) -> Write:
        LITERAL[f"{write.__name__[1:]}-{checker.name}"] = (write, checker, verdict, options)
        return write

    return record


@literal(Linearizable(), Verdict.INVALID)
def _overtaken_by_one_that_comes_again(story: Story) -> None:
    story.publish(1, process=0)
    story.publish(2, process=1)
    story.deliver(2, redelivered=False)
    story.deliver(1, process=11, redelivered=False)
    story.deliver(2, process=11, redelivered=True)


@literal(Linearizable(), Verdict.INVALID)
def _overtaken_by_one_of_another_producer(story: Story) -> None:
    story.publish(1, process=0)
    story.publish(2, process=1)
    story.deliver(2, redelivered=False)
    story.deliver(1, process=11, redelivered=False)


@literal(Linearizable(), Verdict.INVALID)
@literal(Order(), Verdict.INVALID)
def _overtaken_by_the_next_of_its_channel(story: Story) -> None:
    one, two = (story.begin(0, "publish", key="q", value=id_) for id_ in (1, 2))
    story.end(two)
    story.deliver(2, redelivered=False)
    story.end(one)
    story.deliver(1, process=11, redelivered=False)


@literal(Linearizable(), Verdict.INVALID)
def _overtaken_though_only_the_next_of_its_channel_was_confirmed(story: Story) -> None:
    one, three = (story.begin(0, "publish", key="q", value=id_) for id_ in (1, 3))
    story.end(one, INFO)
    story.end(three)  # which nobody ever sees
    story.publish(2, process=1)
    story.deliver(2, redelivered=False)
    story.deliver(1, process=11, redelivered=False)


@literal(Linearizable(), Verdict.INVALID)
def _empty_though_one_was_there(story: Story) -> None:
    story.publish(1)
    story.deliver(None, process=20)
    story.deliver(1, redelivered=False)


@literal(Linearizable(), Verdict.INVALID)
def _empty_while_one_was_there_and_then_another(story: Story) -> None:
    story.publish(1)
    poll = story.credit(process=20)
    story.publish(2)
    story.deliver(1, redelivered=False)
    story.end(poll, value=None)
    story.deliver(2, redelivered=False)


@literal(Linearizable(), Verdict.INVALID)
def _delivered_though_its_publish_failed(story: Story) -> None:
    op = story.begin(0, "publish", key="q", value=1)
    story.deliver(1, redelivered=False)
    in_order(story, 2)
    story.end(op, FAIL)


@literal(Linearizable(), Verdict.INVALID)
def _delivered_before_it_was_published(story: Story) -> None:
    story.deliver(1, redelivered=False)
    in_order(story, 2)
    story.publish(1)


@literal(Linearizable(), Verdict.INVALID, delivery="exactly-once")
def _twice(story: Story) -> None:
    story.publish(1)
    story.deliver(1)
    in_order(story, 2, 3)
    story.deliver(1)


@literal(Linearizable(), Verdict.INVALID)
def _lost(story: Story) -> None:
    story.publish(1, process=0)
    story.publish(2, process=1)
    story.deliver(2, redelivered=False)
    story.drain()


@literal(Linearizable(), Verdict.INVALID, delivery="exactly-once")
def _lost_of_a_queue_that_delivers_exactly_once(story: Story) -> None:
    story.publish(1, process=0)
    story.publish(2, process=1)
    story.deliver(2)


@literal(Linearizable(), Verdict.VALID, delivery_limit=3)
def _dropped_by_a_broker_with_a_limit(story: Story) -> None:
    story.publish(1, process=0)
    story.publish(2, process=1)
    story.deliver(2, redelivered=False)
    story.drain()


@literal(Linearizable(), Verdict.INVALID)
def _again_after_its_ack(story: Story) -> None:
    story.publish(1)
    story.deliver(1, redelivered=False)
    story.ack(1)
    story.deliver(1, redelivered=True)


@literal(Linearizable(), Verdict.INVALID)
def _lost_while_another_comes_again_after_its_ack(story: Story) -> None:
    story.publish(1, process=0)
    story.publish(2, process=1)
    story.deliver(2, redelivered=False)
    story.ack(2)
    story.deliver(2, redelivered=True)
    story.drain()


@literal(Linearizable(), Verdict.INVALID)
def _new_after_it_was_delivered_again(story: Story) -> None:
    story.publish(1)
    story.deliver(1, redelivered=True)
    story.deliver(1, process=11, redelivered=False)


@literal(Linearizable(), Verdict.VALID)
def _left_over(story: Story) -> None:
    story.publish(1, process=0)
    story.publish(2, process=1)
    story.deliver(2, redelivered=False)


@literal(Linearizable(), Verdict.VALID)
def _lost_to_a_consumer_that_died(story: Story) -> None:
    died = story.credit(process=9)
    story.publish(1, process=0)
    story.publish(2, process=1)
    story.deliver(2, redelivered=False)
    story.end(died, INFO)
    in_order(story, 5, 6)
    story.drain()


@literal(Order(), Verdict.VALID)
def _late_after_a_drop_long_before(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.end(story.credit(process=9), INFO)
    in_order(story, 5, 6, queue="r")
    story.deliver(2, redelivered=False)
    story.deliver(1, process=11, redelivered=False)


@literal(Order(), Verdict.INVALID)
def _one_drop_excuses_one(story: Story) -> None:
    story.end(story.credit(process=9), INFO)
    for id_ in (1, 3):
        story.publish(id_, process=id_)
        story.publish(id_ + 1, process=id_)
        story.deliver(id_ + 1, redelivered=False)
        story.deliver(id_, process=11, redelivered=False)


@literal(Order(), Verdict.VALID)
def _late_after_a_channel_that_closed_long_before(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.credit(process=9)
    story.close(9)
    in_order(story, 5, 6, queue="r")
    story.deliver(2, redelivered=False)
    story.deliver(1, process=11, redelivered=False)


@literal(Order(), Verdict.VALID)
@literal(Linearizable(), Verdict.VALID)
def _taken_back_long_before(story: Story) -> None:
    taken_back(story, elsewhere=True)
    in_order(story, 50, 51)
    for id_ in (5, 6, 7, 8):
        story.publish(id_)
    for credit, id_ in [(story.credit(), 5), (story.credit(), 6)]:
        story.end(credit, value=id_, redelivered=False)
    story.deliver(8, process=11, redelivered=False)
    story.deliver(7, redelivered=False)  # on a credit that came two before


@literal(Linearizable(), Verdict.VALID)
def _taken_back_as_will_be_seen_only_later(story: Story) -> None:
    story.end(story.credit(process=9), INFO)
    story.publish(90, process=3)  # which that one took
    for id_ in (1, 2, 3, 4):
        story.publish(id_)
    mine, others = [story.credit() for _ in range(2)], [story.credit(process=11) for _ in range(3)]
    story.end(mine[0], value=1, redelivered=False)
    story.end(mine[1], value=2, redelivered=False)
    story.end(others[0], value=4, redelivered=False)
    story.end(story.credit(), value=3, redelivered=False)
    in_order(story, 50, 51, 52, 53)
    story.end(others[1], value=1, redelivered=True)
    story.end(others[2], value=2, redelivered=True)
    story.drain()


@pytest.mark.parametrize("name", LITERAL)
def test_literal(name: str) -> None:
    write, checker, verdict, options = LITERAL[name]
    story = Story()
    in_order(story, 101, 102)
    write(story)
    in_order(story, 201, 202)
    history = story.history()
    alone = judge(checker, history, options)
    assert alone.verdict is verdict
    for size in (1, 2, 4, 7, 11):
        with long_from(size):
            found = judge(checker, history, options)
        assert (found.verdict, dict(found.counts) | {"pairs": 0}) == (verdict, dict(alone.counts) | {"pairs": 0})
        assert {one.kind for one in found.anomalies} == {one.kind for one in alone.anomalies}
    assert many(history, 1) > 2


def drawn(seed: int) -> tuple[History, dict[str, Any]]:
    """A history, and what its queue promises."""
    random = Random(seed)
    broker = Flawed(
        random,
        random.sample(FLAWS, random.randrange(3)) if random.random() < 0.6 else [],
        marks=random.random() < 0.8,
        queues=random.choice(["a", "a", "ab"]),
        polls=random.random() < 0.3,
        drops=random.random() < 0.6,
    )
    history = broker.run(random.choice([20, 40, 60, 100, 300]), drain=random.random() < 0.7)
    options = {"model": random.choice(["fifo-queue", "fifo-queue", "bag"]), "engine": "monitor"}
    if random.random() < 0.3:
        options["delivery"] = random.choice(["at-least-once", "at-most-once", "exactly-once"])
    return history, options


def compare(seed: int, size: int) -> list[tuple[str, Result, int]]:
    """What was judged, alike in stretches and alone: the checker, its result, and in how many stretches."""
    history, options = drawn(seed)
    told = []
    for checker, said in ((Order(), {}), (Linearizable(), options)):
        alone = judge(checker, history, said)
        with long_from(size, 1 + seed % 50):
            found = judge(checker, history, said)
        told.append((checker.name, alone, many(history, size)))
        if alone.verdict is Verdict.UNKNOWN:  # the monitor does not take all of it, but may take each stretch
            continue
        assert dict(found.counts) | {"pairs": 0} == dict(alone.counts) | {"pairs": 0}
        if checker.name == "order":
            assert found.anomalies == alone.anomalies
            assert found.counts["pairs"] <= alone.counts["pairs"]
        else:
            assert found.verdict is alone.verdict
    return told


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([1, 3, 10, 30, 100]))
def test_in_stretches_as_alone(seed: int, size: int) -> None:
    compare(seed, size)


def test_what_is_drawn_is_worth_something() -> None:
    seen: Counter[tuple[str, Verdict]] = Counter()
    for seed in range(40):
        for name, result, number in compare(seed, 10):
            if number > 2:
                seen[name, result.verdict] += 1
    assert min(seen["order", Verdict.VALID], seen["linearizable", Verdict.VALID]) > 10
    assert min(seen["order", Verdict.INVALID], seen["linearizable", Verdict.INVALID]) > 1


def test_what_goes_well_is_cut_again_and_again() -> None:
    history = Flawed(Random(3), drops=False).run(3000)
    read = pieces_of(history)
    found = list(Stretches(read, facts_of(read), Rule(), 100))
    assert len(found) > len(history) / 200
    assert max(len(one.history) for one in found) < 300


def test_where_they_end_does_not_depend_on_the_pieces() -> None:
    history, _ = drawn(8)

    def ends(piece: int) -> list[list[int]]:
        with long_from(10, piece):
            read = pieces_of(history)
            return [one.history.index.tolist() for one in Stretches(read, facts_of(read), Rule(), 10)]

    assert len(ends(1)) > 2
    assert ends(1) == ends(3) == ends(1000)


MUTATIONS = [
    ("np.where(seen, those.first, never), those.over)]", "those.over, those.over)]"),
    ("spans.append((those.key, _soonest(*x, those.key, sure, never), those.over))", "pass"),
    ("x_key.append(those.key[seen])", "x_key.append(those.key[seen] + 1000)"),
    ("x_from, x_over = [credits_.end[credits_.empty]], [", "x_from, x_over = [credits_.row[credits_.empty]], ["),
    ("spans.append((those.key, _behind(those, rule), those.over))", "pass"),
    ("shows |= ~those.unseen", "pass"),
    ("shows = those.unseen & those.confirmed & ~those.lost", "shows = np.zeros(len(those.put), dtype=np.bool_)"),
    ("spans.append((credits_.key[poll], credits_.row[poll], credits_.end[poll]))", "pass"),
    ("waits[put_of] = (ended", "waits[put_of] = False & (ended"),
    ("waits |= (self.put == never) & (facts.published.of(id_) > 0)", "pass"),
    ("waits |= (np.bincount(took_of, minlength=many) < expected) | (expected >= MANY)", "pass"),
    ("self.lost = self.unseen &", "self.lost = False & self.unseen &"),
    ("left[rows[here]] = (past | credits_.blank)[here]", "left[rows[here]] = past[here]"),
    ("right[rows[here]] = (~past | credits_.blank)[here]", "right[rows[here]] = (~past & ~credits_.blank)[here]"),
    ("left[closed] = right[closed] = True", "left[closed] = True"),
    ("np.minimum(np.where(those.confirmed, those.ended, never), those.first)", "those.first"),
]  # fmt: skip


def try_all() -> None:
    for name in LITERAL:
        test_literal(name)
    for seed in range(20):
        compare(seed, 1 + seed)


@pytest.mark.parametrize(("old", "new"), MUTATIONS)
def test_a_broken_rule_of_cutting_is_noticed(old: str, new: str) -> None:
    source = inspect.getsource(cuts)
    assert source.count(old) == 1
    broken = ModuleType("broken")
    with patch.dict("sys.modules", {"broken": broken}):
        exec(compile(source.replace(old, new), "<mutant>", "exec"), broken.__dict__)
    with patch.object(stretches, "sides", broken.sides), pytest.raises((AssertionError, IndexError)):
        try_all()


@pytest.mark.parametrize(
    ("apart", "few", "plain"), [(1, 1, True), (1 << 20, 1 << 12, True), (1 << 20, 10, False), (-(1 << 20), 10, False)]
)
def test_messages_whose_numbers_lie_far_apart_are_judged_at_once(apart: int, few: int, plain: bool) -> None:
    story = Story()
    in_order(story, *(number * apart for number in range(1, 30)))
    read = pieces_of(story.history())
    with patch.object(Tally, "_FEW", few):
        facts = facts_of(read)
    assert facts.plain is plain
    assert (len(list(Stretches(read, facts, Rule(), 4))) > 1) is plain


@pytest.mark.parametrize(
    "write",
    [
        lambda story: story.publish(1),  # again
        lambda story: story.did(3, "enqueue", 7),
        lambda story: story.answer(story.ask(3, "consume", key="q"), "a word"),
        lambda story: story.end(story.credit(), FAIL, error="empty"),
        lambda story: story.end(story.credit(), value=1, error="what is this"),
        lambda story: story.publish(1 << 62),
    ],
)
def test_what_we_do_not_record_so_is_judged_at_once(write: Write) -> None:
    story = Story()
    in_order(story, 1, 2)
    write(story)
    facts = facts_of(pieces_of(story.history()))
    assert not facts.plain
    (only,) = Stretches(pieces_of(story.history()), facts, Rule(), 1)
    assert only.alone
    assert only.history.digest() == story.history().digest()


OF_LINEARIZABLE = [
    ("return Rule(ordered, otherwise=stretches.ALWAYS)", "return Rule(ordered)"),
    ("facts.drained if promise == AT_LEAST_ONCE and", "{} if"),
    ("next((part.strange for part in parts if part.strange is not None), None)", "None"),
    ("next((part.shown for part in parts if part.shown is not None), None)", "None"),
    ("first(one for part in parts for one in part.odd)", "()"),
    ("sum(part.again for part in parts)", "0"),
    ("_joined(judged, sum(counted), len(counted), each)", "_joined(judged, 0, len(counted), each)"),
    ("_joined(judged, sum(counted), len(counted), each)", "_joined(judged, sum(counted), 0, each)"),
    ("found = replace(found, again=0, odd=())", "pass"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), OF_LINEARIZABLE)
def test_a_broken_rule_of_linearizable_is_noticed(old: str, new: str) -> None:
    with planted(Mutant("checkers.linearizable", old, new, "")), pytest.raises((AssertionError, TypeError)):
        try_all()


def test_lanes_that_are_forgotten_are_noticed() -> None:
    with patch.object(stretches, "after", lambda history, gone, before: before), pytest.raises(AssertionError):
        test_literal("taken_back_long_before-order")
