"""`splitbrain run` on those machines, as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.docker.cli import COMMAND, environment, splitbrain, wait
from tests.ssh.machines import VERSION, Machines


def told(
    hosts: Machines, folder: Path, *arguments: str, inventory: str, broker: str = f"rabbitmq-quorum@{VERSION}"
) -> tuple[str, ...]:
    """The arguments of a run on the machines of that inventory."""
    (folder / "hosts.toml").write_text(inventory)
    where = ("--broker", broker, "--inventory", "hosts.toml")
    return ("run", *where, "--set", "workload.rate=50", "--store", str(folder / "runs"), *arguments)


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("splitbrain: ")]


@contextmanager
def running(folder: Path, *arguments: str, faults: list[dict[str, Any]], **env: str) -> Iterator[tuple[Any, Path]]:
    """A run that goes on, with those faults, and its directory; killed, and cleaned up after, when this ends."""
    schedule = folder / "schedule.json"
    schedule.write_text(json.dumps({"schema": 1, "faults": faults}))
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--schedule", str(schedule)],
        cwd=folder, env=environment(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    store = folder / "runs"
    directory: Path | None = None
    try:
        wait(lambda: process.poll() is not None or any(store.glob("*/run.json")), "a run in the store")
        directory = next(store.glob("*/run.json")).parent
        yield process, directory
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        if directory is not None:
            splitbrain(folder, "clean", directory.name, "--store", str(store), **env)


def begun(run: Path) -> bool:
    """Whether a run has begun a fault. Rules are also on hosts for a moment before, while it is tried out whether there
    can be any."""
    ledger = run / "ledger.jsonl"
    return ledger.exists() and ledger.stat().st_size > 0


def rules(hosts: Machines) -> list[bool]:
    """On which machines our table is."""
    return [hosts.run(number, "nft", "list", "table", "inet", "splitbrain")[0] == 0 for number in range(3)]
