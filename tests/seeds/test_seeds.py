"""The simulated quorum queue keeps its promises under every fault, and a run can be repeated from its seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from chaos import scenario
from chaos.model.verdict import Verdict
from tests.seeds.runs import ALL_NEMESES, data, judge_all, run


def test_a_seed_gives_the_same_digest_in_every_process(tmp_path: object) -> None:
    code = (
        "import json, sys; from tests.seeds.runs import data, run;"
        "print(json.dumps([run(data(seed, time='30s')).history.digest() for seed in (1, 2)]))"
    )
    digests = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for hash_seed in ("1", "271828")
    ]
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[0][1]


@pytest.mark.parametrize("kind", ["delay", "loss", "corrupt", "duplicate", "reorder", "rate"])
def test_packets_hurt_in_any_way_are_met_and_break_no_promise(kind: str) -> None:
    nemeses: list[str | dict[str, Any]] = [{"name": "packets", "kinds": [kind], "clients": True}, "partition"]
    judged = judge_all([data(seed, nemeses=nemeses, time="30s") for seed in (1, 2)])
    assert [(one.verdict, dict(one.why)) for one in judged] == [(Verdict.VALID, {})] * 2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_without_one_fault_the_rows_before_it_are_the_same(seed: int) -> None:
    told = data(seed, nemeses=("partition", "kill", "pause"), time="45s")
    schedule = scenario.plan(scenario.from_data(told))
    whole = run(told, schedule).history
    for fault in schedule.faults:
        without = run(told, schedule.without(fault.id)).history
        injected = next(row for row in whole.rows("inject").tolist() if whole.key[row] == fault.id)
        for row in range(injected):
            assert whole[row] == without[row]
        assert whole.digest() != without.digest()


def test_twenty_short_seeds_under_all_faults() -> None:
    judged = judge_all(data(seed, time="30s", rate=30) for seed in range(1, 21))
    assert [seed for seed in judged if seed.verdict is Verdict.INVALID] == []
    assert sum(seed.verdict is Verdict.VALID for seed in judged) >= 18


@pytest.mark.long
def test_two_hundred_seeds_under_all_faults() -> None:
    judged = judge_all(data(seed) for seed in range(1, 201))
    assert [seed for seed in judged if seed.verdict is Verdict.INVALID] == []
    assert sum(seed.verdict is Verdict.VALID for seed in judged) >= 190


@pytest.mark.parametrize("nemesis", ALL_NEMESES)
def test_each_fault_alone_bites_and_is_survived(nemesis: str) -> None:
    judged = judge_all([data(1, nemeses=(nemesis,), time="40s", rate=30)])
    assert [(seed.verdict, dict(seed.why)) for seed in judged] == [(Verdict.VALID, {})]
