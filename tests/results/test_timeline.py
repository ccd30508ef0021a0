from __future__ import annotations

from typing import Any

from chaos.model.history import History
from chaos.model.op import CONTROLLER, INFO, INVOKE, NEMESIS, OBSERVER, OK, Op, OpType
from results.timeline import Change, Claim, Exit, FaultBand, Phase, Timeline, timeline


def op(index: int, time: int, process: int, type_: OpType, f: str, **more: Any) -> Op:
    return Op(index=index, time=time, process=process, type=type_, f=f, **more)


def belief(index: int, time: int, node: str, role: str, term: int) -> Op:
    return op(index, time, OBSERVER, INFO, "belief", key="q", node=node, term=term, detail={"role": role})


def sample(index: int, time: int, node: str, role: str, term: int | None, answered: int) -> Op:
    detail = {"role": role, "asked": answered - 1, "answered": answered}
    return op(index, time, OBSERVER, INFO, "leader", key="q", node=node, term=term, detail=detail)


def test_phases_follow_one_another() -> None:
    history = History.from_ops(
        op(index, time, CONTROLLER, INFO, "phase", detail={"name": name})
        for index, (time, name) in enumerate([(0, "provision"), (30, "open"), (40, "work"), (90, "undo")])
    )
    assert timeline(history) == Timeline(
        begin=30,
        end=90,
        phases=(Phase(0, 30, "provision"), Phase(30, 40, "open"), Phase(40, 90, "work"), Phase(90, 90, "undo")),
    )


def test_a_fault_is_in_force_from_its_first_node_to_its_last() -> None:
    actions = [{"verb": "kill", "nodes": ["n1", "n2"], "args": {}, "process": "broker"}]
    injected = {"nemesis": "kill", "kind": "kill", "target": "minority", "actions": actions, "evidence": "a"}
    history = History.from_ops(
        [
            op(0, 5, NEMESIS, INVOKE, "inject", key="kill-1"),
            op(1, 9, NEMESIS, OK, "inject", key="kill-1", op=0, detail=injected | {"in_force": {"n1": 7, "n2": 6}}),
            op(2, 20, NEMESIS, INVOKE, "undo", key="kill-1"),
            op(3, 30, NEMESIS, OK, "undo", key="kill-1", op=2, detail={"times": {"n1": 27, "n2": 28}, "bit": True}),
        ]
    )
    (fault,) = timeline(history).faults
    assert fault == FaultBand(
        6, 28, id="kill-1", nemesis="kill", kind="kill", role="minority", whom="n1, n2", bit=True,
        evidence="a", undone=True,
    )  # fmt: skip
    assert fault.label == "kill: n1, n2"


def test_a_fault_that_could_not_be_or_was_never_undone_says_so() -> None:
    history = History.from_ops(
        [
            op(0, 5, NEMESIS, INVOKE, "inject", key="kill-1"),
            op(1, 9, NEMESIS, INFO, "inject", key="kill-1", op=0, error="nobody to hurt"),
            op(2, 10, NEMESIS, INVOKE, "inject", key="pause-1"),
            op(3, 12, NEMESIS, OK, "inject", key="pause-1", op=2, detail={"nemesis": "pause", "in_force": {}}),
            op(4, 90, CONTROLLER, INFO, "phase", detail={"name": "collect"}),
            op(5, 95, NEMESIS, INVOKE, "inject", key="x"),
        ]
    )
    assert timeline(history).faults == (
        FaultBand(9, 9, id="kill-1", nemesis="kill", problem="nobody to hurt"),
        FaultBand(12, 95, id="pause-1", nemesis="pause"),
        FaultBand(95, 95, id="x", problem="no answer to its injection"),
    )


def test_beliefs_hold_until_the_next_or_the_end_of_the_process() -> None:
    history = History.from_ops(
        [
            belief(0, 10, "n1", "leader", 1),
            belief(1, 30, "n2", "leader", 2),
            belief(2, 40, "n1", "follower", 2),
            op(3, 60, OBSERVER, INFO, "exit", node="n2", error="killed", detail={"asked": True}),
            belief(4, 70, "n3", "leader", 3),
            belief(5, 80, "n1", "follower", 3),
        ]
    )
    line = timeline(history)
    assert line.claims == (
        Claim(10, 40, "q", "n1", 1, True),
        Claim(30, 60, "q", "n2", 2, True),
        Claim(70, 80, "q", "n3", 3, True),
    )
    assert line.changes == (
        Change(10, "q", "n1", 1, None),
        Change(30, "q", "n2", 2, "n1"),
        Change(70, "q", "n3", 3, "n2"),
    )
    assert line.exits == (Exit(60, "n2", "killed", True),)
    assert line.leaders("q", 35) == list(line.claims[:2])


def test_samples_claim_no_more_than_was_seen() -> None:
    history = History.from_ops(
        [
            sample(0, 11, "n1", "leader", 1, 10),
            sample(1, 21, "n1", "leader", 1, 20),
            sample(2, 31, "n1", "follower", 2, 30),
            sample(3, 32, "n2", "leader", 2, 31),
            sample(4, 90, "n3", "follower", 2, 90),
        ]
    )
    assert timeline(history).claims == (Claim(10, 20, "q", "n1", 1), Claim(31, 31, "q", "n2", 2))


def test_an_old_term_is_no_leader_change_and_without_terms_a_new_node_is() -> None:
    stale = [belief(0, 1, "n1", "leader", 1), belief(1, 2, "n2", "leader", 5), belief(2, 3, "n3", "leader", 3)]
    assert [change.node for change in timeline(History.from_ops(stale)).changes] == ["n1", "n2"]
    bare = [sample(n, n, node, "leader", None, n) for n, node in enumerate(["n1", "n2", "n2", "n1"])]
    assert [change.node for change in timeline(History.from_ops(bare)).changes] == ["n1", "n2"]


def test_an_empty_history_has_an_empty_timeline() -> None:
    assert timeline(History.from_ops([])) == Timeline(0, 0)
