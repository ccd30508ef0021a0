"""A history that is cut into parts and judged part by part gives the verdict of the whole, to the letter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.errors import BadHistory
from chaos.model.history import History, Words
from chaos.model.op import FAIL, INFO, OK
from chaos.model.registry import CHECKERS, find, names
from chaos.model.settings import resolve
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from chaos.scenario import Scenario, loads
from chaos.search.trial import trial
from checkers import split
from checkers.base import Parted, Split, first
from checkers.columns import earliest
from checkers.messages import Messages
from checkers.order import Order
from checkers.split import EVERYWHERE, by_key, cut, places
from tests.checkers import (
    test_counter,
    test_fencing,
    test_messages,
    test_order,
    test_replicas,
    test_set,
    test_set_full,
    test_total_queue,
    test_unique_ids,
)
from tests.checkers.histories import Story

LITERAL: Mapping[str, ModuleType] = {
    "counter": test_counter,
    "fencing": test_fencing,
    "messages": test_messages,
    "order": test_order,
    "replicas": test_replicas,
    "set": test_set,
    "set-full": test_set_full,
    "total-queue": test_total_queue,
    "unique-ids": test_unique_ids,
}
QUEUES = ("a", "b", "c", None)


def apart(checker: Parted, history: History, options: Mapping[str, Any], number: int) -> Result:
    """What is concluded from parts that never met."""
    pieces = [piece for part in cut(history, checker.split, number) for piece in checker.pieces(part, options)]
    return checker.merge([part for _, part in sorted(pieces, key=lambda piece: piece[0])], options)


def same(checker: Parted, history: History, number: int, **told: Any) -> None:
    options = resolve(checker.settings, told, checker.name)
    whole, parts = outcome(checker.check, history, options), outcome(partial(apart, checker), history, options, number)
    assert parts == whole
    if isinstance(whole, Result) and isinstance(parts, Result):
        assert list(parts.counts) == list(whole.counts)


def outcome(judge: Callable[..., Result], *arguments: Any) -> Result | str:
    """The result, or what it says that is wrong with the history."""
    try:
        return judge(*arguments)
    except BadHistory as error:
        return str(error)


def test_every_checker_that_may_be_cut_is_tried_here() -> None:
    found = [name for name in names(CHECKERS) if find(CHECKERS, name).split is not Split.RUN]
    assert found == sorted(LITERAL)
    assert all(issubclass(find(CHECKERS, name), Parted) for name in found)


@pytest.mark.parametrize("name", LITERAL)
def test_the_literal_cases(name: str) -> None:
    checker = find(CHECKERS, name)()
    for case in LITERAL[name].CASES.values():
        for number in (1, 2, 3, 7):
            same(checker, case.history(), number, **case.options)


def soup(random: Random, size: int) -> tuple[History, str]:
    """Anything that may be in the history of queues, also what should not be."""
    story, ids = Story(), 0
    for _ in range(size):
        queue = random.choice(QUEUES)
        process, channel = random.randrange(3), random.randrange(2)
        match random.randrange(10):
            case 0 | 1 | 2:
                ids += random.choice((1, 1, 1, 1, 50))
                end = random.choice((OK, OK, OK, FAIL, INFO, None))
                story.publish(ids, queue, end, process=process, channel=channel)  # type: ignore[arg-type]
            case 3 | 4 | 5:
                id_ = random.choice((random.randint(0, ids + 1), None, ids, ids, max(0, ids - 1)))
                home = random.choice((None, None, None, {"queue": "b"}))
                error = random.choice((None, None, None, None, "corrupt", "foreign"))
                again = random.choice((True, False, None))
                story.deliver(
                    id_, queue, 10 + process, channel, detail=home, error=error, redelivered=again  # type: ignore[arg-type]
                )  # fmt: skip
            case 6:
                credit = story.credit(queue, 10 + process, channel=channel)  # type: ignore[arg-type]
                if random.random() < 0.5:
                    story.end(credit, random.choice((INFO, FAIL)))
            case 7:
                story.ack(random.randint(1, ids + 1), queue, random.choice((OK, INFO)))  # type: ignore[arg-type]
            case 8:
                if random.random() < 0.5:
                    story.close(10 + process, channel)
                else:
                    story.inject(f"f{len(story.ops)}", "n1")
            case _:
                if random.random() < 0.3:
                    story.drain(random.choice(QUEUES[:-1]), random.choice((OK, INFO)), "still there")
    delivery = random.choice(("at-least-once", "exactly-once", "at-most-once"))
    return story.history(random.choice((None, None, None, "the controller was stopped"))), delivery


@given(st.integers(0, 2**32), st.integers(0, 80), st.integers(1, 7), st.sampled_from((0, 1, 3)))
def test_messages_in_buckets(seed: int, size: int, number: int, limit: int) -> None:
    history, delivery = soup(Random(seed), size)
    same(Messages(), history, number, delivery=delivery, delivery_limit=limit)


@given(st.integers(0, 2**32), st.integers(0, 80), st.integers(1, 7))
def test_order_by_queues(seed: int, size: int, number: int) -> None:
    history, _ = soup(Random(seed), size)
    same(Order(), history, number)


@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 7))
def test_order_in_queues_that_went_well(seed: int, steps: int, number: int) -> None:
    random = Random(seed)
    correct = test_order.CorrectQueue(random, honest=True).run(steps)
    for history in (correct, of_queues(correct, random)):
        same(Order(), history, number)


def of_queues(history: History, random: Random) -> History:
    """The same, with its processes spread over several queues, which then do not keep their promises."""
    words = (*history.key.words, "other")
    queue = np.array([random.randrange(len(words)) for _ in range(int(history.process.max(initial=0)) + 1)], np.int32)
    codes = np.where(history.process >= 0, queue[np.maximum(history.process, 0)], history.key.codes)
    return replace(history, key=Words(codes.astype(np.int32), words))


OBJECTS = {
    "counter": ("add", "decrement", "read"),
    "set": ("add", "read"),
    "set-full": ("add", "read"),
    "total-queue": ("enqueue", "dequeue", "drain"),
    "unique-ids": ("generate",),
    "fencing": ("acquire", "release"),
}


def objects(random: Random, name: str, size: int) -> History:
    """Operations on some objects of a kind, and now and then one of another kind."""
    story = Story()
    few = random.choice((1, 3, 5))
    for _ in range(size):
        f = random.choice(OBJECTS[name])
        if random.random() < 0.005:
            f = "write"
        lists = f == "drain" or (f == "read" and name != "counter")
        value = random.randint(0, size // 2) if name in ("total-queue", "set", "set-full") else random.randint(0, 9)
        said: Any = sorted(random.randint(0, size // 2) for _ in range(random.randrange(6))) if lists else value
        if random.random() < 0.01:
            said = "strange"
        op = story.ask(random.randrange(4), f, None if lists or f in ("read", "generate", "acquire") else said,
                       key=random.choice(("x", "y", "z", None, "w")[:few]))  # fmt: skip
        if random.random() < 0.9:
            story.answer(op, said, random.choice((OK, OK, OK, OK, FAIL, INFO)))
    return story.history()


@given(st.sampled_from(sorted(OBJECTS)), st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 7))
def test_objects_by_key(name: str, seed: int, size: int, number: int) -> None:
    same(find(CHECKERS, name)(), objects(Random(seed), name, size), number)


@given(st.integers(0, 2**32), st.integers(0, 30), st.integers(1, 7))
def test_replicas_by_queue(seed: int, size: int, number: int) -> None:
    random, story = Random(seed), Story()
    for _ in range(size):
        digest = {"digest": random.choice("aab")}
        columns: dict[str, Any] = {"node": random.choice(("n1", "n2", "n3")), "value": random.randrange(9)}
        story.row(-2, INFO, "replica", key=random.choice(QUEUES[:3]), detail=digest, **columns)
    same(find(CHECKERS, "replicas")(), story.history(), number)


LOSSY = """
schema = 1
name = "lossy"
[cluster]
broker = "rabbitmq-mirrored"
[cluster.settings]
cluster_partition_handling = "autoheal"
[workload]
name = "queue"
queues = 3
rate = 100
time = "20s"
[[nemesis]]
name = "partition"
every = "5s"
for = "4s"
"""


@pytest.fixture(scope="module")
def simulated() -> tuple[Scenario, History]:
    scenario = loads(LOSSY, "lossy.toml")
    return scenario, trial(scenario).outcome.history


@pytest.mark.parametrize("cut_at", [None, 0.6])
@pytest.mark.parametrize("name", sorted(LITERAL))
def test_a_simulated_run_that_loses_messages(
    simulated: tuple[Scenario, History], name: str, cut_at: float | None
) -> None:
    scenario, history = simulated
    if cut_at is not None:
        keep = int(len(history) * cut_at)
        ops = [op for op in history if op.index < keep]
        history = History.from_ops(ops, "it ends without its end marker")
    for number in (1, 2, 5, 7):
        same(find(CHECKERS, name)(), history, number, **scenario.checkers.get(name, {}))


def test_the_simulated_run_is_worth_something(simulated: tuple[Scenario, History]) -> None:
    scenario, history = simulated
    checker = Messages()
    found = checker.check(history, resolve(checker.settings, scenario.checkers["messages"], "messages"))
    assert found.verdict is Verdict.INVALID
    assert found.counts["lost"] > 0
    assert found.counts["duplicated"] > 0
    assert len({len(part) for part in cut(history, Split.KEY, 3)}) == 3


def test_what_a_row_goes_by() -> None:
    story = Story()
    story.publish(7, "a")
    story.deliver(7, "b")
    story.ack(7, "b")
    credit = story.credit("a")
    story.drain("a")
    story.end(credit, INFO)
    story.phase("work")
    story.close(10)
    history = story.history()
    by_message, of_key = places(history, Split.MESSAGE, 500).tolist(), places(history, Split.KEY, 5).tolist()
    assert len(set(by_message[:6])) == 1
    assert by_message[6] == by_message[8] != by_message[0]
    assert by_message[7] == by_message[9] == by_message[10] == EVERYWHERE
    assert of_key == [0, 0, 1, 1, 1, 1, 0, 0, 0, EVERYWHERE, EVERYWHERE]
    assert [(at, part.index.tolist()) for at, part in by_key(history)] == [
        (0, [0, 1, 6, 7, 8, 9, 10]),
        (2, [2, 3, 4, 5, 9, 10]),
    ]
    assert cut(history, Split.RUN, 3)[0] is history


def test_messages_are_spread_evenly_whatever_their_ids() -> None:
    for step in (1, 2, 7, 1000, 2**20):
        story = Story()
        for number in range(300):
            story.publish(number * step, end=None)
        spread = np.bincount(places(story.history(), Split.MESSAGE, 3), minlength=3)
        assert spread.min() > 60, (step, spread)


@given(st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 6), st.integers(-1, 6)), max_size=30), st.integers(1, 12))
def test_the_earliest_are_those_that_come_first(rows: list[tuple[int, int, int]], number: int) -> None:
    ops = [tuple(sorted({row for row in each if row >= 0})) for each in rows]
    columns = [np.array(column, dtype=np.intp) for column in zip(*rows, strict=True)] or [np.empty(0, np.intp)]
    told = [ops[place] for place in earliest(number, *columns).tolist()]
    assert told == sorted(ops)[:number]
    kept = first(Anomaly("a", str(place), each) for place, each in enumerate(ops))
    assert [anomaly.ops for anomaly in kept] == sorted(ops)[:ANOMALIES_KEPT]


def histories() -> Iterator[Callable[[], None]]:
    """Some of what the properties above try, the same every time."""
    yield test_what_a_row_goes_by
    for seed in range(120):
        random = Random(seed)
        history, delivery = soup(random, 60)
        number = 2 + seed % 3
        yield lambda history=history, delivery=delivery, number=number: same(  # type: ignore[misc]
            Messages(), history, number, delivery=delivery, delivery_limit=number - 2
        )
        yield lambda history=history, number=number: same(Order(), history, number)  # type: ignore[misc]
        name = sorted(OBJECTS)[seed % len(OBJECTS)]
        found = objects(random, name, 40)
        yield lambda name=name, found=found, number=number: same(find(CHECKERS, name)(), found, number)  # type: ignore[misc]


MUTATIONS = [
    ("strange = last[place[last] != part]", "strange = last[:0]"),
    ("if not len(index):", "if True:"),
    ("np.where(start >= 0, history.index[start], history.index)", "history.index"),
    ("(place == part) | (place == EVERYWHERE)", "place == part"),
    ("said[begun] = said[done]", "pass"),
    ("ours = history.process < 0", "ours = history.process < -99"),
    ("| among(OF_CONNECTIONS)", ""),
    ("for place in np.argsort(order[begins]).tolist():", "for place in np.argsort(order[begins]).tolist()[::-1]:"),
    ("np.sort(np.concatenate([rows, common]))", "rows"),
]  # fmt: skip


def try_all() -> None:
    for tried in histories():
        tried()


def test_the_rules_of_cutting_hold_as_they_are() -> None:
    try_all()


@pytest.mark.parametrize(("old", "new"), MUTATIONS)
def test_a_broken_rule_of_cutting_is_noticed(old: str, new: str) -> None:
    source = inspect.getsource(split)
    assert old in source
    broken = ModuleType("checkers.split")
    broken.__dict__["__name__"] = "broken"
    with patch.dict("sys.modules", {"broken": broken}):
        exec(compile(source.replace(old, new), "<mutant>", "exec"), broken.__dict__)
    here = inspect.getmodule(apart)
    changed = {
        "cut": lambda history, by, number: broken.cut(history, broken.Split(by.value), number),
        "places": lambda history, by, number: broken.places(history, broken.Split(by.value), number),
        "by_key": broken.by_key,
    }
    with patch.multiple(here, **changed), pytest.raises((AssertionError, BadHistory)):
        try_all()
