"""The worker as a process: started when first asked, asked one thing at a time, ended when it does not behave.

It is told what to do over a pipe and answers over another (go/wire.go has the other side). Each process of ours has its
own: a forked child forgets its parent's and starts another. Whatever happens to a worker, its user gets a `Died` with a
sentence.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

GRACE = 5.0  # s after its time-out before a worker is killed: enough to unwind a search of a million operations
_TICK = 0.05  # s between looks at its memory
_CHUNK = 1 << 20
_AHEAD = 1 << 12  # read at least: most answers are shorter


Buffer = bytes | npt.NDArray[Any]


class Died(Exception):
    """The worker ended, or was ended, without an answer; the text is why."""


class Worker:
    """A worker process, made by `command`; started, and started again, as needed. For any number of threads."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = tuple(command)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = -1  # what it writes to standard error, a file without a name

    @property
    def pid(self) -> int | None:
        """Of the process, where there is one."""
        return self._process.pid if self._process else None

    def ask(self, blocks: Sequence[Buffer], timeout: float | None = None, memory: int | None = None) -> list[bytes]:
        """Its answer to a request, both as blocks of bytes.

        timeout: s until it is killed, and memory: bytes of resident memory at which it is. Raises Died. On any
        exception of the caller's own (KeyboardInterrupt) the worker is killed at once.
        """
        with self._lock:
            try:
                return self._ask(blocks, None if timeout is None else time.monotonic() + timeout, memory)
            except BaseException:
                self._kill()
                raise

    def _ask(self, blocks: Sequence[Buffer], deadline: float | None, memory: int | None) -> list[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._start()
        process = self._process
        assert process
        assert process.stdin
        assert process.stdout
        talk = _Talk(process.pid, deadline, memory)
        try:
            talk.write(process.stdin.fileno(), _parts(blocks))
            (count,) = struct.unpack("<Q", talk.read(process.stdout.fileno(), 8))
            lengths = struct.unpack(f"<{count}Q", talk.read(process.stdout.fileno(), 8 * count))
            return [talk.read(process.stdout.fileno(), length) for length in lengths]
        except (BrokenPipeError, EOFError):
            raise Died(self._epitaph()) from None

    def _start(self) -> None:
        self._kill()
        with contextlib.closing(_unnamed()) as errors:
            try:
                # A session of its own: a Ctrl-C at the terminal is for us to act on.
                self._process = subprocess.Popen(
                    self.command,
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors.descriptor,
                    start_new_session=True,
                )
            except OSError as error:
                raise Died(f"the worker does not start: {error}") from error
            self._errors = os.dup(errors.descriptor)
        assert self._process.stdin
        assert self._process.stdout
        os.set_blocking(self._process.stdin.fileno(), False)
        os.set_blocking(self._process.stdout.fileno(), False)

    def _epitaph(self) -> str:
        """Why a worker that closed its pipes is no more: its last words, or the signal it died of."""
        assert self._process
        try:
            code = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return "the worker closed its output and lives on"
        words = os.pread(self._errors, 1 << 16, 0).decode(errors="replace")
        last = re.search(r"^(?:panic|fatal error|runtime): .*", words, re.MULTILINE)
        lines = [last[0]] if last else words.strip().splitlines()[-1:]
        if code < 0:
            with contextlib.suppress(ValueError):
                lines.append(f"killed by {signal.Signals(-code).name}")
        return "; ".join(["the worker died", *lines] if lines else [f"the worker ended with code {code}"])

    def close(self) -> None:
        """End the process, if there is one; the next request starts another."""
        with self._lock:
            self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        process.wait()

    def forget(self) -> None:
        """In a forked child: let go of the parent's process, whose pipes came along, and leave it alone."""
        process, self._process = self._process, None
        self._lock = threading.Lock()
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1
        if process:
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()
            process.returncode = 0  # not ours to wait for


class _Talk:
    """Reading and writing that waits no longer than it may, and has an eye on the worker's memory."""

    def __init__(self, pid: int, deadline: float | None, memory: int | None) -> None:
        self._pid = pid
        self._deadline = deadline
        self._memory = memory
        self._read = bytearray()

    def write(self, descriptor: int, parts: Sequence[memoryview]) -> None:
        if sum(map(len, parts)) < _CHUNK:  # in one piece: each takes a look and a call
            parts = [memoryview(b"".join(parts))]
        for part in parts:
            place = 0
            while place < len(part):
                try:
                    place += os.write(descriptor, part[place : place + _CHUNK])
                except BlockingIOError:
                    self._wait(descriptor, select.POLLOUT)

    def read(self, descriptor: int, length: int) -> bytes:
        """The next bytes of the answer, which is all that the worker says until it is asked again."""
        while len(self._read) < length:
            self._wait(descriptor, select.POLLIN)
            part = os.read(descriptor, max(_AHEAD, min(length - len(self._read), _CHUNK)))
            if not part:
                raise EOFError
            self._read += part
        found = bytes(memoryview(self._read)[:length])
        del self._read[:length]
        return found

    def _wait(self, descriptor: int, event: int) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        while True:
            tick = _TICK if self._memory is not None else 3600.0
            if self._deadline is not None:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    raise Died("it did not stop in time, and was killed")
                tick = min(tick, left)
            if poll.poll(tick * 1000):
                return
            if self._memory is not None and resident(self._pid) > self._memory:
                raise Died(f"it grew above {self._memory >> 20} MiB, and was killed")


def resident(pid: int) -> int:
    """A process's resident memory in bytes; 0 where the system does not tell (it is no Linux, or the process ended)."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def message(blocks: Sequence[Buffer]) -> bytes:
    """A request as it goes over the pipe."""
    return b"".join(_parts(blocks))


def _parts(blocks: Sequence[Buffer]) -> list[memoryview]:
    views = [memoryview(block if isinstance(block, bytes) else block.data) for block in blocks]
    head = struct.pack(f"<{len(views) + 1}Q", len(views), *(view.nbytes for view in views))
    return [memoryview(head), *(view.cast("B") for view in views if view.nbytes)]


class _unnamed:
    """A file of no name."""

    def __init__(self) -> None:
        self.descriptor, name = tempfile.mkstemp()
        os.unlink(name)

    def close(self) -> None:
        os.close(self.descriptor)
