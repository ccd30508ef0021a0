"""`splitbrain explore`, end to end: what it finds, keeps and says; interrupted and gone on with; refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chaos.cli import main
from chaos.cli.explore import seed_range
from chaos.model.errors import BadInput, SplitbrainError
from chaos.scenario import Scenario
from chaos.scenario_flags import from_flags
from chaos.search import journal
from chaos.search.trial import Trial, trial
from results.store import Store
from results.tables.explored import read

Invoke = Callable[..., Result]

# a leader that confirms too soon loses messages in one of these eight seeds, and its faults do not bite in another
UNSOUND = (
    "explore", "--broker", "rabbitmq-quorum", "--set", "cluster.settings.mutation=confirm-before-commit",
    "--nemesis", "partition,kill", "--time", "10s", "--rate", "30",
)  # fmt: skip
SOUND = ("explore", "--broker", "null", "--nemesis", "none", "--time", "1s", "--rate", "20", "--jobs", "1")


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPLITBRAIN_STORE", raising=False)
    monkeypatch.setattr(journal, "versions", lambda: {"commit": "one"})  # whatever is committed here meanwhile
    runner = CliRunner()

    def run(*words: str, code: int = 0) -> Result:
        done = runner.invoke(main.group(), words, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        assert done.return_value == code, done.output
        return done

    return run


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "splitbrain-runs")


def told(done: Result) -> dict[str, Any]:
    """What --json says, without what differs from one time to the next."""
    data = json.loads(done.stdout)
    for name in ("seconds", "seeds_per_minute"):
        del data[name]
    for failure in data["failures"]:
        failure["run"] = failure["run"].rpartition("-")[2]
    return dict(data)


def seeds(store: Store) -> list[int]:
    """What the journal has, in order."""
    (path,) = store.path.glob("explore-*.jsonl")
    return [json.loads(line)["seed"] for line in path.read_text().splitlines()[1:]]


def test_each_distinct_failure_is_kept_as_a_run_that_shows_it(invoke: Invoke, store: Store) -> None:
    data = told(invoke(*UNSOUND, "--seeds", "8", "--all", "--jobs", "1", "--json", code=1))
    assert (data["valid"], data["asked"], data["seeds"]) == (False, 8, 8)
    assert data["verdicts"] == {"valid": 6, "invalid": 1, "unknown": 1}
    (directory,) = store.runs()
    assert {(one["checker"], one["anomaly"], *one["shape"]) for one in data["failures"]} == {
        ("messages", "lost", "partition leader"),
        ("linearizable", "overtaken", "partition leader"),
        ("leaders", "dual-confirm", "partition leader"),
    }
    assert {(one["first"], one["seeds"], one["run"]) for one in data["failures"]} == {(6, 1, "s6")}
    verdict = directory.read_json(directory.verdict)
    assert (verdict["valid"], verdict["seed"], verdict["digest"]) == (False, 6, directory.history().digest())
    assert verdict["checkers"]["messages"]["anomalies"][0]["message"] == data["failures"][0]["message"]
    assert [unknown["seed"] for unknown in data["unknowns"]] == [3]
    assert "had no effect" in data["unknowns"][0]["why"]["earned"]
    assert data["coverage"]["runs"] == 8
    assert data["coverage"]["faults"]["kill of one"] > 0
    assert data["coverage"]["leader_changes"] > 0
    assert data["coverage"]["transitions"]["candidate > leader"] > 0
    # the run alone is enough to see it again
    again = invoke("run", str(directory.scenario), "--store", "elsewhere", "--json", code=1)
    assert json.loads(again.stdout)["digest"] == verdict["digest"]


def test_two_jobs_say_what_one_does(invoke: Invoke) -> None:
    one, two = (
        told(invoke(*UNSOUND, "--seeds", "4..7", "--jobs", jobs, "--store", jobs, "--json", "--all", code=1))
        for jobs in ("1", "2")
    )
    assert one == two


def test_it_stops_at_the_first_failure_and_goes_on_when_all_are_wanted(invoke: Invoke, store: Store) -> None:
    words = (*UNSOUND, "--seeds", "5..8", "--jobs", "1")
    first = told(invoke(*words, "--json", code=1))
    assert (first["asked"], first["seeds"]) == (4, 2)
    assert seeds(store) == [5, 6]
    again = told(invoke(*words, "--json", "--resume", code=1))
    assert again == first  # it is known, and nothing is run
    rest = told(invoke(*words, "--all", "--json", "--resume", code=1))
    assert (rest["seeds"], rest["failures"]) == (4, first["failures"])
    assert seeds(store) == [5, 6, 7, 8]
    assert len(store.runs()) == 1


def test_two_jobs_stop_at_the_first_too(invoke: Invoke, store: Store) -> None:
    done = told(invoke(*UNSOUND, "--seeds", "5..500", "--jobs", "2", "--json", code=1))
    assert done["seeds"] == 2
    assert seeds(store) == [5, 6]


def test_an_interrupted_one_goes_on_to_the_same_end(
    invoke: Invoke, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*UNSOUND, "--seeds", "8", "--all", "--jobs", "1", "--json")
    whole = told(invoke(*words, "--store", "whole", code=1))
    add = journal.Journal.add

    def interrupt(self: journal.Journal, seed: Any, run: str | None) -> None:
        add(self, seed, run)
        if seed.seed in (2, 6):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(journal.Journal, "add", interrupt)
    done = invoke(*words, code=130)
    assert (told(done)["interrupted"], told(done)["seeds"]) == (True, 2)
    assert done.stderr.endswith("interrupted after 2 of 8 seeds; with --resume it goes on from there\n")
    assert seeds(store) == [1, 2]
    (path,) = store.path.glob("explore-*.jsonl")
    path.write_bytes(path.read_bytes() + b'{"seed": 3, "verd')  # torn: the machine went down
    invoke(*words, "--resume", code=130)
    assert seeds(store) == [1, 2, 3, 4, 5, 6]
    monkeypatch.undo()
    monkeypatch.chdir(store.path.parent)
    monkeypatch.setattr(journal, "versions", lambda: {"commit": "one"})
    assert told(invoke(*words, "--resume", code=1)) == whole
    assert seeds(store) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_ctrl_c_in_the_middle_of_a_run_leaves_what_was_done(tmp_path: Path) -> None:
    words = ("--broker", "rabbitmq-quorum", "--nemesis", "kill", "--time", "20s", "--seeds", "2000", "--json")
    code = "from chaos.cli.main import main; main()"
    for jobs in ("1", "2"):
        with subprocess.Popen(
            [sys.executable, "-c", code, "explore", *words, "--jobs", jobs, "--store", jobs],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            store = Store(tmp_path / jobs)
            while not any(path.read_bytes().count(b"\n") > 1 for path in store.path.glob("explore-*.jsonl")):
                assert process.poll() is None
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "with --resume it goes on from there" in err
        assert "Traceback" not in err
        said = json.loads(out)
        assert said["interrupted"] is True
        assert seeds(store) == list(range(1, said["seeds"] + 1))
        assert store.runs() == []


def test_a_new_one_forgets_the_one_before(invoke: Invoke, store: Store) -> None:
    invoke(*SOUND, "--seeds", "3")
    invoke(*SOUND, "--seeds", "2")
    assert seeds(store) == [1, 2]


def test_a_run_that_is_gone_is_kept_again(invoke: Invoke, store: Store) -> None:
    invoke(*UNSOUND, "--seeds", "6..6", "--jobs", "1", code=1)
    (directory,) = store.runs()
    for path in sorted(directory.path.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    directory.path.rmdir()
    invoke(*UNSOUND, "--seeds", "6..6", "--jobs", "1", "--resume", code=1)
    assert len(store.runs()) == 1


def test_all_runs_are_kept_where_that_is_asked_by_whoever_runs_them(invoke: Invoke, store: Store) -> None:
    words = (*SOUND[:-2], "--jobs", "2", "--keep", "all")
    invoke(*words, "--seeds", "3")
    kept = {run.run().seed: run for run in store.runs()}
    assert sorted(kept) == [1, 2, 3]
    (path,) = store.path.glob("explore-*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [(row["seed"], row["run"]) for row in rows] == [(seed, kept[seed].id) for seed in (1, 2, 3)]
    kept = {seed: kept[seed] for seed in (1, 2, 3)}
    assert [row["digest"] for row in rows] == [run.read_json(run.verdict)["digest"] for run in kept.values()]
    # what is there is not run again, what is gone is
    shutil.rmtree(kept[2].path)
    invoke(*words, "--seeds", "4", "--resume")
    assert sorted(run.run().seed for run in store.runs()) == [1, 2, 3, 4]
    assert {kept[1].id, kept[3].id} < {run.id for run in store.runs()}


def test_all_runs_can_be_asked_for_later(invoke: Invoke, store: Store) -> None:
    invoke(*SOUND, "--seeds", "2")
    assert store.runs() == []
    invoke(*SOUND, "--seeds", "2", "--resume", "--keep", "all")
    assert len(store.runs()) == 2


def test_none_is_kept_where_none_is_asked(invoke: Invoke, store: Store) -> None:
    done = json.loads(invoke(*UNSOUND, "--seeds", "6..6", "--jobs", "1", "--keep", "none", "--json", code=1).stdout)
    assert {failure["run"] for failure in done["failures"]} == {None}
    assert store.runs() == []
    text = invoke(*UNSOUND, "--seeds", "6..6", "--jobs", "1", "--keep", "none", "--resume", code=1).stdout
    assert "1 seed, first 6\n" in text


def test_progress_goes_to_stderr(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.cli.tally.EVERY", 0.0)
    told = invoke(*UNSOUND, "--seeds", "5..6", "--jobs", "1", "--json", code=1).stderr.splitlines()
    said = "seed 6: messages.lost under partition leader: message 24 was confirmed and never delivered, though q1 "
    assert [re.sub(r"[\d,]+ a minute", "N a minute", line) for line in told] == [
        "1 of 2 seeds  N a minute  0 failures  0 unknown",
        *(line for line in told if line.startswith("seed 6: ")),
        "2 of 2 seeds  N a minute  3 failures  0 unknown",
    ]
    assert said + "was drained completely" in told


def test_no_failure_is_0(invoke: Invoke, store: Store) -> None:
    done = invoke(*SOUND, "--seeds", "3")
    assert done.stdout.startswith("✓ no failure in 3 seeds")
    assert store.runs() == []


def test_seeds_that_show_nothing_are_2(invoke: Invoke) -> None:
    done = invoke(*UNSOUND, "--seeds", "3..3", "--jobs", "1", code=2)
    assert done.stdout.startswith("? nothing is known in 1 seeds")
    assert "  ? 1 seed unknown\n      seed 3: earned: fault partition-" in done.stdout


def test_a_run_that_fails_is_unknown_and_the_others_go_on(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def fall_over(scenario: Scenario) -> Trial:
        if scenario.seed == 2:
            raise ZeroDivisionError("three nodes, no quorum")
        if scenario.seed == 3:
            raise SplitbrainError("the nodes do not come up")
        return trial(scenario)

    monkeypatch.setattr("chaos.search.explore.trial", fall_over)
    data = told(invoke(*SOUND, "--seeds", "4", "--json"))
    assert data["verdicts"] == {"valid": 2, "invalid": 0, "unknown": 2}
    assert data["unknowns"] == [
        {"seed": 2, "why": {"run": "the run failed: ZeroDivisionError: three nodes, no quorum"}},
        {"seed": 3, "why": {"run": "the run failed: the nodes do not come up"}},
    ]


def test_what_does_not_come_from_its_seed_is_told(
    invoke: Invoke, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = iter([6, 5])
    monkeypatch.setattr("chaos.search.explore.trial", lambda scenario: trial(replace(scenario, seed=next(seeds))))
    with pytest.raises(SplitbrainError, match="seed 9 gave another history when it was run again"):
        invoke(*UNSOUND, "--no-swarm", "--seeds", "9..9", "--jobs", "1")
    assert store.runs() == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--seeds", "0"), "--seeds 0: write how many, such as 200, or from which to which: 201..400"),
        (("--seeds", "9..3"), "--seeds 9..3: write how many"),
        (("--seeds", "-3"), "--seeds -3: write how many"),
        (("--seeds", "ten"), "--seeds ten: write how many"),
        (("--broker", "rabbitmq-quorum", "--on", "docker"), "needs a simulated cluster, and this one is on docker"),
        (("--master", "local[2]"), "--master is for --engine spark"),
        (("--conf", "spark.a=b"), "--conf is for --engine spark"),
        (("--set", "seeds=3"), "unknown key 'seeds'"),
        (("--nemesis", "meteor"), "no 'meteor' among the nemeses"),
    ],
)  # fmt: skip
def test_bad_input_leaves_nothing(invoke: Invoke, tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(BadInput) as error:
        invoke("explore", *(() if "--broker" in words else ("--broker", "null")), *words)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_another_version_cannot_go_on(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke(*SOUND, "--seeds", "2")
    monkeypatch.setattr(journal, "versions", lambda: {"commit": "two"})
    with pytest.raises(BadInput) as error:
        invoke(*SOUND, "--seeds", "3", "--resume")
    assert str(error.value) == (
        "--resume: the seeds so far were run with commit one (here two); leave --resume out to start anew"
    )
    invoke(*SOUND, "--seeds", "3")


@pytest.mark.parametrize(
    "text", [b"", b"nonsense\n", b'{"schema": 9}\n', b'{"schema": 1, "versions": {}}\n{"seed": 1}\n']
)
def test_a_file_that_is_no_journal_is_told(invoke: Invoke, store: Store, text: bytes) -> None:
    invoke(*SOUND, "--seeds", "1")
    (path,) = store.path.glob("explore-*.jsonl")
    path.write_bytes(text)
    with pytest.raises(BadInput, match="not the state of an exploration"):
        invoke(*SOUND, "--resume")
    assert path.read_bytes() == text


def test_two_cannot_explore_the_same_at_once(invoke: Invoke, store: Store) -> None:
    base = from_flags(broker="null", nemesis="none", time="1s", rate="20")
    other = journal.Journal(store.path, base, True)
    other.begin()
    with pytest.raises(BadInput, match="being explored by another process"):
        invoke(*SOUND)
    other.close()
    invoke(*SOUND, "--seeds", "1")


def test_ranges_of_seeds() -> None:
    assert seed_range("3") == range(1, 4)
    assert seed_range("0..2") == range(3)
    assert seed_range(" 201..201 ") == range(201, 202)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    def fail(*given: Any, **more: Any) -> Trial:
        if error is not None:
            raise error
        return trial(*given, **more)

    monkeypatch.setattr("chaos.search.explore.trial", fail)


def test_a_failure_that_all_seeds_share_ends_it(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, SplitbrainError("no room"))
    with pytest.raises(SplitbrainError, match="the first 10 seeds have come to the same: the run failed: no room"):
        invoke(*SOUND, "--seeds", "30")
    assert json.loads(invoke(*SOUND, "--seeds", "9", "--json", code=2).stdout)["verdicts"]["unknown"] == 9
    failing(monkeypatch, ModuleNotFoundError("No module named 'mine'"))
    with pytest.raises(SplitbrainError, match="no seed can be run here: No module named 'mine'"):
        invoke(*SOUND, "--seeds", "3")


def test_seeds_that_failed_are_run_again(invoke: Invoke, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        failing(before, SplitbrainError("no room"))
        invoke(*SOUND, "--seeds", "2", code=2)
    failing(monkeypatch, None)
    said = json.loads(invoke(*SOUND, "--seeds", "3", "--resume", "--json").stdout)
    assert said["verdicts"] == {"valid": 3, "invalid": 0, "unknown": 0}
    (path,) = store.path.glob("explore-*.jsonl")
    assert [(row["seed"], row["verdict"]) for row in read(path.name, path.read_bytes()).rows] == [
        (1, "valid"), (2, "valid"), (3, "valid"),
    ]  # fmt: skip
