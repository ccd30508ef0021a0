"""`splitbrain check --all`: every run of a store, with what was planted in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.store import CUT, DUAL_LEADER, DUPLICATED, LOST, REJECTED, make
from chaos import scenario
from chaos.model.verdict import merge
from checkers.run import check_all
from results.store import RunDirectory

DETECTED = {LOST: ("messages", "lost"), DUAL_LEADER: ("leaders", "two-leaders")}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    store = tmp_path_factory.mktemp("planted") / "store"
    return store, make(store, runs=12, ops=2000)


def run(*arguments: str) -> tuple[int, str, str]:
    splitbrain = Path(sys.executable).with_name("splitbrain")
    done = subprocess.run([splitbrain, "check", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def judged(planted: tuple[Path, dict[str, str]]) -> dict[str, Any]:
    code, output, _ = run("--all", "--store", str(planted[0]), "--json")
    assert code == 1
    data: dict[str, Any] = json.loads(output)
    return data


def test_every_plant_is_found(planted: tuple[Path, dict[str, str]], judged: dict[str, Any]) -> None:
    _, plants = planted
    assert judged["runs"] == 12
    assert judged["verdicts"] == {"valid": 4, "invalid": 2, "unknown": 1, "cannot be judged": len(REJECTED)}
    for name, result in judged["results"].items():
        plant = plants.get(name)
        if plant in REJECTED:
            assert result["valid"] == "unknown"
            assert name in result["bad"]
        elif plant in DETECTED:
            checker, kind = DETECTED[plant]
            assert kind in {anomaly["kind"] for anomaly in result["checkers"][checker]["anomalies"]}
        elif plant == CUT:
            assert result["valid"] == "unknown"
            assert "its end marker" in result["checkers"]["messages"]["reason"]
        else:
            assert result["valid"] is True
            assert (result["checkers"]["messages"]["counts"]["duplicated"] > 0) == (plant == DUPLICATED)


def test_results_are_those_of_a_run_by_itself(planted: tuple[Path, dict[str, str]], judged: dict[str, Any]) -> None:
    store, _ = planted
    for name, result in judged["results"].items():
        if "bad" in result:
            continue
        directory = RunDirectory(store / name)
        alone = check_all(directory.history(), scenario.load(directory.scenario).checkers)
        expected = {name: one.to_json() for name, one in alone.items()}
        assert result["checkers"] == json.loads(json.dumps(expected, default=lambda value: value.item()))
        assert result["valid"] == merge(one.verdict for one in alone.values()).to_json()


def test_a_line_a_run_that_is_not_valid(planted: tuple[Path, dict[str, str]]) -> None:
    store, plants = planted
    code, output, _ = run("--all", "--store", str(store), "--jobs", "1")
    lines = output.splitlines()
    assert code == 1
    assert lines[-1] == "12 runs: 4 valid, 2 invalid, 1 unknown, 5 cannot be judged"
    told = [name for name, plant in plants.items() if plant != DUPLICATED]
    assert [line.split()[2] for line in lines[:-1]] == sorted(told)
    assert "✗ INVALID  " in lines[0]
    assert "messages: 1 lost (" in lines[0]


def test_good_stores_and_none(tmp_path: Path) -> None:
    make(tmp_path / "good", runs=2, ops=150, plants={})
    code, output, _ = run("--all", "--store", str(tmp_path / "good"))
    assert (code, output) == (0, "2 runs: 2 valid\n")
    (tmp_path / "empty").mkdir()
    for arguments, said in (
        (["--all", "--store", str(tmp_path / "empty")], "there are no runs"),
        (["--all", "--store", str(tmp_path / "none")], "there is no such store"),
        (["latest", "--all", "--store", str(tmp_path / "good")], "leave out RUN"),
        (["--all", "--engine", "sparks", "--store", str(tmp_path / "good")], "did you mean 'spark'"),
        (["--all", "--timeout", "soon", "--store", str(tmp_path / "good")], "--timeout"),
    ):
        code, _, problem = run(*arguments)
        assert code == 254, problem
        assert said in problem


@pytest.mark.parametrize(
    "command",
    [
        ["check", "RUN", "--store", "STORE"],
        ["run", "--broker", "rabbitmq-quorum", "--time", "2s", "--nemesis", "none", "--store", "STORE"],
    ],
)
def test_one_run_pays_nothing_for_spark(command: list[str], tmp_path: Path) -> None:
    make(tmp_path / "store", runs=1, ops=150, plants={})
    name = next((tmp_path / "store").iterdir()).name
    words = [{"RUN": name, "STORE": str(tmp_path / "store")}.get(word, word) for word in command]
    code = (
        "import sys\n"
        "class Refuses:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        assert name.partition('.')[0] not in ('pyspark', 'py4j'), name\n"
        "sys.meta_path.insert(0, Refuses())\n"
        "from chaos.cli.main import main\n"
        f"sys.exit(main({words!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode in (0, 2), done.stderr
    assert "AssertionError" not in done.stderr
