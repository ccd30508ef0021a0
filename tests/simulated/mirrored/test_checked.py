"""Whole runs, judged by the checker of messages: what autoheal loses is found, and pause_minority loses nothing."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.messages import Messages
from tests.seeds.runs import run

ONE_CUT = {"name": "partition", "kinds": ["one"], "every": "60s", "for": "15s"}
EVERYTHING = tuple({"name": name} for name in ("partition", "kill", "restart", "pause", "power-off", "loss", "clock"))


def counts(seed: int, handling: str, *nemeses: dict[str, Any], **workload: Any) -> dict[str, int]:
    """What the checker counts after half a minute."""
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
        "workload": {"name": "queue", "rate": 100, "time": "30s", **workload},
        "nemesis": list(nemeses),
    }
    history = run(told).history
    assert not history.rows("log").size  # no replica met what must not be
    return dict(Messages().check(history, {"delivery": "at-least-once", "delivery_limit": 0}).counts)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_cut_loses_under_autoheal_and_not_under_pause_minority(seed: int) -> None:
    backlog = {"consumers": 1, "consume": "polling"}
    assert counts(seed, "autoheal", ONE_CUT, **backlog)["lost"] > 100
    paused = counts(seed, "pause_minority", ONE_CUT, **backlog)
    assert (paused["lost"], paused["missing"]) == (0, 0)


@pytest.mark.parametrize("seed", range(1, 7))
def test_pause_minority_loses_nothing_under_any_fault_in_these_seeds(seed: int) -> None:
    assert counts(seed, "pause_minority", *EVERYTHING)["lost"] == 0
