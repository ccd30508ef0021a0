"""Positive controls: with one rule of the protocol off, the checker that should find it does, within fifty seeds."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.verdict import Verdict
from clusters.simulated.quorum.queue import MUTATIONS
from tests.seeds.runs import data, judge_all

SEEDS = 50
BATCH = 4

# Each mutation: a scenario that gives it the chance to do harm, and what must be found. "none" is no mutation.
CONTROLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "confirm-before-commit": ({"nemeses": ("partition", "kill")}, ("messages.lost",)),
    # polling leaves confirmed messages in the queue for a while, which is where a loss of power finds them
    "no-fsync": (
        {"nemeses": ({"name": "power-off", "targets": ["all", "majority"]},), "workload": {"consume": "polling"}},
        ("messages.lost",),
    ),
    # slow links make candidates of one term meet
    "vote-twice": (
        {
            "nemeses": (
                {"name": "kill", "targets": ["leader"], "every": "5s", "for": "2s", "start": "3s", "jitter": "1s"},
            ),
            "latency": "40ms",
            "jitter": "40ms",
        },
        ("leaders.two-leaders",),
    ),
    # where all forget, terms begin again from the first one
    "forget-term": ({"nemeses": ({"name": "kill", "targets": ["all"]},)}, ("leaders.two-leaders",)),
    "ignore-log-up-to-date": ({"nemeses": ("partition", "kill")}, ("messages.lost",)),
    # a message that comes again needs its consumer to lose its connection
    "forget-acks": ({"nemeses": ("kill",)}, ("linearizable.redelivered-after-ack",)),
    # all poll, and slowly, so that there is something in the queue
    "empty-when-deposed": (
        {"nemeses": ("partition",), "workload": {"consume": "polling"}},
        ("linearizable.empty-though-not",),
    ),
    "serve-all": ({"nemeses": ("kill",), "workload": {"single_active": True}}, ("single-active.two-active",)),
    # the old leader, cut off with one of five, takes the three others out, who elect one of themselves
    "many-changes-at-once": (
        {
            "nemeses": (),
            "nodes": 5,
            "time": "30s",
            "faults": (
                {"nemesis": "partition", "kind": "halves", "target": "n1+n2", "at": "8s", "for": "12s"},
                {"nemesis": "members", "kind": "shrink", "target": "n3+n4+n5", "at": "8500ms", "for": "4s"},
            ),
            "workload": {"consume": "none", "drain": "10s"},
        },
        ("leaders.dual-confirm", "messages.lost"),
    ),
    "serve-after-losing-majority": ({"nemeses": ("partition",)}, ("messages.lost", "leaders.dual-confirm")),
}


def test_every_mutation_has_a_control() -> None:
    assert sorted([*CONTROLS, "none"]) == sorted(MUTATIONS)


@pytest.mark.parametrize("mutation", CONTROLS)
def test_a_mutation_is_found_by_the_checker_that_should(mutation: str) -> None:
    told, expected = CONTROLS[mutation]
    for first in range(1, SEEDS + 1, BATCH):
        for seed in judge_all(data(seed, rate=100, mutation=mutation, **told) for seed in range(first, first + BATCH)):
            if seed.verdict is Verdict.INVALID:
                assert any(anomaly in expected for anomaly in seed.anomalies), (seed.seed, seed.why)
                return
    pytest.fail(f"{mutation}: none of {SEEDS} seeds is invalid")


@pytest.mark.long
@pytest.mark.parametrize("mutation", CONTROLS)
def test_without_the_mutation_the_same_seeds_are_not_invalid(mutation: str) -> None:
    told, _ = CONTROLS[mutation]
    judged = judge_all(data(seed, rate=100, **told) for seed in range(1, 9))
    assert [seed for seed in judged if seed.verdict is Verdict.INVALID] == []
