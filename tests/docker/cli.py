"""The `splitbrain` command as a process of its own, with faults that a test chooses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clusters.hosts.docker import LABEL
from clusters.hosts.engine import engine

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-c", "from chaos.cli.main import main; main()")
SECOND = 10**9
# A run's id, which names what it makes, is the second in which it begins, its broker and its seed: two processes of
# tests, side by side, must not come to the same. (1 is for pages, whose commands say none.)
SEED = str(100 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")))


def fault(nemesis: str, kind: str, target: str, **args: Any) -> dict[str, Any]:
    """A fault that begins with the work and lasts for minutes."""
    return {
        "id": f"{nemesis}-1", "nemesis": nemesis, "kind": kind, "target": target, "at": 0, "after": 0,
        "duration": 600 * SECOND, "trigger": None, "draw": 1, "args": args,
    }  # fmt: skip


class Started:
    """A run that goes on. `run`: its id."""

    def __init__(self, process: subprocess.Popen[str], store: Path) -> None:
        self.process, self.store = process, store
        self.run = ""

    def wait_for_faults(self, number: int) -> None:
        """Until so many are in force, by the history as far as it is on the disk."""
        ledger = self.store / self.run / "ledger.jsonl"
        wait(lambda: ledger.exists() and len(ledger.read_text().splitlines()) >= number, "faults in the ledger")

    def container(self, node: str) -> Any:
        return engine().containers.get(f"splitbrain-{self.run}-{node}")

    def end(self, patience: float = 60) -> tuple[int, str]:
        """Its exit code and what it said on stderr that is no progress."""
        _, said = self.process.communicate(timeout=patience)
        return self.process.returncode, "\n".join(line for line in said.splitlines() if "splitbrain:" in line)


@contextmanager
def running(folder: Path, *arguments: str, faults: list[dict[str, Any]] | None = None, **env: str) -> Iterator[Started]:
    """`splitbrain run` on docker; what is left of it in the end is killed and cleaned up."""
    store = folder / "runs"
    told = ["run", "--broker", "rabbitmq-quorum@4.0", "--on", "docker", "--rate", "50", "--time", "300s"]
    told += ["--seed", SEED]
    if faults is not None:
        schedule = folder / "schedule.json"
        schedule.write_text(json.dumps({"schema": 1, "faults": faults}))
        told += ["--schedule", str(schedule)]
    process = subprocess.Popen(
        [*COMMAND, *told, "--store", str(store), *arguments],
        cwd=folder, env=environment(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    started = Started(process, store)
    try:
        wait(lambda: process.poll() is not None or any(store.glob("*/run.json")), "a run in the store")
        started.run = next((path.parent.name for path in store.glob("*/run.json")), "")
        yield started
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        if started.run:
            splitbrain(folder, "clean", started.run, "--store", str(store))


def splitbrain(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command, to its end."""
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, env=environment(env), capture_output=True, text=True, timeout=300
    )


def environment(more: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "500", **more}


def made_by(run: str) -> list[str]:
    """Names of the containers and networks that bear a run's label."""
    api, label = engine().api, {"label": f"{LABEL}={run}"}
    containers = [container["Names"][0].lstrip("/") for container in api.containers(all=True, filters=label)]
    return sorted(containers) + [network["Name"] for network in api.networks(filters=label)]


def wait(check: Callable[[], Any], what: str, patience: float = 120) -> None:
    end = time.monotonic() + patience
    while not check():
        assert time.monotonic() < end, f"no {what} within {patience} s"
        time.sleep(0.05)
