"""One order of all operations, or none: literal histories for what a queue promises, and for other objects."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.errors import BadHistory
from chaos.model.history import History
from chaos.model.op import INFO, INVOKE, OK, Op, OpType
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.linearizable import Linearizable
from checkers.run import check_all
from tests.checkers.histories import Cases, Story, judge

CASES = Cases()
case = CASES.add


def result(verdict: Verdict, reason: str, *anomalies: Anomaly, operations: int, **counts: int) -> Result:
    all_counts = {"operations": operations, "objects": 1, "redelivered-after-ack": 0} | counts
    metrics = {"engine": "monitor"} if operations else {}
    return Result("linearizable", verdict, reason, all_counts, anomalies, metrics)


@case(result(Verdict.VALID, "4 operations have a FIFO order (monitor)", operations=4))
def _in_order(story: Story) -> None:
    story.publish(17)
    story.publish(23)
    story.deliver(17)
    story.deliver(23)


INVERTED = (
    "message 17 was confirmed before 23 was published, yet 23 was consumed first, by process 4, and 17 only then, by "
)
INVERTED += "process 5"


@case(
    result(
        Verdict.INVALID, "no order explains these 4 operations: inversion",
        Anomaly("inversion", INVERTED, tuple(range(8)), {"engine": "monitor", "window": list(range(8))}),
        operations=4,
    )
)  # fmt: skip
def _overtaken(story: Story) -> None:
    story.publish(17)
    story.publish(23)
    story.deliver(23, process=4)
    story.deliver(17, process=5)


AGAIN = "message 17 was delivered again, to process 11, on a credit granted after its ack had taken effect"


@case(
    result(
        Verdict.INVALID, "no order explains these 3 operations: redelivered-after-ack",
        Anomaly("redelivered-after-ack", AGAIN, (0, 5, 6, 7), {"window": [0, 5, 6, 7]}),
        operations=3, **{"redelivered-after-ack": 1},
    )
)  # fmt: skip
def _again_after_its_ack(story: Story) -> None:
    story.publish(17)
    story.deliver(17, redelivered=False)
    story.ack(17)
    story.deliver(17, process=11, redelivered=True)


@case(result(Verdict.VALID, "2 operations have a FIFO order (monitor)", operations=3))
def _again_before_its_ack_is_known(story: Story) -> None:
    story.publish(17)
    story.deliver(17, redelivered=False)
    story.ack(17, end=INFO)
    story.deliver(17, process=11, redelivered=True)


UNMARKED = "message 17 was delivered to process 11 without a mark after it had been delivered, marked as redelivered, "
UNMARKED += "to process 10"
SWAPPED = "message 23 was confirmed before 29 was published, yet 29 was consumed first, by process 4, and 23 only "
SWAPPED += "then, by process 5"


@case(
    result(
        Verdict.INVALID, "no order explains these 3 operations: not-marked-though-redelivered",
        Anomaly("not-marked-though-redelivered", UNMARKED, (2, 3, 4, 5), {"engine": "monitor", "window": [2, 3, 4, 5]}),
        operations=3,
    )
)  # fmt: skip
def _new_after_it_was_delivered_again(story: Story) -> None:
    story.publish(17)
    story.deliver(17, redelivered=True)
    story.deliver(17, process=11, redelivered=False)


@case(
    result(
        Verdict.INVALID, "no order explains these 7 operations: inversion",
        Anomaly(
            "inversion", SWAPPED, (2, 3, 4, 5, 10, 11, 12, 13),
            {"engine": "monitor", "window": [2, 3, 4, 5, 10, 11, 12, 13]},
        ),
        Anomaly("not-marked-though-redelivered", UNMARKED, (6, 7, 8, 9), {"engine": "monitor", "window": [6, 7, 8, 9]}),
        operations=7,
    )
)  # fmt: skip
def _new_after_it_was_delivered_again_while_others_are_swapped(story: Story) -> None:
    story.publish(17)
    story.publish(23)
    story.publish(29)
    story.deliver(17, redelivered=True)
    story.deliver(17, process=11, redelivered=False)
    story.deliver(29, process=4, redelivered=False)
    story.deliver(23, process=5, redelivered=False)


@case(result(Verdict.NOT_APPLICABLE, "no operation of a fifo-queue", operations=0, objects=0))
def _nothing(story: Story) -> None:
    story.drain()


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    told = CASES[name]
    assert judge(Linearizable(), told.history(), told.options) == told.expected


def test_delivery_decides_what_a_second_delivery_is() -> None:
    story = Story()
    story.publish(17)
    story.deliver(17, redelivered=False)
    story.deliver(17, redelivered=True)
    history = story.history()

    def verdict(delivery: str) -> Verdict:
        return judge(Linearizable(), history, {"delivery": delivery}).verdict

    assert [verdict(delivery) for delivery in ("at-least-once", "exactly-once", "at-most-once")] == [
        Verdict.VALID, Verdict.INVALID, Verdict.INVALID
    ]  # fmt: skip


def test_delivery_decides_what_a_loss_is() -> None:
    story = Story()
    story.publish(17)
    story.publish(23)
    story.deliver(23, redelivered=False)
    undrained = story.history()
    story.drain()
    drained = story.history()

    def verdict(delivery: str, history: History, **more: int) -> Verdict:
        return judge(Linearizable(), history, {"delivery": delivery, **more}).verdict

    assert verdict("exactly-once", undrained) is Verdict.INVALID
    assert verdict("at-most-once", undrained) is Verdict.VALID
    assert verdict("at-least-once", undrained) is Verdict.VALID, "a consumer may hold it that was not told"
    assert verdict("at-least-once", drained) is Verdict.INVALID
    assert verdict("at-least-once", drained, delivery_limit=20) is Verdict.VALID, "it may have been dropped"


def ops(*rows: tuple[int, OpType, str, Any]) -> History:
    """(process, type, f, value), a row each; completions end the latest invocation of their process."""
    open_: dict[int, int] = {}
    made = []
    for index, (process, type_, f, value) in enumerate(rows):
        op = None if type_ == INVOKE else open_.pop(process)
        if type_ == INVOKE:
            open_[process] = index
        number = value if isinstance(value, int) else None
        detail = None if number is not None or value is None else {"value": value}
        made.append(Op(index=index, time=index, process=process, type=type_, f=f, value=number, detail=detail, op=op))
    return History.from_ops(made)


STALE = ops(
    (0, INVOKE, "write", 1),
    (0, OK, "write", 1),
    (1, INVOKE, "write", 2),
    (1, OK, "write", 2),
    (2, INVOKE, "read", None),
    (2, OK, "read", 1),
)
TOO_FEW = ops((0, INVOKE, "add", 2), (0, OK, "add", 2), (1, INVOKE, "read", None), (1, OK, "read", 1))


@pytest.mark.parametrize(
    ("engine", "decided"), [("auto", "monitor"), ("monitor", "monitor"), ("porcupine", "porcupine")]
)
def test_a_stale_read(engine: str, decided: str) -> None:
    found = judge(Linearizable(), STALE, {"model": "register", "engine": engine})
    assert found.verdict is Verdict.INVALID
    assert found.anomalies[0].detail["engine"] == decided
    assert found.anomalies[0].detail["window"] == [0, 1, 2, 3, 4, 5]


def test_what_only_a_search_decides() -> None:
    found = judge(Linearizable(), TOO_FEW, {"model": "counter"})
    assert found.verdict is Verdict.INVALID
    assert (found.anomalies[0].kind, found.metrics) == ("no-order", {"engine": "porcupine"})
    assert found.anomalies[0].detail["longest"] == [0, 1]
    assert judge(Linearizable(), TOO_FEW, {"model": "counter", "engine": "monitor"}).verdict is Verdict.UNKNOWN


def test_an_initial_value() -> None:
    history = ops((0, INVOKE, "read", None), (0, OK, "read", 5))
    assert judge(Linearizable(), history, {"model": "register", "initial": "5"}).verdict is Verdict.VALID
    assert judge(Linearizable(), history, {"model": "register", "initial": "6"}).verdict is Verdict.INVALID


def test_a_history_of_others_that_breaks_the_rules_is_refused_and_one_of_ours_unknown() -> None:
    history = ops((0, INVOKE, "cas", 5), (0, OK, "cas", 5))
    told = {"linearizable": {"model": "cas-register"}}
    with pytest.raises(BadHistory, match=r"op 0 \(cas\): its value is 5: \[from to\] was meant"):
        check_all(history, told, strict=True)
    assert check_all(history, told)["linearizable"].verdict is Verdict.UNKNOWN
