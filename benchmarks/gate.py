"""How long a gate takes over a suite's run of 1,000 checked runs, held to another such, in a store of thirty nights."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.expectation import Expectation
from chaos.model.verdict import Verdict
from results.suite_runs import Cell, Line, Plan, begin
from results.tables.manifest import FOLDER, File, Manifest, Tables
from results.tables.schema import TABLES

SCENARIOS, SEEDS, NIGHTS = 20, 50, 30
CHECKERS = ("messages", "order", "leaders", "availability", "latency", "replicas", "exceptions", "earned")
TIMES = 5
NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
POLICY = """schema = 1
suite = "nightly"
[[scenario]]
cell = "s*"
broker = "rabbitmq-quorum@4.0"
seeds = 50
confirmed_under_faults = 1000
faults = ["partition", "kill"]
outage = "12s"
recovery = "20s"
duplicated = 10
[baseline]
suite_run = "night-0"
measures = ["pass", "outage", "recovery"]
"""


def main() -> None:
    """Times of the whole command, the interpreter's start included: by the clock, and of the processor."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        make(store)
        (store / "gate.toml").write_text(POLICY)
        command = ["gate", f"night-{NIGHTS - 1}", "--policy", str(store / "gate.toml"), "--store", folder]
        seconds, processor = [], []
        for _ in range(TIMES):
            begun, before = time.monotonic(), os.times()
            code = "import sys; from chaos.cli.main import main; main(sys.argv[1:])"
            done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
            seconds.append(time.monotonic() - begun)
            after = os.times()
            processor.append(sum(after[2:4]) - sum(before[2:4]))
            assert done.returncode == 0, done.stdout + done.stderr
    runs = SCENARIOS * SEEDS
    print(
        f"| runs judged | of the baseline | in the tables | s, median of {TIMES} | longest | processor | wanted |"
    )
    print("|---|---|---|---|---|---|---|")
    times = " | ".join(f"{each:.2f}" for each in (median(seconds), max(seconds), median(processor)))
    print(f"| {runs:,} | {runs:,} | {runs * NIGHTS:,} | {times} | 2 |")


def make(store: Path) -> None:
    """The records of the first night and the last, and the tables of all."""
    tables = Tables(store / FOLDER)
    files: dict[str, list[File]] = {name: [] for name in TABLES}
    for night in range(NIGHTS):
        when = NOW - timedelta(days=NIGHTS - night)
        if night in (0, NIGHTS - 1):
            record(store, f"night-{night}", when)
        for place in range(SCENARIOS):
            for name, rows in of(f"night-{night}", when, place).items():
                path = f"data/{name}/day={when:%Y-%m-%d}/scenario=s{place}/1.parquet"
                Path(tables.path(path)).parent.mkdir(parents=True)
                pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[name]), tables.path(path))
                size = Path(tables.path(path)).stat().st_size
                files[name].append(File(path, len(rows), size, f"{when:%Y-%m-%d}", f"s{place}"))
    tables.switch(Manifest(1, files=files))


def named(night: str, when: datetime) -> Iterator[tuple[str, str, int, str]]:
    for place in range(SCENARIOS):
        for seed in range(1, SEEDS + 1):
            yield f"s{place}", f"s{place}", seed, f"{when:%Y%m%d-%H%M%S}-{night}-s{place}-{seed}"


def record(store: Path, night: str, when: datetime) -> None:
    expect = Expectation(Verdict.VALID)
    cells = tuple(
        Cell(
            f"s{place}", f"s{place}", "", f"s{place}", "rabbitmq-quorum", "4.0", "docker", "", "",
            expect.says(), expect.to_json(), tuple(range(1, SEEDS + 1)), "",
        )
        for place in range(SCENARIOS)
    )  # fmt: skip
    with begin(store, Plan(night, "nightly", "nightly.toml", when.isoformat(), "0.1.0", None, cells)) as recorder:
        for cell, _, seed, run in named(night, when):
            recorder.add(Line(cell, seed, 1, 1, run, "valid"))
        recorder.finish()


def of(night: str, when: datetime, place: int) -> dict[str, list[dict[str, Any]]]:
    """The rows of one scenario in one night."""
    rows: dict[str, list[dict[str, Any]]] = {"runs": [], "verdicts": [], "faults": []}
    for _, scenario, seed, run in named(night, when):
        if scenario != f"s{place}":
            continue
        who = {"run": run, "day": f"{when:%Y-%m-%d}", "scenario": scenario}
        rows["runs"].append({
            **who, "suite_run": night, "cell": scenario, "seed": seed, "broker": "rabbitmq-quorum", "version": "4.0",
            "on": "docker", "created": when, "status": "done", "verdict": "valid",
            "confirmed_under_faults": 2000 + seed,
            "outage": (5 + seed % 3) * 10**9, "recovery": (8 + seed % 5) * 10**9, "duplicated": seed % 4, "faults": 6,
        })  # fmt: skip
        rows["verdicts"] += [
            {**who, "checker": name, "verdict": "valid", "reason": "", "counts": [("confirmed", 2000)], "kinds": [],
             "metrics": '{"series": [' + ", ".join("1" * 500) + "]}"}
            for name in CHECKERS
        ]  # fmt: skip
        rows["faults"] += [
            {**who, "fault": f"{name}-{number}", "nemesis": name, "kind": name, "bit": True}
            for name in ("partition", "kill")
            for number in range(3)
        ]
    return rows
