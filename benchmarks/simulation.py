"""How many virtual seconds a second: 3 nodes, 500 publishes/s and their consumption, under partitions, on one core."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from chaos import scenario
from chaos.controller import execute
from chaos.model.op import OK
from chaos.progress import Silent
from results.ledger import Ledger

RUNS = 5
SCENARIO = {
    "schema": 1,
    "name": "benchmark",
    "cluster": {"broker": "rabbitmq-quorum", "on": "simulated", "nodes": 3},
    "workload": {"name": "queue", "rate": 500, "time": "60s"},
    "nemesis": [{"name": "partition"}],
}


def main() -> None:
    """Five runs, each in a process of its own so that its peak memory is its own; the median is what to quote."""
    print("| seed | seconds | virtual s / s | events / s | ops | confirmed | peak MB |")
    print("|---|---|---|---|---|---|---|")
    rates = []
    for seed in range(1, RUNS + 1):
        command = [sys.executable, "-m", "benchmarks.simulation", str(seed)]
        figures = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        rates.append(figures["virtual"] / figures["seconds"])
        print(
            f"| {seed} | {figures['seconds']:.1f} | {rates[-1]:.1f} | {figures['events'] / figures['seconds']:,.0f} "
            f"| {figures['ops']:,} | {figures['confirmed']:,} | {figures['peak']:.0f} |",
            flush=True,
        )
    print(
        f"\nmedian: {sorted(rates)[RUNS // 2]:.1f} virtual seconds a second (at least 5, aim 15; memory under 300 MB)"
    )


def once(seed: int) -> dict[str, float]:
    """The figures of one run."""
    planned = scenario.from_data({**SCENARIO, "seed": seed})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        begun = time.process_time()
        outcome = execute(
            planned,
            scenario.plan(planned),
            run="benchmark",
            stream=path / "history.arrows",
            nodes=path / "nodes",
            ledger=Ledger(path / "ledger.jsonl"),
            progress=Silent(),
        )
        seconds = time.process_time() - begun
    history = outcome.history
    return {
        "seconds": seconds,
        "virtual": float(history.time[-1]) / 1e9,
        "events": outcome.events,
        "ops": len(history),
        "confirmed": len(history.rows("publish", OK)),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    json.dump(once(int(sys.argv[1])), sys.stdout)
