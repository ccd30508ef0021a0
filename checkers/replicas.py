"""Do all replicas of a queue hold the same messages, once the faults are over?

Judged on what each replica held after every node had come back, or had been waited for, and before the drain. Only a
simulation can look into its replicas. Replicas that agree may all be wrong: what was lost everywhere is for `messages`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.model.history import History
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.base import Part, Parted, Split, added, several
from checkers.columns import indices


class Replicas(Parted):
    """Replicas of one queue that hold other messages, or in another order.

    Counts: `queues`; `replicas`; `differ`, queues whose replicas do not agree. Metrics: `fewest` and `most` messages in
    a replica, of the queue in which these are furthest apart.
    """

    name = "replicas"
    split = Split.KEY

    def part(self, history: History, options: Mapping[str, Any]) -> Part:
        rows = history.rows("replica").tolist()
        held = {history.node[row] or "": int(history.value[row]) for row in rows}
        differ = len({history.detail(row)["digest"] for row in rows}) > 1
        counts = {"queues": int(bool(rows)), "replicas": len(rows), "differ": int(differ)}
        extremes = {"fewest": min(held.values()), "most": max(held.values())} if rows else {}
        if not differ:
            return Part(counts, (), extremes)
        said = ", ".join(f"{several(count, 'message')} on {node}" for node, count in held.items())
        told = f"the replicas of {history.key[rows[0]] or ''} hold different messages: {said}"
        return Part(counts, (Anomaly("differ", told, indices(history, *rows)),), extremes)

    def merge(self, parts: Sequence[Part], options: Mapping[str, Any]) -> Result:
        counts, anomalies = added(parts)
        fewest = most = 0
        for part in parts:
            if part.facts and part.facts["most"] - part.facts["fewest"] >= most - fewest:
                fewest, most = part.facts["fewest"], part.facts["most"]
        metrics = {"fewest": fewest, "most": most}
        if anomalies:
            return Result(self.name, Verdict.INVALID, anomalies[0].message, counts, anomalies, metrics)
        if counts["replicas"] == counts["queues"]:
            return Result(self.name, Verdict.NOT_APPLICABLE, "nobody looked into the replicas", counts, (), metrics)
        reason = f"{several(counts['replicas'], 'replica')} hold the same as the others of their queue"
        return Result(self.name, Verdict.VALID, reason, counts, (), metrics)
