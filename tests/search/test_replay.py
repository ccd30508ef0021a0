"""What a replay follows, whether it can be trusted to be the same, and how recurrence is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos import scenario
from chaos.model.errors import BadInput
from chaos.model.op import INFO, OK
from chaos.model.schedule import Fault, Schedule
from chaos.model.verdict import Verdict
from chaos.scenario import plan
from chaos.search.replay import Recurrence, by_node, kinds, moved, recurrence
from chaos.search.trial import trial
from nemesis.targets import pinned, strangers
from results.versions import unlike
from tests.checkers.histories import Story
from tests.seeds.runs import ALL_NEMESES, data

KILLED = {"verb": "kill", "nodes": ["n2"], "args": {}, "process": "broker"}
LINKS = {
    "verb": "cut",
    "nodes": ["n1", "n7"],
    "args": {"links": [["n1", "n7"], ["clients", "n8"]]},
    "process": "broker",
}


def fault(id_: str, **told: Any) -> Fault:
    return Fault(**{"id": id_, "nemesis": "kill", "kind": "kill", "at": 5, "duration": 7, "target": "leader", **told})


def test_faults_are_bound_to_whom_they_hurt() -> None:
    story = Story()
    story.inject("kill-1", "n2", nemesis="kill", kind="kill", target="leader", actions=[KILLED])
    story.undo("kill-1")
    story.inject("kill-2", end=INFO)
    schedule = Schedule((fault("kill-1", args={"process": "etcd"}), fault("kill-2"), fault("kill-3")))
    assert by_node(schedule, story.history()).faults == (
        fault("kill-1", args={"process": "etcd", "pinned": [KILLED]}),
        fault("kill-2", args={"pinned": []}),
        fault("kill-3"),
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bound_to_the_same_nodes_a_simulated_run_is_the_same(seed: int) -> None:
    told = scenario.from_data(data(seed, nemeses=ALL_NEMESES, time="20s", rate=20))
    done = trial(told)
    bound = by_node(done.schedule, done.outcome.history)
    assert bound != done.schedule
    again = trial(told, Schedule.loads(bound.dumps()))
    assert again.outcome.history.digest() == done.outcome.history.digest()


def test_who_is_bound_is_hurt_whoever_leads() -> None:
    told = scenario.from_data(data(4, nemeses=({"name": "kill", "targets": ["leader"]},), time="20s", rate=20))
    for node in ("n1", "n2", "n3"):
        action = {**KILLED, "nodes": [node]}
        schedule = Schedule(tuple(replace(each, args={"pinned": [action]}) for each in plan(told).faults))
        history = trial(told, schedule).outcome.history
        details = [history.detail(row) for row in history.rows("inject", OK).tolist()]
        assert [detail["actions"] for detail in details] == [[action]] * len(schedule.faults)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (fault("f"), ()),
        (fault("f", target="n1+n3"), ()),
        (fault("f", target="n1+n9"), ("n9",)),
        (fault("f", target="n9+n8"), ("n9", "n8")),
        (fault("f", args={"pinned": [KILLED]}), ()),
        (fault("f", args={"pinned": []}), ()),
        (fault("f", args={"pinned": [LINKS]}), ("n7", "n8")),
    ],
)
def test_nodes_that_are_not_there(of: Fault, expected: tuple[str, ...]) -> None:
    assert strangers(of, ("n1", "n2", "n3")) == expected


def test_what_is_bound_to_nobody_differs_from_what_is_not_bound() -> None:
    assert pinned(fault("f")) is None
    assert pinned(fault("f", args={"pinned": []})) == ()


NOW = {"splitbrain": "0.1.0", "commit": "a" * 40, "lock": "c" * 32, "python": "3.11.7", "system": "Linux"}


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (NOW, []),
        ({**NOW, "python": "3.11.2", "system": "another"}, []),
        ({**NOW, "python": "3.12.7"}, ["Python 3.12 (here 3.11)"]),
        ({**NOW, "splitbrain": "0.2.0"}, ["splitbrain 0.2.0 (here 0.1.0)"]),
        ({**NOW, "commit": "b" * 40 + "+changes"}, ["commit bbbbbbbbbb+changes (here aaaaaaaaaa)"]),
        ({**NOW, "lock": None}, ["lock file unknown (here cccccccccc)"]),
        ({}, ["splitbrain unknown (here 0.1.0)", "commit unknown (here aaaaaaaaaa)",
              "lock file unknown (here cccccccccc)", "Python unknown (here 3.11)"]),
    ],
)  # fmt: skip
def test_what_may_make_a_run_come_out_otherwise(then: dict[str, Any], expected: list[str]) -> None:
    assert unlike(then, NOW) == expected


def test_a_scenario_moves_without_the_settings_that_are_not_there() -> None:
    simulated = scenario.from_data(data(1, latency="3ms"))
    there, left_out = moved(simulated, "docker")
    assert there.cluster.on == "docker"
    assert "latency" in left_out
    assert not {*left_out} & {*there.cluster.settings}
    assert (there.workload, there.nemeses, there.seed) == (simulated.workload, simulated.nemeses, simulated.seed)
    assert moved(simulated, "simulated") == (simulated, ())


def test_a_broker_that_cannot_be_there_does_not_move() -> None:
    nowhere = scenario.from_data(data(1) | {"cluster": {"broker": "null", "on": "simulated"}})
    with pytest.raises(BadInput, match="'null' cannot be on docker"):
        moved(nowhere, "docker")


def test_recurrence_is_counted() -> None:
    replays = [
        (Verdict.INVALID, ("messages.lost", "order.overtaken", "messages.lost")),
        (Verdict.VALID, ()),
        (Verdict.UNKNOWN, ()),
        (Verdict.INVALID, ("messages.lost",)),
    ]
    assert recurrence(("messages.lost", "leaders.two-leaders"), replays) == Recurrence(
        times=4,
        verdicts=(Verdict.INVALID, Verdict.VALID, Verdict.UNKNOWN, Verdict.INVALID),
        again={"messages.lost": 2, "leaders.two-leaders": 0},
        others={"order.overtaken": 1},
    )
    assert recurrence(("messages.lost",), replays).verdict is Verdict.INVALID
    assert recurrence(("messages.lost",), replays[1:2]).verdict is Verdict.VALID
    assert recurrence(("messages.lost",), []) == Recurrence(0, (), {"messages.lost": 0}, {})


def test_the_anomalies_of_a_verdict_are_those_of_its_invalid_checkers() -> None:
    assert kinds(
        {
            "checkers": {
                "messages": {"valid": False, "anomalies": [{"kind": "lost"}, {"kind": "lost"}, {"kind": "corrupt"}]},
                "earned": {"valid": "unknown", "anomalies": [{"kind": "did-not-bite"}]},
                "order": {"valid": True, "anomalies": []},
            }
        }
    ) == ("messages.lost", "messages.corrupt")
    assert kinds({}) == ()
