"""Is every element that was added to a set in its final read, and no other? Jepsen's `set`.

After `jepsen.checker/set`: the final read is the last one that returned. Not as there: an element whose add was
acknowledged only after the final read had begun need not be in it, so that it is *unread* and not lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chaos.model.history import History
from chaos.model.op import INVOKE, OK
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers.base import first, several
from checkers.columns import granted, indices
from checkers.objects import Element, ObjectChecker, element, elements, in_order, plain, read_answers, told


class Set(ObjectChecker):
    """Jepsen's: every acknowledged `add` is in the final `read`, and nothing in it that no add attempted.

    Counts: `attempts`; `acknowledged`; `ok`, read and attempted; `lost`; `unexpected`; `recovered`, read though nobody
    knew whether the add had succeeded; `unread`, acknowledged after the final read began, and not in it. Metrics: the
    elements of all four.
    """

    name = "set"
    fs = ("add", "read")
    others = ("remove", "contains", "write", "cas")

    def judge(self, ops: History, options: Mapping[str, Any]) -> Result:
        attempts = dict.fromkeys(elements(ops, ops.rows("add", INVOKE)))
        rows = ops.rows("add", OK)
        acked = dict(zip(elements(ops, rows), rows.tolist(), strict=True))
        reads = read_answers(ops, list)
        final, seen = -1, dict[Element, None]()
        for row, answer in zip(*reads, strict=True) if reads else ():
            if answer is not None:
                final, seen = row, dict.fromkeys(map(element, answer))
        begun = int(granted(ops, np.array([final]))[0]) if final >= 0 else -1
        missing = {one: row for one, row in acked.items() if one not in seen} if final >= 0 else {}
        lost = [one for one, row in missing.items() if row < begun]
        found = {
            "lost": lost,
            "unexpected": [one for one in seen if one not in attempts],
            "recovered": [one for one in seen if one in attempts and one not in acked],
            "unread": [one for one, row in missing.items() if row >= begun],
        }
        counts = {
            "attempts": len(attempts),
            "acknowledged": len(acked),
            "ok": sum(one in attempts for one in seen),
            **{kind: len(some) for kind, some in found.items()},
        }
        metrics = {kind: told(some) for kind, some in found.items()}
        anomalies = [
            Anomaly("lost", f"{plain(one)!r} was added, and is not in the final read", _ops(ops, acked[one], final))
            for one in in_order(lost)[:ANOMALIES_KEPT]
        ]
        anomalies += [
            Anomaly("unexpected", f"{plain(one)!r} is in the final read, and was never added", _ops(ops, final))
            for one in in_order(found["unexpected"])[:ANOMALIES_KEPT]
        ]
        if reads is None:
            verdict, reason = Verdict.NOT_APPLICABLE, "its reads do not answer with elements"
        elif not attempts and final < 0:
            verdict, reason = Verdict.NOT_APPLICABLE, "nothing was added to a set"
        elif final < 0:
            verdict, reason = Verdict.UNKNOWN, "the set was never read"
        elif anomalies:
            verdict = Verdict.INVALID
            reason = f"{len(lost):,} lost and {counts['unexpected']:,} unexpected of {len(acked):,} added"
        elif found["unread"]:
            late = several(len(found["unread"]), "element")
            verdict, reason = Verdict.UNKNOWN, f"{late} added after the final read had begun"
        else:
            verdict, reason = Verdict.VALID, f"none lost of {len(acked):,} added"
        return Result(self.name, verdict, reason, counts, first(anomalies), metrics)


def _ops(ops: History, *ends: int) -> tuple[int, ...]:
    return indices(ops, *ends, *(int(ops.invocation[end]) for end in ends))
