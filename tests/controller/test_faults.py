"""How a schedule is carried out: in its time, in the ledger before it is injected, undone whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from chaos.faults import Faults
from chaos.kernel.clock import SECOND
from chaos.kernel.recorder import Recorder
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model.op import Op
from chaos.model.schedule import Fault, Schedule
from chaos.progress import Silent
from clusters.base import Setup
from nemesis.members import Members
from tests.controller.fakes import FakeCluster, FakeLedger, Killer, Rolling

FIRST = Fault("killer-1", "killer", "kill", at=2 * SECOND, duration=3 * SECOND, target="leader")
SECOND_FAULT = Fault("killer-2", "killer", "kill", at=4 * SECOND, duration=3 * SECOND, target="one")


def carry_out(
    schedule: Schedule, work: float, change: Callable[[FakeCluster, Faults, VirtualLoop], None] = lambda *_: None
) -> tuple[list[tuple[float, str]], list[Op]]:
    """What was asked of cluster and ledger, with virtual seconds, and the ops recorded."""

    async def main(loop: VirtualLoop) -> tuple[Any, Any]:
        setup = Setup("r", "fake", None, 3, {}, loop, Streams(1), None)  # type: ignore[arg-type]
        cluster = FakeCluster(setup)
        recorder = Recorder(loop)
        nemeses = {"killer": Killer(), "rolling": Rolling(), "members": Members()}
        faults = Faults(cluster, nemeses, recorder, loop, FakeLedger(cluster.asked), Silent())
        change(cluster, faults, loop)
        running = asyncio.ensure_future(faults.run(schedule, loop.now()))
        await asyncio.sleep(work)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await faults.undo_all()
        recorder.give_up("over")
        return cluster.asked, recorder.history().validate()

    asked, history = run_virtual(main)
    return [(time / SECOND, what) for time, what in asked], list(history)


def test_noted_injected_undone_struck_out() -> None:
    asked, ops = carry_out(Schedule((FIRST,)), 10)
    assert asked == [
        (2.0, "note killer-1"),
        (2.0, "inject killer-1 kill n1"),
        (5.0, "undo killer-1"),
        (5.0, "strike killer-1"),
    ]
    assert [(op.time // SECOND, str(op.type), op.f, op.key, op.detail) for op in ops] == [
        (2, "invoke", "inject", "killer-1", None),
        (2, "ok", "inject", "killer-1", {
            "nemesis": "killer", "kind": "kill", "target": "leader",
            "in_force": {"n1": 2 * SECOND}, "evidence": "it is done",
            "actions": [{"verb": "kill", "nodes": ["n1"], "args": {}, "process": "broker"}],
        }),
        (5, "invoke", "undo", "killer-1", None),
        (5, "ok", "undo", "killer-1", {
            "times": dict.fromkeys(("n1", "n2", "n3"), 5 * SECOND), "bit": True, "evidence": "it bit",
        }),
    ]  # fmt: skip


def test_a_fault_in_force_when_the_work_ends_is_undone_then() -> None:
    asked, _ = carry_out(Schedule((FIRST,)), 3)
    assert asked[2:] == [(3.0, "undo killer-1"), (3.0, "strike killer-1")]


def test_a_fault_whose_time_did_not_come_is_not_injected() -> None:
    assert carry_out(Schedule((FIRST,)), 1) == ([], [])


def test_two_faults_never_hold_one_process() -> None:
    asked, _ = carry_out(Schedule((FIRST, SECOND_FAULT)), 10)
    assert [what for _, what in asked if what.startswith("inject")] == [
        "inject killer-1 kill n1",
        "inject killer-2 kill n2",
    ]


def test_members_change_one_at_a_time_and_are_undone_last() -> None:
    one = Fault("members-1", "members", "shrink", at=1 * SECOND, duration=30 * SECOND, target="n3")
    other = Fault("members-2", "members", "replace", at=3 * SECOND, duration=1 * SECOND, target="n2")
    asked, ops = carry_out(Schedule((one, FIRST, other)), 4)
    assert [what for _, what in asked if what.startswith(("inject", "undo"))] == [
        "inject members-1 shrink n3",
        "inject killer-1 kill n1",
        "undo killer-1",
        "undo members-1",
    ]
    assert [op.error for op in ops if op.key == "members-2" and op.error] == ["another change of members is under way"]


def test_nobody_to_hurt_is_info_and_leaves_no_trace() -> None:
    def nobody_leads(cluster: FakeCluster, faults: Faults, loop: VirtualLoop) -> None:
        cluster.leads = None

    asked, ops = carry_out(Schedule((FIRST,)), 10, nobody_leads)
    assert asked == []
    assert [(str(op.type), op.f, op.error) for op in ops] == [
        ("invoke", "inject", None),
        ("info", "inject", "nobody to hurt: no leader is known, or every node is taken"),
    ]


def test_what_could_not_be_injected_is_undone_all_the_same() -> None:
    def refuse(cluster: FakeCluster, faults: Faults, loop: VirtualLoop) -> None:
        cluster.refuses = ("killer-1",)

    asked, ops = carry_out(Schedule((FIRST,)), 10, refuse)
    assert [what for _, what in asked] == [
        "note killer-1",
        "inject killer-1 kill n1",
        "undo killer-1",
        "strike killer-1",
    ]
    assert [(str(op.type), op.f, op.error) for op in ops][1] == ("info", "inject", "the node did not answer")


def test_a_trigger_begins_a_fault_some_time_after_it_fires() -> None:
    triggered = Fault(
        "killer-1",
        "killer",
        "kill",
        at=SECOND // 2,
        duration=SECOND,
        target="one",
        trigger="leader-change",
        after=3 * SECOND,
    )

    def changes(cluster: FakeCluster, faults: Faults, loop: VirtualLoop) -> None:
        for time in (1, 4, 6):  # the first comes before the fault waits for it
            loop.at(time * SECOND, faults.happened, "leader-change")

    asked, _ = carry_out(Schedule((triggered,)), 10, changes)
    assert [(time, what) for time, what in asked if "inject" in what or "undo" in what] == [
        (4.5, "inject killer-1 kill n1"),
        (5.5, "undo killer-1"),
    ]


@pytest.mark.parametrize(
    ("trigger", "line", "begins"),
    [("sync-start", None, 2.0), ("sync-end", None, 3.0), ("log-line", "^two$", 5.0), ("log-line", "o", 4.0)],
)
def test_each_waits_for_its_own_trigger(trigger: str, line: str | None, begins: float) -> None:
    waits = Fault("killer-1", "killer", "kill", at=0, duration=SECOND, target="one", trigger=trigger, line=line)

    def happen(cluster: FakeCluster, faults: Faults, loop: VirtualLoop) -> None:
        for time, what, said in [
            (1, "leader-change", ""), (2, "sync-start", ""), (3, "sync-end", ""), (4, "log-line", "one"),
            (5, "log-line", "two"), (6, trigger, "two"),
        ]:  # fmt: skip
            loop.at(time * SECOND, faults.happened, what, said)

    asked, _ = carry_out(Schedule((waits,)), 10, happen)
    assert [time for time, what in asked if "inject" in what] == [begins]


ROLLING = Fault("r-1", "rolling", "rolling", at=SECOND, duration=30 * SECOND, target="all")


def test_in_turn_the_next_waits_until_the_one_before_serves() -> None:
    def slow(cluster: FakeCluster, faults: Faults, loop: VirtualLoop) -> None:
        cluster.silent = {"n1": 4 * SECOND, "n2": 6 * SECOND}

    asked, ops = carry_out(Schedule((ROLLING,)), 40, slow)
    assert asked == [
        *[(1.0, "note r-1")] * 3,
        (1.0, "inject r-1 kill n1"),
        (1.0, "undo r-1"),
        (4.0, "inject r-1 kill n2"),
        (4.0, "undo r-1"),
        (6.0, "inject r-1 kill n3"),
        (6.0, "undo r-1"),
        (6.0, "undo r-1"),  # over before its time
        (6.0, "strike r-1"),
    ]
    assert ops[-1].detail is not None
    assert ops[-1].detail["evidence"] == (
        "it bit, and served again 3.0 s later; it bit, and served again 2.0 s later; "
        "it bit, and served again 0.0 s later; it bit"
    )


def test_in_turn_it_goes_as_far_as_time_does() -> None:
    def stuck(cluster: FakeCluster, faults: Faults, loop: VirtualLoop) -> None:
        cluster.silent = {"n2": 60 * SECOND}

    asked, ops = carry_out(Schedule((ROLLING,)), 40, stuck)
    assert [(time, what) for time, what in asked if "kill n" in what or "strike" in what] == [
        (1.0, "inject r-1 kill n1"),
        (1.0, "inject r-1 kill n2"),
        (31.0, "strike r-1"),
    ]
    assert (ops[-1].f, str(ops[-1].type)) == ("undo", "ok")


def test_in_turn_all_its_nodes_are_taken() -> None:
    other = Fault("killer-1", "killer", "kill", at=2 * SECOND, duration=SECOND, target="one")

    def stuck(cluster: FakeCluster, faults: Faults, loop: VirtualLoop) -> None:
        cluster.silent = {"n1": 60 * SECOND}

    asked, _ = carry_out(Schedule((ROLLING, other)), 10, stuck)
    assert not [what for _, what in asked if "inject killer-1" in what]


def test_in_turn_one_that_cannot_be_carried_out_ends_it() -> None:
    def refuse(cluster: FakeCluster, faults: Faults, loop: VirtualLoop) -> None:
        loop.at(2 * SECOND, lambda: setattr(cluster, "refuses", ("r-1",)))
        cluster.silent = {"n1": 3 * SECOND}

    asked, ops = carry_out(Schedule((ROLLING,)), 10, refuse)
    assert [what for _, what in asked][-3:] == ["inject r-1 kill n2", "undo r-1", "strike r-1"]
    assert ops[-1].detail is not None
    assert "; the node did not answer; " in ops[-1].detail["evidence"]
