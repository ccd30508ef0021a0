"""The policies that come with the project ask for what their suites have."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from chaos import suite
from results.gate.policy import load

ROOT = Path(__file__).parents[3]
POLICIES = sorted((ROOT / "policies").glob("*.toml"))


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_a_policy_fits_its_suite(path: Path) -> None:
    policy = load(path)
    cells = [(row, case) for row in suite.load(ROOT / "suites" / f"{policy.suite}.toml").rows for case in row.cases]
    for wanted in policy.scenarios:
        asked = [(row, case) for row, case in cells if fnmatchcase(row.name, wanted.cell)]
        assert asked, wanted.cell
        for row, case in asked:
            cluster = case.scenario.cluster
            assert wanted.broker in (None, f"{cluster.broker}@{cluster.version}")
            assert wanted.on in (None, cluster.on)
            assert (wanted.seeds or 1) <= len(row.seeds)
            assert set(wanted.faults) <= {part.name for part in case.scenario.nemeses}
    for control in policy.controls:
        asked = [(row, case) for row, case in cells if fnmatchcase(row.name, control.cell)]
        assert asked, control.cell
        for row, _ in asked:
            assert control.anomaly in row.expect.anomalies
            assert control.seeds <= len(row.seeds)


def test_there_is_one() -> None:
    assert [path.stem for path in POLICIES] == ["smoke"]
