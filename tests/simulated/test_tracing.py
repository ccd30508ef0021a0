"""A traced run is the run itself, and its trace tells of every message."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from chaos import scenario
from chaos.model.op import OK
from chaos.model.trace import CRASH, LEADER, ROLE, SERVES, START
from chaos.search.trial import Trial, trial


def traced(broker: str, **cluster: Any) -> Trial:
    told = {
        "schema": 1,
        "name": "traced",
        "cluster": {"broker": broker, "on": "simulated", "nodes": 3, **cluster},
        "workload": {"name": "queue", "rate": 5, "time": "20s", "producers": 1, "consumers": 1},
        "nemesis": [{"name": "partition"}, {"name": "kill"}],
    }
    return trial(scenario.from_data(told), traced=True)


@pytest.mark.parametrize("broker", ["rabbitmq-quorum", "rabbitmq-mirrored", "lavinmq", "blazingmq"])
def test_tracing_changes_nothing(broker: str) -> None:
    done = traced(broker)
    again = trial(done.scenario)
    assert done.outcome.history.digest() == again.outcome.history.digest()
    assert again.trace is None


@pytest.mark.parametrize("broker", ["rabbitmq-quorum", "rabbitmq-mirrored", "lavinmq", "blazingmq"])
def test_each_publish_and_its_confirm_are_in_the_trace(broker: str) -> None:
    done = traced(broker)
    assert done.trace is not None
    history = done.outcome.history
    confirmed = [int(history.value[row]) for row in history.rows("publish", OK)]
    carried = {label: Counter(id_ for m in done.trace.messages if m.label == label and m.target.startswith("client")
                              for id_ in m.carries) for label in ("confirm", "deliver")}  # fmt: skip
    assert confirmed
    assert set(confirmed) <= set(carried["confirm"])
    assert set(confirmed) <= set(carried["deliver"])
    published = [m for m in done.trace.messages if m.source.startswith("client") and m.label == "publish"]
    assert [m.carries for m in published] == [(number,) for number in range(1, len(published) + 1)]


def test_what_is_cut_does_not_arrive_before_the_cut_is_over() -> None:
    trace = traced("rabbitmq-quorum").trace
    assert trace is not None
    cut = {(cut.source, cut.target): cut for cut in trace.cuts}
    assert cut
    for message in trace.messages:
        ends = cut.get((message.source, message.target))
        if ends is not None and ends.end is not None and ends.begin < message.time < ends.end:
            assert message.arrival is None or message.arrival > ends.end
    assert all(message.arrival is None or message.arrival > message.time for message in trace.messages)


def test_lives_and_leaders() -> None:
    done = traced("rabbitmq-quorum")
    assert done.trace is not None
    killed = sum(fault.nemesis == "kill" for fault in done.schedule.faults)
    kinds = Counter(happening.kind for happening in done.trace.happenings)
    assert kinds[START] == kinds[SERVES] >= 3 + killed
    assert kinds[CRASH] == kinds[START] - 3  # the end of the run is none
    terms = [h.term for h in done.trace.happenings if h.kind == ROLE and h.label == LEADER and h.term is not None]
    assert terms
    assert terms == sorted(terms)
    assert done.trace.lines[:4] == ("n1", "n2", "n3", "client-0")
