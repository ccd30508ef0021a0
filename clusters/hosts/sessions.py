"""The lines of a node's agent over SSH sessions that may drop: a session runs a relay to the agent's socket; when it is
lost, another is opened, and what either end lacks is sent again (`clusters.agent.session`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import paramiko
from paramiko.ssh_exception import SSHException

from chaos.model.errors import SplitbrainError
from clusters.agent.detached import BYE
from clusters.agent.relay import GONE
from clusters.agent.session import Lines
from clusters.hosts.base import Channel

PATIENCE = 60.0  # seconds for which a host that was lost is tried again
QUIET = 10.0  # seconds without a word, of an agent that is asked every second, after which a session is given up
_PAUSE = 0.5


class Stream(Channel, Protocol):
    """A command on a host. `close` lets go of it at once."""

    async def code(self) -> int:
        """Its exit code, -1 where nobody tells; to be asked when its output has ended."""


class Session:
    """A Stream of paramiko's, whose channels block: a thread reads and a thread writes."""

    def __init__(self, channel: paramiko.Channel, ahead: bytes) -> None:
        """`ahead` is what its input begins with."""
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader(limit=1 << 26)
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._outgoing.put(ahead)
        self._complaints = b""
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._write, daemon=True).start()

    async def readline(self) -> bytes:
        return await self._reader.readline()

    def write(self, data: bytes) -> None:
        self._outgoing.put(data)

    async def close(self) -> None:
        self._outgoing.put(None)
        await asyncio.to_thread(self._channel.close)

    def complaints(self) -> str:
        return self._complaints.decode(errors="replace")

    async def code(self) -> int:
        known = await asyncio.to_thread(self._channel.status_event.wait, 1)
        return self._channel.recv_exit_status() if known else -1

    def _read(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            with contextlib.suppress(OSError, SSHException, EOFError):
                while data := self._channel.recv(1 << 16):
                    self._loop.call_soon_threadsafe(self._reader.feed_data, data)
                self._channel.settimeout(2)
                while data := self._channel.recv_stderr(1 << 16):
                    self._complaints = (self._complaints + data)[-10_000:]
            self._loop.call_soon_threadsafe(self._reader.feed_eof)

    def _write(self) -> None:
        with contextlib.suppress(OSError, SSHException, EOFError):
            while (data := self._outgoing.get()) is not None:
                self._channel.sendall(data)


class Sessions:
    """A `Channel` to an agent that outlives its sessions.

    `begin` opens a session, or raises SplitbrainError; `lost` is called when one is given up for dead. A session that
    was lost and found again is told as an event of its own: {"event": "session", "why", "seconds"}.
    """

    def __init__(
        self, begin: Callable[[], Awaitable[Stream]], lost: Callable[[], None], patience: float = PATIENCE
    ) -> None:
        self._begin, self._lost, self._patience = begin, lost, patience
        self._lines = Lines()
        self._came: asyncio.Queue[bytes] = asyncio.Queue()
        self._stream: Stream | None = None
        self._closing = False
        self._problem = ""
        self._keeping = asyncio.ensure_future(self._keep())

    async def readline(self) -> bytes:
        return await self._came.get()

    def write(self, data: bytes) -> None:
        for line in data.splitlines():
            frame = self._lines.put(line)
            if self._stream is not None:
                self._stream.write(frame)

    async def close(self) -> None:
        self._closing = True
        if self._stream is None:
            self._keeping.cancel()
        else:
            self.write(BYE + b"\n")

    def complaints(self) -> str:
        return self._problem

    async def _keep(self) -> None:
        """One session after another, until the agent is gone, or the host."""
        gone: tuple[float, str] | None = None  # since when, and why
        try:
            while True:
                try:
                    stream = await self._begin()
                except SplitbrainError as error:
                    gone = gone or (time.monotonic(), str(error))
                    if self._closing or time.monotonic() - gone[0] > self._patience:
                        self._problem = f"{error}, for {self._patience:g} s on end"
                        return
                    await asyncio.sleep(_PAUSE)
                    continue
                why = await self._use(stream, gone)
                if why is None or self._closing:
                    return
                gone = (time.monotonic(), why)
        finally:
            self._came.put_nowait(b"")

    async def _use(self, stream: Stream, gone: tuple[float, str] | None) -> str | None:
        """One session, to its end: why it was lost, or None when there is no agent any more."""
        stream.write(self._lines.greeting())
        try:
            while True:
                try:
                    frame = await asyncio.wait_for(stream.readline(), QUIET)
                except TimeoutError:
                    self._lost()
                    return f"nothing was heard for {QUIET:g} s"
                if not frame.endswith(b"\n"):
                    break
                if self._stream is None:  # the first is the agent's greeting: now it listens
                    self._stream = stream
                    if gone is not None:
                        event = {"event": "session", "why": gone[1], "seconds": round(time.monotonic() - gone[0], 3)}
                        self._came.put_nowait(json.dumps(event).encode() + b"\n")
                line, again = self._lines.take(frame)
                for one in again:
                    stream.write(one)
                if line is not None:
                    self._came.put_nowait(line + b"\n")
            code, complaints = await stream.code(), stream.complaints().strip()
            if code == GONE:
                self._problem = complaints
                return None
            return complaints or ("the session was lost" if code < 0 else f"its relay ended with exit code {code}")
        finally:
            self._stream = None
            await stream.close()
