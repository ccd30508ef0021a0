"""Who decides: the monitor where it can, else a search, else nobody; and it is said who and why."""

from __future__ import annotations

import pytest

from checkers.linearizability import planner
from checkers.linearizability.calls import Calls, F, calls
from checkers.linearizability.planner import AUTO, MONITOR, PORCUPINE, decide
from checkers.linearizability.porcupine import Unavailable
from checkers.linearizability.verdict import Decision

IN_ORDER = calls([(F.PUT, 1, None, 0, 1), (F.PUT, 2, None, 2, 3), (F.TAKE, None, 1, 4, 5), (F.TAKE, None, 2, 6, 7)])
SWAPPED = calls([(F.PUT, 1, None, 0, 1), (F.PUT, 2, None, 2, 3), (F.TAKE, None, 2, 4, 5), (F.TAKE, None, 1, 6, 7)])
TWICE = calls([(F.PUT, 1, None, 0, 1), (F.PUT, 1, None, 2, 3), (F.TAKE, None, 1, 4, 5)])


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were searched for; every search finds an order."""
    asked: list[str] = []

    def search(some: Calls, model: str, *, timeout: float, memory: int) -> Decision:
        asked.append(model)
        return Decision(True, "porcupine", "an order was found")

    monkeypatch.setattr(planner, "search", search)
    return asked


@pytest.mark.parametrize(("some", "valid"), [(IN_ORDER, True), (SWAPPED, False)])
def test_the_monitor_decides_where_it_can(some: Calls, valid: bool, searched: list[str]) -> None:
    assert decide(some, "fifo-queue").valid is valid
    assert decide(some, "fifo-queue", engine=MONITOR).valid is valid
    assert searched == []


def test_what_the_monitor_refuses_is_searched_and_the_reason_told(searched: list[str]) -> None:
    decision = decide(TWICE, "fifo-queue", engine=AUTO)
    assert (decision.valid, decision.engine, searched) == (True, "porcupine", ["fifo-queue"])
    assert "an order was found (the fifo-queue monitor does not take it: " in decision.reason


def test_without_a_search_what_the_monitor_refuses_is_unknown() -> None:
    decision = decide(TWICE, "fifo-queue", engine=MONITOR)
    assert decision.valid is None
    assert decision.reason.startswith("the fifo-queue monitor does not take it: ")


def test_a_model_without_a_monitor_is_searched(searched: list[str]) -> None:
    decision = decide(calls([(F.ADD, 1, None, 0, 1)]), "counter")
    assert (decision.valid, searched) == (True, ["counter"])
    assert decision.reason == "an order was found (there is no monitor for counter)"


def test_who_is_asked_for_by_name_decides(searched: list[str]) -> None:
    assert decide(IN_ORDER, "fifo-queue", engine=PORCUPINE) == Decision(True, "porcupine", "an order was found")
    assert searched == ["fifo-queue"]


def test_with_nobody_to_search_it_is_unknown_and_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> Decision:
        raise Unavailable("no Go toolchain: install one")

    monkeypatch.setattr(planner, "search", missing)
    decision = decide(TWICE, "fifo-queue")
    assert decision.valid is None
    assert decision.reason.endswith("; no search: no Go toolchain: install one")
