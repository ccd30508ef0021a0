"""Positive controls: with one rule of the protocol off, the checker that should find it does, within fifty seeds."""

from __future__ import annotations

import pytest

from chaos.model.verdict import Verdict
from clusters.simulated.quorum_queue import MUTATIONS
from tests.seeds.runs import data, judge_all

SEEDS = 50
BATCH = 4

# Each mutation: the faults that bring it to light, and what must be found. "none" is no mutation.
CONTROLS = {
    "confirm-before-commit": (("partition", "kill"), ("messages.lost",)),
    "no-fsync": (("power-off",), ("messages.lost",)),
    "vote-twice": (("partition", "kill", "loss"), ("leaders.two-leaders", "messages.lost")),
    "ignore-log-up-to-date": (("partition", "kill"), ("messages.lost",)),
    "serve-after-losing-majority": (("partition",), ("messages.lost", "leaders.dual-confirm")),
}


def test_every_mutation_has_a_control() -> None:
    assert sorted([*CONTROLS, "none"]) == sorted(MUTATIONS)


@pytest.mark.long
@pytest.mark.parametrize("mutation", CONTROLS)
def test_a_mutation_is_found_by_the_checker_that_should(mutation: str) -> None:
    nemeses, expected = CONTROLS[mutation]
    for first in range(1, SEEDS + 1, BATCH):
        for seed in judge_all(
            data(seed, nemeses=nemeses, rate=100, mutation=mutation) for seed in range(first, first + BATCH)
        ):
            if seed.verdict is Verdict.INVALID:
                assert any(anomaly in expected for anomaly in seed.anomalies), (seed.seed, seed.why)
                return
    pytest.fail(f"{mutation}: none of {SEEDS} seeds is invalid")


@pytest.mark.long
@pytest.mark.parametrize("mutation", CONTROLS)
def test_without_the_mutation_the_same_seeds_are_not_invalid(mutation: str) -> None:
    nemeses, _ = CONTROLS[mutation]
    judged = judge_all(data(seed, nemeses=nemeses, rate=100) for seed in range(1, 9))
    assert [seed for seed in judged if seed.verdict is Verdict.INVALID] == []
