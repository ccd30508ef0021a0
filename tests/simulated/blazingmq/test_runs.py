"""Whole runs under many faults: what the checkers say of each consistency."""

from typing import Any

import pytest

from chaos import scenario
from chaos.model.verdict import Verdict
from chaos.search.trial import Trial, trial
from tests.seeds import runs

FAULTS = ("partition", "kill", "pause", "restart")
ISOLATED = ({"name": "partition", "kinds": ["leader"]},)


def run(seed: int, *nemeses: Any, workload: Any = None, checkers: Any = None, **settings: Any) -> Trial:
    told = runs.data(seed, nemeses=nemeses or FAULTS, workload=workload, **settings)
    told["cluster"]["broker"] = "blazingmq"
    told["checkers"] = checkers or {}
    return trial(scenario.from_data(told))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_strong_consistency_keeps_every_promise(seed: int) -> None:
    assert run(seed).verdict is Verdict.VALID


def test_polling_several_queues_keeps_every_promise() -> None:
    assert run(1, workload={"consume": "mixed", "queues": 2}).verdict is Verdict.VALID


def test_eventual_consistency_loses_under_an_isolated_leader_and_leads_one_term_at_a_time() -> None:
    checkers = {"leaders": {"dual_confirm": False}}
    done = run(1, *ISOLATED, workload={"consume": "none"}, consistency="eventual", checkers=checkers)
    assert "messages.lost" in done.anomalies
    assert done.results["leaders"].verdict is Verdict.VALID
    assert done.results["leaders"].counts["dual-confirm"] > 0
    assert done.results["leaders"].metrics["longest_overlap"] > 10**8
    assert done.results["exceptions"].verdict is Verdict.VALID  # to exit by itself is no crash


def test_the_same_under_strong_consistency_loses_nothing_and_confirms_through_one_leader() -> None:
    done = run(1, *ISOLATED)
    assert done.verdict is Verdict.VALID
    assert done.results["leaders"].metrics["longest_overlap"] > 10**8
    assert done.results["leaders"].counts["dual-confirm"] == 0
