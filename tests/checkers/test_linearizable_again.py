"""Who decides the parts of a history when its counterexample is made small: no search, where a monitor will do."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.verdict import Verdict
from checkers.linearizability import planner
from checkers.linearizable import Linearizable
from tests.checkers.histories import Story, judge


@pytest.mark.parametrize(("engine", "asked"), [("auto", "monitor"), ("monitor", "monitor"), ("porcupine", "porcupine")])
def test_parts_are_decided_by_who_decided_the_whole(monkeypatch: pytest.MonkeyPatch, engine: str, asked: str) -> None:
    told: list[str] = []
    decide = planner.decide

    def listen(calls: Any, model: str, **options: Any) -> Any:
        told.append(options["engine"])
        return decide(calls, model, **options)

    monkeypatch.setattr(planner, "decide", listen)
    story = Story()
    for id_ in (1, 2, 3):
        story.publish(id_)
    for id_ in (2, 1, 3):
        story.deliver(id_)
    result = judge(Linearizable(), story.history(), {"engine": engine})
    assert (result.verdict, result.metrics["engine"]) == (Verdict.INVALID, asked)
    assert told[0] == engine
    assert len(told) > 1
    assert set(told[1:]) == {asked}
