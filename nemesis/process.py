"""Faults of processes: killed, paused, stopped in order, or their power cut off; and started again after a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from chaos.model.schedule import CRASH_LOOP, KILL, NODE_STOP, PAUSE, POWER_OFF, STOP, WIPE, Action, Fault
from chaos.model.settings import Setting, integer, text
from nemesis.base import Nemesis, View
from nemesis.targets import ALL, LEADER, MAJORITY, MINORITY, ONE, hurt, targets, usable
from nemesis.timing import Chosen, deck, series, timing

PROCESS, BROKER, TIMES = "process", "broker", "times"
WHICH = Setting(PROCESS, text, BROKER, "which process: the broker, or one beside it: RabbitMQ's epmd, LavinMQ's etcd")


class Process(Nemesis):
    """Does `verb` to a process on the nodes of a target, and undoes it when the fault's time is over."""

    verb: ClassVar[str]

    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (self.verb,)

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        whom = deck(usable(options["targets"], nodes), random)
        process = options.get(PROCESS, BROKER)
        args = {} if process == BROKER else {PROCESS: process}
        return series(self.name, options, span, random, lambda _: Chosen(self.name, next(whom), args))

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        return (Action(self.verb, nodes, process=fault.args.get(PROCESS, BROKER)),) if nodes else ()


class Kill(Process):
    """SIGKILL, as when the kernel runs out of memory: what was written stays, what was only in memory is gone."""

    name = "kill"
    meaning = "kill the broker's process and start it again: what it wrote stays"
    verb = KILL
    settings = (*timing(every="20s", for_="4s", start="12s"), targets(ONE, MINORITY, MAJORITY, LEADER), WHICH)


class Pause(Process):
    """SIGSTOP, as a long collection of garbage or a moved virtual machine: it comes back and believes what it did."""

    name = "pause"
    meaning = "stop the broker's process in its tracks, and let it go on"
    verb = PAUSE
    settings = (*timing(every="20s", for_="4s", start="17s"), targets(ONE, MINORITY, MAJORITY, LEADER), WHICH)


class Restart(Process):
    """SIGTERM and a new start, as in an upgrade: the broker may hand over what it leads."""

    name = "restart"
    meaning = "stop the broker in order and start it again"
    verb = STOP
    settings = (*timing(every="20s", for_="4s", start="10s"), targets(ONE, MINORITY, MAJORITY, LEADER), WHICH)


class RollingRestart(Process):
    """An upgrade: every node is restarted in order, and the next has to wait until the one before serves again."""

    name = "rolling-restart"
    meaning = "restart the nodes one after the other, each once the one before serves again"
    verb = STOP
    in_turn = True
    settings = (*timing(every="60s", for_="50s", start="4s"), targets(ALL))

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        return tuple(Action(self.verb, (node,)) for node in Random(fault.draw).sample(nodes, len(nodes)))


class CrashLoop(Process):
    """A broker that comes up and dies again, as when it crashes on what it finds: each time the others meet it anew."""

    name = "crash-loop"
    meaning = "kill the broker, start it, and kill it again as soon as it serves, some times"
    verb = CRASH_LOOP
    settings = (
        *timing(every="25s", for_="15s", start="6s"),
        targets(ONE, MINORITY, LEADER),
        Setting(TIMES, integer(2, 1000), 3, "how often it is killed, if there is time"),
    )

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        whom = deck(usable(options["targets"], nodes), random)
        args = {TIMES: options[TIMES]}
        return series(self.name, options, span, random, lambda _: Chosen(self.name, next(whom), args))

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        return (Action(self.verb, nodes, {TIMES: fault.args[TIMES]}),) if nodes else ()


class NodeStop(Process):
    """A machine shut down in order, for its kernel or its hardware: it may say goodbye, and then closes nothing."""

    name = "node-stop"
    meaning = "shut a node down in order: its processes stop, then it is silent"
    verb = NODE_STOP
    settings = (*timing(every="20s", for_="6s", start="9s"), targets(ONE, MINORITY, MAJORITY, LEADER))


class PowerOff(Process):
    """A pulled plug: writes that were not synced are lost. Of all nodes at once too: a dark data centre."""

    name = "power-off"
    meaning = "cut the power: the broker is gone, and with it what was written but not synced"
    verb = POWER_OFF
    settings = (*timing(every="20s", for_="4s", start="8s"), targets(ONE, MINORITY, MAJORITY, LEADER, ALL))


class Wipe(Process):
    """A machine that is gone for good: in its place comes one of the same name with nothing on its disk."""

    name = "wipe"
    meaning = "kill the broker and destroy what is on its disk; it starts again with nothing"
    verb = WIPE
    settings = (*timing(every="20s", for_="4s", start="14s"), targets(ONE, MINORITY, MAJORITY, LEADER))
