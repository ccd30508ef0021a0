"""Several checkers side by side, one of which falls over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from chaos.model.errors import BadInput
from chaos.model.history import History
from chaos.model.registry import CHECKERS, names
from chaos.model.settings import Setting, integer, resolve
from chaos.model.verdict import Result, Verdict
from checkers.base import Checker
from checkers.run import check_all, guarded, overall
from tests.checkers.histories import Story

OURS = ("availability", "earned", "exceptions", "latency", "leaders", "messages", "order")


def small() -> Story:
    story = Story()
    story.publish(1)
    story.deliver(1, redelivered=False)
    story.drain()
    return story


def test_each_gets_its_settings_and_defaults() -> None:
    results = check_all(small().history(), {"messages": {"delivery": "exactly-once"}, "earned": {"faults": "none"}})
    assert {name: result.verdict for name, result in results.items()} == {
        "messages": Verdict.VALID,
        "earned": Verdict.VALID,
    }
    assert overall(results.values()) is Verdict.VALID


def test_every_checker_that_is_registered_takes_an_ordinary_and_an_empty_history() -> None:
    ours: dict[str, dict[str, Any]] = {name: {} for name in OURS}
    assert set(ours) <= set(names(CHECKERS))
    assert {name: result.verdict.value for name, result in check_all(small().history(), ours).items()} == {
        "availability": "not applicable",
        "earned": "unknown",
        "exceptions": "valid",
        "latency": "not applicable",
        "leaders": "not applicable",
        "messages": "valid",
        "order": "not applicable",
    }
    empty = check_all(History.from_ops([]), ours)
    assert not any(result.reason.startswith("the checker failed") for result in empty.values())


def test_one_that_fails_takes_no_other_down() -> None:
    story = small()
    story.publish(1)  # an id used twice
    results = check_all(story.history(), {"messages": {}, "exceptions": {}})
    assert results["exceptions"].verdict is Verdict.VALID
    assert results["messages"].verdict is Verdict.UNKNOWN
    assert results["messages"].reason.startswith(
        "the checker failed: BadHistory: history: op 5: message id 1 was already used by op 0"
    )
    assert overall(results.values()) is Verdict.UNKNOWN


def test_the_error_is_told_with_its_place() -> None:
    class Broken(Checker):
        name = "broken"
        settings = (Setting("depth", integer(), 1, "how deep"),)

        def check(self, history: History, options: Mapping[str, Any]) -> Result:
            raise KeyError("tag")

    said = guarded(Broken(), small().history(), resolve(Broken.settings, {}, "checkers.broken"))
    assert said.verdict is Verdict.UNKNOWN
    assert said.reason.startswith("the checker failed: KeyError: 'tag' (test_run.py:")
    assert said.reason.endswith(", in check)")


@pytest.mark.parametrize(
    ("selected", "problem"),
    [
        ({"mesages": {}}, "no 'mesages' among the checkers; did you mean 'messages'?"),
        ({"messages": {"delivry": "x"}}, "checkers.messages.delivry: unknown setting"),
        ({"messages": {"delivery": "twice"}}, "checkers.messages.delivery: 'twice' is not one of them"),
    ],
)
def test_bad_input_is_refused_before_anything_is_judged(selected: Any, problem: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_all(small().history(), selected)
    assert str(refused.value).startswith(problem)
