"""Who leaves, who joins, and who hands over to whom."""

from __future__ import annotations

from random import Random

import pytest

from chaos.model.schedule import LEAVE, TRANSFER, Action, Fault
from chaos.model.settings import resolve
from nemesis.base import View
from nemesis.members import KINDS, USUAL, Members

VIEW = View(("n1", "n2", "n3"), "n2")


def fault(kind: str, target: str, draw: int = 0) -> Fault:
    return Fault("f", "members", kind, 0, 1, target, draw=draw)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != TRANSFER])
def test_a_kind_is_a_verb_on_the_nodes_of_its_target(kind: str) -> None:
    assert Members().resolve(fault(kind, "leader"), VIEW) == (Action(kind, ("n2",)),)
    assert Members().resolve(fault(kind, "n3+n1"), VIEW) == (Action(kind, ("n1", "n3")),)
    assert Members().resolve(fault(kind, "leader"), View(VIEW.nodes, None)) == ()


def test_the_leader_hands_over_to_whoever_is_meant_or_to_anybody() -> None:
    assert Members().resolve(fault(TRANSFER, "leader"), VIEW) == (Action(TRANSFER, ("n2",), {"to": None}),)
    assert Members().resolve(fault(TRANSFER, "n3"), VIEW) == (Action(TRANSFER, ("n2",), {"to": "n3"}),)
    heirs = {Members().resolve(fault(TRANSFER, "followers", draw), VIEW)[0].args["to"] for draw in range(20)}
    assert heirs == {"n1", "n3"}
    assert Members().resolve(fault(TRANSFER, "n3"), View(VIEW.nodes, None)) == ()


def test_a_plan_has_each_kind_and_each_target_before_any_comes_again() -> None:
    options = resolve(Members.settings, {"every": "10s", "for": "2s"}, "nemesis[0]")
    plan = Members().plan(options, VIEW.nodes, 120 * 10**9, Random(1))
    assert {one.kind for one in plan[:4]} == set(USUAL)
    assert {one.target for one in plan[:3]} == {"one", "follower", "leader"}


def test_whoever_cannot_say_who_is_to_lead_is_not_asked_to() -> None:
    options = resolve(Members.settings, {}, "nemesis[0]")
    assert Members().verbs(options) == (*USUAL, "transfer.to")
    assert Members().verbs({**options, "kinds": (TRANSFER,), "targets": ("leader",)}) == (TRANSFER,)
    assert Members().verbs({**options, "kinds": (LEAVE,)}) == (LEAVE,)
    assert Action(TRANSFER, ("n1",), {"to": "n2"}).needs() == (TRANSFER, "transfer.to")
    assert Action(TRANSFER, ("n1",), {"to": None}).needs() == (TRANSFER,)
