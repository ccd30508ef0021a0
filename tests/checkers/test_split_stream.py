"""A history cut as it comes, batch by batch, is cut as a whole one is."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from random import Random
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.model.history import History
from chaos.model.op import CONTROLLER, FAIL, INFO, INVOKE, OBSERVER, OK
from checkers import split, split_stream
from checkers.split import Split, cut
from checkers.split_stream import Cutter, Survey
from tests.checkers.histories import Story

QUEUES = ("a", "b", "c", None)
SPLITS = (Split.MESSAGE, Split.KEY)
BATCHES = (1, 2, 3, 4, 5)
PARTS = (1, 2, 3, 7, 40)


def overlapping(random: Random, size: int) -> History:
    """Operations that are under way at once, of several queues; some of them nobody answers."""
    story, ids = Story(), 0
    open_: list[int] = []
    answered = random.choice((0.3, 0.5, 0.7))
    queues = random.choice((QUEUES, QUEUES[:1], QUEUES[:3]))
    for _ in range(size):
        if open_ and random.random() < answered:
            _answer(story, open_.pop(random.randrange(len(open_))), ids, random)
            continue
        of: dict[str, Any] = {"key": random.choice(queues), "channel": random.choice((0, 0, 1, None))}
        process = random.randrange(3)
        match random.randrange(12):
            case 0 | 1 | 2:
                ids += random.choice((1, 1, 50))
                open_.append(story.begin(process, "publish", value=random.choice((ids, ids, ids, None)), **of))
            case 3 | 4 | 5 | 6:
                open_.append(story.begin(10 + process, "consume", **of))
            case 7:
                open_.append(story.begin(10 + process, "ack", value=random.randint(0, ids), **of))
            case 8:
                open_.append(story.begin(process, "open", channel=0, node="n1"))
            case 9:
                story.close(10 + process)
            case 10:
                open_.append(story.row(-1, INVOKE, "inject", key=f"f{len(story.ops)}"))
            case _:
                _ours(story, random)
    return _with_gaps(story, random) if random.random() < 0.5 else story.history()


def _answer(story: Story, op: int, ids: int, random: Random) -> None:
    begun = story.ops[op]
    end = random.choice((OK, OK, OK, FAIL, INFO))
    if begun.f == "consume":
        # of another queue, once more, again, empty, or not ours
        value = random.choice((random.randint(0, ids + 1), ids, None))
        said = {"queue": "b"} if random.random() < 0.3 else None
        error = random.choice((None, None, "foreign"))
        story.end(op, end, value=value, redelivered=random.choice((True, False, None)), detail=said, error=error)
    elif begun.f in ("publish", "ack"):
        story.end(op, end, value=random.choice((begun.value, begun.value, None, ids)))
    else:
        story.end(op, end)


def _ours(story: Story, random: Random) -> None:
    match random.randrange(5):
        case 0:
            story.drain(random.choice(QUEUES[:3]) or "a", random.choice((OK, INFO)))
        case 1:
            story.row(OBSERVER, INFO, "replica", key=random.choice("abcd"), node="n1", value=3, detail={"digest": "x"})
        case 2:
            story.row(CONTROLLER, INVOKE, "consume", key="a", channel=0)
        case 3:
            story.sample("n1", "leader", 1, scope="b")
        case _:
            story.phase("work")


def _with_gaps(story: Story, random: Random) -> History:
    """Without some of the rows that belong to no other."""
    history = story.history()
    alone = (history.invocation < 0) & (history.completion < 0)
    kept = np.array([random.random() < 0.7 for _ in range(len(history))], dtype=np.bool_)
    return history.select(~alone | kept).validate()


def batches(history: History, size: int) -> Iterator[pa.Table]:
    table = history.to_table()
    for at in range(0, max(len(table), 1), size):
        yield table.slice(at, size)


def looked_over(history: History, size: int) -> Survey:
    seen = split_stream.Survey()
    for table in batches(history, size):
        seen.take(table.select(split_stream.LOOKED_AT))
    return seen


def sent(cutter: Cutter, history: History, size: int) -> list[pa.Table]:
    """What came to each part, in history order, as it was sent."""
    came: list[list[pa.Table]] = [[] for _ in range(cutter.parts)]
    for table in batches(history, size):
        for place, rows in cutter.send(table):
            assert len(place) == len(rows) > 0
            for part in set(place.tolist()):
                came[part].append(rows.filter(pa.array(place == part)))
    empty = history.to_table().slice(0, 0)
    return [pa.concat_tables([empty, *tables]).sort_by("index").combine_chunks() for tables in came]


def same(history: History, by: Split, number: int, size: int) -> None:
    seen = looked_over(history, size)
    assert seen.rows == len(history)
    assert seen.keys == split.keys(history)
    assert seen.witnesses.tolist() == history.index[split.witnesses(history)].tolist()
    cutter = split_stream.Cutter(by, number, seen)
    came = sent(cutter, history, size)
    assert [table.to_pylist() for table in came] == [part.to_table().to_pylist() for part in cut(history, by, number)]
    assert cutter.waiting == 0


@settings(max_examples=50)
@given(
    st.integers(0, 2**32), st.integers(0, 80), st.sampled_from(SPLITS), st.sampled_from(PARTS), st.sampled_from(BATCHES)
)
def test_what_comes_to_each_part(seed: int, size: int, by: Split, number: int, batch: int) -> None:
    same(overlapping(Random(seed), size), by, number, batch)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from(SPLITS), st.sampled_from(PARTS))
def test_what_is_done_where_there_is_much(seed: int, by: Split, number: int) -> None:
    """Copies are made for a few parts at a time, and rows that wait are laid together."""
    with patch.multiple(split_stream, COPIED=500, TABLES=2):
        same(overlapping(Random(seed), 60), by, number, 8)


def test_what_is_tried_is_worth_something() -> None:
    """Of all that is hard there is some."""
    tried = [overlapping(Random(seed), 80) for seed in range(30)]
    consumed = [history.rows("consume", INVOKE) for history in tried]
    assert any((history.completion[rows] < 0).any() for history, rows in zip(tried, consumed, strict=True))
    assert any((history.completion[rows] > rows + 5).any() for history, rows in zip(tried, consumed, strict=True))
    assert any(np.diff(history.index).max(initial=1) > 1 for history in tried)
    assert {split.keys(history) for history in tried} >= {1, 3, 4}
    assert all(len(history.rows(f)) for history in tried[:1] for f in ("open", "close", "inject", "ack"))


def flow(messages: int, in_flight: int) -> History:
    """Publishes and credits that are all answered, so many of each open at once."""
    story, open_ = Story(), []
    for number in range(messages + in_flight):
        if number < messages:
            queue = "ab"[number % 2]
            open_ += [story.publish(number, queue, None), story.credit(queue, 10 + number % 3)]
        if number >= in_flight:
            story.end(open_.pop(0))
            story.end(open_.pop(0), value=number - in_flight)
    return story.history()


@pytest.mark.parametrize("by", SPLITS)
def test_where_all_is_answered_nothing_waits(by: Split) -> None:
    """However long the history: what is kept is what was open at once."""
    messages, in_flight, batch = 2000, 20, 100
    history = flow(messages, in_flight)
    seen = looked_over(history, batch)
    assert len(seen.unanswered) == 0
    assert len(seen.witnesses) == 6  # consumers, of two queues each
    cutter = Cutter(by, 7, seen)
    waited, came = [], 0
    for table in batches(history, batch):
        came += sum(len(rows) for _, rows in cutter.send(table))
        waited.append(cutter.waiting)
    assert 0 < max(waited) <= 2 * in_flight
    assert waited[-1] == 0
    assert came >= 4 * messages


def test_what_nobody_answers_does_not_wait() -> None:
    story = Story()
    for number in range(100):
        story.publish(number, end=None)
        story.credit()
    cutter = Cutter(Split.MESSAGE, 3, looked_over(story.history(), 10))
    for table in batches(story.history(), 10):
        assert sum(len(rows) for _, rows in cutter.send(table)) >= 10
        assert cutter.waiting == 0


MUTATIONS = [
    ("waits &= ~_found(some.index, self._unanswered)[0]", "pass"),
    ("place[ends[known]] = self._place[at[known]]", "pass"),
    ('waits & ~some.f.is_("publish")', "waits & False"),
    ("others = to != place[row]", "others = to >= 0"),
    ("codes[np.argsort(first)].tolist()", "codes.tolist()[::-1]"),
    ("np.append(self._open, some.index[some.type == INVOKE])", "some.index[some.type == INVOKE]"),
    ('"detail", "redelivered"):', '"detail"):'),
    ("~shared(some, Split.KEY) & (some.op == NONE)", "some.op == NONE"),
    ("own & _found(some.index, self._witnesses)[0]", "own & False"),
    ("some.index[waits & ~held]", "some.index[waits & ~held][:0]"),
]  # fmt: skip


def try_all() -> None:
    for seed in range(60):
        by, number, size = SPLITS[seed % 2], PARTS[1 + seed % 4], BATCHES[seed % 5]
        same(overlapping(Random(seed), 60), by, number, size)


@pytest.mark.parametrize(("old", "new"), MUTATIONS)
def test_a_broken_rule_of_cutting_in_batches_is_noticed(old: str, new: str) -> None:
    source = inspect.getsource(split_stream)
    assert old in source
    broken = ModuleType("broken")
    exec(compile(source.replace(old, new), "<mutant>", "exec"), broken.__dict__)
    with (  # (that they hold as they are is tried above)
        patch.multiple(split_stream, Survey=broken.Survey, Cutter=broken.Cutter),
        pytest.raises(AssertionError),
    ):
        try_all()
