"""What people are shown of a history without an order: a sentence, operations, the shortest history that fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F, calls
from checkers.linearizability.counterexample import Counterexample, explain
from checkers.linearizability.monitors import MONITORS
from checkers.linearizability.operations import FIRST_WORD
from checkers.linearizability.planner import MONITOR_OF, decide
from checkers.linearizability.porcupine import build
from checkers.linearizability.verdict import Decision, Refused, Violation
from tests.linearizability.monitors import small
from tests.linearizability.monitors.agree import CASES
from tests.linearizability.porcupine import reference
from tests.linearizability.test_units import OBJECTS

Row = tuple[F, int | None, int | None, int, int | None]


def of_monitor(some: Calls, model: str) -> Counterexample:
    monitor = MONITORS[MONITOR_OF[model]]
    return explain(some, monitor(some), monitor, model)


def of_search(some: Calls, model: str) -> Counterexample:
    search = partial(decide, model=model, engine="porcupine", timeout=5.0)
    return explain(some, search(some), search, model)


def shown(found: Counterexample) -> tuple[str, str, tuple[int, ...], list[int], tuple[int, ...], str | None]:
    """All of it, the window by its operations."""
    return found.sentence, found.rule, found.rows, found.window.op.tolist(), found.longest, found.stuck


@pytest.fixture(scope="module")
def binary() -> Path:
    try:
        return build.worker()
    except build.Unavailable as why:
        pytest.skip(str(why))


def test_of_a_queue() -> None:
    rows: list[Row] = [(F.PUT, value, None, value, value + 30) for value in range(10)]
    rows += [(F.PUT, 17, None, 40, 41), (F.PUT, 23, None, 42, 43), (F.TAKE, None, None, 44, None)]
    rows += [(F.TAKE, None, value, 50 + 2 * value, 51 + 2 * value) for value in range(10)]
    rows += [(F.TAKE, None, 23, 80, 81), (F.TAKE, None, 17, 82, 83), (F.PUT, 99, None, 84, 85)]
    sentence = "message 17 was confirmed before 23 was published, yet 23 was consumed first, by process 23, and 17 "
    sentence += "only then, by process 24"
    found = of_monitor(calls(rows), "fifo-queue")
    assert shown(found) == (sentence, "inversion", (10, 11, 23, 24), [10, 11, 23, 24], (), None)


def test_of_one_object_among_several() -> None:
    stale: list[Row] = [(F.WRITE, 1, None, 0, 1), (F.WRITE, 2, None, 2, 3), (F.READ, None, 1, 4, 5)]
    good: list[Row] = [(F.WRITE, 1, None, 10, 11), (F.READ, None, 1, 12, 13)]
    some = calls([*good, *stale], keys=[8, 8, 9, 9, 9])
    sentence = "value 1 was written by process 2 before 2 was written by process 3, and 2 was written by process 3 "
    sentence += "before 1 was read by process 4"
    assert shown(of_monitor(some, "register")) == (sentence, "stale", (0, 1, 2), [2, 3, 4], (), None)


def test_values_that_are_no_numbers_are_told_as_they_are() -> None:
    some = calls([(F.READ, None, FIRST_WORD + 3, 0, 1)])
    monitor = MONITORS["register"]
    found = explain(some, monitor(some), monitor, "register", {FIRST_WORD + 3: ["milk", 2]})
    assert found.sentence == 'process 0 read ["milk", 2], which nobody ever wrote'


def test_of_a_search(binary: Path) -> None:
    rows: list[Row] = [
        (F.WRITE, 5, None, 0, 1), (F.READ, None, 5, 2, 3), (F.WRITE, 1, None, 4, 5), (F.CAS, 1, 2, 6, 7),
        (F.READ, None, 2, 8, 9), (F.READ, None, 1, 10, 11), (F.WRITE, 8, None, 12, 13),
    ]  # fmt: skip
    sentence = "2 of 3 operations linearize, up to 2; none can be next, and read -> 1 by process 5 (op 5) cannot wait"
    expected = (sentence, "no-order", (5,), [2, 3, 5], (2, 3), "read -> 1 by process 5 (op 5)")
    assert shown(of_search(calls(rows), "cas-register")) == expected


def test_of_a_search_whose_values_are_no_numbers(binary: Path) -> None:
    milk, bread = FIRST_WORD, FIRST_WORD + 1
    some = calls([(F.WRITE, milk, None, 0, 1), (F.WRITE, bread, None, 2, 3), (F.READ, None, milk, 4, 5)])
    search = partial(decide, model="register", engine="porcupine")
    found = explain(some, search(some), search, "register", {milk: "milk", bread: ["bread", None]})
    assert found.sentence == (
        '2 of 3 operations linearize, up to ["bread", null]; none can be next, and read -> "milk" by process 2 (op 2) '
        "cannot wait"
    )


def test_of_a_search_a_part_that_a_monitor_takes_is_told_by_it(binary: Path) -> None:
    rows: list[Row] = [(F.PUT, 3, None, 0, 1), (F.TAKE, None, 3, 2, 3), (F.PUT, 3, None, 4, 5), (F.TAKE, None, 3, 6, 7)]
    rows += [(F.PUT, 1, None, 10, 11), (F.PUT, 2, None, 12, 13), (F.TAKE, None, 2, 14, 15), (F.TAKE, None, 1, 16, 17)]
    some = calls(rows)
    auto = partial(decide, model="fifo-queue")
    decision = auto(some)
    assert decision.engine == "porcupine"
    found = explain(some, decision, auto, "fifo-queue")
    sentence = "message 1 was confirmed before 2 was published, yet 2 was consumed, by process 6, and 1 never was"
    assert shown(found) == (sentence, "overtaken", (4, 5, 6), [4, 5, 6], (), None)


def test_of_a_counter_the_shortest_prefix_and_one_read(binary: Path) -> None:
    rows: list[Row] = [(F.ADD, 2, None, 0, 1), (F.READ, None, 2, 2, 3), (F.ADD, 3, None, 4, 5), (F.READ, None, 4, 6, 7)]
    sentence = "2 of 3 operations linearize, up to 5; none can be next, and read -> 4 by process 3 (op 3) cannot wait"
    found = of_search(calls([*rows, (F.ADD, 1, None, 8, 9)]), "counter")
    assert shown(found) == (sentence, "no-order", (3,), [0, 2, 3], (0, 2), "read -> 4 by process 3 (op 3)")


@pytest.mark.parametrize("name", ["register", "cas-register", "reentrant-lock", "fifo-queue", "bag", "set", "counter"])
def test_of_small_histories_the_window_fails_and_its_longest_order_can_be_followed(name: str, binary: Path) -> None:
    thing, draw, tried = OBJECTS[name], Random(f"explain {name}"), 0
    while tried < 25:
        history = reference.random_history(thing, draw, draw.randint(2, 9))
        if reference.linearizable(history, thing):
            continue
        found = of_search(history, name)
        assert not reference.linearizable(found.window, thing), history
        assert set(history.op[list(found.rows)]) <= set(found.window.op)
        assert found.stuck is not None
        states, window = {thing.start}, found.window
        for row in found.longest:
            op = reference.op(window, int(np.flatnonzero(window.op == history.op[row])[0]))
            after = {state for before in states for state in thing.step(before, op)}
            states = states | after if op.unknown else after
            assert states
        tried += 1


@pytest.mark.parametrize("model", MONITOR_OF)
def test_of_small_histories_what_is_told_is_in_the_window_and_the_window_fails(model: str) -> None:
    name = MONITOR_OF[model]
    case, draw, tried = CASES[name], Random(f"tell {model}"), 0
    while tried < 60:
        some = small.columns([case.make(draw)])
        with contextlib.suppress(Refused):
            if MONITORS[name](some).valid:
                continue
            found = of_monitor(some, model)
            assert set(some.op[list(found.rows)]) <= set(found.window.op)
            assert MONITORS[name](found.window).valid is False
            tried += 1


def test_a_search_that_tires_leaves_what_was_decided() -> None:
    why = "in no order can take -> 2 take effect: the longest takes 2 of 4 operations, and ends at [1 2]"
    told = Violation("no-order", (2,), why)
    rows: list[Row] = [(F.PUT, 1, None, 0, 1), (F.PUT, 2, None, 2, 3), (F.TAKE, None, 2, 4, 5), (F.TAKE, None, 1, 6, 7)]
    decision = Decision(False, "porcupine", told.sentence, told, (0, 1))
    found = explain(calls(rows), decision, lambda _: Decision(None, "porcupine", "no time"), "fifo-queue")
    stuck = "take -> 2 by process 2 (op 2)"
    sentence = f"2 of 4 operations linearize, up to [1 2]; none can be next, and {stuck} cannot wait"
    assert shown(found) == (sentence, "no-order", (2,), [0, 1, 2, 3], (0, 1), stuck)


def test_only_what_is_not_linearizable_has_one() -> None:
    with pytest.raises(ValueError, match="only what is not linearizable has a counterexample"):
        explain(calls([]), Decision(True, "monitor", ""), lambda _: Decision(True, "monitor", ""), "bag")


N = 100_000


def column(*parts: np.ndarray | int) -> np.ndarray:
    return np.concatenate([np.full(N, part) if isinstance(part, int) else part for part in parts])


def large(*operations: tuple[F, np.ndarray | int, np.ndarray | int, np.ndarray, np.ndarray]) -> Calls:
    """N of each of these."""
    f, arg, out, call, ret = (column(*parts) for parts in zip(*operations, strict=True))
    order = np.argsort(call, kind="stable")
    index = np.arange(len(call))
    return Calls(
        f[order].astype(np.int8), arg[order], out[order], call[order], ret[order], np.zeros_like(index), index % 20,
        np.full_like(index, -1), index, index,
    )  # fmt: skip


EACH = np.arange(N)
LATE = 60_000


def queue() -> Calls:
    some = large((F.PUT, EACH, NONE, 9 * EACH, 9 * EACH + 90), (F.TAKE, NONE, EACH, 9 * EACH + 1, 9 * EACH + 95))
    takes = np.flatnonzero(some.f == F.TAKE)
    some.ret[takes[:300]], some.out[takes[:300]] = NEVER, NONE  # as many as the values that were never seen
    some.ret[takes[LATE]], some.out[takes[LATE]] = some.ret[takes[LATE]] + 900, some.out[takes[LATE]]
    some.call[takes[LATE]] += 800
    return some.select(np.argsort(some.call, kind="stable"))


def register() -> Calls:
    some = large((F.WRITE, EACH, NONE, 9 * EACH, 9 * EACH + 5), (F.READ, NONE, EACH, 9 * EACH + 2, 9 * EACH + 7))
    some.out[2 * LATE + 1] = LATE - 1000
    return some


def mutex() -> Calls:
    some = large(
        (F.ACQUIRE, NONE, NONE, 20 * EACH, 20 * EACH + 5), (F.TRY, NONE, NONE, 20 * EACH + 6, 20 * EACH + 8),
        (F.RELEASE, NONE, NONE, 20 * EACH + 10, 20 * EACH + 12),
    )  # fmt: skip
    some.process[:] = np.where(some.f == F.TRY, 99, np.arange(len(some)) // 3 % 20)
    late = 3 * LATE + 1
    some.call[late], some.ret[late] = some.call[late] + 8, some.ret[late] + 8
    return some.select(np.argsort(some.call, kind="stable"))


def members() -> Calls:
    some = large((F.ADD, EACH, NONE, 9 * EACH, 9 * EACH + 5), (F.CONTAINS, EACH, 1, 9 * EACH + 6, 9 * EACH + 8))
    some.out[2 * LATE + 1] = 0
    return some


def entries() -> Calls:
    some = large((F.APPEND, EACH, EACH, 9 * EACH, 9 * EACH + 5), (F.FETCH, EACH, EACH, 9 * EACH + 6, 9 * EACH + 8))
    some.out[2 * LATE + 1] = NONE
    return some


@pytest.mark.parametrize(
    ("make", "model", "few"),
    [
        (queue, "fifo-queue", 4),
        (register, "register", 3),
        (mutex, "mutex", 3),
        (members, "set", 2),
        (entries, "log", 2),
    ],
)
def test_of_a_long_history_it_is_short_and_found_with_little_work(
    make: Callable[[], Calls], model: str, few: int
) -> None:
    some, monitor, work = make(), MONITORS[MONITOR_OF[model]], []

    def judge(part: Calls) -> Decision:
        work.append(len(part))
        return monitor(part)

    found = explain(some, monitor(some), judge, model)
    assert len(found.window) == few
    assert set(some.op[list(found.rows)]) <= set(found.window.op)
    assert sum(work) < 4 * len(some)
