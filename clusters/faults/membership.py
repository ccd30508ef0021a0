"""Who belongs to a cluster, changed by the broker's own means: its reporter's, for the replicas of queues and for who
leads them, and its command line, for nodes.

What is asked and what is run, the adapter of the broker says (`Broker.membership`).
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clusters.agent.process import Process
from clusters.faults.base import FaultError, Probe, required

Ask = Callable[[str, float], Mapping[str, Any]]  # a question to the reporter, and for how many seconds it may take
TRIES = 30.0  # seconds in which a change is asked for again, where the broker refused it
RUNS = 40.0  # that a command may take
JOINS = 50.0  # until a node that was started belongs to the cluster again
_PAUSE = 0.5
_ANSWER = 20.0


def ask_until(ask: Ask, question: str, seconds: float = TRIES) -> tuple[list[str], list[str] | None]:
    """Ask for a change until nothing of it fails: what was done, in words, and with which queues; None where it was not
    done, the broker said, and then there was nothing left to do, so that nobody knows.

    Raises FaultError with what still failed when time is up.
    """
    end = time.monotonic() + seconds
    done: list[str] = []
    queues: list[str] = []
    doubt = False
    while True:
        try:
            answer = ask(question, _ANSWER)
            failed = answer.get("failed", [answer.get("error")])
        except (OSError, ValueError) as error:
            answer, failed = {}, [f"the broker does not answer: {error}"]
        done += answer.get("done", [])
        queues += answer.get("queues", [])
        if not failed:
            return done, queues if queues or not doubt else None
        doubt = True
        if time.monotonic() > end:
            raise FaultError("; ".join(str(one) for one in failed))
        time.sleep(_PAUSE)


class Replicas:
    """A change to this node's replicas of queues. Arguments: asks (the question that brings it about), back (the one
    that takes it back; each queue is named in it), nothing (what it means if there was none to change)."""

    def __init__(self, ask: Ask, args: Mapping[str, Any]) -> None:
        self._ask = ask
        self._asks: str = required(args, "asks", str)
        self._back: str = required(args, "back", str)
        self._nothing: str = required(args, "nothing", str)
        self._said: list[str] = []
        self._queues: list[str] | None = None

    def inject(self) -> str:
        self._said, self._queues = ask_until(self._ask, self._asks)
        if self._queues is None:
            raise FaultError("the broker refused, and has done it all the same, it may be")
        if not self._queues:
            raise FaultError(self._nothing)
        return "; ".join(self._said)

    def undo(self) -> Probe:
        # where it failed half way nobody knows which were changed: all are meant
        names = "".join(f"\t{queue}" for queue in self._queues) if self._queues else ""
        if self._queues != []:
            ask_until(self._ask, self._back + names)
        return Probe(bool(self._said), "; ".join(self._said))


class Transfer:
    """What is led here is handed over; that stays so. Arguments: asks (the question), to (a node, or None)."""

    def __init__(self, ask: Ask, args: Mapping[str, Any]) -> None:
        self._ask = ask
        self._asks: str = required(args, "asks", str)
        self._to = args.get("to")
        self._said: list[str] = []

    def inject(self) -> str:
        self._said, _ = ask_until(self._ask, self._asks + (f"\t{self._to}" if self._to else ""))
        if not self._said:
            raise FaultError("it leads nothing" + (f" that {self._to} could lead" if self._to else ""))
        return "; ".join(self._said)

    def undo(self) -> Probe:
        return Probe(bool(self._said), "; ".join(self._said))


class Leave:
    """A node is out of the cluster, and joins again with nothing when it is started.

    Arguments: orderly (its replicas are taken away and it leaves by itself; else it is killed, its data destroyed, and
    the others forget it), asks and back (questions, as of `Replicas`; "": replicas come and go by themselves), leaves
    (commands, one after the other), forgets (one command for each of the others, of which one has to work), lists
    (likewise: what it prints are the members), name (what the node is called there).
    """

    def __init__(self, process: Process, data: str, ask: Ask, args: Mapping[str, Any]) -> None:
        self._process, self._data, self._ask = process, Path(data), ask
        self._orderly = args.get("orderly") is True
        self._asks: str = required(args, "asks", str)
        self._back: str = required(args, "back", str)
        self._name: str = required(args, "name", str)
        self._leaves: Sequence[Sequence[str]] = required(args, "leaves", list)
        self._forgets: Sequence[Sequence[str]] = required(args, "forgets", list)
        self._lists: Sequence[Sequence[str]] = required(args, "lists", list)
        self._left: list[str] = []  # who was a member of the cluster when this node was not

    def inject(self) -> str:
        if self._process.pid is None:
            raise FaultError("it was not running")
        if self._orderly:
            if self._asks:
                ask_until(self._ask, self._asks)
            for command in self._leaves:
                self._run(command)
            self._down(signal.SIGTERM)
        else:
            self._down(signal.SIGKILL)
            for entry in self._data.iterdir():
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            self._first(self._forgets)
        listed = self._first(self._lists)
        if self._name in listed:
            raise FaultError(f"{self._name} is still a member of the cluster: {listed}")
        self._left.append(listed)
        return self._evidence()

    def undo(self) -> Probe:
        self._process.release(self)
        end = time.monotonic() + JOINS
        while not self._joined():
            if time.monotonic() > end:
                raise FaultError(f"{self._name} has not joined the cluster again in {JOINS:g} s")
            time.sleep(_PAUSE)
        if self._back:
            ask_until(self._ask, self._back, max(_PAUSE, end - time.monotonic()))
        return Probe(bool(self._left), self._evidence() if self._left else "it did not leave")

    def _down(self, number: signal.Signals) -> None:
        self._process.hold_down(self)
        self._process.end(number)
        if not self._process.wait(RUNS):
            raise FaultError(f"it is still there {RUNS:g} s after {number.name}")

    def _evidence(self) -> str:
        return f"members of the cluster without it: {self._left[-1]}"

    def _joined(self) -> bool:
        try:
            return len(self._ask("cluster", 2.0)["running"]) > 1
        except (OSError, ValueError, KeyError):
            return False

    def _run(self, command: Sequence[str]) -> str:
        code, said = self._process.run(command, RUNS)
        if code:
            raise FaultError(f"{' '.join(command[1:])}: {' '.join(said.split()) or f'exit code {code}'}")
        return " ".join(said.split())

    def _first(self, commands: Sequence[Sequence[str]]) -> str:
        """What the first of them says that works. Raises FaultError where none does."""
        problems = []
        for command in commands:
            try:
                return self._run(command)
            except FaultError as error:
                problems.append(str(error))
        raise FaultError("; ".join(problems) or "there is nobody else")
