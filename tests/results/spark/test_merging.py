"""What was found in the parts of a run is one result, whichever part was done first."""

from __future__ import annotations

from itertools import permutations

from chaos.model.verdict import Result, Verdict
from checkers.messages import Messages
from checkers.order import Order
from results.checking.judge import Asked, ready
from results.spark.check import _merged
from tests.checkers.histories import Story


def asked(name: str) -> Asked:
    return ready({name: {}})[name]


def test_of_several_parts_that_failed_always_the_same_is_told() -> None:
    told = [("failed", "KeyError: 7"), ("pieces", []), ("failed", "IndexError: 3")]
    merged = [_merged(asked("messages"), order) for order in permutations(told)]
    assert merged == [Result("messages", Verdict.UNKNOWN, "IndexError: 3")] * 6


def test_the_order_of_parts_is_nothing_to_the_result() -> None:
    stories = []
    for queue in ("a", "b", "c"):
        story = Story()
        for id_ in (1, 2, 3):
            story.publish(id_, queue)
        for id_ in (2, 1, 3):
            story.deliver(id_, queue, redelivered=False)
        stories.append(story.history())
    for name, checker in (("order", Order()), ("messages", Messages())):
        one = asked(name)
        told = [
            ("pieces", [(at, part) for _, part in checker.pieces(each, one.options)]) for at, each in enumerate(stories)
        ]
        first, *others = [_merged(one, order) for order in permutations(told)]
        assert others == [first] * 5
        assert first.counts
