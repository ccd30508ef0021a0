"""Carries out a schedule: waits for each fault's time or trigger, resolves it, injects it, and undoes it.

Every fault is in the ledger before it is injected and struck out when it is undone. Two faults never hold the process
of one node at the same time: the later one finds the node taken, and hurts another or nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from chaos.kernel.clock import SECOND, Clock, sleep_until
from chaos.kernel.recorder import Recorder
from chaos.model.errors import SplitbrainError
from chaos.model.op import INFO, NEMESIS, OK
from chaos.model.schedule import HOLDING, MEMBERS, Action, Fault, Schedule, whom
from chaos.progress import Progress
from clusters.base import Cluster, Undone, Unknown
from nemesis.base import Nemesis, View
from nemesis.targets import pinned

PATIENCE = 60 * SECOND  # for one injection, or undoing
BETWEEN_LOOKS = SECOND // 2


class Ledger(Protocol):
    """Where faults are noted before they are injected (see `results.ledger`)."""

    def note(self, fault: str, action: Action, now: int) -> None:
        """`action` is about to be carried out. On the disk when this returns."""

    def strike(self, fault: str, now: int) -> None:
        """All actions of `fault` are undone."""


class Faults:
    """The faults of one run."""

    def __init__(
        self,
        cluster: Cluster,
        nemeses: Mapping[str, Nemesis],
        recorder: Recorder,
        clock: Clock,
        ledger: Ledger,
        progress: Progress,
    ) -> None:
        self._cluster = cluster
        self._nemeses = nemeses
        self._recorder = recorder
        self._clock = clock
        self._ledger = ledger
        self._progress = progress
        self._in_force: dict[str, tuple[Action, ...]] = {}
        self._turns: dict[str, list[Undone]] = {}  # of faults taken in turn: what is over of them
        self._undoing: dict[str, asyncio.Future[None]] = {}
        self._triggers: list[tuple[Fault, asyncio.Future[None]]] = []

    async def run(self, schedule: Schedule, start: int) -> None:
        """Every fault in its time, counted from `start` (run clock). When the work is over: cancel, then `undo_all`."""
        tasks = [asyncio.ensure_future(self._one(fault, start)) for fault in schedule.faults]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def happened(self, what: str, line: str = "") -> None:
        """Something that faults may wait for (see `nemesis.timing`): they begin. `line` is that of a log."""
        for fault, trigger in self._triggers:
            met = fault.trigger == what and (fault.line is None or re.search(fault.line, line) is not None)
            if met and not trigger.done():
                trigger.set_result(None)
        self._triggers = [waiting for waiting in self._triggers if not waiting[1].done()]

    async def undo_all(self) -> None:
        """Undo whatever is in force; those last that change who belongs to the cluster: that takes a majority."""
        for fault in sorted(self._in_force, key=self._changes_members):
            await self._undo(fault)

    def _changes_members(self, fault: str) -> bool:
        return any(action.verb in MEMBERS for action in self._in_force[fault])

    async def _one(self, fault: Fault, start: int) -> None:
        if fault.trigger is None:
            await sleep_until(self._clock, start + fault.at)
        else:
            await sleep_until(self._clock, start + fault.after)
            trigger = asyncio.get_running_loop().create_future()
            self._triggers.append((fault, trigger))
            await trigger
            await asyncio.sleep(fault.at / SECOND)
        if await self._inject(fault):
            if self._nemeses[fault.nemesis].in_turn:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(fault.duration / SECOND):
                        await self._take_turns(fault)
            else:
                await asyncio.sleep(fault.duration / SECOND)
            await self._undo(fault.id)

    async def _take_turns(self, fault: Fault) -> None:
        """Undo its first action, wait until its nodes serve, then carry out the next: to the last, or as far as time
        goes."""
        done = self._turns[fault.id] = []
        try:
            for number, action in enumerate(self._in_force[fault.id]):
                if number:
                    await self._cluster.inject(fault.id, action)
                undone = await self._cluster.undo(fault.id)
                done.append(undone)
                begun = self._clock.now()
                await self._until_served(action.nodes)
                again = f", and served again {(self._clock.now() - begun) / SECOND:.1f} s later"
                done[-1] = replace(undone, evidence=undone.evidence + again)
        except (SplitbrainError, Unknown, OSError) as error:
            done.append(Undone({}, None, str(error) or type(error).__name__))

    async def _until_served(self, nodes: Sequence[str]) -> None:
        while True:
            serving = await self._cluster.serving()
            if all(serving[node] is None for node in nodes):
                return
            await asyncio.sleep(BETWEEN_LOOKS / SECOND)

    async def _inject(self, fault: Fault) -> bool:
        op = self._recorder.invoke(NEMESIS, "inject", key=fault.id)
        actions = self._resolve(fault)
        if not actions:
            self._recorder.complete(op, INFO, error="nobody to hurt: no leader is known, or every node is taken")
            return False
        if any(action.verb in MEMBERS for action in actions) and any(map(self._changes_members, self._in_force)):
            # an operator waits, too: of two at once the second may take away the majority that the first one needs
            self._recorder.complete(op, INFO, error="another change of members is under way")
            return False
        self._in_force[fault.id] = actions
        in_force: dict[str, int] = {}
        evidence: list[str] = []
        try:
            for action in actions:
                self._ledger.note(fault.id, action, self._clock.now())
            async with asyncio.timeout(PATIENCE / SECOND):
                for action in actions[:1] if self._nemeses[fault.nemesis].in_turn else actions:
                    injected = await self._cluster.inject(fault.id, action)
                    in_force.update(injected.times)
                    evidence += [injected.evidence] if injected.evidence else []
        except (SplitbrainError, Unknown, OSError, TimeoutError) as error:
            self._recorder.complete(op, INFO, error=str(error) or type(error).__name__)
            await self._undo(fault.id)
            return False
        detail = {
            "nemesis": fault.nemesis,
            "kind": fault.kind,
            "target": fault.target,
            "actions": [action.to_json() for action in actions],
            "in_force": in_force,
            "evidence": "; ".join(evidence),
        }
        self._recorder.complete(op, OK, detail=detail)
        self._progress.fault(fault.id, describe(fault, actions), True, self._clock.now())
        return True

    async def _undo(self, fault: str) -> None:
        """Undo one fault, once: whoever asks again while it is being undone waits for that."""
        if fault in self._undoing:
            await asyncio.shield(self._undoing[fault])
            return
        if fault not in self._in_force:
            return
        # not cancelled when the run is: a fault half undone helps nobody
        task = self._undoing[fault] = asyncio.ensure_future(self._really_undo(fault))
        await asyncio.shield(task)

    async def _really_undo(self, fault: str) -> None:
        op = self._recorder.invoke(NEMESIS, "undo", key=fault)
        try:
            async with asyncio.timeout(PATIENCE / SECOND):
                undone = _together([*self._turns.pop(fault, ()), await self._cluster.undo(fault)])
        except (SplitbrainError, Unknown, OSError, TimeoutError) as error:
            self._recorder.complete(op, INFO, error=str(error) or type(error).__name__)
        else:
            detail = {"times": dict(undone.times), "bit": undone.bit, "evidence": undone.evidence}
            self._recorder.complete(op, OK, detail=detail)
            self._ledger.strike(fault, self._clock.now())
        self._in_force.pop(fault, None)
        self._undoing.pop(fault, None)
        self._progress.fault(fault, "", False, self._clock.now())

    def _resolve(self, fault: Fault) -> tuple[Action, ...]:
        nemesis = self._nemeses[fault.nemesis]
        view = View(self._cluster.nodes, self._cluster.leader(), self._cluster.newest())
        bound = pinned(fault)
        actions = nemesis.resolve(fault, view) if bound is None else bound
        taken = [
            node
            for others in self._in_force.values()
            for action in others
            if action.verb in HOLDING
            for node in action.nodes
        ]
        if taken and any(action.verb in HOLDING for action in actions):
            free = tuple(node for node in view.nodes if node not in taken)
            if bound is not None:
                left = [replace(action, nodes=tuple(node for node in action.nodes if node in free)) for action in bound]
                return tuple(action for action in left if action.nodes)
            leader = view.leader if view.leader in free else None
            return nemesis.resolve(fault, replace(view, nodes=free, leader=leader))
        return actions


def _together(undone: Sequence[Undone]) -> Undone:
    """Several parts of a fault, each undone, as one: each must have bitten, as far as anybody could tell."""
    if len(undone) == 1:
        return undone[0]
    bits = [one.bit for one in undone if one.bit is not None]
    times = {node: at for one in undone for node, at in one.times.items()}
    return Undone(times, all(bits) if bits else None, "; ".join(one.evidence for one in undone if one.evidence))


def describe(fault: Fault, actions: tuple[Action, ...]) -> str:
    """A fault in a few words: "partition halves: n1 | n2 n3"."""
    what = fault.nemesis if fault.kind == fault.nemesis else f"{fault.nemesis} {fault.kind}"
    return f"{what}: {whom(actions)}"
