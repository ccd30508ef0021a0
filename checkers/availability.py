"""How much of the time did the broker serve, and how soon did it again after each fault?

Measures always; judges only limits that the scenario sets. A limit that was missed while the controller itself stalled
is *unknown*: the broker may not be to blame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.model.history import History, Ints
from chaos.model.op import INVOKE
from chaos.model.settings import Setting, duration, format_duration, number, optional
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.base import Checker, first
from checkers.columns import Rows, deliveries, indices, publishes
from checkers.faults import FaultSpan, faults, inside, merged, stalls, touches

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Missed:
    """A limit that was missed; stalled: the controller was late just then."""

    anomaly: Anomaly
    stalled: bool


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long after a fault was undone (at `healed`, ns) a publish invoked after that was first confirmed.

    ns: at least so long if `row`, the confirm, is None: another fault came, or nothing more was asked.
    """

    fault: FaultSpan
    ns: int
    row: int | None


class Availability(Checker):
    """Rates of confirms and deliveries, longest time without a confirm, recovery after faults, progress under them.

    Time counts from the first publish to the last. Counts: `confirmed`, `delivered`, `confirmed-under-faults` (invoked
    and confirmed while a fault was surely in force), `windows` of the setting's length that lie wholly under faults and
    `windows-with-progress` among them, with a confirm; `nodes` through which publishes were confirmed. Metrics: `rate`
    (confirms a second), `longest_gap` (ns) and `longest_gap_at`, `longest_recovery` (ns), `recovery`: a list of {fault,
    ns, recovered}; and `series`: {start, window, confirmed, delivered}.
    """

    name = "availability"
    settings = (
        Setting("window", duration, "1s", "the length of a window of the series, and of progress under faults"),
        Setting("recovery", optional(duration), None, "longest time from the undoing of a fault to a new confirm"),
        Setting("longest_gap", optional(duration), None, "longest time without a confirm, faults or not"),
        Setting("min_rate", optional(number(0)), None, "least confirmed publishes a second, over the whole run"),
        Setting("min_progress", optional(number(0, 1)), None, "least fraction of windows under faults with a confirm"),
    )

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        limits = [name for name in ("recovery", "longest_gap", "min_rate", "min_progress") if options[name] is not None]
        published = publishes(history)
        if not len(published):
            verdict = Verdict.UNKNOWN if limits else Verdict.NOT_APPLICABLE
            return Result(self.name, verdict, "nothing was published", {"confirmed": 0, "delivered": 0})
        spans, late, window = faults(history), stalls(history), options["window"]
        ok = published.confirmed
        begun, confirms = published.row[ok], np.sort(published.end[ok])
        start, finish = _asked(history, published.row, confirms)
        took = deliveries(history)
        under = inside(
            merged((span.start, span.undoing) for span in spans), history.time[begun], history.time[published.end[ok]]
        )
        gaps = _Gaps(history, confirms, start, finish)
        windows, progress = _progress(history, confirms, spans, late, start, finish, window)
        healed = (_recovery(history, begun, published.end[ok], finish, span, spans) for span in spans)
        recoveries = [found for found in healed if found is not None]
        rate = len(confirms) * SECOND / max(finish - start, 1)
        counts = {
            "confirmed": len(confirms),
            "delivered": len(took),
            "confirmed-under-faults": int(under.sum()),
            "windows": windows,
            "windows-with-progress": progress,
            "nodes": len(np.unique(history.node.codes[begun])),
        }
        longest = int(np.argmax(gaps.lengths))
        metrics = {
            "rate": rate,
            "longest_gap": int(gaps.lengths[longest]),
            "longest_gap_at": int(gaps.times[longest]),
            "longest_recovery": max((r.ns for r in recoveries), default=0),
            "recovery": [{"fault": r.fault.id, "ns": r.ns, "recovered": r.row is not None} for r in recoveries],
            "series": _series(history, confirms, took, start, finish, window),
        }
        missed: list[Missed] = []
        judged = [name for name in limits if name in ("longest_gap", "min_rate")]
        if options["longest_gap"] is not None:
            missed += gaps.beyond(options["longest_gap"], late)
        if options["min_rate"] is not None and rate < options["min_rate"]:
            said = f"{rate:.1f} publishes a second were confirmed, fewer than {options['min_rate']:g}"
            missed.append(Missed(Anomaly("min_rate", said), _stalled(late, start, finish)))
        if options["min_progress"] is not None and windows:
            judged.append("min_progress")
            if progress < options["min_progress"] * windows:
                least = f"{options['min_progress']:g}"
                said = f"{progress:,} of {windows:,} windows under faults had a confirm, less than {least}"
                missed.append(Missed(Anomaly("min_progress", said), False))
        if options["recovery"] is not None:
            known = [found for found in recoveries if found.row is not None or found.ns > options["recovery"]]
            judged += ["recovery"] if known else []
            missed += _too_slow(history, known, options["recovery"], late)
        return _conclude(limits, judged, missed, counts, metrics)


