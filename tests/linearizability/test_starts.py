"""What is linearizable stays so without its beginning, for something that the object may have held."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, F, calls
from checkers.linearizability.starts import MODELS, MOST, rest, starts
from tests.linearizability.porcupine import reference
from tests.linearizability.test_units import OBJECTS


@pytest.mark.parametrize("model", MODELS)
def test_the_rest_of_what_is_linearizable_is_so_from_something(model: str) -> None:
    thing, draw, tried = OBJECTS[model], Random(f"starts {model}"), 0
    while tried < 400:
        history = reference.random_history(thing, draw, draw.randint(2, 8))
        history = history.select(np.flatnonzero(history.key == history.key[0]))
        if not reference.linearizable(history, thing):
            continue
        left = rest(history, draw.randrange(-10, 70))
        tries = starts(left, model)
        assert not tries or any(reference.linearizable(one, thing) for one in tries), (history, left)
        tried += bool(tries)


def test_what_was_open_may_or_may_not_be_in_the_rest() -> None:
    some = calls([(F.WRITE, 1, None, 0, 1), (F.WRITE, 2, None, 2, 6), (F.CAS, 1, 3, 3, 8), (F.READ, None, 3, 4, 5)])
    left = rest(some, 4)
    assert left.op.tolist() == [1, 2, 3]
    assert left.ret.tolist() == [NEVER, NEVER, NEVER]
    assert left.out.tolist() == [NONE, 3, NONE]


def test_a_register_may_hold_what_somebody_asks_about_or_something_else() -> None:
    left = calls(
        [(F.READ, None, None, 0, 1), (F.CAS, 7, 9, 2, 3), (F.CAS_REFUSED, 4, None, 4, 5), (F.READ, None, 7, 6, 7)]
    )
    tries = starts(left, "cas-register")
    assert [one.arg[0] for one in tries[1:]] == [4, 7, 10]
    assert tries[0] is left
    assert {int(one.f[0]) for one in tries[1:]} == {F.WRITE}
    assert tries[1].call[:2].tolist() == [-2, 0]
    assert tries[1].ret[:2].tolist() == [-1, 1]


def test_a_counter_may_hold_what_its_first_read_leaves_open() -> None:
    left = calls([(F.ADD, 5, None, 0, 1), (F.ADD, 2, None, 2, 9), (F.READ, None, 10, 3, 4), (F.ADD, 1, None, 5, 6)])
    assert [int(one.arg[0]) for one in starts(left, "counter")] == [3, 4, 5]


def test_a_count_that_overlaps_its_read_may_have_been_before_it_or_not() -> None:
    left = calls([(F.ADD, 3, None, 0, 2), (F.READ, None, 0, 1, 4), (F.ADD, -1, None, 3, 6)])
    assert [int(one.arg[0]) for one in starts(left, "counter")] == [-3, -2, -1, 0, 1]


def test_what_returned_at_the_rank_was_before_and_an_unknown_read_asks_about_nothing() -> None:
    left = rest(calls([(F.WRITE, 1, None, 0, 3), (F.READ, None, 5, 4, 6), (F.READ, None, None, 7, None)]), 3)
    assert left.op.tolist() == [1, 2]
    assert [int(one.arg[0]) for one in starts(left, "register")] == [5, 6]


def test_where_too_much_may_be_held_there_is_nothing_to_try() -> None:
    many = calls([(F.READ, None, value, 2 * value, 2 * value + 1) for value in range(MOST + 1)])
    assert starts(many, "register") == []
    assert starts(calls([(F.ADD, 1000, None, 0, 9), (F.READ, None, 5, 1, 2)]), "counter") == []
    assert starts(calls([(F.ADD, 1000, None, 0, 9)]), "counter") == []
    assert starts(calls([]), "register") == []
    assert starts(many, "set") == []
