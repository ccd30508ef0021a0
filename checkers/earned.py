"""Was the pass earned? A run that hurt nobody, or asked for nothing, shows nothing.

Says *unknown* where the run did not do what it was meant to do, so that no other checker's *valid* stands alone; and
*invalid* where progress was forbidden (a majority was down) and a publish was confirmed all the same. Of workloads that
do not publish, what they ask to be changed stands for that: a write, a cas, an add, an acquire, a new id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chaos.model.history import History
from chaos.model.op import CONTROLLER, INFO, OK
from chaos.model.settings import Setting, choice, duration
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers.base import Checker, first, several
from checkers.columns import changes, indices
from checkers.faults import FaultSpan, faults, inside, merged, unresolved

REQUIRED, FORBIDDEN, ANY = "required", "forbidden", "any"
BITE, NONE = "bite", "none"


class Earned(Checker):
    """Whether faults bit and publishes were confirmed, as the scenario says that they must.

    Kinds. not-serving: the cluster did not come back. cut: the history is not whole. controller-failed.
    With faults = "bite": no-fault: none took place; did-not-bite: one had no effect; not-undone: so nobody knows
    whether it bit; untraced: of none is it known that it bit, though of some (`bit` null) nobody could tell: they leave
    no trace, or what they were to hurt, a clock say, was down all the while. With faults = "none":
    unasked-fault. With progress = "required": nothing-confirmed. With progress = "forbidden": forbidden-progress
    (invalid): a publish invoked and confirmed while faults were surely in force, from `grace` after they were;
    nothing-asked: none was even invoked then, and no connection refused; nothing-confirmed, at no time: then it shows
    nothing that none was.
    """

    name = "earned"
    settings = (
        Setting(
            "progress",
            choice(REQUIRED, FORBIDDEN, ANY),
            REQUIRED,
            "publishes must be confirmed in the run, or must not be while the faults are in force, or either",
        ),
        Setting(
            "faults",
            choice(BITE, NONE, ANY),
            BITE,
            "faults must take place and each have an effect, or none may take place, or either",
        ),
        Setting("grace", duration, "1s", "how long forbidden progress is let pass after a fault is in force"),
    )

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        spans = faults(history)
        doubts = [*_of_the_run(history), *_of_the_faults(history, spans, options["faults"])]
        published = changes(history)
        ok = published.confirmed
        what = " or ".join(history.f.words[code] for code in np.unique(history.f.codes[published.row])) or "publish"
        several_of = "publishes" if what == "publish" else f"of {what}"
        counts = {
            "confirmed": int(ok.sum()),
            "faults": len(spans),
            "bit": sum(span.bit is True for span in spans),
            "untraced": sum(span.undone and span.bit is None for span in spans),
            "unresolved": len(unresolved(history)),
            "forbidden-progress": 0,
        }
        if options["progress"] != ANY and not ok.any():
            doubts.append(Anomaly("nothing-confirmed", f"no {what} was confirmed in the whole run"))
        if options["progress"] == FORBIDDEN:
            barred = merged(
                (span.start + options["grace"], span.undoing)
                for span in spans
                if span.start + options["grace"] < span.undoing
            )
            begun = history.time[published.row]
            ended = np.where(published.end >= 0, history.time[published.end], begun)
            bad = np.flatnonzero(ok & inside(barred, begun, ended))
            counts["forbidden-progress"] = len(bad)
            if len(bad):
                first_ones = bad[np.argsort(published.row[bad], kind="stable")][:ANOMALIES_KEPT]
                told = first(_forbidden(history, int(published.row[at]), int(published.end[at])) for at in first_ones)
                reason = f"{len(bad):,} {several_of} confirmed while that was forbidden"
                return Result(self.name, Verdict.INVALID, reason, counts, told)
            refused = history.time[history.rows("open", INFO)]  # a broker that is gone is not even asked
            if not inside(barred, begun, begun).any() and not inside(barred, refused, refused).any():
                asked = "nothing was published" if what == "publish" else f"no {what} was asked for"
                doubts.append(Anomaly("nothing-asked", f"{asked} while progress was forbidden"))
        if doubts:
            reason = "; ".join(dict.fromkeys(doubt.message for doubt in doubts))
            return Result(self.name, Verdict.UNKNOWN, reason, counts, first(doubts))
        reason = f"{counts['confirmed']:,} confirmed under {several(counts['faults'], 'fault')}"
        return Result(self.name, Verdict.VALID, reason, counts)


def _of_the_run(history: History) -> list[Anomaly]:
    doubts = []
    if history.cut is not None:
        doubts.append(Anomaly("cut", f"the history is cut: {history.cut}"))
    for row in history.rows("serve", INFO).tolist():
        why = history.error[row]
        doubts.append(
            Anomaly("not-serving", f"the cluster did not come back{f': {why}' if why else ''}", indices(history, row))
        )
    for row in np.flatnonzero(history.f.is_("error") & (history.process == CONTROLLER)).tolist():
        doubts.append(
            Anomaly("controller-failed", f"the run itself failed: {history.error[row]}", indices(history, row))
        )
    return doubts


def _of_the_faults(history: History, spans: tuple[FaultSpan, ...], expected: str) -> list[Anomaly]:
    if expected == NONE:
        rows = history.rows("inject", OK, INFO).tolist()
        return [
            Anomaly(
                "unasked-fault", f"fault {history.key[row]} took place, and none was expected", indices(history, row)
            )
            for row in rows
        ]
    if expected == ANY:
        return []
    if not spans:
        tried = unresolved(history)
        why = f" ({history.error[tried[0]]})" if tried and history.error[tried[0]] else ""
        return [Anomaly("no-fault", f"no fault took place{why}", indices(history, *tried[:ANOMALIES_KEPT]))]
    doubts = []
    for span in spans:
        if not span.undone:
            said = f"fault {span.id} was not undone, so nobody knows whether it bit"
            doubts.append(Anomaly("not-undone", said, span.ops))
        elif span.bit is False:
            doubts.append(Anomaly("did-not-bite", f"fault {span.id} had no effect", span.ops))
    if not doubts and not any(span.bit for span in spans):
        ops = [op for span in spans for op in span.ops][:ANOMALIES_KEPT]
        doubts.append(Anomaly("untraced", "of no fault is it known that it had an effect", tuple(ops)))
    return doubts


def _forbidden(history: History, begun: int, ended: int) -> Anomaly:
    f, node, value = history.f[begun], history.node[begun], int(history.value[begun])
    what = f"message {value} was published" if f == "publish" else f"{f} of {history.key[begun]} was asked for"
    when = f"{history.time[ended] / 1e9:.3f} s, while faults were in force that forbid it"
    said = f"{what} through {node} and confirmed at {when}"
    return Anomaly("forbidden-progress", said, indices(history, begun, ended))
