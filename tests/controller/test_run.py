"""A run's phases, in order; and that nothing on the way takes the history, or the removal of what was made, with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.controller import Interrupted, Outcome, Run
from chaos.kernel.clock import SECOND
from chaos.kernel.recorder import Recorder
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model.errors import SplitbrainError
from chaos.model.schedule import Fault, Schedule
from chaos.model.settings import resolve
from chaos.progress import Silent
from chaos.scenario import ClusterPart, Scenario, WorkloadPart
from clusters.base import Unknown
from clusters.null import Deliver, NullClient
from tests.controller.fakes import FakeCluster, FakeLedger, Killer
from workloads.base import Context
from workloads.queue import Queue

PHASES = ["provision", "open", "work", "undo", "serve", "drain", "collect"]
NO_FAULTS = Schedule()
FAULT = Fault("killer-1", "killer", "kill", at=2 * SECOND, duration=60 * SECOND, target="leader")


def scenario(**options: Any) -> Scenario:
    told = resolve(Queue.settings, options, "workload")
    return Scenario(
        "test", 1, ClusterPart("fake", None, "simulated", 3), WorkloadPart("queue", 10 * SECOND, told), (), {}, {}
    )


def conduct(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Run, VirtualLoop], None] = lambda *_: None,
    schedule: Schedule = NO_FAULTS,
    workload: type[Queue] = Queue,
) -> tuple[Outcome, list[str]]:
    """The outcome, and what the cluster was asked."""
    asked: list[tuple[int, str]] = []

    def make(on: str, setup: Any) -> FakeCluster:
        cluster = FakeCluster(setup)
        cluster.asked = asked
        return cluster

    found = {"queue": workload, "killer": Killer}
    monkeypatch.setattr("chaos.controller.make", make)
    monkeypatch.setattr("chaos.model.registry.find", lambda group, name: found[name])

    async def main(loop: VirtualLoop) -> Outcome:
        run = Run(
            scenario(), schedule, loop, Recorder(loop), FakeLedger(asked), Silent(), tmp_path / "nodes", "r", keep=False
        )
        prepare(run, loop)
        return await run.conduct()

    try:
        outcome = run_virtual(main)
    finally:
        whats = [what for _, what in asked]
        assert whats[-1] == "down"
    return outcome, whats


def phases(outcome: Outcome) -> list[str]:
    history = outcome.history.validate()
    return [history.detail(row)["name"] for row in history.rows("phase").tolist()]


def told(outcome: Outcome, f: str) -> list[tuple[str, str | None]]:
    """Type and error of the ops of a kind."""
    history = outcome.history
    return [(str(history[row].type), history[row].error) for row in history.rows(f).tolist()]


def test_the_phases_in_order_and_all_delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, asked = conduct(tmp_path, monkeypatch)
    assert (phases(outcome), asked, outcome.interrupted) == (PHASES, ["up", "down"], False)
    assert told(outcome, "drain") == [("invoke", None), ("ok", None)]
    assert told(outcome, "serve") == [("invoke", None), ("ok", None)]
    history = outcome.history
    completed = [kind for f in ("publish", "ack") for kind, _ in told(outcome, f)]
    assert completed.count("invoke") == completed.count("ok") > 100
    assert sorted(history.value[history.rows("publish")]) == sorted(history.value[history.rows("ack")])


def test_a_queue_that_nobody_could_consume_from_is_not_called_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(NullClient):
        async def subscribe(self, queue: str, prefetch: int, deliver: Deliver, acks: bool = True) -> None:
            if 10 * SECOND <= asyncio.get_running_loop().time() * SECOND < 20 * SECOND:
                await asyncio.sleep(2)
                raise Unknown("consume: timed out")
            await super().subscribe(queue, prefetch, deliver, acks)

    async def connect(self: FakeCluster, node: str, name: str) -> NullClient:
        return Slow(self, node)

    monkeypatch.setattr(FakeCluster, "connect", connect)
    outcome, _ = conduct(tmp_path, monkeypatch)  # whose counts say all the while that there is nothing in it
    history = outcome.history
    begun, drained = history.rows("drain").tolist()
    assert [str(history[row].type) for row in (begun, drained)] == ["invoke", "ok"]
    assert history.time[begun] < 11 * SECOND < 20 * SECOND < history.time[drained]


def test_one_interrupt_undoes_collects_and_leaves_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, asked = conduct(
        tmp_path, monkeypatch, lambda run, loop: loop.at(5 * SECOND, run.interrupt.ask), Schedule((FAULT,))
    )
    assert asked == ["up", "note killer-1", "inject killer-1 kill n1", "undo killer-1", "strike killer-1", "down"]
    assert (phases(outcome), outcome.interrupted) == (PHASES, True)
    assert told(outcome, "interrupt") == [("info", "work")]
    assert outcome.history.time[-1] == 5 * SECOND
    assert told(outcome, "drain") == []


def test_a_second_interrupt_gives_up_all_but_the_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(Queue):
        async def work(self, context: Context) -> None:
            try:
                await super().work(context)
            finally:
                await asyncio.sleep(3600)

    def twice(run: Run, loop: VirtualLoop) -> None:
        loop.at(5 * SECOND, run.interrupt.ask)
        loop.at(6 * SECOND, run.interrupt.ask)

    with pytest.raises(asyncio.CancelledError):
        conduct(tmp_path, monkeypatch, twice, workload=Stubborn)


def test_an_interrupt_while_provisioning_removes_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(self: FakeCluster, report: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(FakeCluster, "up", slow)
    with pytest.raises(Interrupted):
        conduct(tmp_path, monkeypatch, lambda run, loop: loop.at(SECOND, run.interrupt.ask))


def test_a_cluster_that_does_not_come_up_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: FakeCluster, report: object) -> None:
        raise SplitbrainError("n2 does not serve")

    monkeypatch.setattr(FakeCluster, "up", broken)
    with pytest.raises(SplitbrainError, match="n2 does not serve"):
        conduct(tmp_path, monkeypatch)


@pytest.mark.parametrize("phase", ["setup", "work", "drain"])
def test_a_workload_that_fails_is_a_fact_about_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("a bug")

    broken = type("Broken", (Queue,), {phase: fail})
    outcome, asked = conduct(tmp_path, monkeypatch, workload=broken)
    name = {"setup": "open"}.get(phase, phase)
    assert told(outcome, "error")[0] == ("info", f"{name}: ValueError: a bug")
    assert phases(outcome)[-1] == "collect"
    assert asked == ["up", "down"]


def test_an_exception_that_nobody_awaits_is_in_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chaos.controller import _conduct

    class Careless(Queue):
        async def work(self, context: Context) -> None:
            asyncio.get_running_loop().call_later(1, lambda: 1 // 0)
            await super().work(context)

    outcomes: list[Outcome] = []

    async def main(loop: VirtualLoop) -> None:
        run = Run(
            scenario(), Schedule(), loop, Recorder(loop), FakeLedger([]), Silent(), tmp_path / "nodes", "r", keep=False
        )
        outcomes.append(await _conduct(run))

    monkeypatch.setattr("chaos.controller.make", lambda on, setup: FakeCluster(setup))
    monkeypatch.setattr("chaos.model.registry.find", lambda group, name: Careless)
    run_virtual(main)
    assert told(outcomes[0], "error") == [("info", "ZeroDivisionError: integer division or modulo by zero")]
