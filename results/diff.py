"""Two runs side by side: what they were, what became of them, and where their histories part.

Everything is from their directories: nothing is judged again. What is a pair has the first run's value, then the
second's; None stands for what one of them has not.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from chaos.model.errors import BadInput, SplitbrainError
from chaos.model.history import History
from chaos.model.op import Op
from chaos.model.schedule import Fault, Schedule
from results.parting import parting
from results.store import RunDirectory

Pair = tuple[Any, Any]

SIMULATED = "simulated"
BEFORE, AFTER = 2, 3  # ops that are told before the histories part, and of each from there on

# What checkers measured, by where they leave it; in ns but for the rate.
FIGURES: Mapping[str, tuple[str, ...]] = {
    "confirms a second": ("availability", "rate"),
    "confirm, median": ("latency", "confirm", "all", "p50"),
    "confirm, 99th percentile": ("latency", "confirm", "all", "p99"),
    "confirm, slowest": ("latency", "confirm", "all", "max"),
    "delivery, median": ("latency", "delivery", "all", "p50"),
    "delivery, 99th percentile": ("latency", "delivery", "all", "p99"),
    "longest outage": ("availability", "longest_gap"),
    "longest recovery": ("availability", "longest_recovery"),
    "longest without a leader": ("leaders", "longest_vacancy"),
}


@dataclass(frozen=True)
class Parting:
    """Where the histories part: at `row`, after so many ops in common, of which the last few are `common`; `ops`: what
    each has from there on. None of it where they are the same."""

    row: int | None
    common: tuple[Op, ...] = ()
    ops: tuple[tuple[Op, ...], tuple[Op, ...]] = ((), ())

    def to_json(self) -> dict[str, Any]:
        return {
            "same": self.row is None,
            "row": self.row,
            "common": [_op(op) for op in self.common],
            "ops": [[_op(op) for op in ops] for ops in self.ops],
        }


@dataclass(frozen=True)
class Checked:
    """A checker of which the runs do not say the same. counts: those that differ."""

    valid: Pair
    reason: Pair
    counts: Mapping[str, Pair]


@dataclass(frozen=True)
class Diff:
    """What differs. The keys of settings and versions are dotted. faults: by id, those that differ, whole.

    anomalies: how many of each kind, where that differs; only: of the anomalies that are kept, those of one run alone,
    each as (kind, message). parting: None where histories of their kind cannot be the same; `unparted` says why then.
    """

    runs: tuple[str, str]
    records: tuple[Mapping[str, Any], Mapping[str, Any]]
    valid: Pair
    settings: Mapping[str, Pair]
    versions: Mapping[str, Pair]
    planned: tuple[int, int]
    faults: Mapping[str, tuple[Fault | None, Fault | None]]
    checkers: Mapping[str, Checked]
    anomalies: Mapping[str, Pair]
    only: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
    figures: Mapping[str, Pair]
    parting: Parting | None
    unparted: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": [{"run": run, **record} for run, record in zip(self.runs, self.records, strict=True)],
            "valid": self.valid,
            "settings": self.settings,
            "versions": self.versions,
            "schedule": {
                "planned": self.planned,
                "faults": {
                    name: [None if fault is None else asdict(fault) for fault in pair]
                    for name, pair in self.faults.items()
                },
            },
            "checkers": {name: asdict(checked) for name, checked in self.checkers.items()},
            "anomalies": self.anomalies,
            "only": [[{"kind": kind, "message": message} for kind, message in side] for side in self.only],
            "figures": self.figures,
            "parting": None if self.parting is None else self.parting.to_json(),
            "unparted": self.unparted,
        }


def diff(one: RunDirectory, other: RunDirectory) -> Diff:
    """What differs between two runs. What one of them left nothing of is as if it were empty."""
    pair = (one, other)
    records = _both(pair, lambda run: run.read_json(run.record))
    verdicts = _both(pair, lambda run: run.read_json(run.verdict))
    schedules = _both(pair, _schedule)
    faults = _both(schedules, lambda schedule: {fault.id: fault for fault in schedule.faults})
    checkers = _both(verdicts, lambda verdict: verdict.get("checkers", {}))
    kept = _both(checkers, _kept)
    parted, unparted = _parting(pair, records, verdicts)
    return Diff(
        (one.id, other.id),
        records,
        _both(verdicts, lambda verdict: verdict.get("valid")),
        _differing(*_both(pair, _settings)),
        _differing(*_both(pair, lambda run: _flat(run.read_json(run.versions)))),
        _both(schedules, lambda schedule: len(schedule.faults)),
        _differing(*faults),
        _checkers(*checkers),
        _differing(*_both(checkers, _anomalies), missing=0),
        (_only(kept[0], kept[1]), _only(kept[1], kept[0])),
        {name: found for name, path in FIGURES.items() if (found := _figure(checkers, path)) != (None, None)},
        parted,
        unparted,
    )


def _both(pair: tuple[Any, Any], of: Callable[[Any], Any]) -> tuple[Any, Any]:
    return of(pair[0]), of(pair[1])


def _differing(one: Mapping[str, Any], other: Mapping[str, Any], missing: Any = None) -> dict[str, Pair]:
    """Where the two do not say the same, in the order in which they say it."""
    names = dict.fromkeys([*one, *other])
    pairs = {name: (one.get(name, missing), other.get(name, missing)) for name in names}
    return {name: found for name, found in pairs.items() if found[0] != found[1]}


def _settings(run: RunDirectory) -> dict[str, Any]:
    try:
        return _flat(tomllib.loads(run.scenario.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _flat(data: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Tables in tables as one, with dotted keys; tables in a list are numbered from 1: nemesis.1.kinds."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            found |= _flat(value, f"{name}.")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value, 1):
                found |= _flat(item, f"{name}.{number}.")
        else:
            found[name] = value
    return found


def _schedule(run: RunDirectory) -> Schedule:
    try:
        return Schedule.loads(run.schedule.read_text(encoding="utf-8"))
    except (OSError, ValueError, BadInput):
        return Schedule()


def _checkers(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Checked]:
    found = {}
    for name, (ours, theirs) in _differing(one, other).items():
        pair = (ours or {}, theirs or {})
        valid = _both(pair, lambda result: result.get("valid"))
        reason = _both(pair, lambda result: result.get("reason"))
        counts = _differing(*_both(pair, lambda result: result.get("counts", {})))
        if valid[0] != valid[1] or reason[0] != reason[1] or counts:
            found[name] = Checked(valid, reason, counts)
    return found


def _anomalies(checkers: Mapping[str, Any]) -> dict[str, int]:
    """How many of each kind: by the checker's counts, since only some of each kind are kept."""
    found = {}
    for name, result in checkers.items():
        for kind, number in Counter(anomaly["kind"] for anomaly in result["anomalies"]).items():
            found[f"{name}.{kind}"] = max(number, result["counts"].get(kind, 0))
    return found


