"""Do all replicas of a queue hold the same messages, once the faults are over?

Judged on what each replica held after every node had come back, or had been waited for, and before the drain. Only a
simulation can look into its replicas. Replicas that agree may all be wrong: what was lost everywhere is for `messages`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from chaos.model.history import History
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.base import Checker, Split, first, several
from checkers.columns import indices


class Replicas(Checker):
    """Replicas of one queue that hold other messages, or in another order.

    Counts: `queues`; `replicas`; `differ`, queues whose replicas do not agree. Metrics: `fewest` and `most` messages in
    a replica, of the queue in which these are furthest apart.
    """

    name = "replicas"
    split = Split.KEY
    ordered = False

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        of_queue: dict[str, list[int]] = defaultdict(list)
        for row in history.rows("replica").tolist():
            of_queue[history.key[row] or ""].append(row)
        found = []
        fewest = most = 0
        for queue, rows in of_queue.items():
            held = {history.node[row] or "": int(history.value[row]) for row in rows}
            if len({history.detail(row)["digest"] for row in rows}) > 1:
                said = ", ".join(f"{several(count, 'message')} on {node}" for node, count in held.items())
                found.append(
                    Anomaly(
                        "differ", f"the replicas of {queue} hold different messages: {said}", indices(history, *rows)
                    )
                )
            if max(held.values()) - min(held.values()) >= most - fewest:
                fewest, most = min(held.values()), max(held.values())
        counts = {"queues": len(of_queue), "replicas": sum(map(len, of_queue.values())), "differ": len(found)}
        metrics = {"fewest": fewest, "most": most}
        if found:
            return Result(self.name, Verdict.INVALID, found[0].message, counts, first(found), metrics)
        if not any(len(rows) > 1 for rows in of_queue.values()):
            return Result(self.name, Verdict.NOT_APPLICABLE, "nobody looked into the replicas", counts, (), metrics)
        reason = f"{several(counts['replicas'], 'replica')} hold the same as the others of their queue"
        return Result(self.name, Verdict.VALID, reason, counts, (), metrics)
