"""What takes minutes: the same job on a standalone cluster (a master and two workers on this machine, each a process),
and on a server of Spark Connect; and a thousand runs by both engines."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.store import CUT, DUAL_LEADER, DUPLICATED, LOST, PLANTS, REJECTED, make

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]
SPLITBRAIN = str(Path(sys.executable).with_name("splitbrain"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """Its address."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(tmp_path / "work")
    }  # fmt: skip
    daemons: list[subprocess.Popen[bytes]] = []

    def start(name: str, class_: str, *arguments: str) -> Path:
        log = tmp_path / f"{name}.log"
        with log.open("wb") as file:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{class_}", *arguments]
            daemons.append(subprocess.Popen(command, env=environment, stdout=file, stderr=file))
        return log

    try:
        log = start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        address = _told(log, r"Starting Spark master at (spark://\S+)")
        of = ("--cores", "1", "--memory", "5g", "--host", "127.0.0.1", "--webui-port", "0", address)
        logs = [start(f"worker-{number}", "worker.Worker", *of) for number in (1, 2)]
        for log in logs:
            _told(log, r"(Successfully registered with master)")
        yield address
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)


def _told(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if found := re.search(pattern, log.read_text()):
            return found[1]
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def said(store: Path, *arguments: str) -> dict[str, Any]:
    """What `check --all` says of a store in which something is wrong, but for the engine."""
    command = [SPLITBRAIN, "check", "--all", "--json", "--store", str(store), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"engine": ""}


def test_two_workers_say_what_one_process_says(cluster: str, tmp_path: Path) -> None:
    """With an interpreter that is shipped with the job, and says where it was used."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ntouch "$(dirname "$0")/used"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
    shipped = (f"spark.archives={tmp_path / 'env.tar.gz'}#env", "spark.pyspark.python=./env/bin/python")
    make(tmp_path / "store", runs=16, ops=2000)
    words = ("--engine", "spark", "--master", cluster, "--conf", shipped[0], "--conf", shipped[1])
    assert said(tmp_path / "store", *words) == said(tmp_path / "store", "--engine", "process")
    # both had their share
    executors = [path for path in (tmp_path / "work").glob("app-*/*") if path.name.isdigit()]
    assert len(executors) >= 2
    assert [(path / "env" / "bin" / "used").exists() for path in executors] == [True] * len(executors)


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[str]:
    """The address of a server of Spark Connect."""
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1", "SPARK_LOG_DIR": str(tmp_path), "SPARK_PID_DIR": str(tmp_path),
    }  # fmt: skip
    command = [str(home / "sbin" / "start-connect-server.sh"), "--master", "local[2]"]
    command += ["--conf", f"spark.connect.grpc.binding.port={port}"]
    log = tmp_path / "connect.log"
    with log.open("wb") as file, subprocess.Popen(
        command, env=environment, stdout=file, stderr=file, cwd=tmp_path, start_new_session=True
    ) as server:  # fmt: skip
        try:
            _told(log, r"(Spark Connect server started)")
            yield f"sc://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, signal.SIGTERM)


def test_a_server_of_spark_connect_says_what_one_process_says(connect: str, tmp_path: Path) -> None:
    planted = make(tmp_path / "store", runs=10, ops=300)
    found = said(tmp_path / "store", "--engine", "spark", "--remote", connect)
    assert found == said(tmp_path / "store", "--engine", "process")
    command = [SPLITBRAIN, "ingest", str(tmp_path / "store"), "--json", "--remote", connect]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["rejected"]) == {run for run, plant in planted.items() if plant in REJECTED}


@pytest.mark.timeout(1800)
def test_every_plant_among_a_thousand_runs_is_found_by_both_engines(tmp_path: Path) -> None:
    planted = make(tmp_path / "store", runs=1000, ops=600, plants=dict.fromkeys(PLANTS, 5))
    found = said(tmp_path / "store", "--engine", "process")
    told = {name: "bad" if "bad" in one else one["valid"] for name, one in found["results"].items()}
    expected = {LOST: False, DUAL_LEADER: False, DUPLICATED: True, CUT: "unknown", **dict.fromkeys(REJECTED, "bad")}
    assert told == {name: expected.get(planted.get(name, ""), True) for name in told}
    assert len(told) == 1000
    for name, plant in planted.items():
        if plant == DUPLICATED:
            assert found["results"][name]["checkers"]["messages"]["counts"]["duplicated"] > 0
    assert said(tmp_path / "store", "--engine", "spark", "--master", "local[2]") == found
