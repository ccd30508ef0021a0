"""Literal histories of queues, and what a monitor answers about them."""

from __future__ import annotations

from checkers.linearizability.calls import F
from checkers.linearizability.verdict import Decision, Violation
from tests.linearizability.monitors.wing_gong import Op


def put(value: int, call: int, ret: int | None, *, channel: int = -1, process: int = 0) -> Op:
    """A literal put; ret None: nobody knows."""
    return Op(F.PUT, value, None, call, ret, channel, process)


def take(
    value: int | None, call: int, ret: int | None, *, channel: int = -1, process: int = 0, mark: bool = False
) -> Op:
    """A literal take; value None: an empty answer, or, with ret None, nobody knows."""
    return Op(F.TAKE, None, value, call, ret, channel, process, mark)


def invalid(rule: str, rows: tuple[int, ...], sentence: str) -> Decision:
    """What a monitor answers: the sentence is the reason too."""
    return Decision(False, "monitor", sentence, Violation(rule, rows, sentence))
