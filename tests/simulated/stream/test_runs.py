"""Whole runs under faults: streams keep their promises, each broken rule is found, and a seed is one history."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from chaos import scenario
from chaos.model.verdict import Verdict
from chaos.search.trial import trial
from tests.seeds.runs import run
from tests.simulated.stream.made import data


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_streams_keep_their_promises_under_every_fault_but_the_loss_of_power(seed: int) -> None:
    done = trial(scenario.from_data(data(seed)))
    assert done.verdict is Verdict.VALID, done.results
    assert done.results["streams"].counts["polled"] > 500


@pytest.mark.parametrize(
    ("mutation", "seed", "kinds"),
    [
        ("confirm-at-once", 1, {"lost-write"}),
        ("read-uncommitted", 1, {"lost-write", "inconsistent-offsets"}),
        ("elect-by-offset", 1, {"lost-write", "inconsistent-offsets"}),
        ("keep-tail", 1, {"inconsistent-offsets"}),
    ],
)
def test_each_rule_that_is_broken_is_found(mutation: str, seed: int, kinds: set[str]) -> None:
    told = data(seed, "partition", "kill", time="60s", mutation=mutation)
    done = trial(scenario.from_data(told))
    assert done.verdict is Verdict.INVALID
    assert {f"streams.{kind}" for kind in kinds} <= set(done.anomalies)


def test_a_reader_that_hangs_misses_the_limit_that_a_scenario_sets() -> None:
    """Who was out of the coordinator's reach hangs until it connects again: after `stay`, or never."""
    longest = {}
    for stay in ("0s", "5s"):
        told = data(1, {"name": "partition", "kinds": ["halves"]}, workload={"stay": stay, "start": "tracked"})
        told["checkers"] = {"streams": {"max_lag": "25s"}}
        done = trial(scenario.from_data(told)).results["streams"]
        longest[stay] = done.metrics["worst_realtime_lag"]["lag"]
        assert (done.counts["max_lag"] == 1) == (longest[stay] > 25 * 10**9)
    assert longest["0s"] > longest["5s"]


@pytest.mark.parametrize(("version", "lost"), [("3.10", True), ("4.0", False)])
def test_what_is_sent_again_after_later_ones_were_written_is_confirmed_and_lost(version: str, lost: bool) -> None:
    """As on real nodes: docs/findings.md."""
    path = Path(__file__).parents[3] / "suites" / "stream-cut-then-kill.toml"
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    told["cluster"]["broker"] += f"@{version}"
    done = trial(scenario.from_data(told | {"seed": 1}))
    assert set(done.anomalies) == {"streams.max_lag"} | ({"streams.lost-write", "streams.unseen"} if lost else set())


def test_several_streams_polled_only() -> None:
    done = trial(scenario.from_data(data(1, "kill", workload={"streams": 2, "consume": "polling", "consumers": 4})))
    assert done.verdict is Verdict.VALID
    assert done.results["streams"].counts["logs"] == 2


def digest(seed: int) -> str:
    return run(data(seed, time="20s")).history.digest()


def in_a_process(seed: int, hash_seed: int) -> str:
    code = f"from tests.simulated.stream.test_runs import digest; print(digest({seed}))"
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def test_the_same_seed_gives_the_same_history_whatever_the_hash_seed() -> None:
    first = digest(3)
    assert in_a_process(3, 1) == in_a_process(3, 2) == first
    assert digest(4) != first
