"""Crash loops, and processes that are found rather than started, on this machine: nothing here needs root."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.agent.process import state
from tests.agent.driver import LocalAgent, local_agent

SERVER = "import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)"
NAP = "splitbrain-nap"


@pytest.fixture
def agent() -> Iterator[LocalAgent]:
    with local_agent() as running:
        yield running


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number: int = free.getsockname()[1]
        return number


@pytest.fixture
def broker(agent: LocalAgent, tmp_path: Path, port: int) -> Iterator[int]:
    """Listens on the port."""
    argv = [sys.executable, "-c", SERVER.format(port=port)]
    agent.ask("process", name="broker", argv=argv, env={}, user=None, output=str(tmp_path / "output"))
    agent.ask("start", name="broker")
    until(lambda: listens(port))
    yield port
    agent.ask("inject", fault="end", verb="kill", process="broker", args={})


def until(condition: Callable[[], Any], patience: float = 20) -> Any:
    end = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


def inject(agent: LocalAgent, fault: str, verb: str, process: str, **args: Any) -> str:
    answer = agent.ask("inject", fault=fault, verb=verb, process=process, args=args)
    evidence: str = answer["done"]["evidence"] if "done" in answer else answer["error"]
    return evidence


def undo(agent: LocalAgent, fault: str) -> tuple[bool | None, str]:
    (probe,) = agent.ask("undo", fault=fault)["done"]["probes"]
    return probe["bit"], probe["evidence"]


def lives(agent: LocalAgent) -> int:
    answer: int = agent.ask("start", name="broker")["done"]["incarnation"]
    return answer


def test_a_crash_loop_kills_as_soon_as_it_serves_and_lets_it_live_in_the_end(agent: LocalAgent, broker: int) -> None:
    inject(agent, "f1", "crash-loop", "broker", times=3, port=broker)
    reasons = [agent.event("exit")["reason"] for _ in range(3)]
    assert reasons == ["signal SIGKILL"] * 3
    until(lambda: listens(broker))
    assert undo(agent, "f1") == (True, "killed 3 of 3 times, each as soon as it served")
    assert lives(agent) == 4


def test_a_crash_loop_that_is_undone_early_says_how_far_it_got(agent: LocalAgent, broker: int) -> None:
    inject(agent, "f1", "crash-loop", "broker", times=1000, port=broker)
    for _ in range(2):
        agent.event("exit")
    bit, evidence = undo(agent, "f1")
    assert bit is True
    assert evidence.endswith(" of 1000 times, each as soon as it served")
    until(lambda: listens(broker))


def test_one_kill_is_no_loop(agent: LocalAgent, broker: int, port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        silent = other.getsockname()[1]
    inject(agent, "f1", "crash-loop", "broker", times=3, port=silent)  # where it never serves
    agent.event("exit")
    assert undo(agent, "f1") == (False, "killed 1 of 3 times")
    until(lambda: listens(broker))
    assert "times: 1 is no loop" in inject(agent, "f2", "crash-loop", "broker", times=1, port=port)


@pytest.fixture
def daemon(agent: LocalAgent, tmp_path: Path) -> Iterator[Callable[[], int | None]]:
    """Runs in the background as a child of nobody, and is found by name; gives its pid."""
    nap = tmp_path / NAP
    shutil.copy("/bin/sleep", nap)

    def pid() -> int | None:
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "exe") == str(nap):
                    return int(entry.name) if state(int(entry.name)) != "Z" else None
        return None

    argv = ["/bin/sh", "-c", f"{nap} 600 &"]
    agent.ask("daemon", name="names", comm=NAP[:15], argv=argv, env={}, user=None)
    inject(agent, "first", "kill", "names")
    agent.ask("undo", fault="first")  # that is how it is started
    yield pid
    if (last := pid()) is not None:
        os.kill(last, signal.SIGKILL)


def test_a_daemon_is_killed_and_started_again(agent: LocalAgent, daemon: Callable[[], int | None]) -> None:
    pid = daemon()
    assert pid is not None
    assert inject(agent, "f1", "kill", "names") == f"pid {pid} gone"
    assert daemon() is None
    assert undo(agent, "f1") == (True, f"pid {pid} was killed")
    assert daemon() not in (None, pid)


def test_a_daemon_that_came_back_by_itself_is_left_alone(agent: LocalAgent, daemon: Callable[[], int | None]) -> None:
    inject(agent, "f1", "kill", "names")
    inject(agent, "f2", "kill", "names")
    assert undo(agent, "f1")[0] is True
    assert daemon() is None, "f2 still holds it down"
    assert undo(agent, "f2") == (False, "it was not running")
    pid = daemon()
    inject(agent, "f3", "pause", "names")
    assert state(pid or 0) == "T"
    assert undo(agent, "f3") == (True, f"pid {pid} was stopped; state T at the end")
    assert (daemon(), state(pid or 0) == "T") == (pid, False)


def test_another_users_process_of_that_name_is_not_the_brokers(
    agent: LocalAgent, daemon: Callable[[], int | None]
) -> None:
    pid = daemon()
    agent.ask("daemon", name="other", comm=NAP[:15], argv=["true"], env={}, user="nobody")
    assert inject(agent, "f1", "kill", "other") == "it was not running"
    assert daemon() == pid


def test_what_only_a_process_of_ours_can_do_is_refused_for_a_daemon(
    agent: LocalAgent, daemon: Callable[[], int | None]
) -> None:
    said = inject(agent, "f1", "crash-loop", "names", times=2, port=1)
    assert said == "inject: process 'names' is not one that we start; those that we do: none"
