"""Faults of processes, clocks and packets: what a cluster is told."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from chaos.model.schedule import Action, Fault
from chaos.model.settings import BadKey, resolve
from nemesis.base import Nemesis, View
from nemesis.clock import Clock
from nemesis.packets import Loss, Packets
from nemesis.process import Kill, Pause, PowerOff, Restart, Wipe

S = 1_000_000_000
THREE = ("n1", "n2", "n3")
FIVE = ("n1", "n2", "n3", "n4", "n5")


def plan(nemesis: type[Nemesis], nodes: tuple[str, ...] = THREE, **options: Any) -> list[Fault]:
    values = resolve(nemesis.settings, {"every": "1s", "for": "500ms", **options}, "nemesis[0]")
    return nemesis().plan(values, nodes, 60 * S, Random(1))


@pytest.mark.parametrize(
    ("nemesis", "verb"), [(Kill, "kill"), (Pause, "pause"), (Restart, "stop"), (PowerOff, "power-off"), (Wipe, "wipe")]
)
@pytest.mark.parametrize(
    ("target", "three", "five"),
    [
        ("one", ("n2",), ("n3",)),
        ("minority", ("n2",), ("n2", "n3")),
        ("majority", ("n1", "n2"), ("n2", "n3", "n4")),
        ("leader", ("n2",), ("n2",)),
        ("all", THREE, FIVE),
        ("n3+n1", ("n1", "n3"), ("n1", "n3")),
    ],
)
def test_processes(
    nemesis: type[Nemesis], verb: str, target: str, three: tuple[str, ...], five: tuple[str, ...]
) -> None:
    fault = Fault("x-1", nemesis.name, nemesis.name, 0, S, target, draw=7)
    assert nemesis().resolve(fault, View(THREE, "n2")) == (Action(verb, three),)
    assert nemesis().resolve(fault, View(FIVE, "n2")) == (Action(verb, five),)
    assert nemesis().resolve(fault, View((), None)) == ()


@pytest.mark.parametrize("nemesis", [Kill, Pause])
def test_a_process_beside_the_broker_is_hurt_where_it_is_named(nemesis: type[Nemesis]) -> None:
    for process, args in (("broker", {}), ("etcd", {"process": "etcd"})):
        fault = plan(nemesis, targets=["majority"], process=process)[0]
        [action] = nemesis().resolve(fault, View(THREE, "n2"))
        assert (fault.args, action.process, len(action.nodes)) == (args, process, 2)


@pytest.mark.parametrize("nemesis", [Kill, Pause, Restart, PowerOff, Wipe, Clock, Loss, Packets])
def test_only_the_targets_that_are_listed_are_hurt(nemesis: type[Nemesis]) -> None:
    assert Counter(fault.target for fault in plan(nemesis, targets="leader,n1+n3")[:20]) == {"leader": 10, "n1+n3": 10}
    with pytest.raises(BadKey, match=r"^targets: there is no node 'n4'"):
        plan(nemesis, targets="n4")


def test_clocks_are_wrong_within_their_bounds() -> None:
    faults = plan(Clock, offset="2s", jump="1m", period="50ms", rate=4)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for fault in faults:
        by_kind.setdefault(fault.kind, []).append(dict(fault.args))
    assert set(by_kind) == {"offset", "jump", "strobe", "rate"}
    for kind, low, high, strobe in (
        ("offset", S // 5, 2 * S, 0),
        ("jump", 6 * S, 60 * S, 0),
        ("strobe", S // 5, 2 * S, 50_000_000),
    ):
        for args in by_kind[kind]:
            assert (args["rate"], args["strobe"]) == (1.0, strobe)
            assert low <= abs(args["offset"]) <= high
        assert {args["offset"] > 0 for args in by_kind[kind]} == {True, False}
    for args in by_kind["rate"]:
        assert (args["offset"], args["strobe"]) == (0, 0)
        assert 1.3 <= max(args["rate"], 1 / args["rate"]) <= 4.01
    assert {args["rate"] > 1 for args in by_kind["rate"]} == {True, False}


def test_clocks_of_a_target_are_all_set_the_same() -> None:
    args = {"offset": -S, "rate": 1.0, "strobe": 0}
    fault = Fault("clock-1", "clock", "offset", 0, S, "minority", draw=7, args=args)
    assert Clock().resolve(fault, View(FIVE, None)) == (Action("clock", ("n2", "n3"), args),)
    assert Clock().resolve(Fault("clock-1", "clock", "offset", 0, S, "leader", args=args), View(FIVE, None)) == ()


def lose(target: str, nodes: tuple[str, ...], clients: bool = False) -> tuple[Action, ...]:
    args = {"probability": 0.5, "clients": clients}
    return Loss().resolve(Fault("loss-1", "loss", "loss", 0, S, target, args=args), View(nodes, "n2"))


def links(text: str) -> list[list[str]]:
    return [["clients" if end == "c" else f"n{end}" for end in pair] for pair in text.split()]


def test_packets_are_lost_on_the_links_of_a_target() -> None:
    assert lose("n2", THREE) == (Action("loss", ("n2",), {"links": links("12 21 23 32"), "probability": 0.5}),)
    assert lose("all", THREE)[0] == Action("loss", THREE, {"links": links("12 13 21 23 31 32"), "probability": 0.5})
    assert lose("leader", FIVE)[0].args["links"] == links("12 21 23 24 25 32 42 52")
    assert lose("n1+n2", THREE)[0].args["links"] == links("12 13 21 23 31 32")
    assert lose("n1", THREE, clients=True)[0].args["links"] == links("12 13 1c 21 31 c1")
    assert lose("one", ("n1",)) == ()


def test_a_single_node_has_links_to_clients_only() -> None:
    with pytest.raises(BadKey, match=r"^clients: the only links of a single node"):
        plan(Loss, ("n1",))
    assert plan(Loss, ("n1",), clients=True)


def test_packets_are_hurt_in_one_way_at_a_time_and_in_each() -> None:
    told: dict[str, Any] = {"latency": "80ms", "spread": "10ms", "rate": "20kB", "loss": 0.3, "corrupt": 0.01}
    faults = plan(Packets, **told)
    besides = {"service": None, "clients": False}
    assert {fault.kind: dict(fault.args) for fault in faults} == {
        "delay": {"delay": S * 8 // 100, "jitter": S // 100, **besides},
        "loss": {"loss": 0.3, **besides},
        "corrupt": {"corrupt": 0.01, **besides},
        "duplicate": {"duplicate": 0.2, **besides},
        "reorder": {"delay": S * 8 // 100, "reorder": 0.25, **besides},
        "rate": {"rate": 20_000, **besides},
    }
    fault = Fault("p", "packets", "delay", 0, S, "n2", args={"delay": 5, "jitter": 0, "clients": True, "service": "x"})
    args = {"links": links("12 21 23 2c 32"), "service": "x", "delay": 5}
    assert Packets().resolve(fault, View(THREE, None)) == (Action("shape", ("n2",), args),)
    with pytest.raises(ValueError, match="its args say nothing of what becomes of packets"):
        Packets().resolve(Fault("p", "packets", "delay", 0, S, "n2", args={"clients": True}), View(THREE, None))


def test_what_packets_need_of_a_cluster_hangs_on_what_becomes_of_them() -> None:
    options = resolve(Packets.settings, {"kinds": "loss,delay", "spread": 0}, "")
    assert Packets().verbs(options) == ("shape", "shape.delay", "shape.loss")
    assert Packets().verbs({"rate": 5, "clients": False}) == ("shape", "shape.rate")
    assert Action("shape", ("n1",), {"links": [], "rate": 5, "jitter": 0}).needs() == ("shape", "shape.rate")
    assert Action("cut", ("n1",), {"links": []}).needs() == ("cut",)


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"spread": "1s"}, "^spread: packets cannot come before they are sent"),
        ({"rate": "fast"}, "rate: 'fast' is not a size"),
        ({"kinds": "slow"}, "kinds: 'slow' is not one of them"),
    ],
)
def test_packets_that_cannot_be_hurt_so(told: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadKey, match=problem):
        plan(Packets, **told)
