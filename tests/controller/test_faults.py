"""How a schedule is carried out: in its time, in the ledger before it is injected, undone whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from chaos.faults import Faults
from chaos.kernel.clock import SECOND
from chaos.kernel.recorder import Recorder
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model.op import Op
from chaos.model.schedule import Fault, Schedule
from chaos.progress import Silent
from clusters.base import Setup
from tests.controller.fakes import FakeCluster, FakeLedger, Killer

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
        faults = Faults(cluster, {"killer": Killer()}, recorder, loop, FakeLedger(cluster.asked), Silent())
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
            loop.at(time * SECOND, faults.leader_changed)

    asked, _ = carry_out(Schedule((triggered,)), 10, changes)
    assert [(time, what) for time, what in asked if "inject" in what or "undo" in what] == [
        (4.5, "inject killer-1 kill n1"),
        (5.5, "undo killer-1"),
    ]
