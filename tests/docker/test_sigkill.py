"""The controller is killed while faults are in force: the nodes undo them, all can be removed, the history judged."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.faults.nftables import TABLE
from clusters.hosts import docker
from clusters.hosts.engine import engine
from tests.docker.cli import fault, made_by, running, splitbrain, wait
from tests.docker.cluster import new_run
from tests.docker.inside import run_in

pytestmark = pytest.mark.docker

NODES = ("n1", "n2", "n3")


@pytest.fixture
def another_run() -> Iterator[str]:
    """A container and a network that another run made."""
    run = new_run()
    api = engine().api
    labels = {docker.LABEL: run}
    api.create_network(f"splitbrain-{run}", labels=labels)
    api.create_container("splitbrain/rabbitmq:4.0", name=f"splitbrain-{run}-n1", labels=labels)
    yield run
    docker.clean(run)


def test_a_controller_that_is_killed_amid_a_partition_and_a_pause(tmp_path: Path, another_run: str) -> None:
    before = made_by(another_run)
    assert len(before) == 2
    faults = [fault("partition", "one", "one", clients=False, service=None), fault("pause", "pause", "one")]
    with running(tmp_path, faults=faults) as run:
        store = ("--store", str(run.store))
        run.wait_for_faults(2)
        wait(lambda: "T" in states(run.container(node) for node in NODES), "paused process")
        assert rules(run.container(node) for node in NODES)
        run.process.send_signal(signal.SIGKILL)
        run.process.wait()

        # by themselves, before anybody cleans up
        wait(lambda: not rules(run.container(node) for node in NODES), "end of the rules", 20)
        wait(lambda: "T" not in states(run.container(node) for node in NODES), "end of the pause", 20)

        shown = splitbrain(tmp_path, "show", run.run, *store)
        assert "its controller was killed before there was a verdict" in shown.stdout
        assert "never undone: partition-1, pause-1" in shown.stdout
        checked = splitbrain(tmp_path, "check", run.run, "--json", *store)
        verdict = json.loads(checked.stdout)
        assert (checked.returncode, verdict["valid"]) == (2, "unknown")
        assert "the history is cut" in checked.stdout
        assert "unknown" in splitbrain(tmp_path, "show", run.run, *store).stdout.lower()

        assert len(made_by(run.run)) == 4, "judging a run does not remove its cluster"
        cleaned = splitbrain(tmp_path, "clean", run.run, *store)
        assert (cleaned.returncode, len(cleaned.stdout.splitlines())) == (0, 4)
        assert made_by(run.run) == []
        assert made_by(another_run) == before
        again = splitbrain(tmp_path, "clean", run.run, *store)
        assert (again.returncode, again.stdout) == (0, "there was nothing to remove\n")


def rules(containers: Iterator[object]) -> bool:
    """Whether our table is on any of the nodes."""
    return any(one.exec_run(["nft", "list", "table", "inet", TABLE]).exit_code == 0 for one in containers)  # type: ignore[attr-defined]


def states(containers: Iterator[object]) -> set[str]:
    """The kernel's letters for what the broker's processes are doing."""
    found: set[str] = set()
    for one in containers:
        found.update(run_in(one, "ps", "-C", "beam.smp", "-o", "state=")[1].split())
    return found
