"""`splitbrain diff`: two runs of a simulated queue, one of which confirms too soon; and runs that left little."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chaos.cli import main
from chaos.model.errors import BadInput
from results.diff import diff
from results.parting import parting
from results.publish import publish
from results.store import RunDirectory, Store
from tests.results.example import results, script, stored

Invoke = Callable[..., Result]
QUEUE = ("run", "--broker", "rabbitmq-quorum", "--nemesis", "partition", "--time", "12s", "--rate", "20", "--seed", "2")
UNSOUND = (*QUEUE, "--set", "cluster.settings.mutation=confirm-before-commit")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Twice the same run, one with an unsound broker, one with another seed."""
    path = tmp_path_factory.mktemp("diff") / "runs"
    for words in (QUEUE, QUEUE, UNSOUND, (*QUEUE[:-1], "3")):
        CliRunner().invoke(main.group(), (*words, "--store", str(path)), standalone_mode=False)
    return Store(path)


@pytest.fixture
def invoke(store: Store, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.setenv("SPLITBRAIN_STORE", str(store.path))
    runner = CliRunner()

    def run(*words: str) -> Result:
        done = runner.invoke(main.group(), ("diff", *words), standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        assert done.return_value == 0
        return done

    return run


def ids(store: Store) -> list[str]:
    return [run.id for run in store.runs()]


def test_the_same_run_twice_is_the_same(invoke: Invoke, store: Store) -> None:
    first, second, *_ = ids(store)
    lines = invoke(first, second).stdout.splitlines()
    assert lines[0].startswith(f"A  ✓ valid  {first}  rabbitmq-quorum-queue, rabbitmq-quorum simulated, seed 2")
    assert lines[2:8] == [
        "settings: the same",
        "versions: the same",
        "faults, of 3 and 3: the same",
        "checkers: the same",
        "anomalies: the same",
        "measured",
    ]
    assert not any(" > " in line for line in lines)
    assert lines[-1] == "histories: the same, to the byte"
    assert json.loads(invoke(first, second, "--json").stdout)["parting"]["same"] is True


def test_an_unsound_broker_beside_a_sound_one(invoke: Invoke, store: Store) -> None:
    sound, _, unsound, _ = store.runs()
    data: dict[str, Any] = json.loads(invoke(sound.id, unsound.id, "--json").stdout)
    assert [run["run"] for run in data["runs"]] == [sound.id, unsound.id]
    assert data["valid"][0] is True
    assert data["settings"] == {"cluster.settings.mutation": ["none", "confirm-before-commit"]}
    assert (data["versions"], data["schedule"]) == ({}, {"planned": [3, 3], "faults": {}})
    kept = [run.read_json(run.verdict) for run in (sound, unsound)]
    for name, checked in data["checkers"].items():
        assert checked["valid"] == [verdict["checkers"][name]["valid"] for verdict in kept]
        assert checked["reason"] == [verdict["checkers"][name]["reason"] for verdict in kept]
    same = set(kept[0]["checkers"]) - set(data["checkers"])
    for name in same:
        one, other = (verdict["checkers"][name] for verdict in kept)
        assert (one["valid"], one["reason"], one["counts"]) == (other["valid"], other["reason"], other["counts"])
    assert data["figures"]["confirm, median"] == [
        verdict["checkers"]["latency"]["metrics"]["confirm"]["all"]["p50"] for verdict in kept
    ]
    # the first op that differs, by the histories themselves: the unsound one confirms earlier
    one, other = sound.history(), unsound.history()
    row = data["parting"]["row"]
    assert row == parting(one, other)
    assert [one[at] for at in range(row)] == [other[at] for at in range(row)]
    assert one[row] != other[row]
    assert data["parting"]["ops"][1][0] == {
        name: value
        for name in ("index", "time", "process", "f", "key", "value", "node", "op", "channel", "term")
        if (value := getattr(other[row], name)) is not None
    } | {"type": str(other[row].type)} | ({"detail": other[row].detail} if other[row].detail else {})
    assert [op["index"] for op in data["parting"]["common"]] == [row - 2, row - 1]
    text = invoke(sound.id, unsound.id).stdout
    assert "  cluster.settings.mutation  none > confirm-before-commit\n" in text
    assert f"histories part after {row} ops in common\n" in text
    assert f"\n  B  #{row} " in text


def test_another_seed_has_nothing_in_common(invoke: Invoke, store: Store) -> None:
    first, *_, other = ids(store)
    text = invoke(first, other).stdout
    assert "settings\n  seed  2 > 3\n" in text
    assert "histories not compared: their seeds differ, so they have nothing in common\n" in text
    faults = json.loads(invoke(first, other, "--json").stdout)["schedule"]["faults"]
    assert all(one != theirs for one, theirs in faults.values())
    assert "\n  A  partition-1  at " in text
    assert "\n  B  partition-1  at " in text


def test_anomalies_that_one_alone_has(tmp_path: Path) -> None:
    store = Store(tmp_path)
    whole = script(rate=40).history()
    one, other = stored(store, whole), stored(store, whole)
    publish(one, whole, [result for result in results(whole) if result.checker != "leaders"])
    publish(other, whole, [])
    found = diff(one, other)
    assert found.valid == (False, "unknown")
    assert found.anomalies["messages.lost"] == (3, 0)
    assert [kind for kind, _ in found.only[0]].count("messages.lost") == 3
    assert found.only[1] == ()
    assert found.unparted == "not both are simulated, and on real nodes no two histories are the same"
    done = CliRunner().invoke(main.group(), ("diff", one.id, other.id, "--store", str(tmp_path)), standalone_mode=False)
    assert re.search(r"^  messages\.lost +3 > 0$", done.stdout, re.MULTILINE)
    assert "  B  · messages: not asked\n" in done.stdout
    assert "  only A: messages.lost: message 913 was confirmed and never delivered" in done.stdout
    assert " (and 2 more)\n" in done.stdout


def test_runs_that_left_nothing_differ_in_nothing(tmp_path: Path) -> None:
    def empty(name: str, on: str) -> RunDirectory:
        directory = RunDirectory(tmp_path / name)
        directory.path.mkdir()
        directory.record.write_text(json.dumps({"id": name, "on": on, "seed": 1}))
        return directory

    found = diff(empty("a", "simulated"), empty("b", "simulated"))
    assert (found.valid, found.settings, found.checkers, found.figures) == ((None, None), {}, {}, {})
    assert found.unparted == f"{tmp_path / 'a'}: the run has no history: it ended before anything was recorded"


def test_a_run_that_is_not_there(invoke: Invoke) -> None:
    with pytest.raises(BadInput, match="no run 'nothing'"):
        invoke("latest", "nothing")
