"""Whole runs on hosts over SSH: as a user with sudo and a password, with a session that drops, with a controller that
is killed. The machines are then as they were."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from chaos.model.history_file import read
from clusters.agent.detached import RECORD
from clusters.agent.machine import RUNS
from clusters.hosts.inventory import SUDO
from tests.docker.cli import SECOND, fault, splitbrain, wait
from tests.ssh.cli import begun, rules, running, told
from tests.ssh.machines import Machines

pytestmark = pytest.mark.docker

SECRET = {SUDO: "open-sesame"}
RELAXED = [f"--set={key}" for key in ("expect.faults=any", "checkers.order.enabled=false")]
DATA = "/var/lib/rabbitmq/mnesia/rabbit@old"
CUT = fault("partition", "one", "one", clients=False, service=None)


def drop_sessions(hosts: Machines, number: int) -> None:
    hosts.sh(number, "pkill -f 'sshd(-session)?: (root|keeper)'")


def test_a_run_with_a_partition_amid_which_a_session_drops(untouched: Machines, tmp_path: Path) -> None:
    hosts = untouched
    cut = {**CUT, "at": SECOND, "duration": 5 * SECOND}
    arguments = told(hosts, tmp_path, "--time", "9s", *RELAXED, inventory=hosts.inventory("keeper"))
    with running(tmp_path, *arguments, faults=[cut], **SECRET) as (process, run):
        wait(lambda: begun(run) and any(rules(hosts)), "rules")
        for number in range(3):
            drop_sessions(hosts, number)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err + out
    history = read(run / "history.parquet")
    lost = [history[int(row)] for row in history.rows("session")]
    assert sorted(str(op.node) for op in lost) == ["n1", "n2", "n3"]
    assert {str(op.error).partition(";")[0] for op in lost} == {"the session was lost"}
    assert len(history.rows("watchdog")) == 0, "it was back in time"
    undone = [op for op in map(int, history.rows("undo")) if history[op].detail]
    assert [(history[op].detail or {})["bit"] for op in undone] == [True]
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"open-sesame" not in path.read_bytes(), f"a secret in {path}"


def test_a_controller_that_is_killed(untouched: Machines, tmp_path: Path) -> None:
    """The rules go by themselves; what somebody's broker had is put back by `clean`."""
    hosts = untouched
    hosts.sh(0, f"mkdir -p {DATA} && echo precious > {DATA}/data")
    before = hosts.state(0)
    try:
        arguments = told(hosts, tmp_path, "--time", "300s", inventory=hosts.inventory(silence="3s", aside=True))
        with running(tmp_path, *arguments, faults=[CUT]) as (process, run):
            wait(lambda: begun(run) and any(rules(hosts)), "rules")
            process.send_signal(signal.SIGKILL)
            process.wait()
            wait(lambda: not any(rules(hosts)), "end of the rules", 20)
            record = hosts.sh(0, f"cat {RUNS}/{run.name}/{RECORD}")
            events = [json.loads(line) for line in record.splitlines()]
            assert [event["event"] for event in events] == ["silence", "undone"]
            assert (events[0]["seconds"], events[1]["fault"]) == (3.0, "partition-1")
            assert events[1]["at"] - events[0]["at"] < 2 * SECOND
            cleaned = splitbrain(tmp_path, "clean", "--all", "--store", str(tmp_path / "runs"))
            assert cleaned.returncode == 0, cleaned.stderr
            assert f"removed {RUNS}/{run.name} on n1 (root@{hosts.addresses[0]})" in cleaned.stdout.splitlines()
            again = splitbrain(tmp_path, "clean", run.name, "--store", str(tmp_path / "runs"))
            assert (again.returncode, again.stdout) == (0, "there was nothing to remove\n")
        assert hosts.state(0) ^ before == set()
        assert hosts.sh(0, f"cat {DATA}/data") == "precious\n"
    finally:
        hosts.sh(0, "rm -rf /var/lib/rabbitmq/mnesia")


def test_etcd(untouched: Machines, tmp_path: Path) -> None:
    """By Debian's own package: members that know each other by address, and not by name; restarted in turn."""
    hosts = untouched
    cut = fault("partition", "one", "n2", clients=False, service="replication")
    faults = [
        {**cut, "at": SECOND, "duration": 3 * SECOND},
        {**fault("rolling-restart", "rolling-restart", "all"), "at": 6 * SECOND, "duration": 60 * SECOND},
    ]
    words = ("--workload", "register", "--time", "16s", "--set", "expect.faults=any")
    arguments = told(hosts, tmp_path, *words, inventory=hosts.inventory(), broker="etcd@3.5")
    with running(tmp_path, *arguments, faults=faults) as (process, run):
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err + out
    history = read(run / "history.parquet")
    undone = [detail for row in history.rows("undo") if (detail := history[int(row)].detail)]
    assert [detail["bit"] for detail in undone] == [True, True]
    restarted = re.findall(r"(n\d): pid \d+ stopped, and served again", undone[1]["evidence"])
    assert sorted(restarted) == ["n1", "n2", "n3"], "one after the other"
