"""A suite that is cut short goes on where it was, and what it did is in the store."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.cli import main
from chaos.suite import load
from results import suite_runs
from results.store import Store
from results.suite_runs import begin, find, read

TEXT = """schema = 1
name = "mine"
seeds = 3
[base.q]
cluster = { broker = "rabbitmq-quorum" }
workload = { name = "queue", time = "2s", rate = 20 }
[[scenario]]
name = "fine"
base = "q"
matrix = { cluster.nodes = [3, 5] }
[[scenario]]
name = "wrong"
base = "q"
seeds = 1
expect = { valid = false, anomaly = "messages.lost", at_least = 1 }
"""
STORE = Path("splitbrain-runs")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    return path


def suite(*words: str) -> int:
    return main.run(["suite", "mine.toml", "--jobs", "1", *words])


def test_a_suites_run_is_recorded_and_its_runs_say_so(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert suite("--suite-run", "night", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    found = find(STORE, "latest")
    assert (told["suite_run"], found.id, found.plan.suite, found.state) == ("night", "night", "mine", "done")
    assert [(cell.cell, cell.seeds) for cell in found.plan.cells] == [
        ("fine [cluster.nodes=3]", (1, 2, 3)), ("fine [cluster.nodes=5]", (1, 2, 3)), ("wrong", (1,)),
    ]  # fmt: skip
    runs = {directory.id: directory.run() for directory in Store(STORE).runs()}
    assert {(line.run, line.cell, line.seed, line.verdict) for line in found.lines} == {
        (run.id, run.cell, run.seed, "valid") for run in runs.values()
    }
    assert {(run.suite_run, run.attempt) for run in runs.values()} == {("night", 1)}
    assert [seed["run"] for row in told["rows"] for seed in row["seeds"]] == [line.run for line in found.lines]
    assert main.run(["list", "suite-runs", "night"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "night  done  7 of 7 runs  2 of 3 cells as expected",
        "✓ fine [cluster.nodes=3]  valid in all seeds: 3 of 3",
        "✓ fine [cluster.nodes=5]  valid in all seeds: 3 of 3",
        "✗ wrong  messages.lost in 1 seed: 0 of 1: 1 valid",
    ]
    assert suite("--suite-run", "night") == 254
    assert "there is a suite's run night" in capsys.readouterr().err


def test_cut_anywhere_it_goes_on_and_does_nothing_twice(
    mine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert suite("--json", "--suite-run", "whole") == 1
    whole = json.loads(capsys.readouterr().out)
    lines = (STORE / "suite-runs" / "whole" / "cells.jsonl").read_bytes()
    plan = find(STORE, "whole").plan
    for cut in (0, 10, lines.index(b"\n") + 1, len(lines) // 2, len(lines)):
        id_ = f"cut-{cut}"
        before = len(Store(STORE).runs())
        with begin(STORE, replace(plan, id=id_, finished=None)):
            pass
        (STORE / "suite-runs" / id_ / "cells.jsonl").write_bytes(lines[:cut])
        kept = len(find(STORE, id_).last)
        if kept == 7:
            assert suite("--resume", id_) == 254
            assert "was not interrupted: nothing of it is missing" in capsys.readouterr().err
            continue
        assert suite("--resume", id_, "--json") == 1
        again = json.loads(capsys.readouterr().out)
        for row in (*again["rows"], *whole["rows"]):
            for seed in row["seeds"]:
                seed["run"] = None
        assert again["rows"] == whole["rows"]
        assert len(Store(STORE).runs()) - before == 7 - kept
        assert find(STORE, id_).state == "done"


def test_an_interrupt_leaves_what_was_done(
    mine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add = suite_runs.Recorder.add

    def cut(self: suite_runs.Recorder, line: suite_runs.Line) -> None:
        add(self, line)
        if line.seed == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(suite_runs.Recorder, "add", cut)
    assert suite() == 130
    monkeypatch.undo()
    monkeypatch.chdir(mine.parent)
    found = find(STORE, "latest", "mine")
    assert (found.state, len(found.last)) == ("interrupted", 2)
    assert "interrupted" in capsys.readouterr().err
    assert suite("--resume") == 1
    assert (find(STORE, "latest").state, len(Store(STORE).runs())) == ("done", 7)


def test_killed_it_goes_on_too(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine.write_text(TEXT.replace("seeds = 3", "seeds = 8"))
    command = [sys.executable, "-c", "from chaos.cli.main import main; main()", "suite", "mine.toml"]
    process = subprocess.Popen([*command, "--jobs", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None and not any(len(one.lines) >= 2 for one in suite_runs.suite_runs(STORE)):
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    before = find(STORE, "latest")
    assert before.state == "interrupted"
    assert suite("--resume") == 1
    after = find(STORE, "latest")
    assert after.lines[: len(before.lines)] == before.lines
    assert sorted(line.key for line in after.lines) == sorted(after.plan.planned())
    assert (after.id, after.state) == (before.id, "done")


@pytest.mark.parametrize(
    ("words", "change", "problem"),
    [
        (["--resume", "--seeds", "2"], "", "--resume: it goes on as it began: leave --seeds out"),
        (["--resume", "nigth"], "", "no suite's run 'nigth' of 'mine'"),
        (["--resume"], "rate = 21", "'fine [cluster.nodes=3]' is not what it was: begin anew, without --resume"),
        (["--resume"], "commit", "--resume: night began with commit "),
    ],
)
def test_it_goes_on_as_it_began_or_not_at_all(
    mine: Path, capsys: pytest.CaptureFixture[str], words: list[str], change: str, problem: str
) -> None:
    assert suite("--suite-run", "night") == 1
    path = STORE / "suite-runs" / "night"
    (path / "cells.jsonl").unlink()
    if change == "commit":
        data = json.loads((path / "suite.json").read_text())
        (path / "suite.json").write_text(json.dumps({**data, "commit": "0" * 40}))
    elif change:
        mine.write_text(TEXT.replace("rate = 20", change))
    capsys.readouterr()
    assert suite(*words) == 254
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1
    assert read(path).lines == ()


def test_ids_of_cells_are_the_same_however_the_suite_is_ordered(mine: Path) -> None:
    matrix = "matrix = { workload.rate = [1, 2], cluster.nodes = [3, 5], nemesis = [%s] }"
    two = ['[{ name = "kill", every = "5s" }]', '[{ name = "kill", every = "7s" }]']
    cells = []
    for nemeses in (two, two[::-1]):
        mine.write_text(TEXT.replace("matrix = { cluster.nodes = [3, 5] }", matrix % ", ".join(nemeses)))
        cells.append({case.cell: case.scenario.nemeses for row in load(mine).rows for case in row.cases})
    assert cells[0] == cells[1]
    assert len(cells[0]) == 9
