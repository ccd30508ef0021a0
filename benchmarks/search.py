"""How many seeds a minute are explored; and how many virtual seconds a second, of each simulated protocol."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

from chaos import scenario
from chaos.model import registry
from chaos.search.explore import explore
from chaos.search.spread import cores, spread
from chaos.search.trial import trial

SEEDS = 40
RUNS = 5
MIRRORED = "rabbitmq-mirrored"
WITHOUT = ("null",)  # no protocol


def main() -> None:
    """Wall-clock rates suffer from whatever else the machine does; those by processor time do less."""
    base = scenario.from_data(told(MIRRORED))
    print(f"{MIRRORED}, 3 nodes, 30 virtual seconds, 100 publishes/s, partitions and kills; runs and checks\n")
    print("| jobs | faults in play | seeds | seconds | seeds a minute and core | by processor time |")
    print("|---|---|---|---|---|---|")
    for jobs in dict.fromkeys((1, cores())):
        for swarm in (True, False):
            begun, worked = time.monotonic(), time.process_time()
            for _ in explore(base, range(1, SEEDS + 1), spread=partial(spread, jobs=jobs), swarm=swarm, done={}):
                pass
            seconds, worked = time.monotonic() - begun, time.process_time() - worked
            own = f"{60 * SEEDS / worked:.0f}" if jobs == 1 else ""  # else others did the work
            row = f"{SEEDS} | {seconds:.1f} | {60 * SEEDS / seconds / jobs:.0f} | {own}"
            print(f"| {jobs} | {'drawn' if swarm else 'all'} | {row} |", flush=True)
    print("\nat least 100\n\n| protocol | virtual s / s, median of 5 seeds | lowest | highest | seconds a run |")
    print("|---|---|---|---|---|")
    for broker in registry.names(registry.SIMULATIONS):
        if broker not in WITHOUT:
            rates, lengths = zip(*(once(broker, seed) for seed in range(1, RUNS + 1)), strict=True)
            figures = f"{median(rates):.0f} | {min(rates):.0f} | {max(rates):.0f} | {median(lengths):.2f}"
            print(f"| {broker} | {figures} |", flush=True)
    print("\n(by processor time, checks included)")


def told(broker: str, seed: int = 1) -> dict[str, Any]:
    """The scenario, of any broker."""
    return {
        "schema": 1,
        "name": "benchmark",
        "seed": seed,
        "cluster": {"broker": broker, "on": "simulated", "nodes": 3},
        "workload": {"name": "queue", "rate": 100, "time": "30s"},
        "nemesis": [{"name": "partition"}, {"name": "kill"}],
    }


def once(broker: str, seed: int) -> tuple[float, float]:
    """Virtual seconds a second, and the seconds that one run took."""
    planned = scenario.from_data(told(broker, seed))
    begun = time.process_time()
    history = trial(planned).outcome.history
    seconds = time.process_time() - begun
    return float(history.time[-1]) / 1e9 / seconds, seconds
