"""What this agent can do to its node: each verb with the fault that carries it out, and why it could not be done here.

To add a fault: one file in `clusters/faults`, its verb in `chaos.model.schedule`, and a line in each table below.
What a fault leaves on the node itself, outside the broker's processes and folders, has a function in SWEEPS too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from clusters.agent import cgroup, disk
from clusters.agent.disk import Disk
from clusters.agent.process import Process
from clusters.faults import (
    crash_loop,
    damage,
    disks,
    flapping,
    libfaketime,
    membership,
    nftables,
    power,
    queues,
    shape,
    signals,
    starve,
)
from clusters.faults.base import Fault, FaultError


class Node(Protocol):
    """What a fault may need to know of the node that it hurts."""

    table: nftables.Table
    queues: queues.Queues

    def process(self, name: str) -> Process:
        """A process of the broker that we started. Raises FaultError when there is none of that name."""

    def running(self, name: str) -> signals.Process:
        """The same, or one that the broker starts by itself."""

    def everything(self) -> Sequence[signals.Process]:
        """All processes of the broker, in the order in which they are started; those that it starts itself first."""

    def data(self) -> str:
        """The folder of the broker's data. Raises FaultError when that is not known."""

    def disk(self) -> Disk:
        """The disk of ours beneath it. Raises FaultError when there is none."""

    def clock(self, name: str) -> libfaketime.ClockFile:
        """The file that moves a process's clock. Raises FaultError when it has none."""

    def ask(self, question: str, patience: float) -> Mapping[str, Any]:
        """One question to the broker's reporter. Raises OSError or ValueError when nobody answers."""

    def wall_clock(self) -> int | None:
        """What the broker holds to be the time, ns since 1970; None when it cannot say."""


Make = Callable[[Node, str, Mapping[str, Any]], Fault]  # the node, the name of a process, the action's arguments

FAULTS: Mapping[str, Make] = {
    "cut": lambda node, process, args: flapping.links(node.table, args),
    "loss": lambda node, process, args: nftables.Links(node.table, args),
    "shape": lambda node, process, args: shape.Shape(node.table, node.queues, args),
    "kill": lambda node, process, args: signals.Kill(node.running(process)),
    "stop": lambda node, process, args: signals.Stop(node.running(process)),
    "pause": lambda node, process, args: signals.Pause(node.running(process)),
    "crash-loop": lambda node, process, args: crash_loop.CrashLoop(node.process(process), args),
    "node-stop": lambda node, process, args: power.NodeStop(node.table, node.everything(), args),
    "power-off": lambda node, process, args: power.PowerOff(node.table, node.disk(), node.everything(), args),
    "disk-full": lambda node, process, args: disks.Full(node.disk(), node.everything(), args),
    "disk-read-only": lambda node, process, args: disks.ReadOnly(node.disk(), node.everything()),
    "disk-slow": lambda node, process, args: starve.SlowDisk(node.disk(), node.process(process), args),
    "starve": lambda node, process, args: starve.Starve(node.process(process), args),
    "damage": lambda node, process, args: damage.Damage(node.data(), node.everything(), args),
    "leave": lambda node, process, args: membership.Leave(node.process(process), node.data(), node.ask, args),
    "replace": lambda node, process, args: membership.Leave(node.process(process), node.data(), node.ask, args),
    "shrink": lambda node, process, args: membership.Replicas(node.ask, args),
    "grow": lambda node, process, args: membership.Replicas(node.ask, args),
    "transfer": lambda node, process, args: membership.Transfer(node.ask, args),
    "clock": lambda node, process, args: libfaketime.Clock(node.clock(process), node.wall_clock, args),
}


def unable() -> dict[str, str | None]:
    """Each verb that depends on the node, and each argument of it that does: why it cannot be done here, or None."""
    links = nftables.unable()
    shapes, _ = shape.abilities()
    found = {"cut": links, "loss": links, "shape": links, "node-stop": links, "clock": libfaketime.unable()}
    return {**found, **{f"shape.{part}": why for part, why in shapes.items()}}


# Each removes what its faults leave on a node whose agent was killed before it could undo them. Raises FaultError.
SWEEPS: tuple[Callable[[], None], ...] = (nftables.sweep, queues.sweep, libfaketime.sweep, cgroup.sweep, disk.sweep)


def sweep() -> list[str]:
    """Remove what faults left behind; returns what could not be removed, a line each."""
    problems = []
    for one in SWEEPS:
        try:
            one()
        except (FaultError, OSError) as error:
            problems.append(str(error))
    return problems
