"""Partitions: which links each kind cuts."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.schedule import Action, Fault
from chaos.model.settings import BadKey, resolve
from nemesis.base import View
from nemesis.partition import (
    KINDS,
    USUAL,
    Cut,
    Partition,
    bridge,
    flaps,
    halves,
    isolate,
    majorities_ring,
    minority_third,
    one_way,
)
from nemesis.targets import between, hurt, in_order

THREE = ("n1", "n2", "n3")
FIVE = ("n1", "n2", "n3", "n4", "n5")
MINUTE = 60_000_000_000


def links(text: str) -> list[list[str]]:
    """ "12 21" as [["n1", "n2"], ["n2", "n1"]]; c is the clients' end."""
    return [["clients" if end == "c" else f"n{end}" for end in pair] for pair in text.split()]


def act(
    kind: str, nodes: tuple[str, ...], draw: int = 1, leader: str | None = "n2", **args: object
) -> tuple[Action, ...]:
    told = {"service": None, "clients": False, "period": 2_000_000_000, **args}
    fault = Fault("partition-1", "partition", kind, 0, 1, draw=draw, args=told)
    return Partition().resolve(fault, View(nodes, leader))


def seen_by(node: str, cut: Cut, nodes: tuple[str, ...]) -> set[str]:
    return {other for other in nodes if other == node or [other, node] not in cut.links}


def test_halves() -> None:
    assert halves(THREE) == Cut(links("12 21 13 31"), ("n1",))
    assert halves(FIVE) == Cut(links("13 31 14 41 15 51 23 32 24 42 25 52"), ("n1", "n2"))


def test_isolate() -> None:
    assert isolate("n2", THREE) == Cut(links("21 12 23 32"), ["n2"])
    assert isolate("n2", FIVE) == Cut(links("21 12 23 32 24 42 25 52"), ["n2"])


def test_majorities_ring() -> None:
    assert majorities_ring(THREE) == Cut(links("13 31"), [])
    assert majorities_ring(FIVE) == Cut(links("13 14 24 25 31 35 41 42 52 53"), [])


def test_bridge() -> None:
    assert bridge(THREE) == Cut(links("13 31"), ("n1",))
    assert bridge(FIVE) == Cut(links("14 41 15 51 24 42 25 52"), ("n1", "n2"))


def test_one_way() -> None:
    assert one_way("n2", THREE, outward=True) == Cut(links("21 23"), ["n2"])
    assert one_way("n2", FIVE, outward=False) == Cut(links("12 32 42 52"), ["n2"])


@pytest.mark.parametrize(
    ("kind", "nodes", "hurt", "cut"),
    [
        ("leader", THREE, "123", "12 21 23 32"),
        ("leader", FIVE, "12345", "12 21 23 24 25 32 42 52"),
        ("one", THREE, "123", "12 21 23 32"),  # n2
        ("one", FIVE, "12345", "13 23 31 32 34 35 43 53"),  # n3
        ("halves", THREE, "123", "12 21 23 32"),  # n2 | n1, n3
        ("halves", FIVE, "12345", "12 13 21 24 25 31 34 35 42 43 52 53"),  # n2, n3 | n1, n4, n5
        ("majorities-ring", THREE, "23", "23 32"),  # n2 - n1 - n3
        ("majorities-ring", FIVE, "12345", "12 13 21 25 31 34 43 45 52 54"),  # n1 - n4 - n2 - n3 - n5 - n1
        ("bridge", THREE, "23", "23 32"),  # n2 | n3, and n1 between them
        ("bridge", FIVE, "1235", "12 13 21 25 31 35 52 53"),  # n1, n5 | n2, n3, and n4 between them
        ("one-way", THREE, "123", "12 32"),  # n2 hears nothing
        ("one-way", FIVE, "12345", "13 23 43 53"),  # n3 hears nothing
        ("fixed-halves", THREE, "123", "12 13 21 31"),
        ("fixed-halves", FIVE, "12345", "13 14 15 23 24 25 31 32 41 42 51 52"),
        ("minority-third", FIVE, "12345", "13 23 31 32 34 35 43 53"),  # n3
    ],
)
def test_what_a_cluster_is_told(kind: str, nodes: tuple[str, ...], hurt: str, cut: str) -> None:
    expected = Action("cut", tuple(f"n{number}" for number in hurt), {"links": links(cut), "service": None})
    assert act(kind, nodes, draw=7) == (expected,)


