"""Tables held against the checkers: what they say of a run must be what its checkers count."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.compute as pc

from chaos.model.history import NONE, History
from chaos.model.op import INVOKE
from chaos.model.settings import resolve
from chaos.model.verdict import Result
from checkers.availability import Availability
from checkers.faults import faults
from checkers.latency import Latency
from checkers.leaders import Leaders, claims, views
from checkers.messages import Messages
from results.tables.load import Loaded

Row = dict[str, Any]


def hold(loaded: Loaded, run: str, history: History, options: dict[str, dict[str, Any]]) -> None:
    """Raises AssertionError where the tables of a run say anything else than the checkers."""

    def rows(table: str) -> list[Row]:
        found: list[Row] = loaded[table].to_arrow(where=pc.field("run") == run).to_pylist()
        return found

    def result(checker: Any) -> Result:
        found: Result = checker().check(history, resolve(checker.settings, options.get(checker.name, {}), "test"))
        return found

    (row,) = rows("runs")
    assert (row["ops"], row["cut"]) == (len(history), history.cut)
    _ops(rows("ops"), history)
    counts = result(Messages).counts
    same = {"published": "attempts", "confirmed": "confirmed", "failed": "failed", "unknown": "unknown",
            "delivered": "deliveries", "lost": "lost", "duplicated": "duplicated"}  # fmt: skip
    assert {name: row[name] for name in same} == {name: counts[count] for name, count in same.items()}
    messages = rows("messages")
    assert len({(each["key"], each["id"]) for each in messages}) == len(messages) == counts["attempts"]
    assert sum(each["acks"] > 0 for each in messages) == counts["acked"]
    assert sum(each["deliveries"] > 0 for each in messages) == counts["delivered"]
    assert sum(each["lost"] for each in messages) == counts["lost"]
    available = result(Availability)
    assert row["confirmed_under_faults"] == available.counts.get("confirmed-under-faults", 0)
    if counts["confirmed"]:
        assert row["outage"] == available.metrics["longest_gap"]
        assert (row["recovery"] or 0) == available.metrics["longest_recovery"]
    _faults(rows("faults"), row, history)
    _leaders(rows("leaders"), row, history, result(Leaders))
    _latency(rows("latency"), result(Latency))


def _ops(rows: list[Row], history: History) -> None:
    unpaired = int(((history.op == NONE) & (history.type != INVOKE)).sum())
    assert len(rows) == int((history.type == INVOKE).sum()) + unpaired
    by_op = {row["op"]: row for row in rows}
    assert len(by_op) == len(rows)
    for place in range(len(history)):
        one = history[place]
        row = by_op[one.index if one.op is None else one.op]
        if one.type is INVOKE:
            assert (row["invoked"], row["f"], row["process"], row["channel"]) == (
                one.time, one.f, one.process, row["channel"])  # fmt: skip
            assert json.loads(row["detail"] or "null") == one.detail
        else:
            alone = one.op is None
            assert (row["completed"], row["outcome"], row["end"]) == (one.time, str(one.type), one.index)
            assert json.loads(row["detail" if alone else "answer"] or "null") == one.detail
            assert row["latency"] == (None if alone else one.time - row["invoked"])
            assert (row["error"], row["node"] or one.node) == (one.error, one.node or row["node"])


def _faults(rows: list[Row], run: Row, history: History) -> None:
    spans = faults(history)
    last = int(history.time[-1]) if len(history) else 0
    told = [
        (row["fault"], row["nemesis"] or "", row["kind"] or "", row["target"] or "", tuple(row["nodes"] or ()),
         row["injected"], row["in_force"], last if row["undoing"] is None else row["undoing"],
         last if row["undone"] is None else row["undone"], row["bit"])
        for row in rows if row["in_force"] is not None
    ]  # fmt: skip
    assert sorted(told, key=str) == sorted(
        [(span.id, span.nemesis, span.kind, span.target, span.nodes, span.asked, span.start, span.undoing, span.end,
          span.bit) for span in spans], key=str)  # fmt: skip
    assert (run["faults"], run["bitten"]) == (len(spans), sum(span.bit is True for span in spans))


def _leaders(rows: list[Row], run: Row, history: History, result: Result) -> None:
    held = claims(history, views(history))
    told = [(row["scope"], row["node"], row["term"], row["began"], row["ended"]) for row in rows]
    assert sorted(told, key=str) == sorted([(c.key, c.node, c.term, c.start, c.end) for c in held], key=str)
    assert (run["failover"] or 0) == result.metrics["longest_vacancy"]


def _latency(rows: list[Row], result: Result) -> None:
    for f, measure in (("publish", "confirm"), ("delivery", "delivery")):
        for phase in ("all", "quiet", "faulted"):
            wanted = result.metrics[measure][phase]
            found = [row for row in rows if (row["f"], row["phase"], row["began"]) == (f, phase, None)]
            told = found[0] if found else {"ok": 0, "p50": None, "p99": None, "max": None}
            assert (told["ok"], told["p50"], told["p99"], told["max"]) == (
                wanted["count"], wanted["p50"], wanted["p99"], wanted["max"])  # fmt: skip
