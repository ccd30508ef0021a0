"""Readers of a log that leave and come back: what they took is in the history, and nothing else counts as taken."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chaos import scenario
from chaos.controller import execute
from chaos.model.op import INVOKE, OK
from chaos.model.schedule import Schedule
from chaos.progress import Silent
from chaos.search.trial import Forgotten
from clusters.base import FIRST
from clusters.null import NullClient


def test_an_entry_that_comes_while_the_connection_is_closed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = NullClient.close
    late: list[int] = []

    async def slowly(self: NullClient) -> None:
        """What is under way yet is handed out while the client says goodbye."""
        for log in self._cluster.logs.values():
            if self in log.readings:
                offset, _, deliver = log.readings[self]
                log.readings[self] = (offset, 0, deliver)
                await asyncio.sleep(0.02)
                late.append(min(3, len(log.entries) - offset))
                log.readings[self] = (offset, 3, deliver)
                log.pump("s1", self)
        await close(self)

    monkeypatch.setattr(NullClient, "close", slowly)
    reading = {"stay": "50ms", "start": "tracked", "consume": "asynchronous"}
    workload = {"name": "stream", "time": "1s", "rate": 500, **reading}
    made = scenario.from_data({"schema": 1, "name": "late", "cluster": {"broker": "null"}, "workload": workload})
    outcome = execute(
        made, Schedule(), run="late", stream=None, nodes=tmp_path, ledger=Forgotten(), progress=Silent(), real=True
    )
    assert sum(late) > 0
    history = outcome.history
    last: dict[int, int] = {}
    for row in history.rows("consume", OK):
        op = history[int(row)]
        last[op.process] = (op.detail or {})["offset"]
    begun = [(history[int(row)].detail or {})["from"] for row in history.rows("seek", INVOKE)]
    assert [start for start in begun if start != FIRST]
    assert [start for start in begun if start != FIRST and start - 1 not in last.values()] == []
