"""The queue workload beyond the plain: where clients are, one consumer at a time, without acknowledgements."""

from __future__ import annotations

from typing import Any

import pytest

from chaos import scenario
from chaos.model.errors import BadInput
from chaos.model.history import History
from chaos.model.op import INVOKE
from chaos.model.verdict import Verdict
from tests.seeds.runs import data, judge, run


def told(seed: int = 1, broker: str = "rabbitmq-quorum", **workload: Any) -> dict[str, Any]:
    made = data(seed, nemeses=(), time="5s", rate=20, workload=workload)
    made["cluster"]["broker"] = broker
    return made


def nodes(history: History, f: str) -> set[str]:
    return {history.node[row] or "" for row in history.rows(f, INVOKE).tolist()}


def test_clients_are_spread_over_all_nodes() -> None:
    history = run(told()).history
    assert nodes(history, "publish") == nodes(history, "consume") == {"n1", "n2", "n3"}


def test_clients_stay_on_the_nodes_that_are_told() -> None:
    history = run(told(producers_on="n1+n3", consumers_on="n2")).history
    assert (nodes(history, "publish"), nodes(history, "consume")) == ({"n1", "n3"}, {"n2"})


KILLED = (
    {"name": "kill", "targets": ["n1"], "every": "30s", "start": "2s", "for": "5s", "jitter": "0s", "quiet": "1s"},
)


@pytest.mark.parametrize(("where", "met"), [("same", {"n1"}), ("next", {"n1", "n2"})])
def test_who_lost_a_node_waits_for_it_or_goes_to_the_next_of_its_own(where: str, met: set[str]) -> None:
    workload = {"producers": 1, "producers_on": "n1+n2", "reconnect_to": where}
    history = run(data(1, nemeses=KILLED, time="12s", rate=20, workload=workload)).history
    assert nodes(history, "publish") == met


@pytest.mark.parametrize(("mutation", "verdict"), [("none", Verdict.VALID), ("serve-all", Verdict.INVALID)])
def test_of_single_active_consumers_one_is_served(mutation: str, verdict: Verdict) -> None:
    judged = judge(data(1, nemeses=("kill",), time="30s", workload={"single_active": True}, mutation=mutation))
    assert judged.verdict is verdict
    assert judged.anomalies == (() if verdict is Verdict.VALID else ("single-active.two-active",))


def test_without_acknowledgements_none_are_sent_and_every_message_comes_once() -> None:
    for broker in ("rabbitmq-quorum", "lavinmq"):
        for consume in ("asynchronous", "polling"):
            made = told(broker=broker, delivery="at-most-once", consume=consume)
            history = run(made).history
            assert not len(history.rows("ack"))
            assert judge(made).verdict is Verdict.VALID


def test_without_acknowledgements_what_a_lost_consumer_had_is_gone_and_nobody_says_lost() -> None:
    made = data(4, nemeses=("kill",), time="30s", rate=200, workload={"delivery": "at-most-once", "consume": "polling"})
    assert "messages.lost" not in judge(made).anomalies


@pytest.mark.parametrize(
    ("workload", "broker", "problem"),
    [
        (
            {"producers_on": "n1+n4"},
            "rabbitmq-quorum",
            "workload.producers_on: there is no node 'n4'; the nodes are n1, n2, n3",
        ),
        ({"consumers_on": 3}, "rabbitmq-quorum", 'workload.consumers_on: 3 is neither "all" nor nodes such as "n1+n3"'),
        (
            {"single_active": True, "consume": "polling"},
            "rabbitmq-quorum",
            "workload.consume: a queue with a single active consumer cannot be polled; subscribe: asynchronous",
        ),
        (
            {"single_active": True},
            "lavinmq",
            "workload.single_active: this takes single active consumers, which 'lavinmq' simulated does not have",
        ),
        (
            {"delivery": "at-most-once"},
            "blazingmq",
            "workload.delivery: this takes consumers without acknowledgements, "
            "which 'blazingmq' simulated does not have",
        ),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_starts(workload: Any, broker: str, problem: str) -> None:
    with pytest.raises(BadInput) as refused:
        scenario.from_data(told(broker=broker, **workload))
    assert str(refused.value) == problem