def _conclude(
    limits: list[str], judged: list[str], missed: list[Missed], counts: dict[str, int], metrics: dict[str, Any]
) -> Result:
    name = Availability.name
    told = first(miss.anomaly for miss in missed if not miss.stalled)
    if told:
        return Result(name, Verdict.INVALID, told[0].message, counts, told, metrics)
    if missed:
        told = first(miss.anomaly for miss in missed)
        return Result(
            name, Verdict.UNKNOWN, f"the controller stalled meanwhile: {told[0].message}", counts, told, metrics
        )
    if not limits:
        return Result(name, Verdict.NOT_APPLICABLE, "measured only: no limit is set", counts, (), metrics)
    if not judged:
        return Result(name, Verdict.NOT_APPLICABLE, f"nothing to measure {', '.join(limits)} by", counts, (), metrics)
    return Result(name, Verdict.VALID, f"within limits: {', '.join(judged)}", counts, (), metrics)


def _asked(history: History, begun: Rows, confirms: Rows) -> tuple[int, int]:
    """When the first publish was invoked; and when one was last invoked, confirmed, or tried for while at work."""
    last = [int(history.time[begun.max()]), *history.time[confirms[-1:]].tolist()]
    over = [row for row in history.rows("phase").tolist() if history.detail(row).get("name") == "undo"]
    if over:
        opens = history.rows("open", INVOKE)
        last += history.time[opens[opens < over[0]]][-1:].tolist()
    return int(history.time[begun.min()]), max(last)


def _stalled(late: Ints, start: int, end: int) -> bool:
    return bool(touches(late, np.array([start]), np.array([end]))[0])


class _Gaps:
    """The times without a confirm, from the first publish to the end of asking."""

    def __init__(self, history: History, confirms: Rows, start: int, finish: int) -> None:
        self._history = history
        self._rows = np.concatenate([[-1], confirms, [-1]])
        self.times = np.concatenate([[start], history.time[confirms], [finish]])
        self.lengths = np.diff(self.times)

    def beyond(self, limit: int, late: Ints) -> Iterator[Missed]:
        for at in np.flatnonzero(self.lengths > limit).tolist():
            since, until = int(self.times[at]), int(self.times[at + 1])
            said = f"no publish was confirmed for {_said(until - since)} from {since / SECOND:.3f} s on"
            ops = indices(self._history, int(self._rows[at]), int(self._rows[at + 1]))
            anomaly = Anomaly("longest_gap", f"{said} (limit {format_duration(limit)})", ops)
            yield Missed(anomaly, _stalled(late, since, until))


def _progress(
    history: History, confirms: Rows, spans: tuple[FaultSpan, ...], late: Ints, start: int, finish: int, window: int
) -> tuple[int, int]:
    """How many windows lie wholly under faults and free of stalls, and how many of these have a confirm."""
    begins = np.arange(start, finish - window + 1, window, dtype=np.int64)
    under = merged((span.start, span.undoing) for span in spans)
    counted = inside(under, begins, begins + window) & ~touches(late, begins, begins + window)
    per_window = np.bincount((history.time[confirms] - start) // window, minlength=len(begins))[: len(begins)]
    return int(counted.sum()), int((counted & (per_window > 0)).sum())


def _recovery(
    history: History, begun: Rows, ended: Rows, finish: int, span: FaultSpan, spans: tuple[FaultSpan, ...]
) -> Recovery | None:
    """After a fault; None where nobody can tell: not undone, another in force, or nothing asked after it."""
    if not span.undone or any(other.asked <= span.end < other.end for other in spans if other is not span):
        return None
    quiet = min([finish, *(other.asked for other in spans if other.asked > span.end)])
    if quiet <= span.end:
        return None
    after = np.flatnonzero((history.time[begun] > span.end) & (history.time[ended] <= quiet))
    if not len(after):
        return Recovery(span, quiet - span.end, None)
    row = int(ended[after].min())
    return Recovery(span, int(history.time[row]) - span.end, row)


def _too_slow(history: History, recoveries: list[Recovery], limit: int, late: Ints) -> Iterator[Missed]:
    for found in recoveries:
        if found.ns > limit:
            least = "" if found.row is not None else "at least "
            said = f"after fault {found.fault.id} was undone it took {least}{_said(found.ns)} to a new confirm"
            ops = found.fault.ops + (() if found.row is None else indices(history, found.row))
            anomaly = Anomaly("recovery", f"{said} (limit {format_duration(limit)})", ops)
            yield Missed(anomaly, _stalled(late, found.fault.end, found.fault.end + found.ns))


def _series(history: History, confirms: Rows, took: Rows, start: int, finish: int, window: int) -> dict[str, Any]:
    end = max(finish, int(history.time[took[-1]])) if len(took) else finish
    size = (end - start) // window + 1

    def per_window(rows: Rows) -> list[int]:
        counted: list[int] = np.bincount(np.maximum(history.time[rows] - start, 0) // window, minlength=size).tolist()
        return counted

    return {"start": start, "window": window, "confirmed": per_window(confirms), "delivered": per_window(took)}


def _said(ns: int) -> str:
    return f"{ns / SECOND:.3f} s"
