"""One seed is one sequence of events, in any process."""

import os
import subprocess
import sys
from pathlib import Path


def events(seed: int, hash_seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.simulated.events", str(seed)]
    return subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True, text=True).stdout


def test_the_same_seed_gives_the_same_events_whatever_the_hash_seed() -> None:
    first = events(7, 1)
    assert int(first.split()[2]) > 1000
    assert events(7, 2) == first
    assert events(8, 1) != first
