"""The resident agent of a node: `python3 -m clusters.agent`, JSON lines on stdin and stdout, until stdin ends.

A request is {"id", "do", ...}; its answer {"id", "at", "done"} or {"id", "at", "error"}; what happens by itself
is told as {"event", "at", ...}. Every stamp is this node's CLOCK_MONOTONIC in ns. Standard library only: it is copied
to the node as it is.

Dead man's switch: when stdin ends, at once, or nothing was heard for a while, it undoes every fault by itself. The
while is counted by CLOCK_BOOTTIME, which goes on while a machine sleeps and which nothing of ours can move. On hosts
that are reached by sessions that may drop, lines come and go by a socket instead (`clusters.agent.detached`).
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from clusters.agent import cgroup
from clusters.agent.daemon import Daemon
from clusters.agent.disk import Disk
from clusters.agent.follow import Follower
from clusters.agent.guest import Guest
from clusters.agent.process import RESTART, Process, stamp
from clusters.agent.reporter import Sampler, ask
from clusters.agent.verbs import FAULTS, unable
from clusters.faults import libfaketime, nftables, queues, shape, signals
from clusters.faults.base import Fault, FaultError

SILENCE = 60.0  # seconds without a word from the controller, unless it says another number


class Agent:
    """What is done on this node, and what is to be undone."""

    def __init__(self, lines: Iterable[str], write: Callable[[str], None], record: Path | None = None) -> None:
        """Requests come from `lines`; `write` takes what is said; `record` is where it notes what it undid unasked."""
        self._lines, self._write, self._record = lines, write, record
        self._processes: dict[str, Process] = {}
        self._data: str | None = None
        self._disk: Disk | None = None
        self._daemons: dict[str, Daemon] = {}
        self._clocks: dict[str, libfaketime.ClockFile] = {}
        self._faults: dict[str, list[tuple[str, Fault]]] = {}
        self._changing = threading.Lock()  # of _faults
        self._last: dict[str | None, threading.Thread] = {}  # of each fault, the latest request
        self.table = nftables.Table()
        self.queues = queues.Queues()
        self._reporter: str | None = None
        self._undone: dict[str, list[dict[str, Any]]] = {}  # of faults undone unasked: what their probes said
        self._silence = SILENCE
        self._heard = boottime()

    def say(self, **message: Any) -> None:
        """Tell the controller one thing."""
        self._write(json.dumps(message, separators=(",", ":")) + "\n")

    def serve(self) -> None:
        """Answer requests until they end; each on a thread of its own, so that a slow one holds up no ping."""
        threading.Thread(target=self._watch_silence, daemon=True).start()
        for line in self._lines:
            self._heard = boottime()
            request = json.loads(line)
            if request["do"] == "ping":
                self.say(id=request["id"], at=stamp(), done={})
                continue
            # what concerns one fault goes in order: an undo must not overtake the inject that is still under way
            fault = request.get("fault")
            before = self._last.get(fault)
            thread = threading.Thread(target=self._answer, args=(request, before), daemon=True)
            if fault is not None:
                self._last[fault] = thread
            thread.start()
        for thread in self._last.values():
            thread.join()
        self.undo_all()
        if self._disk is not None and self._record is not None:  # on a host that stays; a container goes with it
            with contextlib.suppress(FaultError, OSError):
                self._disk.remove()

    def _answer(self, request: dict[str, Any], before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        number, verb = request.pop("id"), request.pop("do")
        try:
            done = getattr(self, f"do_{verb}")(**request)
        except (FaultError, OSError, ValueError, LookupError) as error:
            self.say(id=number, at=stamp(), error=f"{verb}: {error}")
        except Exception:
            self.say(id=number, at=stamp(), error=traceback.format_exc().strip())
        else:
            self.say(id=number, at=done.pop("at", None) or stamp(), done=done)

    def do_silence(self, seconds: float) -> dict[str, Any]:
        """After how long a silence every fault is undone."""
        self._silence = seconds
        return {}

    def do_spare(self, address: str, port: int) -> dict[str, Any]:
        """The controller's address, as seen from here, and the port here that it comes in by: no rule cuts that."""
        self.table.spared = nftables.Spared(address, port)
        return {}

    def do_abilities(self) -> dict[str, Any]:
        """What depends on the node: why it cannot be done, or None; and which of `shape`'s arguments are done by
        dropping packets instead."""
        return {"unable": unable(), "instead": shape.abilities()[1]}

    def do_files(self, files: list[dict[str, Any]]) -> dict[str, Any]:
        """Write files: path, data (base64), mode, user."""
        for file in files:
            path = Path(file["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # it may be there, read-only
            path.write_bytes(base64.b64decode(file["data"]))
            path.chmod(file["mode"])
            shutil.chown(path, file["user"], file["user"])
        return {}

    def do_process(
        self,
        name: str,
        argv: list[str],
        env: dict[str, str],
        user: str | None,
        output: str,
        clock: str | None = None,
        restart: float | None = RESTART,
    ) -> dict[str, Any]:
        """Define a process, with `clock` the file that moves its clock, and `restart` the seconds after which it is
        started again when it ended unasked (None: never). It is not started yet."""

        def exited(incarnation: int, at: int, reason: str, asked: bool) -> None:
            self.say(event="exit", at=at, process=name, incarnation=incarnation, reason=reason, asked=asked)

        if clock:
            env = {**env, **libfaketime.environment(clock)}
        self._processes[name] = Process(argv, env, user, output, exited, restart)
        if clock:
            self._clocks[name] = libfaketime.ClockFile(clock, self._processes[name])
        return {}

    def do_daemon(self, name: str, comm: str, argv: list[str], env: dict[str, str], user: str | None) -> dict[str, Any]:
        """Define a process that the broker starts by itself: `comm` is what the kernel calls it."""
        self._daemons[name] = Daemon(comm, argv, env, user)
        return {}

    def do_guest(self, name: str, comm: str, user: str, ports: list[int]) -> dict[str, Any]:
        """Define a process that somebody else started, and that listens on one of the ports."""
        self._daemons[name] = Guest(name, comm, user, ports, self._record.parent if self._record is not None else None)
        return {"pid": self._daemons[name].pid}

    def do_data(self, folder: str) -> dict[str, Any]:
        """Where the broker has its data."""
        self._data = folder
        return {}

    def do_disk(self, folder: str, user: str, size: int) -> dict[str, Any]:
        """Put a disk of ours beneath the broker's data; says why that cannot be, or None."""
        disk = Disk(folder, user, size)
        try:
            disk.make()
        except (FaultError, OSError) as error:
            return {"unable": str(error)}
        self._disk = disk
        return {"unable": None}

    def do_settle(self) -> dict[str, Any]:
        """Sync all that is on the disk of ours."""
        self.disk().settle()
        return {}

    def do_limits(self, controllers: list[str]) -> dict[str, Any]:
        """Why processes cannot be held to so much CPU, memory or disk here, or None."""
        return {"unable": cgroup.unable(*controllers)}

    def do_start(self, name: str) -> dict[str, Any]:
        return {"incarnation": self.process(name).start()}

    def do_sample(self, path: str, question: str, period: float) -> dict[str, Any]:
        """Ask the broker's reporter for its views every `period` seconds, and push what it says."""

        def answered(answer: dict[str, Any], asked: int, at: int) -> None:
            self.say(event="views", at=at, asked=asked, incarnation=self._incarnation(answer), views=answer["views"])
            if answer.get("noted"):
                self.say(event="noted", at=at, noted=answer["noted"])

        self._reporter = path
        Sampler(path, question, period, answered).start()
        return {}

    def do_follow(self, paths: list[str], patterns: list[str]) -> dict[str, Any]:
        """From now on push the lines of these logs that match."""
        for path in paths:
            Follower(path, patterns, lambda line: self.say(event="line", at=stamp(), line=line)).start()
        return {}

    def do_ask(self, question: str, patience: float = 2.0) -> dict[str, Any]:
        """One question to the broker's reporter, now."""
        if self._reporter is None:
            raise ValueError("no reporter is known")
        return {"answer": ask(self._reporter, question, patience)}

    def do_inject(self, fault: str, verb: str, process: str, args: dict[str, Any]) -> dict[str, Any]:
        """Carry out one action of a fault; it is in the ledger before it is in force."""
        action = self._action(verb, process, args)
        with self._changing:
            self._faults.setdefault(fault, []).append((verb, action))
        evidence = action.inject()
        return {"evidence": evidence}

    def do_undo(self, fault: str) -> dict[str, Any]:
        """Undo every action of a fault, the last first."""
        with self._changing:
            actions = self._faults.pop(fault, [])
            probes = self._undone.pop(fault, [])
        while actions:
            verb, action = actions[-1]
            try:
                probe = action.undo()
            except (FaultError, OSError):
                with self._changing:
                    self._faults[fault] = actions
                raise
            parts = {"parts": dict(probe.parts)} if probe.parts else {}
            probes.append({"verb": verb, "bit": probe.bit, "evidence": probe.evidence, **parts})
            actions.pop()
        return {"probes": probes}

    def undo_all(self) -> None:
        """Undo every fault, whatever each says."""
        for fault in list(self._faults):
            try:
                done = self.do_undo(fault)
            except (FaultError, OSError) as error:
                self._by_itself(event="undone", at=stamp(), fault=fault, error=str(error))
            else:
                self._undone[fault] = done["probes"]
                self._by_itself(event="undone", at=stamp(), fault=fault, **done)

    def _by_itself(self, **event: Any) -> None:
        """Say what was done unasked, and note it here too: it may be that nobody ever hears it."""
        self.say(**event)
        if self._record is not None:
            with contextlib.suppress(OSError), self._record.open("a") as record:  # the disk may be what is hurt
                record.write(json.dumps({**event, "time": time.time()}) + "\n")

    def _action(self, verb: str, process: str, args: dict[str, Any]) -> Fault:
        if verb not in FAULTS:
            raise FaultError(f"{verb!r} is not a verb of this agent")
        return FAULTS[verb](self, process, args)

    def process(self, name: str) -> Process:
        """See `verbs.Node`."""
        if name not in self._processes:
            known = ", ".join(self._processes) or "none"
            if name in self._daemons:
                raise FaultError(f"process {name!r} is not one that we start; those that we do: {known}")
            known = ", ".join((*self._processes, *self._daemons)) or "none"
            raise FaultError(f"no process {name!r} on this node; known: {known}")
        return self._processes[name]

    def running(self, name: str) -> signals.Process:
        """See `verbs.Node`."""
        return self._daemons[name] if name in self._daemons else self.process(name)

    def everything(self) -> list[signals.Process]:
        """See `verbs.Node`."""
        return [*self._daemons.values(), *self._processes.values()]

    def data(self) -> str:
        """See `verbs.Node`."""
        if self._data is None:
            raise FaultError("where the broker has its data is not known")
        return self._data

    def disk(self) -> Disk:
        """See `verbs.Node`."""
        if self._disk is None:
            raise FaultError("the broker's data are not on a disk of ours: it is made when a run plans such a fault")
        return self._disk

    def _incarnation(self, answer: dict[str, Any]) -> int | None:
        """Which life answered: None for a process that is not, or no longer, ours.

        A reporter inside the broker says its pid; one beside it names the process that it speaks for.
        """
        if answer.get("process") in self._processes:
            return self._processes[answer["process"]].incarnation
        for process in self._processes.values():
            if str(process.pid) == answer.get("pid"):
                return process.incarnation
        return None

    def clock(self, name: str) -> libfaketime.ClockFile:
        """See `verbs.Node`."""
        if name not in self._clocks:
            others = ", ".join(self._clocks) or "no process"
            raise FaultError(f"the clock of {name!r} cannot be moved; that of {others} can")
        return self._clocks[name]

    def ask(self, question: str, patience: float) -> dict[str, Any]:
        """See `verbs.Node`."""
        answer: dict[str, Any] = self.do_ask(question, patience)["answer"]
        return answer

    def wall_clock(self) -> int | None:
        """See `verbs.Node`."""
        try:
            return int(self.do_ask("clock", 1.0)["answer"]["os"])
        except (OSError, ValueError, KeyError):
            return None

    def _watch_silence(self) -> None:
        while True:
            time.sleep(min(1.0, self._silence / 10))
            if self._faults and boottime() - self._heard > self._silence:
                self._by_itself(event="silence", at=stamp(), seconds=self._silence)
                self.undo_all()
                self._heard = boottime()  # what could not be undone is tried again after as long


def boottime() -> float:
    """Seconds since this machine was started, sleep included."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class _Output:
    """Our own output, a line at a time; when nobody reads any more the agent is about to see that its input ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            sys.stdout.write(line)
            sys.stdout.flush()


if __name__ == "__main__":
    Agent(sys.stdin, _Output().write).serve()
