"""An agent's lines over sessions that drop, on streams that a test cuts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from chaos.model.errors import SplitbrainError
from clusters.agent.relay import GONE
from clusters.agent.session import Lines
from clusters.hosts import sessions
from clusters.hosts.sessions import Sessions


class Far:
    """The agent's end: it says each line that it is told once more, in capitals."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.told: list[bytes] = []
        self.stream: FakeStream | None = None
        self.unreachable = 0  # times that a session cannot be begun from now on
        self.begun = 0

    async def begin(self) -> FakeStream:
        self.begun += 1
        if self.unreachable:
            self.unreachable -= 1
            raise SplitbrainError("n1: no SSH at 10.0.0.1")
        self.stream = FakeStream(self)
        self.stream.out.put_nowait(self.lines.greeting())
        return self.stream


class FakeStream:
    def __init__(self, far: Far) -> None:
        self.far = far
        self.out: asyncio.Queue[bytes] = asyncio.Queue()
        self.ended = -1
        self.deaf = False
        self.complaint = ""

    async def readline(self) -> bytes:
        return await self.out.get()

    def write(self, data: bytes) -> None:
        if self.far.stream is not self or self.deaf:
            return
        line, again = self.far.lines.take(data)
        for frame in again:
            self.out.put_nowait(frame)
        if line is not None:
            self.far.told.append(line)
            self.out.put_nowait(self.far.lines.put(line.upper()))

    def cut(self, code: int = -1, complaint: str = "") -> None:
        self.ended, self.complaint = code, complaint
        self.out.put_nowait(b"")
        self.far.stream = None

    async def code(self) -> int:
        return self.ended

    def complaints(self) -> str:
        return self.complaint

    async def close(self) -> None:
        self.far.stream = None


def run(test: Callable[[Far, Sessions], Any], patience: float = 60.0) -> tuple[Far, list[str]]:
    """What a test saw; and how often a session was given up for dead."""
    given_up: list[str] = []
    far = Far()

    async def main() -> None:
        channel = Sessions(far.begin, lambda: given_up.append("lost"), patience)
        await asyncio.wait_for(test(far, channel), 20)
        channel._keeping.cancel()

    asyncio.run(main())
    return far, given_up


async def connected(far: Far) -> FakeStream:
    for _ in range(10_000):
        if far.stream is not None:
            return far.stream
        await asyncio.sleep(0.001)
    raise TimeoutError


def test_lines_that_were_under_way_when_it_dropped_come_once_and_the_drop_is_told() -> None:
    async def test(far: Far, channel: Sessions) -> None:
        channel.write(b"one\n")
        assert await channel.readline() == b"ONE\n"
        stream = await connected(far)
        stream.deaf = True
        channel.write(b"two\nthree\n")  # the host never gets these
        stream.cut(255, "Connection reset\n")
        event = json.loads(await channel.readline())
        assert (event["event"], event["why"]) == ("session", "Connection reset")
        assert event["seconds"] >= 0
        channel.write(b"four\n")
        assert [await channel.readline() for _ in range(3)] == [b"TWO\n", b"THREE\n", b"FOUR\n"]

    far, given_up = run(test)
    assert far.told == [b"one", b"two", b"three", b"four"]
    assert given_up == []


def test_a_host_that_cannot_be_reached_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_PAUSE", 0.01)

    async def test(far: Far, channel: Sessions) -> None:
        channel.write(b"one\n")
        await channel.readline()
        far.unreachable = 3
        (await connected(far)).cut()
        assert json.loads(await channel.readline())["why"] == "the session was lost"
        assert far.begun == 5

    run(test)


def test_one_that_stays_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_PAUSE", 0.01)

    async def test(far: Far, channel: Sessions) -> None:
        channel.write(b"one\n")
        await channel.readline()
        far.unreachable = 10**6
        (await connected(far)).cut()
        assert await channel.readline() == b""
        assert channel.complaints() == "n1: no SSH at 10.0.0.1, for 0.05 s on end"

    run(test, patience=0.05)


def test_a_session_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "QUIET", 0.05)

    async def test(far: Far, channel: Sessions) -> None:
        channel.write(b"one\n")
        await channel.readline()
        (await connected(far)).deaf = True
        channel.write(b"two\n")
        assert json.loads(await channel.readline())["why"] == "nothing was heard for 0.05 s"
        assert await channel.readline() == b"TWO\n"

    _, given_up = run(test)
    assert given_up[0] == "lost"


def test_an_agent_that_is_gone_is_not_waited_for() -> None:
    async def test(far: Far, channel: Sessions) -> None:
        (await connected(far)).cut(GONE, "no agent listens at /var/lib/splitbrain/run/agent.sock: Connection refused\n")
        assert await channel.readline() == b""
        assert channel.complaints().startswith("no agent listens at ")
        assert far.begun == 1

    run(test)


def test_it_is_closed_by_a_word_to_the_agent_and_not_opened_again() -> None:
    async def test(far: Far, channel: Sessions) -> None:
        channel.write(b"one\n")
        await channel.readline()
        stream = await connected(far)
        await channel.close()
        assert far.told == [b"one", b"bye"]
        assert await channel.readline() == b"BYE\n"
        stream.cut(0)
        assert await channel.readline() == b""
        assert far.begun == 1

    run(test)


def test_it_can_be_closed_while_nobody_is_there() -> None:
    async def test(far: Far, channel: Sessions) -> None:
        far.unreachable = 10**6
        (await connected(far)).cut()
        await asyncio.sleep(0.05)
        await channel.close()
        assert await channel.readline() == b""

    run(test)
