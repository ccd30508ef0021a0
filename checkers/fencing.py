"""Do fencing tokens grow, so that whoever is handed one can tell the holder of a lock from one before?

A lock that is held by lease may have two holders: one that stood still, or was cut off, past the end of its lease goes
on until it notices. What it then writes is turned away by a store that has seen a greater token, if tokens grow from
hold to hold (Martin Kleppmann, "How to do distributed locking", 2016). Whether they do does not hang on whether the
lock excludes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chaos.model.history import NONE, History
from chaos.model.op import OK
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers.base import first, several
from checkers.columns import Rows, granted, indices
from checkers.objects import ObjectChecker


class Fencing(ObjectChecker):
    """No fencing token is given twice, and each is greater than those of acquires that had returned before it began.

    Operations: `acquire` (also `lock`, `try`, `try-acquire`, `try-lock`), which answers with the token, a whole number.
    Counts: `tokens`; `repeated`, given more than once; `not-greater`, than an older one.
    """

    name = "fencing"
    fs = ("acquire", "lock", "try", "try-acquire", "try-lock")

    def judge(self, ops: History, options: Mapping[str, Any]) -> Result:
        rows = np.sort(np.concatenate([ops.rows(f, OK) for f in self.fs]))
        rows = rows[ops.value[rows] != NONE]
        again, low = _repeated(ops, rows), _not_greater(ops, rows)
        counts = {"tokens": len(rows), "repeated": len(again), "not-greater": len(low)}
        anomalies = [
            Anomaly("repeated", f"token {ops.value[two[0]]} was given twice", indices(ops, *two))
            for two in again[:ANOMALIES_KEPT]
        ]
        anomalies += [
            Anomaly(
                "not-greater",
                f"token {ops.value[row]} was given after {ops.value[older]} had been",
                indices(ops, older, int(granted(ops, np.array([row]))[0]), row),
            )
            for older, row in low[:ANOMALIES_KEPT]
        ]
        if not len(rows):
            verdict, reason = Verdict.NOT_APPLICABLE, "no acquire answers with a token"
        elif anomalies:
            verdict = Verdict.INVALID
            reason = f"{len(again):,} repeated and {len(low):,} not greater than before, of {len(rows):,} tokens"
        else:
            verdict, reason = Verdict.VALID, f"{several(len(rows), 'token')}, each greater than those before"
        return Result(self.name, verdict, reason, counts, first(anomalies))


def _repeated(ops: History, rows: Rows) -> list[tuple[int, int]]:
    """Rows of answers with the same token as one before, each with that one."""
    order = rows[np.argsort(ops.value[rows], kind="stable")]
    same = np.flatnonzero(ops.value[order][1:] == ops.value[order][:-1])
    return [(int(order[place]), int(order[place + 1])) for place in same.tolist()]


def _not_greater(ops: History, rows: Rows) -> list[tuple[int, int]]:
    """Rows of answers with a token less than one given before they were asked for; each after the row of that one."""
    if not len(rows):
        return []
    token = ops.value[rows]
    greatest = np.maximum.accumulate(token)
    before = np.searchsorted(rows, granted(ops, rows)) - 1  # the last answer before the call of each
    low = np.flatnonzero((before >= 0) & (greatest[np.maximum(before, 0)] > token))
    return [(int(rows[np.argmax(token[: before[place] + 1])]), int(rows[place])) for place in low.tolist()]
