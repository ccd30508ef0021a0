"""The picture of a counterexample."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from chaos.model.op import INFO, INVOKE, NEMESIS, OK
from results.operations import operations
from results.timeline import timeline
from tests.results.example import Script


def titles(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter("title")]


def test_operations_in_lanes_with_the_faults_around_them() -> None:
    script = Script()
    plan = {"nemesis": "partition", "kind": "halves"}
    cut = script.add(1.0, NEMESIS, INVOKE, "inject", key="partition-1", detail=plan)
    script.add(1.1, NEMESIS, OK, "inject", cut, key="partition-1")
    one = script.add(2.0, 0, INVOKE, "publish", key="q", value=17)
    two = script.add(2.1, 0, INVOKE, "publish", key="q", value=23)
    script.add(2.2, 0, OK, "publish", one, key="q", value=17)
    script.add(2.3, 0, INFO, "publish", two, key="q", value=23, error="time-out")
    poll = script.add(3.0, 4, INVOKE, "consume", key="q")
    script.add(3.1, 4, OK, "consume", poll, key="q")
    script.add(3.05, 5, INVOKE, "consume", key="q", value=None)
    script.add(99.0, 7, INVOKE, "publish", key="q", value=99)
    history = script.history()
    # The indices of the publishes, of the poll, of its answer (either will do), and of the other poll.
    picture = str(operations(history, timeline(history), [2, 3, 6, 8, 7]))
    assert titles(picture) == [
        "partition-1 (partition halves), 1.100 s to 99.000 s (97.9 s): whether it bit cannot be told",
        "client 0: publish 17, called at 2.000 s (#2), answered after 200 ms (#4)",
        "client 0: publish 23 ?, called at 2.100 s (#3), outcome unknown after 200 ms (#5): time-out",
        "client 4: consume nothing, called at 3.000 s (#6), answered after 100 ms (#8)",
        "client 5: consume ?, called at 3.050 s (#7), never answered",
    ]
    assert re.findall(r">(client \d)<", picture) == ["client 0", "client 4", "client 5"]


def test_nothing_to_draw() -> None:
    history = Script().history()
    assert operations(history, timeline(history), []) == ""
    assert operations(history, timeline(history), [5]) == ""
