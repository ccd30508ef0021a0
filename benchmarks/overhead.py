"""What recording costs: operations a second against a broker that is no broker, in real time, all of it on disk."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from chaos import scenario
from chaos.controller import execute
from chaos.model.op import INVOKE
from chaos.model.schedule import Schedule
from chaos.progress import Silent
from results.ledger import Ledger

RUNS = 5
SCENARIO = {
    "schema": 1,
    "name": "overhead",
    "cluster": {"broker": "null", "on": "simulated", "nodes": 3},
    "workload": {"name": "queue", "rate": 20_000, "time": "5s"},
}


def main() -> None:
    """Five runs of five seconds. An operation is a publish, a consume or an ack, with its completion."""
    print("| run | operations | seconds | operations / s |")
    print("|---|---|---|---|")
    rates = []
    for number in range(1, RUNS + 1):
        operations, seconds = once()
        rates.append(operations / seconds)
        print(f"| {number} | {operations:,} | {seconds:.2f} | {rates[-1]:,.0f} |", flush=True)
    print(f"\nmedian: {sorted(rates)[RUNS // 2]:,.0f} operations a second recorded (at least 10,000)")


def once() -> tuple[int, float]:
    """How many operations were invoked and recorded, in how many seconds."""
    planned = scenario.from_data(SCENARIO)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        begun = time.monotonic()
        outcome = execute(
            planned,
            Schedule(),
            run="benchmark",
            stream=path / "history.arrows",
            nodes=path / "nodes",
            ledger=Ledger(path / "ledger.jsonl"),
            progress=Silent(),
            real=True,
        )
        seconds = time.monotonic() - begun
    history = outcome.history
    return sum(len(history.rows(f, INVOKE)) for f in ("publish", "consume", "ack")), seconds
