"""Does a generator of unique ids return each only once? Jepsen's `unique-ids`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from chaos.model.history import History
from chaos.model.op import INVOKE, OK
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers.base import first, several
from checkers.columns import indices
from checkers.objects import TOLD, Element, ObjectChecker, elements, in_order, plain


class UniqueIds(ObjectChecker):
    """Jepsen's: no two `generate` return the same id.

    Counts: `attempts`; `acknowledged`; `duplicated`, ids that were returned more than once. Metrics: `duplicated`, how
    often each of them was, as [id, times]; `range`, the lowest and the highest id.
    """

    name = "unique-ids"
    fs = ("generate",)

    def judge(self, ops: History, options: Mapping[str, Any]) -> Result:
        rows = ops.rows("generate", OK)
        ends: dict[Element, list[int]] = defaultdict(list)
        for row, one in zip(rows.tolist(), elements(ops, rows), strict=True):
            ends[one].append(row)
        ordered = in_order(ends)
        again = [one for one in ordered if len(ends[one]) > 1]
        counts = {
            "attempts": len(ops.rows("generate", INVOKE)),
            "acknowledged": len(rows),
            "duplicated": len(again),
        }
        metrics = {
            "duplicated": [[plain(one), len(ends[one])] for one in again[:TOLD]],
            "range": [plain(ordered[0]), plain(ordered[-1])] if ordered else [],
        }
        anomalies = [
            Anomaly("duplicated", f"{plain(one)!r} was returned {len(ends[one])} times", indices(ops, *ends[one][:10]))
            for one in again[:ANOMALIES_KEPT]
        ]
        if not len(ops):
            verdict, reason = Verdict.NOT_APPLICABLE, "no ids were generated"
        elif again:
            verdict, reason = Verdict.INVALID, f"{several(len(again), 'id')} returned more than once"
        elif not len(rows):
            verdict, reason = Verdict.UNKNOWN, "no id was returned"
        else:
            verdict, reason = Verdict.VALID, f"each of {several(len(rows), 'id')} is returned once"
        return Result(self.name, verdict, reason, counts, first(anomalies), metrics)
