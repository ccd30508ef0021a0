"""What each seed draws: within what the scenario allows, the same for the same seed, and runnable."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos import scenario
from chaos.scenario import Scenario, plan
from chaos.search.swarm import FACTORS, draw
from tests.seeds.runs import ALL_NEMESES, data


def base(*nemeses: str | dict[str, Any], **told: Any) -> Scenario:
    return scenario.from_data(data(1, nemeses=nemeses, **told))


NEMESES = st.lists(st.sampled_from(ALL_NEMESES), min_size=1, max_size=5)


@given(nemeses=NEMESES, seed=st.integers(0, 10**6), time=st.sampled_from(["2s", "10s", "60s"]))
@settings(max_examples=60, deadline=None)
def test_what_is_drawn_is_a_part_of_the_scenario_and_can_run(nemeses: list[str], seed: int, time: str) -> None:
    whole = base(*nemeses, time=time)
    drawn = draw(whole, seed)
    assert drawn == draw(whole, seed)
    assert drawn.seed == seed
    assert (drawn.cluster, drawn.workload, drawn.checkers, drawn.expect) == (
        whole.cluster, whole.workload, whole.checkers, whole.expect,
    )  # fmt: skip
    assert plan(drawn).faults
    assert scenario.loads(drawn.dumps()) == drawn
    left = list(whole.nemeses)
    for part in drawn.nemeses:  # in the scenario's order
        while left[0].name != part.name:
            left.pop(0)
        told = left.pop(0).options
        for name, value in part.options.items():
            if isinstance(value, tuple):
                assert set(value) <= set(told[name])
                assert value
            elif name in ("every", "for"):
                assert any(abs(value - factor * told[name]) <= 10**6 for factor in FACTORS)
            else:
                assert value == told[name]


def test_seeds_differ_in_what_is_in_play() -> None:
    whole = base("partition", "kill", "pause")
    met = {tuple(part.name for part in draw(whole, seed).nemeses) for seed in range(60)}
    assert met == {
        ("partition",), ("kill",), ("pause",), ("partition", "kill"), ("partition", "pause"), ("kill", "pause"),
        ("partition", "kill", "pause"),
    }  # fmt: skip
    kinds = {kind for seed in range(60) for part in draw(whole, seed).nemeses for kind in part.options.get("kinds", ())}
    assert kinds == set(whole.nemeses[0].options["kinds"])
    assert {part.options["for"] for seed in range(60) for part in draw(base("kill"), seed).nemeses} == {
        2 * 10**9, 4 * 10**9, 8 * 10**9,
    }  # fmt: skip


def test_what_a_nemesis_draws_does_not_hang_on_the_others() -> None:
    alone, together = base("kill"), base("partition", "kill")
    for seed in range(30):
        (only,) = draw(alone, seed).nemeses
        kills = [part for part in draw(together, seed).nemeses if part.name == "kill"]
        assert kills in ([], [only])


def test_a_scenario_without_faults_stays_without() -> None:
    assert draw(base(), 7).nemeses == ()


def test_what_would_leave_no_fault_is_not_drawn() -> None:
    tight = base({"name": "kill", "every": "10s", "for": "4s", "start": "1s", "quiet": "1s", "jitter": "0s"}, time="6s")
    assert {draw(tight, seed).nemeses[0].options["for"] for seed in range(30)} == {2 * 10**9, 4 * 10**9}
