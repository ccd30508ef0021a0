"""The cases of Jepsen's own tests of its checkers, from their files to the results that they expect.

An empty history is valid for Jepsen, and for us not applicable: it shows nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chaos.formats import load
from chaos.model.history import History
from chaos.model.registry import CHECKERS, find
from chaos.model.verdict import Result
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
