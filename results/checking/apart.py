"""A process that judges, watched by whoever asks it: how long it takes, how much memory, and whether it lives.

Checkers are code of anybody's, on histories of any size: they may crash, hang, or eat all memory there is. So they run
in a process of their own, which is started anew when that has happened. It is no fork, so that neither threads nor
pipes of ours come along, and it ends when we do.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from chaos.model.errors import SplitbrainError
from chaos.model.verdict import Result, Verdict
from checkers.linearizability.porcupine.process import resident
from checkers.split import Split
from results.checking import wire

LIMIT = 600.0  # s
MEMORY = 4 << 30  # bytes
STARTING = 300.0  # s for a process to begin and to read a history, at least
_TICK = 0.2  # s between looks at its memory
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a checker may take of one run: seconds, and bytes of resident memory (of its process)."""

    time: float = LIMIT
    memory: int = MEMORY


@dataclass(frozen=True)
class Judged:
    """What came of a run: a result a checker, in the scenario's order; or `bad`: why it cannot be judged."""

    run: str
    results: tuple[Result, ...] = ()
    bad: str | None = None


class Died(Exception):
    """The process ended, or was ended, without an answer; the text is why. `during`: the checker that was at work."""

    def __init__(self, why: str, during: str | None = None) -> None:
        super().__init__(why)
        self.during = during


@dataclass
class Apart:
    """A process that judges. It is started when first asked, and after it died."""

    limits: Limits = field(default_factory=Limits)
    _process: subprocess.Popen[bytes] | None = None
    _said: bytearray = field(default_factory=bytearray)
    _errors: Any = None
    _ended: bool = False

    def judge(self, store: str, run: str, only: Iterable[str] | None = None, *, whole: bool = True) -> Judged:
        """A run, by all checkers that its scenario asks, or only by these. `whole`: also by those that may be cut.

        What a process died of is tried once more, in another: then that checker's result is *unknown*, and why.
        """
        results: dict[str, Result] = {}
        deaths: dict[str | None, int] = {}
        left = None if only is None else list(only)
        order: list[str] = []
        while True:
            done: list[str] = []
            try:
                for kind, *what in self._ask(("run", store, run, left, whole)):
                    if kind == "bad":
                        return Judged(run, bad=what[0])
                    if kind == "asked":
                        left = what[0]
                        order = order or what[0]
                    elif kind == "result":
                        results[what[0]] = what[1]
                        done.append(what[0])
                return Judged(run, tuple(results[name] for name in order if name in results))
            except Died as died:
                left = None if left is None else [name for name in left if name not in done]
                deaths[died.during] = deaths.get(died.during, 0) + 1
                if deaths[died.during] < 2:
                    continue
                reason = f"the checker's process died twice: {died}"
                if died.during is None:  # while it read: each of them would
                    if left is None:
                        return Judged(run, bad=f"the process that read it died twice: {died}")
                    results |= {name: Result(name, Verdict.UNKNOWN, reason) for name in left}
                    order = order or left
                    return Judged(run, tuple(results[name] for name in order if name in results))
                results[died.during] = Result(died.during, Verdict.UNKNOWN, reason)
                left = [name for name in left or () if name != died.during]

    def part(
        self, store: str, run: str, split: Split, rows: Iterable[pa.RecordBatch], cut: str | None
    ) -> dict[str, tuple[str, Any]]:
        """What the checkers that are cut so find in a part of a run: by name ("pieces", [(at, Part)]), ("failed", why),
        or, where the process died of it, ("died", why). Raises Died where it did not come so far as to say who is
        asked, SplitbrainError where that cannot be read."""
        found: dict[str, tuple[str, Any]] = {}
        wanted: list[str] = []
        try:
            for kind, *what in self._ask(("part", store, run, str(split)), _parcels(rows, cut)):
                if kind == "asked":
                    wanted = what[0]
                elif kind in ("pieces", "failed"):
                    found[what[0]] = (kind, what[1])
                elif kind == "bad":
                    raise SplitbrainError(what[0])
        except Died as died:
            if not wanted:
                raise
            found |= {name: ("died", str(died)) for name in wanted if name not in found}
        return found

    def end(self) -> None:
        """End the process for good, from any thread: whoever is waiting for it is told that it died."""
        self._ended = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """End the process, if there is one; the next request starts another."""
        process, self._process = self._process, None
        self._said.clear()
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()
            process.wait()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _ask(self, request: Any, more: Iterable[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Its answers. Raises Died."""
        during: str | None = None
        try:
            self._write(request)
            for message in more:
                self._write(message)
            while True:
                limit = self.limits.time if during is not None else max(self.limits.time, STARTING)
                answer = self._read(limit)
                if answer[0] == "done":
                    return
                during = answer[1] if answer[0] == "begin" else None if answer[0] == "result" else during
                yield answer
                if answer[0] == "bad":
                    return
        except (BrokenPipeError, EOFError):
            why = self._epitaph()
            self.close()
            raise Died(why, during) from None
        except Died as died:
            self.close()
            raise Died(str(died), during) from None
        except BaseException:
            self.close()
            raise

    def _write(self, message: Any) -> None:
        process = self._started()
        assert process.stdin
        wire.put(process.stdin.fileno(), message)

    def _read(self, limit: float) -> tuple[Any, ...]:
        process = self._started()
        deadline = time.monotonic() + limit
        assert process.stdout
        descriptor = process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while True:
            if len(self._said) >= wire.HEAD.size:
                need = wire.HEAD.size + wire.HEAD.unpack_from(self._said)[0]
                if len(self._said) >= need:
                    answer: tuple[Any, ...] = pickle.loads(bytes(self._said[wire.HEAD.size : need]))
                    del self._said[:need]
                    return answer
            while not poll.poll(_TICK * 1000):
                if time.monotonic() > deadline:
                    raise Died(f"it did not stop within {limit:g} s, and was killed")
                if resident(process.pid) > self.limits.memory:
                    raise Died(f"it grew above {self.limits.memory >> 20} MiB, and was killed")
            said = os.read(descriptor, _CHUNK)
            if not said:
                raise EOFError
            self._said += said

    def _started(self) -> subprocess.Popen[bytes]:
        if self._ended:
            raise Died("nobody waits for it any more")
        if self._process is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
            # what we can import, it can: on a cluster, also what came with the job
            path = os.pathsep.join(dict.fromkeys(entry for entry in sys.path if entry))
            self._process = subprocess.Popen(
                [sys.executable, "-m", "results.checking.child"],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=os.environ | {"PYTHONPATH": path},
                start_new_session=True,
            )
        return self._process

    def _epitaph(self) -> str:
        """Its last words, or the signal that it died of."""
        assert self._process
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "it closed its output and lives on"
        self._errors.seek(0)
        lines = self._errors.read()[-4096:].decode(errors="replace").strip().splitlines()[-1:]
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return "; ".join([f"it ended with code {code}", *lines])


def _parcels(rows: Iterable[pa.RecordBatch], cut: str | None) -> Iterator[Any]:
    for batch in rows:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield "rows", sink.getvalue().to_pybytes()
    yield "end", cut
