"""A broker of the user's own, driven at its address and hurt over SSH on the host that it is on."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.model.history_file import read
from clusters.agent.detached import RECORD
from clusters.agent.machine import RUNS
from clusters.external import PASSWORD, USER
from tests.docker.cli import SECOND, fault, splitbrain, wait
from tests.ssh.cli import errors, running
from tests.ssh.machines import VERSION, Machines, machines

pytestmark = pytest.mark.docker

LOGIN = {USER: "qa", PASSWORD: "secret"}
BEAM = "pgrep -o -u rabbitmq -x beam.smp"
SECONDS = 3


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """A machine with a RabbitMQ that runs, and a user for us."""
    with machines(tmp_path_factory.mktemp("own"), 1, "SYS_PTRACE") as made:
        who = "setpriv --reuid=rabbitmq --regid=rabbitmq --init-groups env HOME=/var/lib/rabbitmq"
        made.sh(0, f"cd /var/lib/rabbitmq && setsid {who} rabbitmq-server > /dev/null 2>&1 &")
        await_startup(made)
        made.sh(0, "rabbitmqctl -q add_user qa secret && rabbitmqctl -q set_permissions qa '.*' '.*' '.*'")
        yield made


def await_startup(own: Machines) -> None:
    wait(lambda: own.run(0, "rabbitmqctl", "-q", "await_startup", "--timeout", "5")[0] == 0, "RabbitMQ")


def arguments(own: Machines, folder: Path, *more: str, port: int = 5672, silence: str = "60s") -> tuple[str, ...]:
    (folder / "hosts.toml").write_text(own.inventory(hosts=[0], silence=silence))
    where = ("--address", f"amqp://{own.addresses[0]}:{port}", "--inventory", "hosts.toml")
    return ("run", "--broker", f"rabbitmq-quorum@{VERSION}", *where, "--rate", "50", "--store", "runs", *more)


def test_it_is_killed_and_cut_off_and_left_as_it_was(own: Machines, tmp_path: Path) -> None:
    before, pid = own.state(0), own.sh(0, BEAM)
    faults = [
        {**fault("partition", "clients", "n1", service=None), "at": SECOND, "duration": SECONDS * SECOND},
        {**fault("kill", "kill", "n1", process="epmd"), "id": "names-1", "at": SECOND, "duration": SECONDS * SECOND},
        {**fault("pause", "pause", "n1"), "at": 5 * SECOND, "duration": SECONDS * SECOND},
        {**fault("kill", "kill", "n1"), "at": 10 * SECOND, "duration": SECONDS * SECOND},
    ]
    relaxed = ("--set", "expect.faults=any", "--set", "cluster.settings.heartbeat=2s")
    told = arguments(own, tmp_path, "--time", "18s", *relaxed)
    with running(tmp_path, *told, faults=faults, **LOGIN) as (process, run):
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err + out
    history = read(run / "history.parquet")
    undone = [history[int(row)] for row in history.rows("undo")]
    assert [(op.detail or {})["bit"] for op in undone if op.detail] == [True] * 4
    assert f"n1: pid {pid.strip()} was killed" in [(op.detail or {}).get("evidence") for op in undone]
    assert own.sh(0, BEAM) != pid
    now = own.state(0)
    own_doing = ("/var/lib/rabbitmq/", "/var/log/rabbitmq/", "process rabbitmq ")
    assert {line for line in now ^ before if not line.startswith(own_doing)} == set()
    assert [line.split()[2] for line in now if line.startswith("process rabbitmq beam.smp")] == ["beam.smp"]
    said = own.sh(0, "rabbitmqctl -q list_queues")
    assert "splitbrain" not in said


def test_the_watchdog_starts_it_again_when_the_controller_is_killed(own: Machines, tmp_path: Path) -> None:
    pid = own.sh(0, BEAM)
    later = {**fault("kill", "kill", "n1"), "at": 2 * SECOND}
    told = arguments(own, tmp_path, "--time", "300s", silence="3s")
    with running(tmp_path, *told, faults=[later], **LOGIN) as (process, run):
        wait(lambda: own.run(0, "sh", "-c", BEAM)[1] == "", "end of the broker")
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait(lambda: own.run(0, "sh", "-c", BEAM)[1] not in ("", pid), "broker", 20)
        record = own.sh(0, f"cat {RUNS}/{run.name}/{RECORD}")
        assert [json.loads(line)["event"] for line in record.splitlines()] == ["silence", "undone"]
        await_startup(own)
        cleaned = splitbrain(tmp_path, "clean", run.name, "--store", "runs", **LOGIN)
        assert cleaned.returncode == 0, cleaned.stderr
        assert f"removed {RUNS}/{run.name} on n1 (root@{own.addresses[0]})" in cleaned.stdout.splitlines()
        assert f"removed queue splitbrain.{run.name}.q1" in cleaned.stdout.splitlines()
    assert own.run(0, "ls", str(RUNS))[0] != 0
    assert own.run(0, "sh", "-c", BEAM)[1] not in ("", pid), "it runs on"


def test_what_cannot_be_done_to_what_is_not_ours(own: Machines, tmp_path: Path) -> None:
    def refused(*more: str, port: int = 5672) -> tuple[int, str]:
        done = splitbrain(tmp_path, *arguments(own, tmp_path, *more, port=port), **LOGIN)
        (line,) = errors(done)
        return done.returncode, line.removeprefix("splitbrain: error: ")

    code, said = refused("--nemesis", "power-off")
    assert (code, said) == (
        254,
        "--nemesis: nemesis[0]: 'power-off' needs 'power-off', which this cluster cannot do: its data are its owner's, "
        "and stay where they are",
    )
    code, said = refused("--nemesis", "clock")
    assert code == 254
    assert said.endswith("only a process that we start ourselves can be held so")
    assert not (tmp_path / "runs").exists()
    before = own.state(0)
    code, said = refused("--nemesis", "kill", "--time", "20s", port=5673)
    assert code == 255
    assert said == (
        f"n1 (root@{own.addresses[0]}): is it the host of that address? n1: guest: no beam.smp of rabbitmq that runs "
        "there listens on port 5673"
    )
    assert {line for line in own.state(0) ^ before if not line.startswith("/var/lib/rabbitmq/")} == set()
