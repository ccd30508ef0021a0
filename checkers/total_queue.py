"""Does all that went into a queue come out of it? Jepsen's `total-queue`, for queues that the history drains.

After `jepsen.checker/total-queue`. Elements are counted, so that one may be enqueued more than once. Not as there: a
dequeue of nil found the queue empty; and a drain that crashed may have taken anything, so that what is missing then is
not lost for certain (Jepsen's refuses such a history).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from chaos.model.errors import BadHistory
from chaos.model.history import History
from chaos.model.op import FAIL, INVOKE, OK
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers.base import first, several
from checkers.columns import indices, said
from checkers.objects import Element, ObjectChecker, element, elements, in_order, plain, told


class TotalQueue(ObjectChecker):
    """Jepsen's: every acknowledged `enqueue` comes out by `dequeue` or `drain`, and nothing that was never enqueued.

    Counts: `attempts`; `acknowledged`; `ok`, dequeued and attempted; `lost`; `unexpected`; `duplicated`; `recovered`,
    dequeued though nobody knew whether the enqueue had succeeded. Metrics: the elements of the last four.
    """

    name = "total-queue"
    fs = ("enqueue", "dequeue", "drain")

    def judge(self, ops: History, options: Mapping[str, Any]) -> Result:
        attempts = Counter(elements(ops, ops.rows("enqueue", INVOKE)))
        acked = _at(ops, "enqueue")
        taken = _at(ops, "dequeue")
        drains = ops.rows("drain", OK)
        for row, drained in zip(drains.tolist(), said(ops, drains), strict=True):
            if not isinstance(drained, list | None):
                raise BadHistory(f"history: op {int(ops.index[row])}: a drain that does not answer with elements")
            for value in drained or []:
                taken[element(value)].append(row)
        enqueues = Counter({one: len(rows) for one, rows in acked.items()})
        dequeues = Counter({one: len(rows) for one, rows in taken.items()})
        ok = dequeues & attempts
        unexpected = Counter({one: times for one, times in dequeues.items() if one not in attempts})
        found = {
            "lost": enqueues - dequeues,
            "unexpected": unexpected,
            "duplicated": dequeues - attempts - unexpected,
            "recovered": ok - enqueues,
        }
        counts = {
            "attempts": attempts.total(),
            "acknowledged": enqueues.total(),
            "ok": ok.total(),
            **{kind: some.total() for kind, some in found.items()},
        }
        metrics = {kind: told(some.elements()) for kind, some in found.items()}
        unsure = self._unsure(ops)
        anomalies = [
            Anomaly("unexpected", f"{plain(one)!r} was dequeued, and never enqueued", indices(ops, *taken[one]))
            for one in in_order(unexpected)[:ANOMALIES_KEPT]
        ]
        if unsure is None:
            anomalies += [
                Anomaly(
                    "lost",
                    f"{plain(one)!r} was enqueued, and never dequeued",
                    indices(ops, *ops.invocation[acked[one]], *acked[one]),
                )
                for one in in_order(found["lost"])[:ANOMALIES_KEPT]
            ]
        missing = several(counts["lost"], "element")
        if anomalies:
            verdict = Verdict.INVALID
            reason = f"{counts['lost']:,} lost and {counts['unexpected']:,} unexpected of {counts['acknowledged']:,}"
        elif counts["lost"]:
            verdict, reason = Verdict.UNKNOWN, f"{missing} missing, and {unsure}"
        elif not attempts and not dequeues:
            verdict, reason = Verdict.NOT_APPLICABLE, "nothing was enqueued or dequeued"
        elif not enqueues and not dequeues:
            verdict, reason = Verdict.UNKNOWN, "nothing was acknowledged, and nothing dequeued"
        else:
            verdict, reason = Verdict.VALID, f"none lost of {counts['acknowledged']:,} acknowledged"
        return Result(self.name, verdict, reason, counts, first(anomalies), metrics)

    @staticmethod
    def _unsure(ops: History) -> str | None:
        """Why what is missing may not be lost."""
        if ops.cut is not None:
            return f"the history is not whole: {ops.cut}"
        asked = ops.rows("drain", INVOKE)
        end = ops.completion[asked]
        if ((end < 0) | ((ops.type[end] != OK) & (ops.type[end] != FAIL))).any():
            return "nobody knows what a drain took"
        return None


def _at(ops: History, f: str) -> defaultdict[Element, list[int]]:
    """For each element the rows that acknowledge it."""
    rows = ops.rows(f, OK)
    found: defaultdict[Element, list[int]] = defaultdict(list)
    for row, value in zip(rows.tolist(), said(ops, rows), strict=True):
        if value is not None:
            found[element(value)].append(row)
    return found
