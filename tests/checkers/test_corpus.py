"""The cases of Jepsen's own tests of its checkers, from their files to the results that they expect.

An empty history is valid for Jepsen, and for us not applicable: it shows nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chaos.formats import load
from chaos.model.history import History
from chaos.model.op import Op, OpType
from chaos.model.registry import CHECKERS, find
from chaos.model.verdict import Result
from checkers.logs import versions, visibility
from checkers.logs.lag import lags
from checkers.logs.transactions import transactions
from checkers.streams import anomalies
from tests.checkers.histories import judge

MS = 1_000_000


def entries(corpus: Path, suite: str, *checkers: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads((corpus / "manifest.json").read_text())[suite]["entries"]
    return [entry for entry in listed if not checkers or entry["checker"] in checkers]


def total_queue(result: Result) -> dict[str, Any]:
    kinds = ("lost", "unexpected", "recovered", "duplicated")
    counts = {f"{kind}-count": result.counts[kind] for kind in kinds}
    counts |= {"attempt-count": result.counts["attempts"], "acknowledged-count": result.counts["acknowledged"]}
    return counts | {"ok-count": result.counts["ok"]} | {kind: {"$multiset": result.metrics[kind]} for kind in kinds}


def unique_ids(result: Result) -> dict[str, Any]:
    return {
        "attempted-count": result.counts["attempts"],
        "acknowledged-count": result.counts["acknowledged"],
        "duplicated-count": result.counts["duplicated"],
        "duplicated": {str(one): times for one, times in result.metrics["duplicated"]},
        "range": result.metrics["range"],
    }


def counter(result: Result) -> dict[str, Any]:
    return dict(result.metrics)


def set_full(result: Result) -> dict[str, Any]:
    kinds = ("lost", "never-read", "stale", "duplicated")
    said = {f"{kind}-count": result.counts[kind] for kind in kinds} | {kind: result.metrics[kind] for kind in kinds}
    said |= {"attempt-count": result.counts["attempts"], "stable-count": result.counts["stable"]}
    said |= {"worst-stale": result.metrics["worst_stale"], "duplicated": dict(result.metrics["duplicated"])}
    for ours, theirs in (("stable_latencies", "stable-latencies"), ("lost_latencies", "lost-latencies")):
        if result.metrics[ours]:
            said[theirs] = {point: ns // MS for point, ns in result.metrics[ours].items()}
    return said


AS_JEPSEN = {"total-queue": total_queue, "unique-ids": unique_ids, "counter": counter, "set-full": set_full}


def test_of_small_objects(corpus: Path) -> None:
    judged = 0
    for entry in entries(corpus, "jepsen_checker", *AS_JEPSEN):
        history = load(corpus / entry["file"]) if entry["ops"] else History.from_ops([])
        result = judge(find(CHECKERS, entry["checker"])(), history)
        whole = AS_JEPSEN[entry["checker"]](result) | {"valid?": result.verdict.to_json()}
        if entry["result_path"]:
            (key,) = entry["result_path"]
            assert entry["predicate"] == "truthy", entry["file"]
            assert whole[key] == ("not applicable" if not entry["ops"] else True), entry["file"]
        else:
            assert whole == entry["expected"], entry["file"]
        judged += 1
    assert judged == 13


def log_history(path: Path) -> History:
    """As the checker takes it: indices are those of the lines, since some files have none, or one twice. Completions
    without an invocation stand for themselves."""
    ops: list[Op] = []
    open_: dict[int, int] = {}
    for index, line in enumerate(path.read_text().splitlines()):
        said = json.loads(line)
        process, time = said["process"] or 0, said.get("time", index)
        invokes = said["type"] == "invoke"
        of = None if invokes else open_.pop(process, None)
        if invokes:
            open_[process] = index
        type_ = OpType[said["type"].upper()]
        detail = {"value": said["value"]}
        ops.append(Op(index=index, time=time, process=process, type=type_, f=said["f"], detail=detail, op=of))
    return History.from_ops(ops).validate()


def with_indices(expected: Any) -> Any:
    """What is expected, with the index of an op for the op."""
    if isinstance(expected, list):
        return [with_indices(one) for one in expected]
    if isinstance(expected, dict):
        return expected["$op"] if "$op" in expected else {key: with_indices(one) for key, one in expected.items()}
    return expected


def test_of_logs(corpus: Path) -> None:
    judged = 0
    for entry in entries(corpus, "jepsen_kafka"):
        done = transactions(log_history(corpus / entry["file"]))
        expected = with_indices(entry["expected"])
        if entry["entry"] == "version-orders":
            found: Any = version_orders(done)
        elif entry["result_path"] == ["worst-realtime-lag"]:
            found = asdict(max(lags(done), key=lambda lag: lag.lag))
        elif entry["result_path"] == ["unseen"]:
            found = [{"time": time, "unseen": sizes} for time, sizes, _ in visibility.unseen(done)]
            *_, (_, _, waiting) = visibility.unseen(done)
            found[-1]["messages"] = {key: {"$set": list(values)} for key, values in waiting.items()}
        else:
            errors = [anomaly for anomaly in anomalies(done) if entry["result_path"][1:] in ([], [anomaly.kind])]
            if entry.get("note", [])[-1:] == ["projected: set of :value"]:
                found = {"$set": sorted(anomaly.detail["value"] for anomaly in errors)}
            else:
                found = [dict(anomaly.detail) for anomaly in errors] or None
        assert found == expected, entry["file"]
        judged += 1
    assert judged == 21


def version_orders(done: Any) -> Any:
    orders = versions.orders(done, versions.polled(done))
    errors = [dict(anomaly.detail) for anomaly in versions.inconsistent(orders)]
    return {
        "errors": [error | {"values": {"$set": error["values"]}} for error in errors],
        "orders": {
            key: {
                "by-index": order.by_index,
                "by-value": order.by_value,
                "log": [
                    {"$set": sorted(map(str, order.log[offset]))} if offset in order.log else None
                    for offset in range(max(order.log) + 1)
                ],
            }
            for key, order in orders.items()
        },
    }
