"""The resident agent of a node: `python3 -m clusters.agent`, JSON lines on stdin and stdout, until stdin ends.

A request is {"id", "do", ...}; its answer {"id", "at", "done"} or {"id", "at", "error"}; what happens by itself
is told as {"event", "at", ...}. Every stamp is this node's CLOCK_MONOTONIC in ns. Standard library only: it is copied
to the node as it is.

Dead man's switch: when stdin ends, at once, or nothing was heard for a while, it undoes every fault by itself.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from clusters.agent.process import RESTART, Process, stamp
from clusters.agent.reporter import Sampler, ask
from clusters.agent.verbs import FAULTS, unable
from clusters.faults import libfaketime, nftables
from clusters.faults.base import Fault, FaultError

SILENCE = 60.0  # seconds without a word from the controller, unless it says another number


class Agent:
    """What is done on this node, and what is to be undone."""

    def __init__(self) -> None:
        self._output = threading.Lock()
        self._processes: dict[str, Process] = {}
        self._clocks: dict[str, libfaketime.ClockFile] = {}
        self._faults: dict[str, list[tuple[str, Fault]]] = {}
        self._changing = threading.Lock()  # of _faults
        self._last: dict[str | None, threading.Thread] = {}  # of each fault, the latest request
        self.table = nftables.Table()
        self._reporter: str | None = None
        self._silence = SILENCE
        self._heard = threading.Event()

    def say(self, **message: Any) -> None:
        """Write one line; when nobody reads any more the main thread is about to see that stdin ended."""
        line = json.dumps(message, separators=(",", ":")) + "\n"
        with self._output:
            try:
                sys.stdout.write(line)
                sys.stdout.flush()
            except (BrokenPipeError, ValueError):
                return

    def serve(self) -> None:
        """Answer requests until stdin ends; each on a thread of its own, so that a slow one holds up no ping."""
        threading.Thread(target=self._watch_silence, daemon=True).start()
        for line in sys.stdin:
            self._heard.set()
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
        self._heard.set()
        return {}

    def do_abilities(self) -> dict[str, Any]:
        """Each verb that depends on the node: why it cannot be done, or None."""
        return {"unable": unable()}

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

    def do_start(self, name: str) -> dict[str, Any]:
        return {"incarnation": self.process(name).start()}

    def do_sample(self, path: str, question: str, period: float) -> dict[str, Any]:
        """Ask the broker's reporter for its views every `period` seconds, and push what it says."""

        def answered(answer: dict[str, Any], asked: int, at: int) -> None:
            self.say(event="views", at=at, asked=asked, incarnation=self._incarnation(answer), views=answer["views"])

        self._reporter = path
        Sampler(path, question, period, answered).start()
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
        probes: list[dict[str, Any]] = []
        while actions:
            verb, action = actions[-1]
            try:
                probe = action.undo()
            except (FaultError, OSError):
                with self._changing:
                    self._faults[fault] = actions
                raise
            probes.append({"verb": verb, "bit": probe.bit, "evidence": probe.evidence})
            actions.pop()
        return {"probes": probes}

    def undo_all(self) -> None:
        """Undo every fault, whatever each says."""
        for fault in list(self._faults):
            try:
                done = self.do_undo(fault)
            except (FaultError, OSError) as error:
                self.say(event="undone", at=stamp(), fault=fault, error=str(error))
            else:
                self.say(event="undone", at=stamp(), fault=fault, **done)

    def _action(self, verb: str, process: str, args: dict[str, Any]) -> Fault:
        if verb not in FAULTS:
            raise FaultError(f"{verb!r} is not a verb of this agent")
        return FAULTS[verb](self, process, args)

    def process(self, name: str) -> Process:
        """See `verbs.Node`."""
        if name not in self._processes:
            raise FaultError(f"no process {name!r} on this node; known: {', '.join(self._processes) or 'none'}")
        return self._processes[name]

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

    def wall_clock(self) -> int | None:
        """See `verbs.Node`."""
        try:
            return int(self.do_ask("clock", 1.0)["answer"]["os"])
        except (OSError, ValueError, KeyError):
            return None

    def _watch_silence(self) -> None:
        while True:
            self._heard.clear()
            if not self._heard.wait(self._silence) and self._faults:
                self.say(event="silence", at=stamp(), seconds=self._silence)
                self.undo_all()


if __name__ == "__main__":
    Agent().serve()