def _kept(checkers: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (f"{name}.{anomaly['kind']}", anomaly["message"])
        for name, result in checkers.items()
        for anomaly in result["anomalies"]
    ]


def _only(ours: list[tuple[str, str]], theirs: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    known = set(theirs)
    return tuple(anomaly for anomaly in ours if anomaly not in known)


def _figure(checkers: tuple[Any, Any], path: tuple[str, ...]) -> Pair:
    def of(results: Mapping[str, Any]) -> Any:
        found: Any = results.get(path[0], {}).get("metrics", {})
        for key in path[1:]:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    return _both(checkers, of)


def _parting(
    pair: tuple[RunDirectory, RunDirectory], records: tuple[Any, Any], verdicts: tuple[Any, Any]
) -> tuple[Parting | None, str | None]:
    """Where the histories part; or why that is not asked."""
    if any(record.get("on") != SIMULATED for record in records):
        return None, "not both are simulated, and on real nodes no two histories are the same"
    if records[0].get("seed") != records[1].get("seed"):
        return None, "their seeds differ, so they have nothing in common"
    digests = [verdict.get("digest") for verdict in verdicts]
    if digests[0] is not None and digests[0] == digests[1]:
        return Parting(None), None
    try:
        one, other = _both(pair, lambda run: run.history())
    except SplitbrainError as error:
        return None, str(error)
    row = parting(one, other)
    if row is None:
        return Parting(None), None
    ahead = (_ops(one, row, row + AFTER), _ops(other, row, row + AFTER))
    return Parting(row, _ops(one, row - BEFORE, row), ahead), None


def _ops(history: History, first: int, after: int) -> tuple[Op, ...]:
    return tuple(history[row] for row in range(max(first, 0), min(after, len(history))))


def _op(op: Op) -> dict[str, Any]:
    return {name: value for name, value in asdict(op).items() if value is not None} | {"type": str(op.type)}
