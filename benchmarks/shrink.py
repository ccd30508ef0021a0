"""How long it takes to shrink the loss under autoheal: 3 nodes, 100 publishes/s for a minute, one node cut off."""

from __future__ import annotations

import time
from itertools import count

from chaos import scenario
from chaos.model.errors import BadInput
from chaos.scenario import plan
from chaos.search.shrink import explicit, shrink
from chaos.search.spread import cores

ANOMALY = "messages.lost"
RUNS = 5
SCENARIO = {
    "schema": 1,
    "name": "benchmark",
    "cluster": {
        "broker": "rabbitmq-mirrored",
        "on": "simulated",
        "nodes": 3,
        "settings": {"cluster_partition_handling": "autoheal"},
    },
    "workload": {"name": "queue", "rate": 100, "time": "60s", "consumers": 1, "consume": "polling"},
    "nemesis": [{"name": "partition", "kinds": ["one"], "for": "20s", "every": "20s", "quiet": "0s"}],
}


def main() -> None:
    """The first five seeds that lose, on all cores. The time includes running the scenario as it was."""
    print("| seed | faults | messages | tried | seconds | left: faults | nodes | messages | virtual s |")
    print("|---|---|---|---|---|---|---|---|---|")
    times: list[float] = []
    for seed in count(1):
        if len(times) == RUNS:
            break
        planned = scenario.from_data({**SCENARIO, "seed": seed})
        begun = time.monotonic()
        try:
            before = explicit(planned, plan(planned), ANOMALY)
        except BadInput:  # this seed loses nothing
            continue
        after = shrink(before, ANOMALY, jobs=cores(), budget=600).after
        times.append(time.monotonic() - begun)
        print(
            f"| {seed} | {len(before.case.faults)} | {before.published:,} | {after.tried} | {times[-1]:.1f} "
            f"| {len(after.case.faults)} | {after.case.cluster.nodes} | {after.published} "
            f"| {after.case.workload.time_ns / 1e9:g} |",
            flush=True,
        )
    print(
        f"\nlongest: {max(times):.0f} s on {cores()} cores "
        "(at most 120, to one partition, three nodes and five messages)"
    )
