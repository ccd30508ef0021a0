"""What went wrong beside the promises: brokers that crashed, log lines never normal, clients that failed oddly.

*crash*: a broker's process ended and no fault had asked for it. By default only that is held against the broker; the
others are reported. *failed-start*: the same of a process that had not come so far as to say what it believes of
leadership: some brokers give up starting when they cannot reach the others, and their supervisor tries again. *log*: a
line that the broker's adapter calls never normal. *client*: an operation whose error is not one that clients raise for
an unknown outcome or a refusal, but a failure of the client's own: it begins with the name of an exception, as in
"KeyError: 'tag'".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from chaos.model.history import History
from chaos.model.settings import Setting, choices
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers.base import Checker, first
from checkers.columns import Rows, indices

NOTHING = "nothing"
KINDS = ("crash", "failed-start", "log", "client")
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Warning|Exit|Interrupt): ?")


class Exceptions(Checker):
    """Crashes, log lines and failures of clients. Counts: one a kind. Metric `errors`: error text of clients -> count.

    Anomalies are those kinds that the setting `fail_on` names; of the others only the counts are given.
    """

    name = "exceptions"
    settings = (
        Setting(
            "fail_on",
            choices(*KINDS, NOTHING),
            ["crash"],
            "what makes a run invalid: crash (a broker ended unasked), failed-start (before it served), log (a line "
            "never normal), client, or nothing",
        ),
    )

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        ended = [row for row in history.rows("exit").tolist() if not history.detail(row).get("asked")]
        served = _served(history)
        found: dict[str, Rows] = {
            "crash": np.asarray([row for row in ended if _life(history, row) in served], dtype=np.intp),
            "failed-start": np.asarray([row for row in ended if _life(history, row) not in served], dtype=np.intp),
            "log": history.rows("log"),
            "client": _failures(history),
        }
        counts = {kind: len(rows) for kind, rows in found.items()}
        metrics = {"errors": _errors(history)}
        told = {kind: found[kind] for kind in options["fail_on"] if kind != NOTHING and len(found[kind])}
        if told:
            anomalies = first(
                _tell(history, kind, int(row)) for kind, rows in told.items() for row in rows[:ANOMALIES_KEPT]
            )
            reason = ", ".join(f"{counts[kind]:,} {kind}" for kind in told)
            return Result(self.name, Verdict.INVALID, reason, counts, anomalies, metrics)
        others = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        return Result(
            self.name, Verdict.VALID, f"reported only: {others}" if others else "nothing unusual", counts, (), metrics
        )


def _life(history: History, row: int) -> tuple[str | None, int]:
    return history.node[row], int(history.incarnation[row])


def _served(history: History) -> dict[tuple[str | None, int], None]:
    """The lives of brokers of which it is known that they served, and those of which nobody could tell: where no life
    of any node said anything."""
    rows = [*history.rows("leader").tolist(), *history.rows("belief").tolist()]
    said = {_life(history, row): None for row in rows if "role" in history.detail(row)}
    return said if said else {_life(history, row): None for row in history.rows("exit").tolist()}


def _failures(history: History) -> Rows:
    """Rows of clients whose error is an exception by name."""
    odd = [code for code, word in enumerate(history.error.words) if EXCEPTION.match(word)]
    return np.flatnonzero((history.process >= 0) & np.isin(history.error.codes, odd))


def _errors(history: History) -> dict[str, int]:
    codes = history.error.codes[(history.process >= 0) & (history.error.codes >= 0)]
    counted = np.bincount(codes, minlength=len(history.error.words)).tolist()
    return dict(Counter({word: n for word, n in zip(history.error.words, counted, strict=True) if n}).most_common())


def _tell(history: History, kind: str, row: int) -> Anomaly:
    where, what = history.node[row] or "a node", history.error[row] or "no reason given"
    if kind == "crash":
        said = f"the broker on {where} ended by itself: {what}"
    elif kind == "failed-start":
        said = f"the broker on {where} ended by itself before it served: {what}"
    elif kind == "log":
        said = f"{where} logged: {what}"
    else:
        said = f"a client of {where} failed in its {history.f[row]}: {what}"
    return Anomaly(kind, said, indices(history, int(history.invocation[row]), row))
