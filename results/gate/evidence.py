"""What a gate judges: what a suite was to run, with what the tables have of each of its runs. Read without Spark."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos.expectation import Expectation, Judgement, Seen
from chaos.model.verdict import Verdict
from chaos.quarantine import Quarantine
from results.store import RUNNING
from results.suite_runs import Cell, Key, Line, SuiteRun
from results.tables.load import Loaded

_COLUMNS = (
    "run", "broker", "version", "on", "created", "status", "commit", "verdict", "confirmed_under_faults",
    "outage", "recovery", "failover", "duplicated", "faults",
)  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """A seed's last attempt, as the tables have it. `kinds`: its anomalies, "checker.kind". `bit`: the nemeses, and the
    kinds of fault, that were seen to bite. Numbers are None where a run has none."""

    line: Line
    broker: str
    version: str | None
    on: str
    created: datetime
    commit: str | None
    seen: Seen
    confirmed_under_faults: int | None
    outage: int | None
    recovery: int | None
    failover: int | None
    duplicated: int | None
    faults: int | None
    bit: frozenset[str]

    @property
    def verdict(self) -> Verdict:
        return self.seen.verdict


@dataclass(frozen=True)
class Evidence:
    """All there is of a suite's run. `missing`: planned and never run. `lost`: run, and not kept. `unread`: kept, and
    not in the tables as they ended. `rejected`: could not be read, and why."""

    run: SuiteRun
    ran: Mapping[str, tuple[Ran, ...]]
    missing: tuple[Key, ...] = ()
    lost: tuple[Line, ...] = ()
    unread: tuple[str, ...] = ()
    rejected: Mapping[str, str] = field(default_factory=dict)

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self.run.plan.cells

    @property
    def runs(self) -> list[Ran]:
        """Of all cells, in order."""
        return [one for cell in self.cells for one in self.ran[cell.cell]]

    def expectation(self, cell: Cell) -> Expectation:
        return Expectation.from_json(cell.expect)

    def judge(self, cell: Cell) -> Judgement:
        """Whether the cell is as expected, or can still be where runs of it are not here."""
        repeat = self.run.plan.repeat
        return self.expectation(cell).judge([one.seen for one in self.ran[cell.cell]], len(cell.seeds) * repeat, repeat)

    def excused(self, cell: Cell, today: date) -> bool:
        """Whether a quarantine holds."""
        return cell.quarantine is not None and Quarantine.from_json(cell.quarantine).holds(today)


def evidence(run: SuiteRun, tables: Loaded) -> Evidence:
    """What the tables have of a suite's run. Raises SplitbrainError where they cannot be read."""
    plan = run.plan
    measures = {cell.cell: measure for cell in plan.cells if (measure := cell.expect.get("measure"))}
    lines = run.last
    kept = {line.run: line for line in lines.values() if line.run is not None}
    rows = _rows(tables, run, kept)
    kinds, numbers = shown(tables, kept, _where(run, kept), with_numbers=bool(measures))
    bit = _bit(tables, run, kept)
    rejected = {
        row["run"]: row["reason"]
        for row in tables.rejected.to_arrow(["run", "reason"]).to_pylist()
        if row["run"] in kept
    }
    ran: dict[str, list[Ran]] = {cell.cell: [] for cell in plan.cells}
    lost, unread = [], []
    for key in plan.planned():
        line = lines.get(key)
        if line is None:
            continue
        if line.run is None:
            lost.append(line)
        elif line.run in rows and rows[line.run]["status"] != RUNNING:
            number = numbers.get(line.run, {}).get(measures.get(line.cell, ""))
            row = rows[line.run]
            seen = Seen(line.seed, _verdict(row["verdict"]), tuple(kinds[line.run]), line.why, number, line.versus)
            more = {name: row[name] for name in _COLUMNS if name not in ("run", "status", "verdict")}
            ran[line.cell].append(Ran(line=line, seen=seen, bit=frozenset(bit[line.run]), **more))
        elif line.run not in rejected:
            unread.append(line.run)
    every = {cell: tuple(each) for cell, each in ran.items()}
    return Evidence(run, every, tuple(run.missing), tuple(lost), tuple(unread), rejected)


def _verdict(word: str | None) -> Verdict:
    """Of a run without one nothing is known."""
    return Verdict(word) if word in (Verdict.VALID, Verdict.INVALID) else Verdict.UNKNOWN


def _where(run: SuiteRun, kept: Iterable[str]) -> pc.Expression:
    """What spares opening files of other days and scenarios; a run's id begins with its day."""
    days = {f"{name[:4]}-{name[4:6]}-{name[6:8]}" for name in kept}
    return within(days, {cell.scenario for cell in run.plan.cells})


def within(days: Iterable[str], scenarios: Iterable[str]) -> pc.Expression:
    """Rows of these days and scenarios, by which tables are parted."""
    here = pc.field("day").isin(pa.array(sorted(days), pa.string()))
    return here & pc.field("scenario").isin(pa.array(sorted(scenarios), pa.string()))


def _rows(tables: Loaded, run: SuiteRun, kept: Mapping[str, Line]) -> dict[str, dict[str, Any]]:
    found = tables.runs.to_arrow(_COLUMNS, _where(run, kept)).to_pylist()
    return {row["run"]: row for row in found if row["run"] in kept}


def shown(
    tables: Loaded, kept: Collection[str], where: pc.Expression, *, with_numbers: bool
) -> tuple[Mapping[str, list[str]], Mapping[str, dict[str, float]]]:
    """Of each of these runs, its kinds of anomalies, and, where asked, its checkers' numbers, "checker.name"."""
    columns = ["run", "checker", "kinds", *(["counts", "metrics"] if with_numbers else [])]
    kinds: dict[str, list[str]] = defaultdict(list)
    numbers: dict[str, dict[str, float]] = defaultdict(dict)
    for row in tables.verdicts.to_arrow(columns, where).to_pylist():
        if row["run"] not in kept:
            continue
        kinds[row["run"]] += [f"{row['checker']}.{kind}" for kind, _ in row["kinds"] or ()]
        if with_numbers:
            told = {**json.loads(row["metrics"] or "{}"), **dict(row["counts"] or ())}
            numbers[row["run"]] |= {
                f"{row['checker']}.{name}": float(value)
                for name, value in told.items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            }
    return kinds, numbers


def _bit(tables: Loaded, run: SuiteRun, kept: Mapping[str, Line]) -> Mapping[str, set[str]]:
    bit: dict[str, set[str]] = defaultdict(set)
    where = _where(run, kept) & pc.field("bit")
    for row in tables.faults.to_arrow(["run", "nemesis", "kind"], where).to_pylist():
        bit[row["run"]] |= {word for word in (row["nemesis"], row["kind"]) if word}
    return bit
