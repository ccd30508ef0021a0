"""Porcupine's own page of a history: its operations, and what happened beside them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from checkers.linearizability.annotations import FAULT, LEADER, beside
from checkers.linearizability.calls import F, calls
from checkers.linearizability.from_history import calls_of
from checkers.linearizability.porcupine import Annotation, Died, visualise
from checkers.linearizability.porcupine.process import Worker
from tests.checkers.histories import Story
from tests.linearizability.porcupine.test_process import hard


def drawn(page: str) -> dict[str, Any]:
    """What the page draws."""
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    found = re.search(r"const data = (\{.*\})\n", page)
    assert found
    told = json.loads(found[1])
    assert isinstance(told, dict)
    return told


@pytest.mark.usefixtures("binary")
def test_a_page_has_the_operations_their_order_and_the_annotations() -> None:
    some = calls(
        [(F.WRITE, 5, None, 0, 1), (F.READ, None, 5, 2, 3), (F.READ, None, 6, 4, 5), (F.WRITE, 6, None, 7, None)]
    )
    cut = Annotation("partition", "halves n1", 1, 3, "12 packets dropped", "#f00")
    told = drawn(visualise(some, "register", [cut]))
    (part,) = told["Partitions"]
    assert [(op["Description"], op["OriginalStart"], op["OriginalEnd"]) for op in part["History"]] == [
        ("write 5", "0", "1"), ("read -> 5", "2", "3"), ("read -> 6", "4", "5"), ("write 6 (unknown)", "7", "8")
    ]  # fmt: skip
    assert [[step["Index"] for step in order] for order in part["PartialLinearizations"]] == [[0, 1]]
    (note,) = told["Annotations"]
    at = {op["OriginalStart"]: op["Start"] for op in part["History"]} | {
        op["OriginalEnd"]: op["End"] for op in part["History"]
    }
    assert (note["Start"], note["End"]) == (at["1"], at["3"])
    assert [note[name] for name in ("Tag", "Description", "Details", "BackgroundColor")] == [
        "partition", "halves n1", "12 packets dropped", "#f00"
    ]  # fmt: skip


@pytest.mark.usefixtures("binary")
def test_out_of_time_the_page_has_the_longest_orders_found() -> None:
    (part,) = drawn(visualise(hard(), "fifo-queue", timeout=0.2))["Partitions"]
    assert len(part["History"]) == 30
    assert max(len(order) for order in part["PartialLinearizations"]) > 5


def test_without_an_answer_there_is_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.linearizability.porcupine.worker._worker", lambda source: Worker(["/nowhere"]))
    with pytest.raises(Died, match="the worker does not start"):
        visualise(calls([(F.WRITE, 5, None, 0, 1)]), "register")


def story() -> Story:
    """Rows 0 to 13: two leaders, one after the other, a fault that was undone and one that was not."""
    told = Story()
    told.belief("n1", "leader", 1)
    told.publish(17)
    told.inject("partition-1", "n1", "n2", kind="halves", nemesis="partition")
    told.belief("n2", "leader", 2)
    told.belief("n1", "follower", 2)
    told.undo("partition-1", bit=False)
    told.inject("kill-1", "n3", kind="", nemesis="kill")
    told.sample("n2", "leader", None, scope="")
    told.deliver(17)
    return told


def test_faults_and_leaders_of_a_history_are_annotations_on_the_scale_of_its_calls() -> None:
    history = story().history()
    assert [history.f[row] for row in (0, 5, 6, 3, 8, 9, 11)] == [
        "belief", "belief", "belief", "inject", "undo", "inject", "leader"
    ]  # fmt: skip
    assert beside(history) == [
        Annotation("partition", "halves n1 n2", 3, 8, "nothing shows that it had an effect", FAULT),
        Annotation("kill", "n3", 9, 13, "", FAULT),
        Annotation("leader of q", "n1 in term 1", 0, 6, "", LEADER),
        Annotation("leader of q", "n2 in term 2", 5, 13, "", LEADER),
        Annotation("leader", "n2", 11, 11, "", LEADER),
    ]
    assert calls_of(history, "fifo-queue").calls.call.tolist() == [1, 12]


@pytest.mark.usefixtures("binary")
def test_the_page_of_a_run() -> None:
    history = story().history()
    found = calls_of(history, "fifo-queue")
    told = drawn(visualise(found.calls, found.search_as, beside(history)))
    assert [note["Tag"] for note in told["Annotations"]] == [
        "partition",
        "kill",
        "leader of q",
        "leader of q",
        "leader",
    ]
