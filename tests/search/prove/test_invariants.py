"""The invariants on literal views and pasts."""

from __future__ import annotations

import pytest

from chaos.search.prove.invariants import NOBODY, Chronicle, Violation, matching, witness
from chaos.search.prove.model import View

A, B, C = (1, "a"), (1, "b"), (2, "c")


def view(term: int = 1, *log: tuple[int, str], leads: bool = False, commit: int = 0) -> View:
    return View(term, "", leads, log, commit)


@pytest.mark.parametrize(
    ("past", "seen", "known"),
    [
        (Chronicle(), view(), Chronicle()),
        (Chronicle(), view(2, leads=True), Chronicle((NOBODY, 0))),
        (Chronicle((0,)), view(1, leads=True), Chronicle((0,))),
        (Chronicle((1,)), view(1, leads=True), Violation("two-leaders", "term 1 has a second leader, n1")),
        (Chronicle((1,)), view(1), Chronicle((1,))),
        # it wins a term that is long over, before which nothing was committed
        (Chronicle((1, NOBODY, 2), ((3, A),)), view(2, leads=True), Chronicle((1, 0, 2), ((3, A),))),
        (Chronicle(), view(1, A, B, commit=1), Chronicle((), ((1, A),))),
        (Chronicle((), ((1, A),)), view(2, A, B, commit=2), Chronicle((), ((1, A), (2, B)))),
        (Chronicle((), ((1, A), (1, B))), view(2, A, C, commit=1), Chronicle((), ((1, A), (1, B)))),
        (
            Chronicle((), ((1, A), (1, B))),
            view(2, A, C, commit=2),
            Violation("state-machine-safety", "n1 takes another entry 2 for committed than was committed before"),
        ),
        (
            Chronicle((), ((1, A),)),
            view(2, leads=True),
            Violation("leader-completeness", "n1 leads term 2 without entry 1, committed in term 1"),
        ),
        (Chronicle((), ((1, A),)), view(2, A, leads=True), Chronicle((NOBODY, 0), ((1, A),))),
    ],
)
def test_what_a_view_makes_of_the_past(past: Chronicle, seen: View, known: Chronicle | Violation) -> None:
    assert witness(past, 0, "n1", seen) == known


@pytest.mark.parametrize(
    ("one", "other", "match"),
    [
        ((), (A,), True),
        ((A,), (A, B), True),
        ((A, C), (A, B), True),  # of two terms: one of them will be cut back
        ((A,), (B,), False),
        ((B, C), (A, C), False),
        ((A, B, C), (B, B, (1, "d")), False),
    ],
)
def test_logs_match(one: tuple[tuple[int, str], ...], other: tuple[tuple[int, str], ...], match: bool) -> None:
    assert matching(view(1, *one), view(1, *other)) is match
    assert matching(view(1, *other), view(1, *one)) is match
