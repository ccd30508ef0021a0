"""A policy as TOML: what is read, and every mistake in one line with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.model.errors import BadInput
from results.gate.policy import Baseline, Control, Policy, Wanted, load
from tests.results.gate.night import POLICY, S

LEAST = 'schema = 1\n[[scenario]]\ncell = "a"\n'


def policy(tmp_path: Path, text: str) -> Policy:
    file = tmp_path / "gate.toml"
    file.write_text(text)
    return load(file)


def test_what_a_policy_says(tmp_path: Path) -> None:
    assert policy(tmp_path, POLICY) == Policy(
        (Wanted("steady", "rabbitmq-quorum@4.0", "docker", 5, 1000, ("partition", "kill"), 12 * S, 20 * S, 10),),
        (Control("loses", "messages.lost", 3),),
        "nightly", 36 * 3600 * S, "3ba4bb8", 0.1, 0, 0, Baseline("before", 0.05, ("pass", "outage"), "suite"),
    )  # fmt: skip
    assert policy(tmp_path, LEAST) == Policy((Wanted("a"),))


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "schema: write schema = 1"),
        ("schema = 2", 1, "schema: write schema = 1"),
        ("schema = 1", 1, "scenario: it asks for nothing: which scenarios must have run?"),
        ("schema = 1\nscenario = []", 2, "scenario: it asks for nothing"),
        ("schema = 1\nscenario = 3", 2, "scenario: each is a table of its own; write [[scenario]]"),
        ("schema = 1\nunkown = '5%'\n", 2, "unknown rule 'unkown'; did you mean 'unknown'?"),
        ("schema = 1\nunknown = 5\n", 2, "unknown: 5 is not a share, such as \"5%\""),
        ("schema = 1\nunknown = '101%'\n", 2, "unknown: '101%' is not a share"),
        ("schema = 1\nage = 36\n", 2, "age: 36 is not a duration: write a number with a unit"),
        ("schema = 1\nage = '-1h'\n", 2, "age: '-1h' is below zero"),
        ("schema = 1\ncommit = 'main'\n", 2, "commit: 'main' is not a commit"),
        ("schema = 1\nrejected = -1\n", 2, "rejected: -1 is out of range"),
        ("schema = 1\nquarantined = true\n", 2, "quarantined: True is not a whole number"),
        ("schema = 1\n[[scenario]]\nseeds = 1", 2, "scenario[0].cell: missing: write cell"),
        (LEAST + "outtage = '1s'", 4, "scenario[0].outtage: unknown rule 'outtage'; did you mean 'outage'?"),
        (LEAST + "outage = 5", 4, "scenario[0].outage: 5 is not a duration"),
        (LEAST + "faults = []", 4, "scenario[0].faults: [] is not a list of names"),
        (LEAST + "on = 'dokcer'", 4, "'dokcer' is not one of them: did you mean 'docker'?"),
        (LEAST + "seeds = 0", 4, "scenario[0].seeds: 0 is out of range"),
        (LEAST + "[[control]]\ncell = 'b'", 4, "control[0].anomaly: missing: write anomaly ="),
        (LEAST + "[[control]]\ncell = 'b'\nanomaly = 'lost'", 6, "control[0].anomaly: 'lost' is not checker.kind"),
        (LEAST + "[baseline]\nalpha = 0.05", 4, "baseline.suite_run: missing: which earlier run"),
        (LEAST + "[baseline]\nsuite_run = 'x'\nalpha = 0.5", 6, "baseline.alpha: 0.5 is not a level of significance"),
        (LEAST + "[baseline]\nsuite_run = 'x'\nmeasures = ['outages']", 6, "did you mean 'outage'?"),
        (LEAST + "[baseline]\nsuite_run = 'x'\nper = 'row'", 6, "baseline.per: 'row' is not one of them: known"),
        ("schema = 1\nbaseline = 3", 2, "baseline: 3 is not a table; write [baseline]"),
        ("schema = = 1", 1, "not TOML"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, text: str, line: int, problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        policy(tmp_path, text)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'gate.toml'}:{line}: ")
    assert problem in said
    assert "\n" not in said
