"""The controller's end of a node's agent: requests, what it pushes, and how its clock stands to the run's."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from chaos.kernel.clock import Clock
from chaos.model.errors import SplitbrainError
from clusters.hosts.base import Channel, File

FOLDER = "/opt/splitbrain"
COMMAND = ("env", f"PYTHONPATH={FOLDER}", "python3", "-B", "-m", "clusters.agent")
_PARTS = ("agent", "faults", "reporters")  # of clusters/: all that the agent needs, standard library only
_PING = 1.0  # seconds between pings; also what keeps the dead man's switch from firing


def sources() -> list[File]:
    """The agent as files to put on a node."""
    found = [File(f"{FOLDER}/clusters/__init__.py", b"")]
    for part in _PARTS:
        for entry in sorted(files("clusters").joinpath(part).iterdir(), key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                found.append(File(f"{FOLDER}/clusters/{part}/{entry.name}", entry.read_bytes()))
    return found


class Offset:
    """Where a node's clock stands to the run's, from pings: each bounds it by the time that the answer took.

    The best of the last minute counts, so that a drift does not outlive its evidence.
    """

    def __init__(self) -> None:
        self._pings: deque[tuple[int, int]] = deque(maxlen=60)  # (uncertainty, offset)

    def add(self, sent: int, stamp: int, received: int) -> None:
        """A ping: run clock, node's stamp, run clock, in ns."""
        self._pings.append(((received - sent + 1) // 2, stamp - (sent + received) // 2))

    def to_run(self, stamp: int) -> tuple[int, int]:
        """A node's stamp as run time, and how far that may be off, in ns."""
        uncertainty, offset = min(self._pings, default=(0, 0))
        return stamp - offset, uncertainty


class AgentLink:
    """Requests to one agent, many at a time; a callback for what it pushes, and one, with the reason, for when it ends
    unasked. It says why when the agent is gone."""

    def __init__(
        self,
        node: str,
        channel: Channel,
        clock: Clock,
        pushed: Callable[[Mapping[str, Any]], None],
        ended: Callable[[str], None] = lambda why: None,
    ) -> None:
        self.node = node
        self.offset = Offset()
        self._channel, self._clock, self._pushed, self._ended = channel, clock, pushed, ended
        self._closing = False
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._gone: str | None = None
        self._reader = asyncio.ensure_future(self._read())
        self._pinger: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Wait until the agent answers, and learn its clock. Raises SplitbrainError."""
        await self.ping(timeout=20)
        for _ in range(4):
            await self.ping()
        self._pinger = asyncio.ensure_future(self._keep_pinging())

    async def call(self, do: str, *, timeout: float = 15, **arguments: Any) -> dict[str, Any]:
        """One request: what was done, with `at` as run time and `uncertainty`, ns. Raises SplitbrainError."""
        answer = await self._request({"do": do, **arguments}, timeout)
        if "error" in answer:
            raise SplitbrainError(f"{self.node}: {answer['error'].splitlines()[-1]}", tail=answer["error"].splitlines())
        at, uncertainty = self.offset.to_run(answer["at"])
        return {**answer["done"], "at": at, "uncertainty": uncertainty}

    async def put(self, files: Sequence[File]) -> None:
        """Write files, each owned by its user. Raises SplitbrainError."""
        packed = [
            {"path": f.path, "data": base64.b64encode(f.data).decode(), "mode": f.mode, "user": f.user} for f in files
        ]
        await self.call("files", files=packed)

    async def ping(self, timeout: float = 5) -> None:
        """Measure once where the agent's clock stands. Raises SplitbrainError."""
        sent = self._clock.now()
        answer = await self._request({"do": "ping"}, timeout)
        self.offset.add(sent, answer["at"], self._clock.now())

    async def close(self) -> None:
        """End the agent's input, on which it undoes all that is left and goes. Never raises."""
        self._closing = True
        if self._pinger is not None:
            self._pinger.cancel()
        await self._channel.close()
        done, _ = await asyncio.wait([self._reader], timeout=2)
        if not done:
            self._reader.cancel()

    async def _request(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        if self._gone is not None:
            raise SplitbrainError(f"{self.node}: {self._gone}")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._channel.write(json.dumps({"id": number, **request}).encode() + b"\n")
        try:
            return await asyncio.wait_for(answer, timeout)
        except TimeoutError:
            raise SplitbrainError(f"{self.node}: its agent did not answer {request['do']!r} in {timeout:g} s") from None
        finally:
            del self._waiting[number]

    async def _keep_pinging(self) -> None:
        while True:
            await asyncio.sleep(_PING)
            try:
                await self.ping()
            except SplitbrainError:
                continue  # whoever asks next is told why

    async def _read(self) -> None:
        try:
            while (line := await self._channel.readline()).endswith(b"\n"):  # else it ended amid a line
                self._take(json.loads(line))
        finally:
            complaint = self._channel.complaints().strip().splitlines()
            self._gone = "its agent is gone" + (f": {complaint[-1]}" if complaint else "")
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(SplitbrainError(f"{self.node}: {self._gone}", tail=complaint[-20:]))
            if not self._closing:
                self._ended(self._gone)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            self._pushed(message)
        elif (waiting := self._waiting.get(message["id"])) is not None and not waiting.done():
            waiting.set_result(message)
