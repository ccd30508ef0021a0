"""One run, from provision to a whole history.

    provision -> open -> work, alongside the faults -> undo all -> wait until every node serves
        -> look into the replicas, in a simulation -> drain -> collect

The same code runs simulated, in virtual time, and real. Whatever happens on the way (Ctrl-C, a workload that fails, a
drain that crashes), the faults are undone, the logs collected, and there is a history to check.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from chaos.faults import Faults, Ledger
from chaos.kernel.clock import SECOND, Clock
from chaos.kernel.real import RealClock, watch_for_stalls
from chaos.kernel.recorder import Recorder
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from chaos.model import registry
from chaos.model.errors import BadInput, SplitbrainError, did_you_mean
from chaos.model.history import History
from chaos.model.history_file import HistoryWriter
from chaos.model.op import CONTROLLER, INFO, OBSERVER, OK
from chaos.model.schedule import Schedule
from chaos.model.settings import BadKey
from chaos.model.trace import Recording
from chaos.progress import Progress
from chaos.scenario import SIMULATED, Scenario
from clusters.base import Cluster, LeaderView, Setup, Unable, services
from clusters.make import make
from nemesis.base import View
from nemesis.process import BROKER
from nemesis.targets import pinned
from nemesis.timing import LEADER_CHANGE, LOG_LINE, SYNC_END, SYNC_START
from workloads.base import Context, Workload

SERVE_PATIENCE = 180 * SECOND
DRAIN_PATIENCE = 600 * SECOND
BETWEEN_ASKING = SECOND
NO_FAULTS = Schedule()


class Interrupted(Exception):
    """The run was interrupted before there was anything to judge, or given up; says which."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run leaves behind. `versions`: what it met. `interrupted`: somebody stopped it early."""

    history: History
    versions: dict[str, str]
    interrupted: bool
    events: int


