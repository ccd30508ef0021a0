"""One seed is one sequence of events, in any process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def events(seed: int, consistency: str, hash_seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "tests.simulated.blazingmq.events", str(seed), consistency]
    return subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("consistency", ["strong", "eventual"])
def test_the_same_seed_gives_the_same_events_whatever_the_hash_seed(consistency: str) -> None:
    first = events(7, consistency, 1)
    assert int(first.split()[2]) > 500
    assert events(7, consistency, 2) == first
    assert events(8, consistency, 1) != first