def test_a_follower_is_parted_from_the_others_and_nobody_without_a_leader() -> None:
    nemesis, nodes = Partition(), ("n1", "n2", "n3")
    fault = Fault("partition-1", "partition", "one", 0, 1, target="follower", draw=3)
    (action,) = nemesis.resolve(fault, View(nodes, "n1"))
    apart = hurt("follower", View(nodes, "n1"), 3)[0]
    assert action.args["links"] == in_order(between([apart], [node for node in nodes if node != apart]), nodes)
    assert nemesis.resolve(fault, View(nodes, None)) == ()


def test_without_a_leader_none_is_isolated() -> None:
    assert act("leader", THREE, leader=None) == ()
    assert act("leader", THREE, leader="n9") == ()


def test_clients_are_cut_off_when_asked_in_the_same_directions() -> None:
    (both,) = act("leader", THREE, clients=True)
    assert both.args == {"links": links("12 21 23 2c 32 c2"), "service": None}
    directions = set()
    for draw in range(8):
        (one,) = act("one-way", THREE, draw, clients=True)
        (cut,) = [link for link in one.args["links"] if "clients" in link]
        sources = {source for source, _ in one.args["links"]}
        assert (len(sources) == 1) == (cut[1] == "clients")
        directions.add(cut.index("clients"))
    assert directions == {0, 1}


def test_a_cut_of_one_service() -> None:
    (action,) = act("leader", THREE, service="replication")
    assert action.args == {"links": links("12 21 23 32"), "service": "replication"}
    (action,) = act("leader", THREE, service="clients", clients=True)
    assert action == Action("cut", ("n2",), {"links": links("2c c2"), "service": "clients"})


def plan(nodes: tuple[str, ...], **options: object) -> list[Fault]:
    partition = Partition()
    return partition.plan(resolve(partition.settings, options, "nemesis[0]"), nodes, MINUTE, Random(1))


def test_a_plan_meets_as_many_kinds_as_it_has_faults() -> None:
    faults = plan(THREE, every="2s", start="0s", **{"for": "1s"})
    assert {fault.kind for fault in faults[:6]} == {fault.kind for fault in faults[6:12]} == set(USUAL)
    assert {fault.kind: fault.target for fault in faults} == {
        "halves": "all",
        "one": "one",
        "majorities-ring": "all",
        "bridge": "all",
        "leader": "leader",
        "one-way": "one",
    }


def test_kinds_that_need_more_nodes_are_left_out_or_refused() -> None:
    kinds = {fault.kind for fault in plan(("n1", "n2"), every="2s", **{"for": "1s"})}
    assert kinds == {"halves", "one", "leader", "one-way"}
    with pytest.raises(BadKey, match=r"kinds: none of bridge, majorities-ring can be done with 2 node\(s\)"):
        plan(("n1", "n2"), kinds="bridge,majorities-ring")
    with pytest.raises(BadKey, match="kinds: none of majorities-ring"):
        plan(THREE, kinds="majorities-ring", service="clients")


