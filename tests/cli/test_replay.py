"""`splitbrain replay`, end to end: the same history, refusals, and how often an anomaly recurs."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chaos import scenario
from chaos.cli import main, run
from chaos.controller import execute
from chaos.model.errors import BadInput, SplitbrainError
from chaos.model.history import History
from chaos.model.op import CONTROLLER, INFO, Op
from chaos.scenario import Scenario
from chaos.search import replay
from chaos.search.trial import Trial, trial
from results.store import RunDirectory, Store
from tests.seeds.runs import data

Invoke = Callable[..., Result]
HERE = {"splitbrain": "0.1.0", "commit": "a" * 40, "lock": "c" * 32, "python": "3.11.7"}
ELSEWHERE = '{"verb": "cut", "nodes": ["n4"], "args": {"links": []}, "process": "broker"}'
LOSES = (
    "run", "--broker", "rabbitmq-quorum", "--set", "cluster.settings.mutation=confirm-before-commit",
    "--nemesis", "partition", "--set", "nemesis[0].kinds=leader", "--time", "10s", "--rate", "30", "--seed", "1",
)  # fmt: skip


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPLITBRAIN_STORE", raising=False)
    for module in (run, replay):  # whatever is committed here meanwhile
        monkeypatch.setattr(module, "versions", lambda: dict(HERE))
    runner = CliRunner()

    def call(*words: str, code: int = 0) -> Result:
        done = runner.invoke(main.group(), words, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        assert done.return_value == code, done.output
        return done

    return call


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "splitbrain-runs")


@pytest.fixture
def lost(invoke: Invoke, store: Store) -> RunDirectory:
    """A simulated run that lost messages."""
    invoke(*LOSES, code=1)
    (directory,) = store.runs()
    return directory


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_simulated_run_gives_the_same_history(invoke: Invoke, store: Store, lost: RunDirectory) -> None:
    before = files(store.path)
    digest = lost.read_json(lost.verdict)["digest"]
    assert invoke("replay", code=1).stdout == f"✗ INVALID  {lost.id}  same history {digest}\n"
    done = invoke("replay", lost.id[:-1], "--times", "2", "--by", "node", "--json", code=1)
    assert json.loads(done.stdout) == {
        "valid": False, "run": lost.id, "digest": digest, "times": 2, "same": True, "others": [],
    }  # fmt: skip
    assert files(store.path) == before


def test_a_valid_one_is_0(invoke: Invoke) -> None:
    invoke("run", "--broker", "null", "--nemesis", "none", "--rate", "20", "--time", "1s")
    assert invoke("replay", "latest", "--times", "3").stdout.startswith("✓ VALID  ")


@pytest.mark.parametrize(
    ("now", "named"),
    [
        ({"splitbrain": "0.2.0"}, "splitbrain 0.1.0 (here 0.2.0)"),
        ({"commit": "b" * 40}, "commit aaaaaaaaaa (here bbbbbbbbbb)"),
        ({"lock": "d" * 32}, "lock file cccccccccc (here dddddddddd)"),
        ({"python": "3.12.1"}, "Python 3.11 (here 3.12)"),
    ],
)
def test_another_version_is_refused_by_name(
    invoke: Invoke, lost: RunDirectory, monkeypatch: pytest.MonkeyPatch, now: dict[str, str], named: str
) -> None:
    monkeypatch.setattr(replay, "versions", lambda: HERE | now)
    with pytest.raises(BadInput) as error:
        invoke("replay")
    said = f"{lost.id} ran with {named}, and may give another history here; --force replays it anyway"
    assert str(error.value) == said
    assert "same history" in invoke("replay", "--force", code=1).stdout


def test_another_patch_of_python_is_not(invoke: Invoke, lost: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "versions", lambda: HERE | {"python": "3.11.99"})
    invoke("replay", code=1)


def another(told: Scenario, schedule: Any) -> Trial:
    return trial(replace(told, seed=told.seed + 1), schedule)


def test_another_history_is_an_error(invoke: Invoke, lost: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.cli.replay.trial", another)
    with pytest.raises(SplitbrainError, match=f"{lost.id} gave another history: digest [0-9a-f]+, not [0-9a-f]+. Was"):
        invoke("replay")
    assert "  another history, digest " in invoke("replay", "--force", code=1).stdout


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"target": "leader"', '"target": "n1+n9"', "fault 'partition-1': there is no node n9 in this cluster"),
        ('"args": {', f'"args": {{"pinned": [{ELSEWHERE}], ',
         "fault 'partition-1': there is no node n4 in this cluster; its nodes are n1, n2, n3"),
        ('"args": {', '"args": {"pinned": [7], ', "fault 'partition-1': 'partition' cannot carry it out: TypeError"),
        ('"nemesis": "partition"', '"nemesis": "meteor"', "no 'meteor' among the nemeses"),
        ('"schema": 1', '"schema": 9', "schedule schema 9 is not one that this version reads"),
    ],
)  # fmt: skip
def test_a_schedule_that_cannot_be_is_refused_and_nothing_written(
    invoke: Invoke, store: Store, lost: RunDirectory, old: str, new: str, problem: str
) -> None:
    edit(lost.schedule, old, new)
    before = files(store.path)
    with pytest.raises(BadInput) as error:
        invoke("replay")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    assert files(store.path) == before


def test_a_scenario_of_fewer_nodes_is_refused(invoke: Invoke, lost: RunDirectory) -> None:
    edit(lost.schedule, '"target": "leader"', '"target": "n3"')
    edit(lost.scenario, "nodes = 3", "nodes = 2")
    with pytest.raises(BadInput, match="there is no node n3 in this cluster; its nodes are n1, n2"):
        invoke("replay")


def test_a_run_that_was_cut_short_has_nothing_to_compare_with(invoke: Invoke, lost: RunDirectory) -> None:
    lost.keep_history(History.from_ops([Op(index=0, time=0, process=CONTROLLER, type=INFO, f="interrupt")]))
    with pytest.raises(BadInput, match=r"was not run to its end \(it was interrupted\), so there is nothing"):
        invoke("replay")


def test_a_run_without_a_history_is_refused(invoke: Invoke, lost: RunDirectory) -> None:
    lost.parquet.unlink()
    with pytest.raises(BadInput, match="the run has no history"):
        invoke("replay")


def test_a_running_run_is_refused(invoke: Invoke, lost: RunDirectory) -> None:
    with lost.held(), pytest.raises(BadInput, match="is still running"):
        invoke("replay")


def test_no_such_run(invoke: Invoke, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there are no runs in splitbrain-runs"):
        invoke("replay", "latest")
    assert list(tmp_path.iterdir()) == []


# Of real clusters, as far as that goes without one: the run of another place is replayed in a simulation


@pytest.fixture
def real(lost: RunDirectory) -> RunDirectory:
    """The same, as if it had been on Docker."""
    told = data(1, nemeses=({"name": "partition", "kinds": ["leader"]},), time="10s", rate=30)
    told["cluster"] |= {"on": "docker", "settings": {}}
    lost.write(lost.scenario, scenario.from_data(told).dumps())
    return lost


def test_each_replay_is_a_run_and_recurrence_is_told(invoke: Invoke, store: Store, real: RunDirectory) -> None:
    done = invoke("replay", "--on", "simulated", "--times", "3")
    replays = [directory for directory in store.runs() if directory.id != real.id]
    assert len(replays) == 3
    head, *rows = done.stdout.splitlines()
    assert head == f"✓ VALID  {real.id}, replayed 3 times"
    assert "  messages.lost: 0 of 3" in rows
    assert len({directory.read_json(directory.verdict)["digest"] for directory in replays}) == 1
    assert f"splitbrain: 3 of 3: {replays[-1].id}: VALID" in done.stderr.splitlines()
    assert {directory.schedule.read_text() for directory in store.runs()} == {real.schedule.read_text()}


def test_by_node_the_run_keeps_whom_it_was_bound_to(invoke: Invoke, store: Store, real: RunDirectory) -> None:
    done = json.loads(invoke("replay", "--on", "simulated", "--by", "node", "--json").stdout)
    (one,) = (directory for directory in store.runs() if directory.id != real.id)
    assert (done["valid"], done["run"], done["times"], done["interrupted"]) == (True, real.id, 1, False)
    assert done["replays"] == [{"run": one.id, "valid": True}]
    assert done["again"]["messages.lost"] == 0
    assert '"pinned": [{"args": {"links": [["n' in one.schedule.read_text()
    invoke("replay", one.id)  # which is a run as any other


def test_an_interrupt_ends_the_replays(
    invoke: Invoke, store: Store, real: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **told: Any) -> Any:
        if len(store.runs()) == 3:  # the second replay
            signal.raise_signal(signal.SIGINT)
        return execute(*args, **told)

    monkeypatch.setattr(run, "execute", interrupted)
    done = invoke("replay", "--on", "simulated", "--times", "5", code=130)
    assert done.stdout.splitlines()[0] == f"✓ VALID  {real.id}, replayed 1 time"
    assert len(store.runs()) == 3
