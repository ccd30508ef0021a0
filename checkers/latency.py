"""How long from publish to confirm, and from publish to first delivery?

Quantiles by the nearest rank, so that each is the latency of some op. Measures always; judges only limits that the
scenario sets, and *unknown* where only what happened across a stall of the controller itself misses one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.model.history import History, Ints, Mask
from chaos.model.settings import Setting, choice, duration, format_duration, optional
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.base import Checker, first
from checkers.columns import Publishes, Rows, deliveries, indices, publishes
from checkers.faults import faults, merged, stalls, touches

QUANTILES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}
ALL, QUIET, FAULTED = "all", "quiet", "faulted"
JUDGED = ("p99", "max")


@dataclass(frozen=True)
class Sample:
    """Latencies of one measure: rows where each began and ended."""

    begun: Rows
    ended: Rows
    ns: Ints
    faulted: Mask  # a fault was in force at some moment between
    stalled: Mask  # so was a stall

    def part(self, phase: str) -> Mask:
        return {ALL: np.ones_like(self.faulted), QUIET: ~self.faulted, FAULTED: self.faulted}[phase]


class Latency(Checker):
    """Latencies in ns. Counts: `confirm` and `delivery`, how many of each were measured.

    Metrics: `confirm` and `delivery`, each {all, quiet, faulted: {count, p50, p95, p99, max}} (faulted: a fault was in
    force at some moment between), and `series`: {start, window, confirm, delivery}, each of these with a list a
    quantile, by the time of the publish, null where a window has none.
    """

    name = "latency"
    settings = (
        Setting("window", duration, "1s", "the length of a window of the series"),
        Setting("phase", choice(QUIET, FAULTED, ALL), QUIET, "where limits hold: away from faults, under them, or all"),
        Setting("confirm_p99", optional(duration), None, "limit: 99 of 100 confirms come within it"),
        Setting("confirm_max", optional(duration), None, "limit: every confirm comes within it"),
        Setting("delivery_p99", optional(duration), None, "limit: 99 of 100 first deliveries come within it"),
        Setting("delivery_max", optional(duration), None, "limit: every first delivery comes within it"),
    )

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        published = publishes(history)
        samples = {"confirm": _confirms(history, published), "delivery": _first_deliveries(history, published)}
        counts = {name: len(sample.ns) for name, sample in samples.items()}
        metrics: dict[str, Any] = {
            name: {phase: _summary(sample.ns[sample.part(phase)]) for phase in (ALL, QUIET, FAULTED)}
            for name, sample in samples.items()
        }
        start = int(history.time[published.row].min()) if len(published) else 0
        metrics["series"] = {"start": start, "window": options["window"]} | {
            name: _series(history, sample, start, options["window"]) for name, sample in samples.items()
        }
        limits = {
            (name, quantile): limit
            for name in samples
            for quantile in JUDGED
            if (limit := options[f"{name}_{quantile}"]) is not None
        }
        missed, doubted, judged = [], [], []
        for (name, quantile), limit in limits.items():
            sample = samples[name]
            part = sample.part(options["phase"])
            if not part.any():
                continue
            judged.append(f"{name}_{quantile}")
            sure = part & ~sample.stalled
            if _quantile(sample.ns[sure], quantile) > limit:
                missed.append(_too_slow(history, sample, sure, name, quantile, limit))
            elif _quantile(sample.ns[part], quantile) > limit:
                doubted.append(_too_slow(history, sample, part, name, quantile, limit))
        if missed:
            return Result(self.name, Verdict.INVALID, missed[0].message, counts, first(missed), metrics)
        if doubted:
            reason = f"the controller stalled meanwhile: {doubted[0].message}"
            return Result(self.name, Verdict.UNKNOWN, reason, counts, first(doubted), metrics)
        if not limits:
            return Result(self.name, Verdict.NOT_APPLICABLE, "measured only: no limit is set", counts, (), metrics)
        if not judged:
            reason = f"nothing to measure by: no latencies in phase {options['phase']!r}"
            return Result(self.name, Verdict.NOT_APPLICABLE, reason, counts, (), metrics)
        return Result(self.name, Verdict.VALID, f"within limits: {', '.join(judged)}", counts, (), metrics)


def _sample(history: History, begun: Rows, ended: Rows) -> Sample:
    start, end = history.time[begun], history.time[ended]
    faulted = touches(merged((span.asked, span.end) for span in faults(history)), start, end)
    return Sample(begun, ended, end - start, faulted, touches(stalls(history), start, end))


def _confirms(history: History, published: Publishes) -> Sample:
    ok = published.confirmed
    return _sample(history, published.row[ok], published.end[ok])


def _first_deliveries(history: History, published: Publishes) -> Sample:
    took = deliveries(history)
    at = published.find(history.value[took])
    ours = (at >= 0) & (published.home(at) == history.key.codes[took])
    which, place = np.unique(at[ours], return_index=True)
    return _sample(history, published.row[which], took[ours][place])


def _rank(count: Any, percent: int) -> Any:
    """Place, from 0, of a quantile among so many in order."""
    return (count * percent + 99) // 100 - 1


def _quantile(ns: Ints, name: str) -> int:
    return int(np.sort(ns)[_rank(len(ns), QUANTILES[name])]) if len(ns) else 0


def _summary(ns: Ints) -> dict[str, int | None]:
    ordered = np.sort(ns)
    found: dict[str, int | None] = {"count": len(ns)}
    for name, percent in QUANTILES.items():
        found[name] = int(ordered[_rank(len(ns), percent)]) if len(ns) else None
    return found


def _series(history: History, sample: Sample, start: int, window: int) -> dict[str, list[int | None]]:
    place = (history.time[sample.begun] - start) // window
    size = int(place.max(initial=-1)) + 1
    ordered = sample.ns[np.lexsort((sample.ns, place))]
    counted = np.bincount(place, minlength=size)
    begins = np.cumsum(counted) - counted
    found: dict[str, list[int | None]] = {}
    for name, percent in QUANTILES.items():
        at = (begins + _rank(counted, percent))[counted > 0]
        values: list[int | None] = [None] * size
        for slot, value in zip(np.flatnonzero(counted).tolist(), ordered[at].tolist(), strict=True):
            values[slot] = value
        found[name] = values
    return found


def _too_slow(history: History, sample: Sample, part: Mask, name: str, quantile: str, limit: int) -> Anomaly:
    """The limit that was missed, with the slowest op as its witness."""
    rows = np.flatnonzero(part)
    slowest = int(rows[np.argmax(sample.ns[rows])])
    took = _quantile(sample.ns[part], quantile)
    said = f"{name} {quantile} was {took / 1e6:.3f} ms, over the limit of {format_duration(limit)}"
    return Anomaly(f"{name}_{quantile}", said, indices(history, sample.begun[slowest], sample.ended[slowest]))
