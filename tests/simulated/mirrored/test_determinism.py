"""One seed is one history, in any process; and a replica is its snapshot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.simulated.cluster import SimulatedCluster
from clusters.simulated.mirrored.replica import Mirror
from tests.seeds.runs import run
from tests.simulated.mirrored.made import Watcher, publish, replica, simulate

FAULTS = ("partition", "kill", "restart", "pause", "power-off", "loss")


def digest(seed: int, handling: str) -> str:
    """Of the history of half a minute with every kind of fault."""
    told = {
        "schema": 1,
        "name": "mirrored",
        "seed": seed,
        "cluster": {
            "broker": "rabbitmq-mirrored",
            "on": "simulated",
            "nodes": 3,
            "settings": {"cluster_partition_handling": handling},
        },
        "workload": {"name": "queue", "rate": 100, "time": "30s"},
        "nemesis": [{"name": name} for name in FAULTS],
    }
    return run(told).history.digest()


def in_a_process(seed: int, handling: str, hash_seed: int) -> str:
    code = f"from tests.simulated.mirrored.test_determinism import digest; print(digest({seed}, {handling!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("handling", ["ignore", "pause_minority", "autoheal"])
def test_the_same_seed_gives_the_same_history_whatever_the_hash_seed(handling: str) -> None:
    first = digest(3, handling)
    assert in_a_process(3, handling, 1) == in_a_process(3, handling, 2) == first
    assert digest(4, handling) != first


def test_a_replica_is_its_snapshot() -> None:
    async def main(cluster: SimulatedCluster, watcher: Watcher) -> None:
        client = await cluster.connect("n2", "c")
        await client.subscribe("q", 2, lambda delivery: None)
        await publish(cluster, "n2", "a", "b", "c")
        for node in cluster.nodes:
            there = replica(cluster, node)
            state = there.snapshot()
            hash(state)
            copy = Mirror(node, cluster.nodes, there.rules)
            copy.restore(state)
            assert copy.snapshot() == state

    simulate(main)
