"""The suites that come with the project: each can be read, and none of its cases is refused where it is to run."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from chaos.controller import refuse
from chaos.scenario import plan
from chaos.suite import load

SUITES = Path(__file__).parents[2] / "suites"
FILES = [path for path in sorted(SUITES.glob("*.toml")) if "scenario" in tomllib.loads(path.read_text())]


def test_there_are_some() -> None:
    assert {"claims.toml", "blazingmq-nightly.toml"} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_suite_can_be_run_as_it_is(path: Path) -> None:
    for row in load(path).rows:
        for case in row.cases:
            refuse(case.scenario, plan(case.scenario))