@pytest.mark.parametrize("count", range(3, 12))
def test_every_node_of_a_ring_sees_a_majority_and_each_another_one(count: int) -> None:
    nodes = tuple(f"n{number}" for number in range(1, count + 1))
    cut = majorities_ring(nodes)
    seen = [seen_by(node, cut, nodes) for node in nodes]
    assert all(len(others) in (count // 2 + 1, count // 2 + 2) for others in seen)
    assert sum(len(others) == count // 2 + 2 for others in seen) <= 1
    assert len({frozenset(others) for others in seen}) == count
    assert all([target, source] in cut.links for source, target in cut.links)


def test_no_ring_of_three_nodes_does_better() -> None:
    """With links that work both ways, no three nodes see just two each: someone sees all."""
    pairs = [("n1", "n2"), ("n1", "n3"), ("n2", "n3")]
    for kept in range(8):
        edges = [pair for number, pair in enumerate(pairs) if kept >> number & 1]
        assert sorted(1 + sum(node in edge for edge in edges) for node in THREE) != [2, 2, 2]


@pytest.mark.parametrize(("count", "some"), [(3, 0), (4, 1), (5, 1), (6, 1), (7, 2), (9, 2), (10, 3)])
def test_a_minority_third_is_fewer_than_a_third(count: int, some: int) -> None:
    nodes = tuple(f"n{number}" for number in range(1, count + 1))
    cut = minority_third(nodes)
    assert (tuple(cut.apart), len(cut.links)) == (nodes[:some], 2 * some * (count - some))


def test_a_node_that_clients_do_not_reach_and_the_others_do() -> None:
    assert act("clients", THREE, 7) == (Action("cut", ("n2",), {"links": links("2c c2")}),)
    fault = Fault("partition-1", "partition", "clients", 0, 1, "leader", args={})
    assert Partition().resolve(fault, View(THREE, "n3")) == (Action("cut", ("n3",), {"links": links("3c c3")}),)
    assert Partition().resolve(fault, View(THREE, None)) == ()
    assert {fault.target for fault in plan(("n1",), kinds="clients")} == {"one"}


def test_flapping_links_go_up_and_down_as_the_draw_has_it() -> None:
    (action,) = act("flapping", THREE, 7)
    times = action.args["flap"]
    assert action == Action("cut", THREE, {"links": links("12 21 23 32"), "service": None, "flap": times})
    assert times == flaps(2_000_000_000, Random(7)) != act("flapping", THREE, 8)[0].args["flap"]
    assert all(500_000_000 <= time <= 1_500_000_000 for time in times)
    fault = Fault("partition-1", "partition", "flapping", 0, 1, "leader", args={"period": 80_000_000})
    (action,) = Partition().resolve(fault, View(THREE, "n3"))
    assert action.args["links"] == links("13 23 31 32")
    assert all(20_000_000 <= time <= 60_000_000 for time in action.args["flap"])
    assert [dict(fault.args) for fault in plan(THREE, kinds="flapping", period="300ms")] == [
        {"service": None, "clients": False, "period": 300_000_000}
    ] * 3


@pytest.mark.parametrize(
    ("told", "service", "clients"),
    [
        ("replication", "replication", False),
        ("replication,etcd", "replication,etcd", False),
        (["etcd", "clients"], "etcd,clients", True),
        ("!clients", "!clients", False),
    ],
)
def test_several_services_and_all_but_some(told: object, service: str, clients: bool) -> None:
    assert dict(plan(THREE, service=told)[0].args) == {"service": service, "clients": clients}


@pytest.mark.parametrize("told", ["", "!", "a,,b", [], 5])
def test_what_names_no_service(told: object) -> None:
    with pytest.raises(BadKey, match=r'service: .* does not name services: write "replication"'):
        plan(THREE, service=told)


@given(st.integers(2, 9), st.integers(0, 2**32 - 1), st.sampled_from(sorted(KINDS)))
def test_what_holds_for_every_cut(count: int, draw: int, kind: str) -> None:
    nodes = tuple(f"n{number}" for number in range(1, count + 1))
    actions = act(kind, nodes, draw)
    assert bool(actions) == (count >= KINDS[kind][1])
    for action in actions:
        cut = [(source, target) for source, target in action.args["links"]]
        assert cut == sorted(set(cut), key=lambda link: [(end == "clients", end) for end in link])
        ends = {*nodes, "clients"} if kind == "clients" else set(nodes)
        assert all(source != target and {source, target} <= ends for source, target in cut)
        assert action.nodes == tuple(node for node in nodes if any(node in link for link in cut))
        if kind != "one-way":
            assert {(target, source) for source, target in cut} == set(cut)
        if kind in ("halves", "fixed-halves"):
            side = {node for node in nodes if ("n1", node) in cut}
            assert min(len(side), count - len(side)) == count // 2
            assert len(cut) == 2 * len(side) * (count - len(side))
        if kind == "bridge":
            both = [node for node in nodes if not any(node in link for link in cut)]
            assert len(both) == 1
            assert len(cut) == 2 * ((count - 1) // 2) * (count // 2)


def test_every_node_has_its_turn() -> None:
    apart = {tuple(map(tuple, act("one", THREE, draw)[0].args["links"])) for draw in range(50)}
    rings = {tuple(map(tuple, act("majorities-ring", THREE, draw)[0].args["links"])) for draw in range(50)}
    assert len(rings) == 3
    assert len(apart) == 3
