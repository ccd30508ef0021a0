"""Who decides: the monitor where it can, else a search, else nobody; and it is said who and why."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from chaos.model.errors import BadInput
from checkers.linearizability import planner
from checkers.linearizability.calls import Calls, F, calls
from checkers.linearizability.planner import AUTO, MONITOR, MONITOR_OF, PORCUPINE, decide
from checkers.linearizability.porcupine import MODELS, Model, Unavailable, build, models, worker
from checkers.linearizability.porcupine.process import Worker
from checkers.linearizability.verdict import Decision, Violation
from tests.linearizability.porcupine import reference
from tests.linearizability.test_units import OBJECTS, WORDS

Row = tuple[F, int | None, int | None, int, int | None]

IN_ORDER = calls([(F.PUT, 1, None, 0, 1), (F.PUT, 2, None, 2, 3), (F.TAKE, None, 1, 4, 5), (F.TAKE, None, 2, 6, 7)])
SWAPPED = calls([(F.PUT, 1, None, 0, 1), (F.PUT, 2, None, 2, 3), (F.TAKE, None, 2, 4, 5), (F.TAKE, None, 1, 6, 7)])
TWICE = calls([(F.PUT, 1, None, 0, 1), (F.PUT, 1, None, 2, 3), (F.TAKE, None, 1, 4, 5)])
STALE = calls([(F.WRITE, 1, None, 0, 1), (F.WRITE, 2, None, 2, 3), (F.READ, None, 1, 4, 5)])
SWAP: Row = (F.CAS, 1, 2, 2, 3)


def searching(monkeypatch: pytest.MonkeyPatch) -> list[Model]:
    """What will be searched for; every search finds an order."""
    asked: list[Model] = []

    def search(some: Calls, model: Model, *, timeout: float, memory: int) -> Decision:
        asked.append(model)
        return Decision(True, "porcupine", "an order was found")

    monkeypatch.setattr(planner, "search", search)
    return asked


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Model]:
    return searching(monkeypatch)


@pytest.fixture(scope="module")
def binary() -> Path:
    try:
        return build.worker()
    except build.Unavailable as why:
        pytest.skip(str(why))


@pytest.mark.parametrize(("some", "valid"), [(IN_ORDER, True), (SWAPPED, False)])
def test_the_monitor_decides_where_it_can(some: Calls, valid: bool, searched: list[Model]) -> None:
    for engine in (AUTO, MONITOR):
        decision = decide(some, "fifo-queue", engine=engine)
        assert (decision.valid, decision.engine) == (valid, MONITOR)
    assert searched == []


def test_what_the_monitor_refuses_is_searched_and_the_reason_told(searched: list[Model]) -> None:
    why = "an order was found (the fifo-queue monitor does not take it: operation 1 puts 1, which was put before)"
    assert decide(TWICE, "fifo-queue") == Decision(True, PORCUPINE, why)
    assert searched == [models.fifo_queue()]


def test_without_a_search_what_the_monitor_refuses_is_unknown() -> None:
    why = "the fifo-queue monitor does not take it: operation 1 puts 1, which was put before"
    assert decide(TWICE, "fifo-queue", engine=MONITOR) == Decision(None, MONITOR, why)


def test_a_model_without_a_monitor_is_searched(searched: list[Model]) -> None:
    decision = decide(calls([(F.ADD, 1, None, 0, 1)]), "counter")
    assert decision == Decision(True, PORCUPINE, "an order was found (there is no monitor for counter)")
    assert searched == [models.counter()]


def test_who_is_asked_for_by_name_decides(searched: list[Model]) -> None:
    assert decide(IN_ORDER, "fifo-queue", engine=PORCUPINE) == Decision(True, PORCUPINE, "an order was found")
    assert searched == [models.fifo_queue()]


@pytest.mark.parametrize("model", ["register", "cas-register"])
def test_a_register_is_monitored_unless_somebody_swaps(model: str, searched: list[Model]) -> None:
    told = "value 1 was written by process 0 before 2 was written by process 1, and 2 was written by process 1 before "
    told += "1 was read by process 2"
    assert decide(STALE, model) == Decision(False, MONITOR, told, Violation("stale", (0, 1, 2), told))
    assert searched == []
    why = f"an order was found (the {model} monitor does not take it: operation 1 is neither a read nor a write)"
    assert decide(calls([(F.WRITE, 1, None, 0, 1), SWAP]), model) == Decision(True, PORCUPINE, why)
    assert searched == [models.cas_register()]


def test_a_register_that_begins_with_something_is_searched(searched: list[Model]) -> None:
    some = calls([(F.READ, None, 5, 0, 1)])
    decision = decide(some, "register", search_as=models.register(5))
    assert decision.reason == "an order was found (the register monitor does not take it: it has parameters)"
    assert searched == [models.register(5)]


def test_texts_are_monitored_as_registers(searched: list[Model]) -> None:
    table = models.key_value(["", "milk", "honey"])
    some = calls([(F.WRITE, 1, None, 0, 1), (F.WRITE, 2, None, 2, 3), (F.READ, None, 1, 4, 5), (F.READ, None, 2, 6, 7)])
    told = 'value "milk" was written by process 0 before "honey" was written by process 1, and "honey" was written by '
    told += 'process 1 before "milk" was read by process 2'
    assert decide(some, "key-value", search_as=table) == Decision(
        False, MONITOR, told, Violation("stale", (0, 1, 2), told)
    )
    assert decide(some.select(np.array([0, 1, 3])), "key-value", search_as=table).valid is True
    assert searched == []


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ((F.WRITE, 0, None, 8, 9), "operation 1 writes the empty text, which was there at first"),
        ((F.APPEND, 1, None, 8, 9), "operation 1 is neither a read nor a write"),
    ],
)
def test_texts_that_are_appended_to_or_emptied_are_searched(row: Row, why: str, searched: list[Model]) -> None:
    table = models.key_value(["", "milk"])
    decision = decide(calls([(F.WRITE, 1, None, 0, 1), row]), "key-value", search_as=table)
    assert decision.reason == f"an order was found (the key-value monitor does not take it: {why})"
    assert searched == [table]


def test_a_set_that_is_read_whole_is_searched(searched: list[Model]) -> None:
    lists = models.set_([[1]])
    decision = decide(calls([(F.ADD, 1, None, 0, 1), (F.READ, None, 0, 2, 3)]), "set", search_as=lists)
    assert decision.engine == PORCUPINE
    assert searched == [lists]


SEARCH_AS = {
    "key-value": models.key_value(WORDS),
    "set, read whole": models.set_(((1,), (2,), (1, 2))),
    "reentrant-lock": models.reentrant_lock(2),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_whoever_decides_it_is_as_brute_force_says(name: str, binary: Path) -> None:
    draw, engines = Random(f"planner {name}"), Counter[str]()
    for _ in range(200):
        history = reference.random_history(OBJECTS[name], draw, draw.randint(1, 6))
        decision = decide(history, name.split(",")[0], search_as=SEARCH_AS.get(name))
        assert decision.valid is reference.linearizable(history, OBJECTS[name]), (decision, history)
        engines[decision.engine] += 1
    assert engines[PORCUPINE] > 20
    assert (engines[MONITOR] > 20) is (name not in ("reentrant-lock", "counter")), engines


def test_every_monitor_is_of_a_model_that_can_be_searched() -> None:
    assert set(MONITOR_OF) <= {*MODELS, "key-value"}


def test_with_nobody_to_search_it_is_unknown_and_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> Decision:
        raise Unavailable("no Go toolchain: install one")

    monkeypatch.setattr(planner, "search", missing)
    decision = decide(TWICE, "fifo-queue")
    assert decision.valid is None
    assert decision.reason.endswith("which was put before; no search: no Go toolchain: install one")


@pytest.mark.parametrize(
    ("model", "engine", "line"),
    [
        ("fifo", AUTO, "no model 'fifo': did you mean 'fifo-queue'?"),
        ("fifo", MONITOR, "no model 'fifo': did you mean 'fifo-queue'?"),
        ("key-value", AUTO, "the model key-value has a table: give it as search_as"),
        ("register", "monitors", "engine 'monitors': did you mean 'monitor'?"),
    ],
)
def test_what_there_is_not_is_one_line(model: str, engine: str, line: str) -> None:
    with pytest.raises(BadInput) as raised:
        decide(IN_ORDER, model, engine=engine)
    assert str(raised.value) == line


def test_what_the_model_does_not_do_is_one_line(binary: Path) -> None:
    with pytest.raises(BadInput) as raised:
        decide(IN_ORDER, "bag", engine=PORCUPINE, search_as=models.register())
    assert str(raised.value) == "op 0: the model register takes no put (it takes read, write)"


def test_a_refused_cas_alone_is_one_too(searched: list[Model]) -> None:
    decide(calls([(F.CAS_REFUSED, 1, None, 0, 1)]), "register")
    assert searched == [models.cas_register()]


def test_only_registers_swap() -> None:
    with pytest.raises(BadInput) as raised:
        decide(calls([SWAP]), "counter")
    assert str(raised.value) == "op 0: the model counter takes no cas (it takes add, read)"


def hard() -> Calls:
    """A queue that 12 clients fill at once and empty at once, in an order that no queue allows. 0 is put twice, which
    no monitor takes."""
    rows: list[Row] = [(F.PUT, max(place, 1) - 1, None, place, 100 + place) for place in range(12)]
    rows += [(F.TAKE, None, value, 200 + place, 300 + place) for place, value in enumerate([0, *range(1, 11)])]
    return calls([*rows, (F.PUT, 99, None, 400, 401), (F.TAKE, None, 0, 402, 403), (F.TAKE, None, 98, 404, 405)])


def test_a_search_that_takes_too_long_is_unknown_with_what_was_learnt(binary: Path) -> None:
    decision = decide(hard(), "fifo-queue", timeout=0.2)
    assert (decision.valid, decision.engine) == (None, PORCUPINE)
    assert decision.reason.startswith("Porcupine ran out of time (200ms); the longest order found takes 1")
    assert len(decision.longest) > 12


def test_a_search_that_takes_too_much_memory_is_unknown(binary: Path) -> None:
    decision = decide(hard(), "fifo-queue", memory=20 << 20)
    assert (decision.valid, decision.engine) == (None, PORCUPINE)
    # on a busy machine whoever watches it may be faster than it is itself
    told = (
        "Porcupine ran out of memory (20 MiB); the longest order found takes 1",
        "Porcupine gave no answer: it grew above ",
    )
    assert decision.reason.startswith(told)


def test_a_worker_that_dies_is_unknown_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    dying = Worker([sys.executable, "-c", "raise SystemExit('out of coffee')"])
    monkeypatch.setitem(worker._workers, None, dying)
    decision = decide(TWICE, "fifo-queue")
    assert decision.valid is None
    assert decision.reason.startswith("Porcupine gave no answer: the worker died; out of coffee")
