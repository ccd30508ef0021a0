"""What faults of processes are resolved to."""

from __future__ import annotations

from chaos.model.schedule import CRASH_LOOP, KILL, STOP, Action, Fault
from nemesis.base import View
from nemesis.process import CrashLoop, Kill, RollingRestart

VIEW = View(("n1", "n2", "n3"), "n2")


def fault(target: str, draw: int = 0, **args: object) -> Fault:
    return Fault("f", "f", "f", 0, 1, target, draw=draw, args=args)


def test_a_rolling_restart_is_an_action_a_node_in_an_order_drawn() -> None:
    orders = {tuple(action.nodes[0] for action in RollingRestart().resolve(fault("all", n), VIEW)) for n in range(50)}
    assert len(orders) == 6
    assert {frozenset(order) for order in orders} == {frozenset(VIEW.nodes)}
    assert RollingRestart().resolve(fault("n3"), VIEW) == (Action(STOP, ("n3",)),)
    assert RollingRestart().resolve(fault("leader"), View(VIEW.nodes, None)) == ()


def test_a_process_beside_the_broker_is_named() -> None:
    assert Kill().resolve(fault("leader", process="epmd"), VIEW) == (Action(KILL, ("n2",), process="epmd"),)


def test_a_crash_loop_says_how_often() -> None:
    assert CrashLoop().resolve(fault("leader", times=4), VIEW) == (Action(CRASH_LOOP, ("n2",), {"times": 4}),)
