"""Containers that are there, taken as nodes: the same machines, reached by the Docker engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.agent.machine import RUNS
from tests.docker.cli import SECOND, fault, splitbrain, wait
from tests.ssh.cli import begun, errors, rules, running
from tests.ssh.machines import LABEL, VERSION, Machines

pytestmark = pytest.mark.docker

CUT = fault("partition", "one", "one", clients=False, service=None)


def arguments(folder: Path, *more: str) -> tuple[str, ...]:
    broker = ("--broker", f"rabbitmq-quorum@{VERSION}", "--rate", "50", "--store", str(folder / "runs"))
    return ("run", *broker, "--set", "expect.faults=any", "--set", "checkers.order.enabled=false", *more)


def names(hosts: Machines) -> str:
    return ",".join(container.name for container in hosts.containers)


@pytest.fixture
def stopped(hosts: Machines) -> Iterator[Any]:
    """A container that does not run."""
    client = hosts.containers[0].client
    one = client.containers.create("splitbrain/test-ssh", labels={LABEL: "stopped"})
    yield one
    one.remove(force=True)


def test_a_run_in_them_and_then_a_controller_that_is_killed(untouched: Machines, tmp_path: Path) -> None:
    hosts = untouched
    quick = {**CUT, "at": SECOND, "duration": 3 * SECOND}
    told = arguments(tmp_path, "--container", names(hosts), "--time", "6s")
    with running(tmp_path, *told, faults=[quick]) as (process, _):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err + out
        assert "3 machines taken" in err
    (tmp_path / "again").mkdir()
    told = arguments(tmp_path / "again", "--container", names(hosts), "--time", "300s")
    with running(tmp_path / "again", *told, faults=[CUT]) as (process, run):
        wait(lambda: begun(run) and any(rules(hosts)), "rules")
        process.kill()
        process.wait()
        wait(lambda: not any(rules(hosts)), "no rule", 20)
        cleaned = splitbrain(tmp_path, "clean", run.name, "--store", str(tmp_path / "again" / "runs"))
        assert f"removed {RUNS}/{run.name} in n1 (container {hosts.containers[0].name})" in cleaned.stdout.splitlines()


def test_containers_that_cannot_be_taken(untouched: Machines, tmp_path: Path, stopped: Any) -> None:
    def refused(*more: str) -> str:
        (line,) = errors(splitbrain(tmp_path, *arguments(tmp_path, "--nemesis", "none", "--time", "1s", *more)))
        return line.removeprefix("splitbrain: error: ")

    assert refused("--container", "no-such") == "there is no container 'no-such' on this machine's Docker engine"
    assert refused("--container", stopped.name) == (
        f"the container {stopped.name} does not run: `docker start {stopped.name}` first"
    )
    label = f"{LABEL}={untouched.containers[0].labels[LABEL]}"
    assert refused("--set", f"cluster.docker.label={label}", "--nodes", "2") == (
        f"2 nodes, and the label {label!r} is on 3 containers that run "
        f"({', '.join(sorted(names(untouched).split(',')))}): say so many nodes, or name the containers"
    )