class Interrupt:
    """Ctrl-C and SIGTERM: asked once, the phase that can be cut short is, and the run still ends in order. Asked twice,
    everything is given up but the removal of what was made."""

    def __init__(self) -> None:
        self.asked = 0
        self._phase: asyncio.Future[None] | None = None
        self._all: asyncio.Task[Any] | None = None

    def ask(self) -> None:
        """To be called on the loop."""
        self.asked += 1
        if self.asked == 2 and self._all is not None:
            self._all.cancel()
        elif self.asked == 1 and self._phase is not None:
            self._phase.cancel()

    def over(self) -> None:
        """From now on nothing is left to be cut short: what was made is being removed."""
        self._phase = self._all = None

    @property
    def once(self) -> bool:
        """Asked, and not yet twice."""
        return self.asked == 1

    async def cuttable(self, phase: Coroutine[Any, Any, None]) -> bool:
        """Run a phase; False if it was cut short."""
        self._all = asyncio.current_task()
        if self.asked > 0:
            phase.close()
            return False
        self._phase = asyncio.ensure_future(phase)
        try:
            await self._phase
        except asyncio.CancelledError:
            if not self.once:
                raise
            return False
        finally:
            self._phase = None
        return True

    @contextmanager
    def signals(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """While this lasts, SIGINT, SIGTERM and the end of the terminal ask (that, unless it is ignored: nohup)."""

        def asked(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self.ask)

        heard = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            heard.append(signal.SIGHUP)
        before = {number: signal.signal(number, asked) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Run:
    """The phases of one run, on whatever clock."""

    def __init__(
        self,
        scenario: Scenario,
        schedule: Schedule,
        clock: Clock,
        recorder: Recorder,
        ledger: Ledger,
        progress: Progress,
        nodes: Path,
        run: str,
        keep: bool,
        recording: Recording | None = None,
    ) -> None:
        self.clock = clock
        self.recorder = recorder
        self.progress = progress
        self.interrupt = Interrupt()
        self._nodes = nodes
        self._schedule = schedule
        self._time = scenario.workload.time_ns
        self._streams = Streams(scenario.seed)
        self._leader: str | None = None
        self._broken: str | None = None
        self._needs = needs(scenario, schedule)
        part = scenario.cluster
        self.cluster: Cluster = make(
            part.on,
            Setup(
                run,
                part.broker,
                part.version,
                part.nodes,
                part.settings,
                clock,
                self._streams,
                self,
                keep,
                recording=recording,
                image=part.image,
                hosts=part.hosts,
                lines=tuple(dict.fromkeys(fault.line for fault in schedule.faults if fault.line is not None)),
                syncs=any(fault.trigger in (SYNC_START, SYNC_END) for fault in schedule.faults),
                verbs=tuple(dict.fromkeys(verb for _, verb in self._needs)),
            ),
        )
        self._workload: Workload = registry.find(registry.WORKLOADS, scenario.workload.name)(scenario.workload.options)
        used = dict.fromkeys(fault.nemesis for fault in schedule.faults)
        nemeses = {name: registry.find(registry.NEMESES, name)() for name in used}
        self.faults = Faults(self.cluster, nemeses, recorder, clock, ledger, progress)

    async def conduct(self) -> Outcome:
        """All phases; what was made is removed in the end.

        Raises Interrupted, or SplitbrainError when the cluster never came up, or broke.
        """
        try:
            self._phase("provision")
            try:
                if not await self.interrupt.cuttable(self.cluster.up(self.progress.line)):
                    raise Interrupted("interrupted before the work began")
            except Unable as error:
                nemesis = next(name for name, verb in self._needs if verb == error.verb)
                raise SplitbrainError(f"nemesis {_cannot(nemesis, error.verb, error.why)}") from None
            missing = lacking(self.cluster, self._needs)  # a node may lack what its kind of host has
            if missing:
                raise SplitbrainError(f"nemesis {missing}")
            context = Context(self.cluster, self.recorder, self.clock, self._streams, until=self.clock.now())
            if await self._step("open", self._workload.setup(context)):
                begun = self.clock.now()
                await self._step("work", self._work(replace(context, until=begun + self._time), begun))
            self._phase("undo")
            await self.faults.undo_all()
            await self._step("serve", self._serve())
            if self.cluster.held():
                await self._step("look", self._look())
            await self._step("drain", self._workload.drain(context, self.clock.now() + DRAIN_PATIENCE))
            self._phase("collect")
            for node, line in await self.cluster.collect(self._nodes):
                self.recorder.note(OBSERVER, "log", node=node, error=line)
            versions = dict(self.cluster.versions())
        finally:
            await self._down()
        self.recorder.give_up("the run is over")
        history = self.recorder.close()
        if self._broken is not None:
            raise SplitbrainError(self._broken)
        return Outcome(history, versions, self.interrupt.asked > 0, getattr(self.clock, "happened", 0))

    def leader(self, view: LeaderView) -> None:
        """Part of Observer: a belief about leadership goes into the history."""
        detail: dict[str, Any] = {"role": view.role}
        if not view.exact:
            detail |= {"asked": view.asked, "answered": view.answered}
        if view.reign is not None:
            detail["reign"] = view.reign
        self.recorder.note(
            OBSERVER,
            "belief" if view.exact else "leader",
            key=view.scope,
            node=view.node,
            term=view.term,
            incarnation=view.incarnation,
            detail=detail,
        )
        leader = self.cluster.leader()
        if leader != self._leader:
            self._leader = leader
            if leader is not None:
                self.faults.happened(LEADER_CHANGE)

    def exited(self, node: str, incarnation: int, time: int, reason: str, asked: bool) -> None:
        """Part of Observer: a broker's process ended."""
        self.recorder.note(
            OBSERVER, "exit", node=node, incarnation=incarnation, error=reason, detail={"asked": asked, "time": time}
        )

    def noticed(self, node: str, time: int, what: str, words: str) -> None:
        """Part of Observer: something of note on a node."""
        self.recorder.note(OBSERVER, what, node=node, error=words, detail={"time": time})

    def synchronising(self, scope: str, node: str, over: bool) -> None:
        """Part of Observer: a replica begins to catch up, or has."""
        self.faults.happened(SYNC_END if over else SYNC_START)

    def logged(self, node: str, line: str) -> None:
        """Part of Observer: a line that a fault waits for."""
        self.faults.happened(LOG_LINE, line)

    def broken(self, why: str) -> None:
        """Part of Observer: the run ends here, in order, with what was recorded so far."""
        if self._broken is None:
            self._broken = why
            self.recorder.note(CONTROLLER, "error", error=why)
            self.interrupt.ask()

    async def _down(self) -> None:
        self.interrupt.over()
        try:
            await self.cluster.down()
        except SplitbrainError as error:
            raise SplitbrainError(f"{self._broken}; {error}" if self._broken else str(error)) from None

    async def _step(self, name: str, phase: Coroutine[Any, Any, None]) -> bool:
        """A phase that may fail or be cut short without taking the rest of the run with it."""
        self._phase(name)
        asked = self.interrupt.asked
        try:
            whole = await self.interrupt.cuttable(phase)
        except Exception as error:  # a workload may be anybody's; its failure is a fact about the run
            self.recorder.note(CONTROLLER, "error", error=f"{name}: {type(error).__name__}: {error}")
            self.recorder.give_up(f"{name} failed")
            return False
        if not whole and not asked:
            self.recorder.note(CONTROLLER, "interrupt", error=name)
            self.recorder.give_up("interrupted")
        return whole

    async def _work(self, context: Context, begun: int) -> None:
        faults = asyncio.ensure_future(self.faults.run(self._schedule, begun))
        work = asyncio.ensure_future(self._workload.work(context))
        try:
            await work
        finally:
            for task in (work, faults):
                task.cancel()
            await asyncio.gather(work, faults, return_exceptions=True)
        if not faults.cancelled() and (error := faults.exception()) is not None:
            raise error

    async def _serve(self) -> None:
        op = self.recorder.invoke(CONTROLLER, "serve")
        deadline = self.clock.now() + SERVE_PATIENCE
        while True:
            missing = {node: why for node, why in (await self.cluster.serving()).items() if why is not None}
            if not missing:
                self.recorder.complete(op, OK)
                return
            if self.clock.now() >= deadline:
                self.recorder.complete(op, INFO, error="; ".join(f"{node}: {why}" for node, why in missing.items()))
                return
            await asyncio.sleep(BETWEEN_ASKING / SECOND)

    async def _look(self) -> None:
        """Note what each replica holds, when what was under way has arrived."""
        await asyncio.sleep(BETWEEN_ASKING / SECOND)
        for held in self.cluster.held():
            detail = {"digest": held.digest}
            self.recorder.note(OBSERVER, "replica", key=held.queue, node=held.node, value=held.messages, detail=detail)

    def _phase(self, name: str) -> None:
        self.recorder.note(CONTROLLER, "phase", detail={"name": name})
        self.progress.phase(name, self.clock.now())


def needs(scenario: Scenario, schedule: Schedule) -> list[tuple[str, str]]:
    """Which nemesis needs which verb of the cluster."""
    nodes = scenario.cluster.names()
    pairs: list[tuple[str, str]] = []
    for part in scenario.nemeses:
        pairs += [(part.name, verb) for verb in registry.find(registry.NEMESES, part.name)().verbs(part.options)]
    for fault in schedule.faults:
        nemesis = registry.find(registry.NEMESES, fault.nemesis)()
        # where it hangs on the kind of the fault: by what it would be, whoever leads
        verbs = nemesis.verbs(fault.args) or [
            verb for action in nemesis.resolve(fault, View(nodes, nodes[0], nodes[0])) for verb in action.needs()
        ]
        pairs += [(fault.nemesis, verb) for verb in verbs]
    return list(dict.fromkeys(pairs))


def lacking(cluster: Cluster, needed: Iterable[tuple[str, str]]) -> str | None:
    """Which of those needs, (nemesis, verb), the cluster cannot meet, and why; None when it can meet them all."""
    abilities = cluster.abilities()
    for nemesis, verb in needed:
        why = abilities.get(verb, "it does not know how")
        if why is not None:
            return _cannot(nemesis, verb, why)
    return None


def _cannot(nemesis: str, verb: str, why: str) -> str:
    return f"{nemesis!r} needs {verb!r}, which this cluster cannot do: {why}"


class _Nobody:
    """An observer of a cluster that is made only to be asked what it can do."""

    def leader(self, view: LeaderView) -> None:
        pass

    def exited(self, node: str, incarnation: int, time: int, reason: str, asked: bool) -> None:
        pass

    def noticed(self, node: str, time: int, what: str, words: str) -> None:
        pass

    def synchronising(self, scope: str, node: str, over: bool) -> None:
        pass

    def logged(self, node: str, line: str) -> None:
        pass

    def broken(self, why: str) -> None:
        pass


def refuse(scenario: Scenario, schedule: Schedule = NO_FAULTS) -> None:
    """Raises BadInput for faults that such a cluster cannot do, or of a service or a process that it has not, BadKey
    for a nemesis's. Nothing is started."""
    part = scenario.cluster
    loop = VirtualLoop()
    try:
        streams = Streams(scenario.seed)
        setup = Setup(
            "", part.broker, part.version, part.nodes, part.settings, loop, streams, _Nobody(), hosts=part.hosts
        )
        cluster = make(part.on, setup)
        for number, nemesis in enumerate(scenario.nemeses):
            verbs = registry.find(registry.NEMESES, nemesis.name)().verbs(nemesis.options)
            if (missing := lacking(cluster, [(nemesis.name, verb) for verb in verbs])) is not None:
                raise BadKey(f"nemesis[{number}]", missing)
            try:
                services(_service(nemesis.options), cluster.services)
            except BadInput as error:
                raise BadKey(f"nemesis[{number}].service", str(error)) from None
            if (unknown := _unknown([nemesis.options.get("process", BROKER)], cluster)) is not None:
                raise BadKey(f"nemesis[{number}].process", unknown)
        if (missing := lacking(cluster, needs(scenario, schedule))) is not None:
            raise BadInput(f"nemesis {missing}")
        for fault in schedule.faults:
            try:
                services(_service(fault.args), cluster.services)
            except BadInput as error:
                raise BadInput(f"fault {fault.id!r}: {error}") from None
            named = [fault.args.get("process", BROKER), *(action.process for action in pinned(fault) or ())]
            if (unknown := _unknown(named, cluster)) is not None:
                raise BadInput(f"fault {fault.id!r}: {unknown}")
    finally:
        loop.close()


def _unknown(named: Sequence[str], cluster: Cluster) -> str | None:
    """What is wrong with the first of those processes that no node has; None where each is there."""
    for name in named:
        if name not in cluster.processes:
            return f"no process {name!r} on a node; {did_you_mean(name, cluster.processes)}"
    return None


def _service(told: Mapping[str, Any]) -> str | None:
    """The service that options, or a fault's arguments, name; None where they name none."""
    said = told.get("service")
    return said if isinstance(said, str) else None


def execute(
    scenario: Scenario,
    schedule: Schedule,
    *,
    run: str,
    stream: Path | None,
    nodes: Path,
    ledger: Ledger,
    progress: Progress,
    keep: bool = False,
    real: bool = False,
    recording: Recording | None = None,
) -> Outcome:
    """Run a scenario with the given faults, recording to `stream` (an Arrow stream) and node logs below `nodes`.

    run: its id, by which everything that is made can be found and removed. keep: leave the cluster as it is in the end.
    real: in real time even where the cluster is simulated. recording: where a simulation notes every message.
    Raises Interrupted when stopped before the work began, SplitbrainError when the cluster cannot come up.
    """
    writer = HistoryWriter(stream) if stream is not None else None

    def begin(clock: Clock) -> Run:
        recorder = Recorder(clock, writer)
        recorder.on_op = progress.op
        return Run(scenario, schedule, clock, recorder, ledger, progress, nodes, run, keep, recording)

    if scenario.cluster.on == SIMULATED and not real:
        return run_virtual(lambda loop: _conduct(begin(loop)))
    return asyncio.run(_conduct_really(begin))


async def _conduct(run: Run) -> Outcome:
    loop = asyncio.get_running_loop()
    failures: list[OSError] = []

    def cannot_write(error: OSError) -> None:
        failures.append(error)
        loop.call_soon(run.interrupt.ask)

    run.recorder.on_failure = cannot_write
    loop.set_exception_handler(_into_history(run.recorder))
    with run.interrupt.signals(loop):
        try:
            outcome = await run.conduct()
        except asyncio.CancelledError:
            raise Interrupted("interrupted twice: all was given up but the removal of what was made") from None
    if failures:
        raise SplitbrainError(f"the history cannot be written: {failures[0].strerror or failures[0]}")
    return outcome


async def _conduct_really(begin: Callable[[Clock], Run]) -> Outcome:
    clock = RealClock()
    run = begin(clock)

    def stalled(late: int) -> None:
        run.recorder.note(CONTROLLER, "stall", value=late)

    watch = asyncio.ensure_future(watch_for_stalls(stalled, clock))
    try:
        return await _conduct(run)
    finally:
        watch.cancel()


def _into_history(recorder: Recorder) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """An exception that no one awaits is a fact about the run: it goes into its history, never past it."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if recorder.closed:
            return
        error = context.get("exception")
        text = f"{type(error).__name__}: {error}" if error is not None else str(context.get("message"))
        task = context.get("task")
        if isinstance(task, asyncio.Task):
            text += f" ({getattr(task.get_coro(), '__qualname__', task.get_name())})"
        recorder.note(CONTROLLER, "error", error=text)

    return handle
