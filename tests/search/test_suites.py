"""Suites run: each row judged, what is kept, and the claims themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos import suite
from chaos.cli import main
from chaos.cli.claims import file
from chaos.expectation import Seen
from chaos.model.verdict import Verdict
from chaos.search.spread import cores
from chaos.search.suite_plan import Work, plan
from chaos.search.suites import NOTHING, Done, Tried, conduct
from results.store import Store

TEXT = """schema = 1
name = "mine"
seeds = 2
[base.q]
cluster = { broker = "rabbitmq-quorum" }
workload = { name = "queue", time = "12s", rate = 20 }
[[scenario]]
name = "fine"
base = "q"
[[scenario]]
name = "lossy"
base = "q"
set.cluster.settings.mutation = "confirm-before-commit"
set.workload.consume = "none"
set.nemesis = [{ name = "partition", kinds = ["leader"] }]
expect = { valid = false, anomaly = "messages.lost", at_least = "all" }
[[scenario]]
name = "wrong"
claim = "A fine one is invalid."
base = "q"
expect = { valid = false, anomaly = "messages.lost", at_least = 1 }
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    return path


def test_rows_are_told_and_unexpected_runs_kept(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["suite", "mine.toml", "--keep", "unexpected", "--jobs", "1"]) == 1
    (kept,) = {directory.run().name for directory in Store(Path("splitbrain-runs")).runs()}
    ids = [directory.id for directory in Store(Path("splitbrain-runs")).runs()]
    assert (kept, len(ids)) == ("wrong", 2)
    assert capsys.readouterr().out.splitlines() == [
        "✓ fine  valid in all seeds: 2 of 2",
        "✓ lossy  messages.lost in all seeds: 2 of 2",
        "✗ wrong  messages.lost in 1 seed: 0 of 2: 2 valid",
        "    A fine one is invalid.; mine.toml:17",
        f"    seed 1: valid  {ids[0]}",
        f"    seed 2: valid  {ids[1]}",
        "NOT as expected: 2 of 3 as expected, 6 runs",
    ]
    assert main.run(["show", ids[0]]) == 0


def test_with_several_jobs_it_says_the_same(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for jobs in ("1", "2"):
        assert main.run(["suite", "mine.toml", "--row", "lossy", "--jobs", jobs, "--keep", "none", "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    (row,) = said[0]["rows"]
    assert (row["name"], row["met"], row["observed"]) == ("lossy", True, "2 of 2")
    assert [seed["anomalies"][0] for seed in row["seeds"]] == ["messages.lost"] * 2
    assert not Path("splitbrain-runs").exists()


def test_what_is_not_simulated_runs_one_after_the_other(mine: Path) -> None:
    mine.write_text(
        TEXT.split("[[scenario]]")[0].replace('rabbitmq-quorum"', 'rabbitmq-quorum", on = "docker"')
        + """
[[scenario]]
name = "real"
base = "q"
"""
    )
    asked: list[int] = []

    def really(work: Work, attempt: int) -> tuple[Seen, str | None]:
        asked.append(work.seed)
        return Seen(work.seed, Verdict.VALID), f"run-{work.seed}"

    heard: list[tuple[int, str | None]] = []

    def ran(work: Work, tried: Tried, final: bool) -> None:
        assert final
        heard.append((tried.seen.seed, tried.run))

    loaded = suite.load(mine)
    planned = plan(loaded, mine, keep=NOTHING)
    done: list[Done] = list(conduct(loaded, planned, store=mine.parent, jobs=2, really=really, ran=ran))
    assert [(one.row.name, one.judgement.met) for one in done] == [("real", True)]
    assert asked == [1, 2]
    assert heard == [(1, "run-1"), (2, "run-2")]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["suite"], "Missing argument 'FILE'"),
        (["suite", "no.toml"], "no.toml: cannot be read: No such file or directory"),
        (["suite", "mine.toml", "--row", "x"], "no 'x' among the rows; known: fine, lossy, wrong"),
        (["suite", "mine.toml", "--keep", "some"], "'some' is not one of"),
        (["claims", "quorm"], "no 'quorm' among the rows"),
        (["claims", "--seeds", "0"], "0 is not in the range x>=1"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    mine: Path, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    assert main.run(words) == 254
    out, err = capsys.readouterr()
    assert out == ""
    assert problem in err
    assert err.count("\n") == 1
    assert [path.name for path in mine.parent.iterdir()] == ["mine.toml"]


def test_a_fault_that_a_cluster_cannot_do_is_refused_with_its_row(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.write_text(TEXT + 'set.cluster.on = "docker"\nset.nemesis = [{ name = "wipe" }]\n')
    assert main.run(["suite", "mine.toml"]) == 254
    assert "mine.toml:17: wrong: nemesis[0]: 'wipe' needs 'wipe'" in capsys.readouterr().err


CLAIMS = [row for row in suite.load(file()).rows if row.expect.at_least == 1.0]


@pytest.mark.timeout(900)
def test_claims_that_hold_for_every_seed_hold_for_two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["claims", *(row.name for row in CLAIMS), "--seeds", "2", "--jobs", str(cores())]) == 0


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_claim_over_a_hundred_seeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["claims", "--seeds", "100"]) == 0
