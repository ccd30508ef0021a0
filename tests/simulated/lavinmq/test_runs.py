"""Whole runs under many faults: what the checkers say of each version."""

from typing import Any

import pytest

from chaos.model.verdict import Verdict
from checkers.run import check_all
from tests.seeds import runs

FAULTS = ("partition", "kill", "pause", "restart", {"name": "kill", "process": "etcd", "for": "6s"})


def verdicts(seed: int, version: str, **settings: Any) -> dict[str, Verdict]:
    told = runs.data(seed, nemeses=FAULTS, **settings)
    told["cluster"]["broker"] = f"lavinmq@{version}"
    results = check_all(runs.run(told).history, {"messages": {}, "leaders": {}, "exceptions": {}})
    return {name: result.verdict for name, result in results.items()}


@pytest.mark.parametrize("endpoints", ["local", "all"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_fenced_and_waiting_form_keeps_its_promise(seed: int, endpoints: str) -> None:
    assert verdicts(seed, "2.9", etcd_endpoints=endpoints) == dict.fromkeys(
        ("messages", "leaders", "exceptions"), Verdict.VALID
    )


def test_the_older_form_loses_and_is_found_out() -> None:
    found = [verdicts(seed, "2.1") for seed in (1, 2, 3)]
    assert any(verdict["messages"] is Verdict.INVALID for verdict in found)
    assert all(verdict["exceptions"] is Verdict.VALID for verdict in found)  # to exit by itself is no crash
