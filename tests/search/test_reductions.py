"""Every reduction gives scenarios that can be run: smaller in what it is named after, and larger in nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.schedule import Fault
from chaos.scenario import Scenario, loads
from chaos.search import reductions
from chaos.search.reductions import below

S = 1_000_000_000

LISTED = """\
schema = 1
name = "large"

[cluster]
broker = "rabbitmq-mirrored"
nodes = 5

[workload]
name = "queue"
rate = 10
time = "20s"
queues = 2

[[fault]]
nemesis = "partition"
kind = "halves"
at = "2s"
for = "4s"
target = "n1+n3"
args = { clients = true }

[[fault]]
nemesis = "kill"
trigger = "leader-change"
after = "5s"
at = "1s"
for = "3s"
target = "leader"
draw = 7
"""


def size(case: Scenario) -> dict[str, float]:
    options = case.workload.options
    return {
        "faults": len(case.faults),
        "nodes": case.cluster.nodes,
        "clients": options["producers"] + options["consumers"] + options["queues"],
        "rate": options["rate"],
        "time": case.workload.time_ns,
        "start": sum(fault.after + fault.at for fault in case.faults),
        "duration": sum(fault.duration for fault in case.faults),
    }


@pytest.mark.parametrize(
    ("reduction", "smaller", "larger"),
    [
        (reductions.less_often, {"rate"}, set()),
        (reductions.fewer_nodes, {"nodes"}, set()),
        (reductions.fewer_clients, {"clients"}, {"rate"}),
        (reductions.shorter, {"time"}, set()),
        (reductions.briefer, {"duration"}, set()),
        (reductions.sooner, {"start"}, set()),
        (reductions.one_fault, {"faults"}, {"duration", "start"}),
        (reductions.fewer_messages, {"rate"}, set()),
    ],
)
def test_what_it_makes_smaller_and_what_it_leaves(
    reduction: reductions.Reduction, smaller: set[str], larger: set[str]
) -> None:
    case = loads(LISTED)
    before = size(case)
    candidates = list(reduction(case))
    assert candidates
    for candidate in candidates:
        after = size(candidate)
        assert all(after[name] < before[name] for name in smaller)
        assert all(after[name] <= before[name] for name in after if name not in larger)
        assert loads(candidate.dumps()) == candidate


def test_the_boldest_come_first() -> None:
    case = loads(LISTED)
    assert [round(one.workload.options["rate"], 3) for one in reductions.less_often(case)] == [0.1, 0.2, 0.5, 1, 2, 5]
    assert [one.cluster.nodes for one in reductions.fewer_nodes(case)] == [3, 4]
    counts = [size(one)["clients"] for one in reductions.fewer_clients(case)]
    assert counts[0] == 3
    assert counts == sorted(counts)


def test_a_role_becomes_a_node_and_a_trigger_a_time() -> None:
    said = [[(fault.kind, fault.target, fault.trigger, fault.at) for fault in one.faults]
            for one in reductions.simpler(loads(LISTED))]  # fmt: skip
    first, second = ("halves", "n1+n3", None, 2 * S), ("kill", "leader", "leader-change", S)
    assert [("one", "n4", None, 2 * S), second] in said
    assert [first, ("kill", "leader", None, 6 * S)] in said
    assert [first, ("kill", "n5", "leader-change", S)] in said
    plain = next(reductions.simpler(loads(LISTED)))
    assert plain.faults[0].args == {}


def test_links_that_flap_are_cut_for_good_or_flap_at_a_named_node() -> None:
    args = {"service": "replication", "clients": True, "period": S}
    flapping = replace(loads(LISTED).faults[0], kind="flapping", target="one", draw=7, args=args)
    case = replace(loads(LISTED), faults=(flapping,))
    said = [(fault.kind, fault.target, dict(fault.args)) for one in reductions.simpler(case) for fault in one.faults]
    assert said[:2] == [
        ("flapping", "one", {"service": "replication", "period": S}),
        ("one", "one", {"service": "replication"}),
    ]
    assert {kind for kind, target, _ in said if target == "n5"} == {"one", "flapping"}
    both = replace(case, faults=(replace(flapping, kind="clients"), case.faults[0]))
    assert {one.faults[0].kind for one in reductions.one_fault(both)} == {"one", "clients", "flapping"}


def test_faults_of_packets_do_less_until_it_is_next_to_nothing() -> None:
    args = {"delay": 100_000_000, "jitter": 100_000_000, "rate": 50_000, "clients": True}
    case = replace(loads(LISTED), faults=(Fault("p", "packets", "delay", S, S, "n1", args=args),))
    said = [dict(one.faults[0].args) for one in reductions.weaker(case)]
    assert said == [
        {**args, "clients": False},
        {**args, "delay": 12_500_000, "jitter": 12_500_000},
        {**args, "delay": 50_000_000, "jitter": 50_000_000},
        {"delay": 100_000_000, "rate": 50_000, "clients": True},
        {**args, "jitter": 12_500_000},
        {**args, "jitter": 50_000_000},
        {"delay": 100_000_000, "jitter": 100_000_000, "clients": True},
        {**args, "rate": 400_000},
        {**args, "rate": 100_000},
    ]
    lossy = replace(case, faults=(Fault("l", "loss", "loss", S, S, "n1", args={"probability": 0.2, "clients": False}),))
    steps = 0
    while candidates := list(reductions.weaker(lossy)):
        assert all(loads(one.dumps()) == one for one in candidates)
        lossy, steps = candidates[-1], steps + 1
        assert steps < 100
    assert 0.001 <= lossy.faults[0].args["probability"] < 0.002


def test_what_is_simple_already_has_nothing_simpler() -> None:
    case = loads(LISTED)
    fault = replace(case.faults[0], kind="one", target="n1", args={})
    assert list(reductions.simpler(replace(case, faults=(fault,)))) == []


def test_names_of_nodes_change_places_when_there_are_few_messages() -> None:
    case = loads(LISTED.replace("nodes = 5", "nodes = 3").replace("time = ", "window = 3\ntime = "))
    targets = {one.faults[0].target for one in reductions.fewer_clients(case)}
    assert targets == {"n1+n2", "n1+n3", "n2+n3"}
    many = replace(case, workload=replace(case.workload, options={**case.workload.options, "rate": 100.0}))
    assert {one.faults[0].target for one in reductions.fewer_clients(many)} == {"n1+n3"}


@given(st.integers(0, 100 * S), st.integers(0, S))
def test_shorter_times_are_shorter_and_end(value: int, least: int) -> None:
    steps = 0
    while candidates := below(value, least):
        assert candidates == sorted(set(candidates))
        assert all(least <= time < value for time in candidates)
        value = candidates[-1]
        steps += 1
        assert steps < 2000


def test_a_crooked_time_becomes_a_round_one() -> None:
    assert 13 * S in below(13_271_823_411, 0)
    assert 13_200_000_000 in below(13_271_823_411, 0)
