"""Is each read of a counter between what must have been added and what may have been? Jepsen's `counter`.

After `jepsen.checker/counter`. A read may show all that was added by operations which had returned ok before it began,
and what any operation added that had begun before it ended, those excepted that failed. Not as there: a counter may
also be decremented, so that what may have been subtracted lowers the lower bound when it begins, and the upper one when
it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chaos.model.errors import BadHistory
from chaos.model.history import History
from chaos.model.op import FAIL, INVOKE, OK
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers.base import first, several
from checkers.columns import Rows, granted, indices, said
from checkers.objects import TOLD, ObjectChecker, read_answers

SIGNS = {"add": 1, "increment": 1, "decrement": -1}


class Counter(ObjectChecker):
    """Jepsen's: each `read` is between all that was surely added before it and all that may have been by its end.

    Operations: `add`, `increment`, `decrement`, by 1 where they do not say, and `read`; the counter starts at 0.
    Counts: `adds` invoked; `reads` that returned; `errors`, those out of bounds. Metrics: `reads` and `errors`, each as
    [lower bound, value, upper bound].
    """

    name = "counter"
    fs = (*SIGNS, "read")
    others = ("remove", "contains", "write", "cas")

    def judge(self, ops: History, options: Mapping[str, Any]) -> Result:
        reads = read_answers(ops, int)
        lower, upper, adds = _bounds(ops)
        begun = granted(ops, ops.rows("read", OK))
        seen = [
            (start, row, value)
            for start, row, value in (zip(begun.tolist(), *reads, strict=True) if reads else ())
            if value is not None
        ]
        within = [[int(lower[start]), value, int(upper[row])] for start, row, value in seen]
        wrong = [place for place, (low, value, high) in enumerate(within) if not low <= value <= high]
        counts = {"adds": adds, "reads": len(within), "errors": len(wrong)}
        metrics = {"reads": within[:TOLD], "errors": [within[place] for place in wrong[:TOLD]]}
        anomalies = [
            Anomaly(
                "out-of-bounds",
                f"a read answers {within[place][1]}, which is not from {within[place][0]} to {within[place][2]}",
                indices(ops, *seen[place][:2]),
            )
            for place in wrong[:ANOMALIES_KEPT]
        ]
        if reads is None:
            verdict, reason = Verdict.NOT_APPLICABLE, "its reads do not answer with whole numbers"
        elif not adds and not within:
            verdict, reason = Verdict.NOT_APPLICABLE, "no counter was added to or read"
        elif wrong:
            verdict, reason = Verdict.INVALID, f"{len(wrong):,} of {several(len(within), 'read')} out of bounds"
        elif not within:
            verdict, reason = Verdict.UNKNOWN, "the counter was never read"
        else:
            verdict, reason = Verdict.VALID, f"{several(len(within), 'read')} within bounds"
        return Result(self.name, verdict, reason, counts, first(anomalies), metrics)


def _bounds(ops: History) -> tuple[Rows, Rows, int]:
    """The bounds after each row, and how many adds were invoked."""
    lower, upper = np.zeros(len(ops), dtype=np.int64), np.zeros(len(ops), dtype=np.int64)
    adds = 0
    for f, sign in SIGNS.items():
        rows = ops.rows(f, INVOKE)
        by = np.array([_amount(ops, row, value) for row, value in zip(rows.tolist(), said(ops, rows), strict=True)],
                      dtype=np.int64) * sign  # fmt: skip
        adds += len(rows)
        end = ops.completion[rows]
        happened = np.where(end >= 0, ops.type[end], np.int8(INVOKE))
        some, sure = happened != FAIL, happened == OK
        # what may have happened counts from its call on the one side, what has happened from its return on the other
        np.add.at(upper, rows[some], np.maximum(by[some], 0))
        np.add.at(lower, end[sure], np.maximum(by[sure], 0))
        np.add.at(lower, rows[some], np.minimum(by[some], 0))
        np.add.at(upper, end[sure], np.minimum(by[sure], 0))
    return np.cumsum(lower), np.cumsum(upper), adds


def _amount(ops: History, row: int, value: Any) -> int:
    if value is None:
        return 1
    if type(value) is not int:
        raise BadHistory(f"history: op {int(ops.index[row])} ({ops.f[row]}): what it adds is not a whole number")
    return value
