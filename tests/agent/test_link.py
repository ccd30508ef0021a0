"""The controller's end: what a node's stamps are in run time, and an agent that goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chaos.model.errors import SplitbrainError
from clusters.agent.link import AgentLink, Offset, sources


def test_the_tightest_ping_tells_where_a_nodes_clock_stands() -> None:
    offset = Offset()
    offset.add(sent=1_000, stamp=51_500, received=3_000)  # 49,500 to 1,000
    offset.add(sent=4_000, stamp=54_100, received=4_400)  # 49,900 to 200
    assert offset.to_run(60_000) == (10_100, 200)


@given(
    true=st.integers(-(10**15), 10**15),
    pings=st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=80),
    at=st.integers(0, 10**12),
)
def test_the_truth_is_always_within_the_uncertainty(true: int, pings: list[tuple[int, int, int]], at: int) -> None:
    offset = Offset()
    for start, there, back in pings:
        offset.add(start, start + there + true, start + there + back)
    run, uncertainty = offset.to_run(at + true)
    assert abs(run - at) <= uncertainty + 1


class Scripted:
    """A channel that answers each request by a function, until it answers None: then its output ends."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = False

    async def readline(self) -> bytes:
        return await self._lines.get()

    def write(self, data: bytes) -> None:
        request = json.loads(data)
        if request["do"] == "die":
            self._lines.put_nowait(b"")
        elif request["do"] == "bad":
            self._say({"id": request["id"], "at": 7, "error": "bad: no\nsuch thing"})
        else:
            self._say({"event": "seen", "do": request["do"]})
            self._say({"id": request["id"], "at": 7, "done": {"evidence": "yes"}})

    async def close(self) -> None:
        self._lines.put_nowait(b"")

    def complaints(self) -> str:
        return "Traceback:\nMemoryError\n"

    def _say(self, message: Mapping[str, Any]) -> None:
        self._lines.put_nowait(json.dumps(message).encode() + b"\n")


class Still:
    virtual = False

    def now(self) -> int:
        return 100


def test_answers_events_errors_and_the_agents_end() -> None:
    async def main() -> tuple[list[Any], list[Any]]:
        events: list[Any] = []
        link = AgentLink("n1", Scripted(), Still(), events.append)
        await link.ping()
        told: list[Any] = [await link.call("inject", fault="f1")]
        for request in ("bad", "die", "inject"):
            try:
                await link.call(request)
            except SplitbrainError as error:
                told.append(str(error))
        await link.close()
        return told, events

    told, events = asyncio.run(main())
    assert told == [
        {"evidence": "yes", "at": 100, "uncertainty": 0},
        "n1: such thing",
        "n1: its agent is gone: MemoryError",
        "n1: its agent is gone: MemoryError",
    ]
    assert [event["do"] for event in events] == ["ping", "inject"]


def test_what_is_sent_to_a_node_needs_nothing_but_the_standard_library() -> None:
    paths = {file.path.removeprefix("/opt/splitbrain/"): file.data.decode() for file in sources()}
    assert {"clusters/__init__.py", "clusters/agent/__main__.py", "clusters/faults/nftables.py"} <= set(paths)
    for path, text in paths.items():
        if path != "clusters/agent/link.py":  # the controller's end, not imported on a node
            assert "from chaos" not in text, path
