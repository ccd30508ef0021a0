"""What is linearizable stays so, whatever units are taken away: against all orders tried."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F, calls
from checkers.linearizability.shrink import prefix
from checkers.linearizability.units import KEPT, closed, excused, looks, units
from tests.linearizability.monitors import objects, small
from tests.linearizability.porcupine import reference

WORDS = ("a", "bb", "")
OBJECTS = {
    "register": reference.register(),
    "cas-register": reference.cas_register(),
    "key-value": reference.key_value(WORDS),
    "mutex": reference.lock(1, False, False),
    "reentrant-lock": reference.lock(2, True, False),
    "fenced-lock": reference.lock(1, True, True),
    "fifo-queue": reference.fifo_queue(),
    "bag": reference.bag(),
    "set": reference.set_(),
    "set, read whole": reference.set_(((1,), (2,), (1, 2))),
    "counter": reference.counter(),
    "log": reference.log(),
}


def _history(name: str, draw: Random) -> Calls:
    if name in ("mutex", "reentrant-lock", "fenced-lock") and draw.random() < 0.8:  # few that are random are in order
        return small.columns([objects.lock(draw, tokens=name == "fenced-lock")])
    return reference.random_history(OBJECTS[name], draw, draw.randint(2, 8))


@pytest.mark.parametrize("name", OBJECTS)
def test_without_some_of_its_units_what_is_linearizable_still_is(name: str) -> None:
    thing, model = OBJECTS[name], name.split(",")[0]
    draw = Random(f"units {name}")
    tried: Counter[str] = Counter()
    for number in range(1500):
        history = _history(name, draw)
        if not reference.linearizable(history, thing):
            continue
        how = draw.choice((units, units, looks))
        label = how(history, model)
        names = [int(unit) for unit in np.unique(label) if unit != KEPT]
        gone = [unit for unit in names if draw.random() < 0.5]
        if not gone:
            continue
        away = np.isin(label, gone)
        left = history.select(np.flatnonzero(~away))
        if model == "log" and how is units:
            left = closed(left, history.select(np.flatnonzero(away)))
        left = prefix(left, draw.randrange(90))
        assert reference.linearizable(left, thing), (number, history, gone)
        tried[how.__name__] += 1
    assert sum(tried.values()) > 150, tried


@pytest.mark.parametrize("name", ["fifo-queue", "bag", "log"])
def test_what_is_linearizable_is_so_when_all_that_can_be_is_excused(name: str) -> None:
    draw = Random(f"excused {name}")
    tried = 0
    for _ in range(1000):
        history = reference.random_history(OBJECTS[name], draw, draw.randint(1, 6))
        if reference.linearizable(history, OBJECTS[name]):
            freed = excused(history, name)
            assert freed is not None
            assert reference.linearizable(freed, OBJECTS[name])
            tried += 1
    assert tried > 100


def test_a_queue_is_excused_by_more_takes_of_nobody_knows_what_than_it_has_values() -> None:
    some = calls([(F.PUT, 7, None, 0, 1), (F.PUT, 8, None, 2, 3), (F.PUT, 7, None, 4, 5)], keys=[0, 0, 1])
    freed = excused(some, "bag")
    assert freed is not None
    assert freed.f.tolist() == [F.TAKE] * 6 + [F.PUT] * 3
    assert freed.key.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 1]
    assert freed.ret[:6].tolist() == [NEVER] * 6
    assert freed.call.tolist() == sorted(freed.call.tolist())
    assert excused(some, "register") is None


def test_all_of_a_value_is_a_unit_and_what_is_unknown_stays() -> None:
    some = calls(
        [
            (F.PUT, 7, None, 0, 1), (F.PUT, 8, None, 2, 3), (F.TAKE, None, 7, 4, 5), (F.TAKE, None, None, 6, 7),
            (F.TAKE, None, None, 8, None),
        ]
    )  # fmt: skip
    assert units(some, "fifo-queue").tolist() == [0, 1, 0, 3, KEPT]


def test_values_that_a_cas_joins_are_a_unit_and_a_refused_one_holds_all() -> None:
    rows: list[tuple[F, int | None, int | None, int, int | None]] = [
        (F.WRITE, 1, None, 0, 1), (F.CAS, 1, 2, 2, 3), (F.READ, None, 2, 4, 5), (F.WRITE, 3, None, 6, 7),
        (F.READ, None, None, 8, 9),
    ]  # fmt: skip
    assert units(calls(rows), "cas-register").tolist() == [0, 0, 0, 3, 4]
    refused = calls([*rows, (F.CAS_REFUSED, 5, None, 10, 11)])
    assert units(refused, "cas-register").tolist() == [KEPT, KEPT, 2, KEPT, 4, 5]


def test_a_hold_is_a_unit_unless_it_may_be_why_a_try_was_refused() -> None:
    some = calls(
        [
            (F.ACQUIRE, None, None, 0, 1), (F.RELEASE, None, None, 2, 3), (F.ACQUIRE, None, None, 4, 5),
            (F.TRY, None, None, 6, 7), (F.RELEASE, None, None, 8, 9),
        ]
    )  # fmt: skip
    some.process[:] = [0, 0, 1, 2, 1]
    assert units(some, "mutex").tolist() == [0, 0, KEPT, 3, KEPT]
    some.process[4] = 2  # another's release: then nobody knows whose hold it was
    assert units(some, "mutex").tolist() == [KEPT, KEPT, KEPT, 3, KEPT]


def test_offsets_of_a_log_close_up() -> None:
    some = calls([(F.APPEND, 5, 0, 0, 1), (F.APPEND, 6, 1, 2, 3), (F.APPEND, 7, 2, 4, 5), (F.FETCH, 3, None, 6, 7)])
    left = closed(some.select(np.array([0, 2, 3])), some.select(np.array([1])))
    assert left.out.tolist()[:2] == [0, 1]
    assert left.arg.tolist() == [5, 7, 2]


def test_offsets_close_up_log_by_log() -> None:
    some = calls(
        [(F.APPEND, 5, 0, 0, 1), (F.APPEND, 6, 1, 2, 3), (F.APPEND, 7, 2, 4, 5), (F.APPEND, 8, 3, 6, 7)],
        keys=[0, 1, 0, 1],
    )
    left = closed(some.select(np.array([2, 3])), some.select(np.array([0, 1])))
    assert left.out.tolist() == [1, 2]


def test_a_value_of_two_objects_is_two_units() -> None:
    some = calls([(F.PUT, 7, None, 0, 1), (F.PUT, 7, None, 2, 3), (F.TAKE, None, 7, 4, 5)], keys=[0, 1, 1])
    assert units(some, "bag").tolist() == [0, 1, 1]


def test_an_empty_text_may_have_been_there_at_first_so_all_must_stay() -> None:
    rows: list[tuple[F, int | None, int | None, int, int | None]] = [(F.WRITE, 0, None, 0, 1), (F.READ, None, 0, 2, 3)]
    assert units(calls(rows), "key-value").tolist() == [0, 0]
    assert units(calls([*rows, (F.READ, None, None, 4, 5)]), "key-value").tolist() == [KEPT, 1, 2]
    assert units(calls([*rows, (F.APPEND, 0, None, 4, 5)]), "key-value").tolist() == [KEPT, 1, KEPT]


def test_a_hold_that_does_not_end_is_a_unit() -> None:
    some = calls([(F.ACQUIRE, None, None, 0, 1), (F.RELEASE, None, None, 2, 3), (F.ACQUIRE, None, None, 4, 5)])
    some.process[:] = 0
    assert units(some, "mutex").tolist() == [0, 0, 2]


LOG: list[tuple[F, int | None, int | None, int, int | None]] = [
    (F.APPEND, 5, 0, 0, 1), (F.APPEND, 6, None, 2, None), (F.APPEND, 7, None, 4, None), (F.FETCH, 3, 7, 6, 7),
    (F.FETCH, 4, None, 8, 9), (F.APPEND, 8, 6, 10, 11), (F.APPEND, 8, 7, 12, 13), (F.FETCH, 0, None, 14, None),
]  # fmt: skip


def test_of_a_log_what_nobody_saw_and_what_was_appended_twice_stays() -> None:
    assert units(calls(LOG), "log").tolist() == [0, KEPT, 2, 2, 4, KEPT, KEPT, 7]


def test_a_log_is_excused_without_what_nobody_saw_and_without_holes() -> None:
    freed = excused(calls(LOG), "log")
    assert freed is not None
    assert freed.op.tolist() == [0, 2, 3, 4, 7]
    assert freed.out.tolist()[:2] == [0, NONE]
    assert freed.arg.tolist()[2:] == [1, 2, 0]


def test_a_set_that_is_read_whole_has_no_units_but_its_reads() -> None:
    rows: list[tuple[F, int | None, int | None, int, int | None]] = [(F.ADD, 1, None, 0, 1), (F.CONTAINS, 1, 1, 2, 3)]
    assert units(calls(rows), "set").tolist() == [0, 0]
    assert units(calls([*rows, (F.READ, None, 0, 4, 5)]), "set").tolist() == [KEPT, 1, 2]


def test_holds_of_a_process_that_overlap_stay() -> None:
    some = calls([(F.ACQUIRE, None, None, 0, 9), (F.RELEASE, None, None, 2, 3), (F.ACQUIRE, None, None, 10, 11)])
    some.process[:] = 0
    assert units(some, "mutex").tolist() == [KEPT, KEPT, KEPT]


def test_a_hold_lasts_until_its_release_returned() -> None:
    some = calls([(F.ACQUIRE, None, None, 0, 1), (F.RELEASE, None, None, 2, 6), (F.TRY, None, None, 4, 5)])
    some.process[:] = [0, 0, 1]
    assert units(some, "mutex").tolist() == [KEPT, KEPT, 2]


def test_what_an_unknown_model_does_stays() -> None:
    some: Calls = calls([(F.READ, None, 1, 0, 1), (F.WRITE, 1, None, 2, None)])
    assert units(some, "teapot").tolist() == [KEPT, KEPT]
    assert some.ret[1] == NEVER
