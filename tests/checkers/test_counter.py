"""Whether a counter stays within its bounds: literal histories, whole results, and Jepsen's own way of bounding."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.model.errors import BadHistory
from chaos.model.history import History
from chaos.model.op import FAIL, INFO, INVOKE, OK, OpType
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.counter import Counter
from tests.checkers.histories import Cases, Story, judge

CASES = Cases()
case = CASES.add


def result(
    verdict: Verdict, reason: str, *anomalies: Anomaly, adds: int, reads: list[Any], errors: list[Any] | None = None
) -> Result:
    counts = {"adds": adds, "reads": len(reads), "errors": len(errors or [])}
    return Result("counter", verdict, reason, counts, anomalies, {"reads": reads, "errors": errors or []})


READS = [[1, 3, 7], [5, 5, 7], [0, 1, 8]]


@case(result(Verdict.VALID, "3 reads within bounds", adds=6, reads=READS))
def _between_what_was_and_what_may_have_been(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(0, "add", 100, end=FAIL)
    read = story.ask(9, "read")
    story.did(1, "add", 2, end=INFO)
    late = story.ask(2, "add", 4)
    story.answer(late, 4)
    story.answer(read, 3)
    story.did(9, "read", answer=5)
    story.did(9, "read")
    story.did(3, "decrement", 5, end=INFO)
    story.did(0, "increment", end=INFO)
    story.did(9, "read", answer=1)


LOW = Anomaly("out-of-bounds", "a read answers 0, which is not from 1 to 1", (2, 3))
HIGH = Anomaly("out-of-bounds", "a read answers 2, which is not from 0 to 0", (6, 7))


@case(
    result(
        Verdict.INVALID, "2 of 2 reads out of bounds", LOW, HIGH, adds=2,
        reads=[[1, 0, 1], [0, 2, 0]], errors=[[1, 0, 1], [0, 2, 0]],
    )
)  # fmt: skip
def _out_of_bounds(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(9, "read", answer=0)
    story.did(0, "decrement")
    story.did(9, "read", answer=2)


@case(result(Verdict.UNKNOWN, "the counter was never read", adds=1, reads=[]))
def _never_read(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(9, "read", end=INFO)


@case(result(Verdict.NOT_APPLICABLE, "no counter was added to or read", adds=0, reads=[]))
def _ours(story: Story) -> None:
    story.publish(1)


@case(result(Verdict.NOT_APPLICABLE, "its reads do not answer with whole numbers", adds=1, reads=[]))
def _a_set(story: Story) -> None:
    story.did(0, "add", 1)
    story.did(9, "read", answer=[1])


@case(result(Verdict.NOT_APPLICABLE, "of an object with the operation write", adds=0, reads=[]))
def _a_register(story: Story) -> None:
    story.did(9, "read", answer=3)
    story.did(0, "write", 1)


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(Counter(), case.history(), case.options) == case.expected


def test_only_whole_numbers_are_added() -> None:
    story = Story()
    story.did(0, "add", "a lot")
    with pytest.raises(BadHistory, match=r"op 0 \(add\): what it adds is not a whole number"):
        judge(Counter(), story.history())


def as_jepsen(history: History) -> list[list[int]]:
    """The bounds of each read as `jepsen.checker/counter` keeps them, an op after the other."""
    lower = upper = 0
    begun: dict[int, int] = {}
    reads = []
    for row, op in enumerate(history):
        value = op.value or 0
        if op.f == "read" and op.type is INVOKE:
            begun[op.index] = lower
        elif op.f == "read" and op.type is OK:
            reads.append([begun[op.op or 0], value, upper])
        elif op.f == "add" and op.type is INVOKE:
            end = int(history.completion[row])
            upper += 0 if end >= 0 and history.type[end] == FAIL else value
        elif op.f == "add" and op.type is OK:
            lower += value
    return reads


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 4), st.sampled_from([OK, FAIL, INFO]))))
def test_the_bounds_are_jepsens(steps: list[tuple[int, bool, int, OpType]]) -> None:
    story = Story()
    doing: dict[int, int] = {}
    for process, adds, value, end in steps:
        if process in doing:
            op = doing.pop(process)
            story.answer(op, story.ops[op].value if story.ops[op].f == "add" else value, end)
        else:
            doing[process] = story.ask(process, "add" if adds else "read", value if adds else None)
    history = story.history()
    expected = as_jepsen(history)
    metrics = judge(Counter(), history).metrics
    assert metrics["reads"] == expected
    assert metrics["errors"] == [read for read in expected if not read[0] <= read[1] <= read[2]]
