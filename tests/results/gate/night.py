"""A night that opens every gate, to be spoilt in one way at a time: a suite's run with its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chaos.expectation import Expectation
from chaos.model.verdict import Verdict
from results.gate.evidence import Evidence, evidence
from results.gate.policy import Policy, load
from results.suite_runs import Cell, Line, Plan, begin, find
from results.tables.load import load as load_tables
from tests.results.tables.made import make

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SEEDS = (1, 2, 3, 4, 5, 6)
S = 1_000_000_000

POLICY = """schema = 1
suite = "nightly"
age = "36h"
commit = "3ba4bb8"
unknown = "10%"
quarantined = 0

[[scenario]]
cell = "steady"
broker = "rabbitmq-quorum@4.0"
on = "docker"
seeds = 5
confirmed_under_faults = 1000
faults = ["partition", "kill"]
outage = "12s"
recovery = "20s"
duplicated = 10

[[control]]
cell = "loses"
anomaly = "messages.lost"
seeds = 3

[baseline]
suite_run = "before"
measures = ["pass", "outage"]
"""

FINE = Expectation(Verdict.VALID, (), 0.8)
LOST = Expectation(Verdict.INVALID, ("messages.lost",), 2)


def cell(row: str, label: str, expect: Expectation) -> Cell:
    id_ = f"{row} [{label}]" if label else row
    told = (expect.says(), expect.to_json())
    return Cell(id_, row, label, row, "rabbitmq-quorum", "4.0", "docker", "", "", *told, SEEDS, "d")


@dataclass
class Night:
    """What a suite's run is made of. Keys of the rows are (cell, seed)."""

    id: str = "night"
    created: datetime = NOW - timedelta(hours=10)
    suite: str = "nightly"
    shard: tuple[int, int] = (1, 1)
    cells: list[Cell] = field(
        default_factory=lambda: [
            cell("steady", "nodes=3", FINE),
            cell("steady", "nodes=5", FINE),
            cell("loses", "", LOST),
        ]
    )
    lines: dict[tuple[str, int], Line] = field(default_factory=dict)
    runs: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    kinds: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    bit: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    rejected: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for each in self.cells:
            for seed in SEEDS:
                self.ran(each, seed)

    def ran(self, each: Cell, seed: int) -> None:
        key = each.cell, seed
        loses = each.row == "loses"
        run = f"{self.created:%Y%m%d}-{self.id}-{each.cell.replace(' ', '')}-s{seed}"
        self.lines[key] = Line(each.cell, seed, 1, 1, run, "invalid" if loses else "valid")
        self.runs[key] = {
            "run": run, "day": f"{self.created:%Y-%m-%d}", "scenario": each.scenario, "suite_run": self.id,
            "cell": each.cell, "attempt": 1, "seed": seed, "broker": "rabbitmq-quorum", "version": "4.0.5",
            "on": "docker", "created": self.created, "status": "done", "commit": "3ba4bb8c2a" + "0" * 30,
            "verdict": "invalid" if loses else "valid", "confirmed_under_faults": 1000, "outage": 5 * S + seed,
            "recovery": 8 * S, "failover": None, "duplicated": 10, "faults": 2, "bitten": 2,
        }  # fmt: skip
        self.kinds[key] = ["lost"] if loses else []
        self.bit[key] = ["partition", "kill"]

    def verdict(self, name: str, seed: int, verdict: str, *kinds: str) -> None:
        self.runs[name, seed]["verdict"] = verdict
        self.kinds[name, seed] = list(kinds)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Their rows, by table."""
        rows: dict[str, list[dict[str, Any]]] = {"runs": [], "verdicts": [], "faults": [], "rejected": []}
        for key, run in self.runs.items():
            of = {name: run[name] for name in ("run", "day", "scenario")}
            if key in self.rejected:
                rows["rejected"].append({**of, "path": of["run"], "reason": "its history is no Parquet"})
                continue
            rows["runs"].append(run)
            rows["verdicts"].append({**of, "checker": "messages", "kinds": [(kind, 1) for kind in self.kinds[key]]})
            rows["verdicts"].append({**of, "checker": "earned", "kinds": []})
            rows["faults"] += [
                {**of, "fault": "f", "nemesis": name, "kind": name, "bit": True} for name in self.bit[key]
            ]
            rows["faults"].append({**of, "fault": "g", "nemesis": "clock", "kind": "jump", "bit": None})
        return rows

    def record(self, store: Path) -> None:
        plan = Plan(
            self.id,
            self.suite,
            "nightly.toml",
            self.created.isoformat(),
            "0.1.0",
            "3ba4bb8",
            tuple(self.cells),
            self.shard,
        )
        with begin(store, plan) as recorder:
            for line in self.lines.values():
                recorder.add(line)


Change = Callable[[Night], None]


def write(store: Path, change: Change | None = None, before: Change | None = None) -> None:
    """The store of a night, and of one the week before."""
    nights = [Night("before", NOW - timedelta(days=7)), Night()]
    for night, spoil in zip(nights, (before, change), strict=True):
        if spoil is not None:
            spoil(night)
        night.record(store)
    tables = [night.tables() for night in nights]
    make(store, **{name: [row for each in tables for row in each[name]] for name in tables[0]})


def gate(store: Path, text: str = POLICY) -> tuple[Policy, Evidence, Evidence]:
    """The policy, and the evidence of both."""
    file = store / "gate.toml"
    file.write_text(text)
    tables = load_tables(store)
    return load(file), evidence(find(store, "night"), tables), evidence(find(store, "before"), tables)


def drop(night: Night, name: str, *seeds: int) -> None:
    """These were never planned."""
    for seed in seeds:
        for rows in (night.lines, night.runs, night.kinds, night.bit):
            rows.pop((name, seed))
    night.cells = [
        replace(each, seeds=tuple(seed for seed in each.seeds if seed not in seeds)) if each.cell == name else each
        for each in night.cells
    ]


def rename(night: Night, row: str, other: str) -> None:
    """Another row altogether."""
    for each in [each for each in night.cells if each.row == row]:
        drop(night, each.cell, *SEEDS)
        night.cells.remove(next(left for left in night.cells if left.cell == each.cell))
        fresh = cell(other, each.label, Expectation.from_json(each.expect))
        night.cells.append(fresh)
        for seed in SEEDS:
            night.ran(fresh, seed)
            night.runs[fresh.cell, seed] |= {"verdict": "invalid" if row == "loses" else "valid"}
            night.kinds[fresh.cell, seed] = ["lost"] if row == "loses" else []
