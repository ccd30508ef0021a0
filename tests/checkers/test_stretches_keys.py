"""Some of the objects of a history at a time: the same verdicts as of all at once."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.model.history import History
from chaos.model.op import FAIL, INFO, OK
from chaos.model.verdict import Result, Verdict
from checkers import linearizable
from checkers.linearizable import Linearizable
from checkers.stretches import pieces_of, shares
from tests.checkers.histories import Story, judge

KEYS = "abcdefgh"


def registers(random: Random, size: int) -> History:
    """Clients of several registers, one of which may be stale now and then; completions do not all say their key."""
    story, held, open_ = Story(), {key: [0] for key in KEYS}, list[tuple[int, str, Any]]()
    story.phase("work")
    stale = random.choice([*KEYS, None, None])
    for number in range(1, size):
        process = number % 5
        key = random.choice(KEYS)
        if random.random() < 0.5:
            op = story.ask(process, "write", number, key=key)
            held[key] = [*held[key], number]
            open_.append((op, key, number))
        else:
            op = story.ask(process, "read", key=key)
            past = held[key][random.randrange(len(held[key]))] if key == stale else held[key][-1]
            open_.append((op, key, past or None))
        while open_ and random.random() < 0.6:
            op, _, said = open_.pop(0)
            story.answer(op, said, random.choice([OK] * 8 + [INFO] + [FAIL] * (story.ops[op].f == "read")))
    return story.history()


def at_a_time(history: History, size: int) -> Result:
    with patch.object(linearizable, "SHARE", size), patch("checkers.stretches.read.PIECE", 1 + size % 9):
        return judge(Linearizable(), history, {"model": "register"})


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(5, 60), st.sampled_from([1, 10, 40]))
def test_some_at_a_time_as_all_at_once(seed: int, size: int, share: int) -> None:
    history = registers(Random(seed), size)
    alone, found = judge(Linearizable(), history, {"model": "register"}), at_a_time(history, share)
    assert (found.verdict, found.counts) == (alone.verdict, alone.counts)


def test_what_is_told() -> None:
    seen = dict.fromkeys(Verdict, (0, ""))
    for seed in range(40):
        found = at_a_time(registers(Random(seed), 40), 20)
        many, _ = seen[found.verdict]
        seen[found.verdict] = (many + 1, found.reason)
    assert min(seen[Verdict.VALID][0], seen[Verdict.INVALID][0]) > 3
    assert "groups of objects have such an order (" in seen[Verdict.VALID][1]
    assert "no order explains these" in seen[Verdict.INVALID][1]


@pytest.mark.parametrize("size", [1, 10, 25, 1000])
def test_each_object_is_in_one_share_with_all_its_rows(size: int) -> None:
    history = registers(Random(4), 60)
    found = list(shares(pieces_of(history), size))
    if size == 1000:
        assert [one.digest() for one in found] == [history.digest()]
        return
    assert len(found) > 2
    assert np.array_equal(np.sort(np.concatenate([one.index for one in found])), history.index[history.process >= 0])
    keys = [{one.key[row] for row in range(len(one))} for one in found]
    assert sum(map(len, keys)) == len(KEYS)
    for one in found:
        one.validate()
        assert len(one) <= size or len({one.key[row] for row in range(len(one))}) == 1


def test_registers_that_are_used_together_are_judged_at_once() -> None:
    story = Story()
    for number, key in enumerate("abab"):
        story.did(0, "write", number, key=key)
    with patch.object(linearizable, "SHARE", 2):
        assert judge(Linearizable(), story.history(), {"model": "multi-register"}).counts["objects"] == 1
