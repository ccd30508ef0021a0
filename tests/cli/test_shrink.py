"""`splitbrain shrink`: what it writes, what it keeps, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaos import scenario
from chaos.cli import main
from chaos.model.errors import BadInput
from chaos.model.schedule import Schedule
from results.publish import publish
from results.store import Store
from tests.results.example import results, script, stored

Invoke = Callable[..., Result]
LOSES = """\
schema = 1
name = "shrinkable"

[cluster]
broker = "rabbitmq-quorum"
settings = { mutation = "confirm-before-commit" }

[workload]
name = "queue"
rate = 10
time = "8s"

[[nemesis]]
name = "partition"
kinds = ["leader"]
every = "4s"
for = "3s"
start = "0s"
quiet = "0s"
"""


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPLITBRAIN_STORE", raising=False)
    Path("loses.toml").write_text(LOSES)

    def run(*words: str, code: int = 0) -> Result:
        done = CliRunner().invoke(main.group(), words, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        assert done.return_value == code, done.output
        return done

    return run


def test_a_loss_becomes_a_small_run_a_scenario_a_test_and_a_picture(invoke: Invoke) -> None:
    invoke("run", "loses.toml", code=1)
    told = json.loads(invoke("shrink", "--jobs", "1", "--json").stdout)
    assert told["anomaly"] == "messages.lost"
    assert told["before"]["faults"] == 2
    assert told["after"]["faults"] == 1
    assert told["after"]["messages"] <= 5 < told["before"]["messages"]
    assert told["stopped"] is None
    source = Store(Path("splitbrain-runs")).find(told["run"])
    assert [Path(path).name for path in told["files"]] == ["repro.toml", "test_repro.py", "spacetime.svg"]
    assert all(Path(path).parent == source.path for path in told["files"])
    kept = Store(Path("splitbrain-runs")).find(told["shrunk"])
    report = kept.report.read_text()
    assert "Who said what to whom" in report
    assert "the way of message" in report
    small = scenario.load(source.path / "repro.toml")
    assert small.faults == scenario.load(kept.scenario).faults
    assert json.loads(invoke("run", str(source.path / "repro.toml"), "--json", code=1).stdout)["valid"] is False
    failing = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "chaos.pytest_plugin", "-p", "no:cacheprovider", "test_repro.py"],
        cwd=source.path,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(main.__file__).parents[2])},
        check=False,
    )
    assert failing.returncode == 1, failing.stdout
    assert "was confirmed and never delivered" in failing.stdout


def test_elsewhere_and_in_words(invoke: Invoke, tmp_path: Path) -> None:
    invoke("run", "loses.toml", code=1)
    told = invoke("shrink", "latest", "--jobs", "1", "--anomaly", "messages.lost", "--out", "deep/repro").stdout
    lines = told.splitlines()
    assert lines[0].startswith("messages.lost: message ")
    assert lines[1].startswith("  from  2 faults, 3 nodes, 6 clients, 8 s, ")
    assert lines[2].startswith("  to    1 fault, ")
    assert lines[-3:] == [f"wrote: deep/repro/{name}" for name in ("repro.toml", "test_repro.py", "spacetime.svg")]
    assert not list(tmp_path.glob("splitbrain-runs/*/repro.toml"))


def refused(invoke: Invoke, *words: str) -> str:
    """What is told, with nothing written."""
    before = sorted(path for path in Path().rglob("*") if path.is_file())
    with pytest.raises(BadInput) as error:
        invoke("shrink", *words)
    assert sorted(path for path in Path().rglob("*") if path.is_file()) == before
    return str(error.value)


def test_a_valid_run_is_refused(invoke: Invoke) -> None:
    assert refused(invoke).startswith("there are no runs in splitbrain-runs")
    invoke("run", "--broker", "null", "--nemesis", "none", "--rate", "50", "--time", "1s")
    id_ = Store(Path("splitbrain-runs")).find("latest").id
    assert refused(invoke, "latest") == f"{id_} was valid: it shows no anomaly, so there is nothing to shrink"
    assert refused(invoke) == "none of the 1 runs in splitbrain-runs is invalid"


def test_arguments_that_cannot_be_used(invoke: Invoke) -> None:
    assert refused(invoke, "--budget", "120").startswith("--budget '120' is not a duration: write a number with a unit")
    assert refused(invoke, "--budget", "0s").startswith("--budget 0s: no time at all")
    invoke("run", "loses.toml", code=1)
    id_ = Store(Path("splitbrain-runs")).find("latest").id
    told = refused(invoke, "--anomaly", "messages.lots")
    assert told == f"--anomaly messages.lots: {id_} does not show it; did you mean 'messages.lost'?"


def test_what_does_not_show_it_any_more_is_refused(invoke: Invoke) -> None:
    invoke("run", "loses.toml", code=1)
    directory = Store(Path("splitbrain-runs")).find("latest")
    directory.write(directory.schedule, Schedule().dumps())
    assert refused(invoke).startswith("run again, this scenario does not show messages.lost: ")


def test_a_real_run_is_shrunk_as_its_twin_or_refused(invoke: Invoke) -> None:
    store = Store(Path("splitbrain-runs"))
    history = script(rate=40).history()
    directory = stored(store, history)
    publish(directory, history, results(history))
    real = scenario.loads(LOSES.replace("settings", 'on = "docker"\nsettings').replace(
        'mutation = "confirm-before-commit"', 'net_ticktime = "15s"'))  # fmt: skip
    directory.write(directory.scenario, real.dumps())
    directory.write(directory.schedule, Schedule(scenario.plan(real).faults[:1]).dumps())
    assert refused(invoke, "latest").startswith("run again, this scenario does not show messages.lost: ")
