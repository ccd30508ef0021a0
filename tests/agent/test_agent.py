"""The agent as a whole, on this machine, with `sleep` for a broker: nothing here needs root or a container."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.agent.process import state
from tests.agent.driver import LocalAgent, local_agent


@pytest.fixture
def agent() -> Iterator[LocalAgent]:
    with local_agent() as running:
        yield running


@pytest.fixture
def broker(agent: LocalAgent, tmp_path: Path) -> Iterator[Path]:
    """A shell that writes its pid, and then sleeps in a child of its own."""
    pid = tmp_path / "pid"
    start(agent, pid, f"sleep 600 & echo $$ > {pid}; wait")
    yield pid
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(pid.read_text()), signal.SIGKILL)


def start(agent: LocalAgent, pid: Path, script: str) -> None:
    define: dict[str, Any] = {
        "argv": ["/bin/sh", "-c", script],
        "env": {},
        "user": None,
        "output": str(pid.with_name("output")),
    }
    assert "done" in agent.ask("process", name="broker", **define)
    assert agent.ask("start", name="broker")["done"] == {"incarnation": 1}
    read_pid(pid)


def read_pid(path: Path, other_than: int = 0) -> int:
    while True:
        with contextlib.suppress(OSError, ValueError):
            if (pid := int(path.read_text())) != other_than:
                return pid
        time.sleep(0.005)


def inject(agent: LocalAgent, fault: str, verb: str, **args: Any) -> dict[str, Any]:
    return agent.ask("inject", fault=fault, verb=verb, process="broker", args=args)


def undo(agent: LocalAgent, fault: str) -> list[dict[str, Any]]:
    probes: list[dict[str, Any]] = agent.ask("undo", fault=fault)["done"]["probes"]
    return probes


def test_a_ping_is_answered_with_the_nodes_monotonic_clock(agent: LocalAgent) -> None:
    before = time.monotonic_ns()
    answer = agent.ask("ping")
    assert before <= answer["at"] <= time.monotonic_ns()


def test_a_kill_is_probed_told_and_undone_by_a_new_life(agent: LocalAgent, broker: Path) -> None:
    pid = read_pid(broker)
    answer = inject(agent, "f1", "kill")
    assert answer["done"] == {"evidence": f"pid {pid} gone"}
    assert state(pid) is None
    exit_ = agent.event("exit")
    assert exit_.pop("at") <= answer["at"]
    assert exit_ == {
        "event": "exit", "process": "broker", "incarnation": 1, "reason": "signal SIGKILL", "asked": True
    }  # fmt: skip
    assert undo(agent, "f1") == [{"verb": "kill", "bit": True, "evidence": f"pid {pid} was killed"}]
    assert read_pid(broker, other_than=pid)
    assert agent.ask("start", name="broker")["done"] == {"incarnation": 2}


def test_two_kills_at_once_end_with_the_last_and_only_one_bites(agent: LocalAgent, broker: Path) -> None:
    pid = read_pid(broker)
    inject(agent, "f1", "kill")
    assert inject(agent, "f2", "kill")["done"]["evidence"] == "it was not running"
    undo(agent, "f1")
    assert agent.ask("ask", question="x")["error"]  # answered: whatever f1's undo did is over
    assert read_pid(broker) == pid
    assert undo(agent, "f2") == [{"verb": "kill", "bit": False, "evidence": "it was not running"}]
    assert read_pid(broker, other_than=pid)


def test_a_stop_waits_for_the_orderly_end(agent: LocalAgent, broker: Path) -> None:
    pid = read_pid(broker)
    assert inject(agent, "f1", "stop")["done"] == {"evidence": f"pid {pid} told to stop"}
    assert undo(agent, "f1") == [{"verb": "stop", "bit": True, "evidence": f"pid {pid} stopped"}]
    assert agent.event("exit")["asked"] is True


def test_a_pause_stops_the_process_and_its_children(agent: LocalAgent, broker: Path) -> None:
    pid = read_pid(broker)
    child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
    assert inject(agent, "f1", "pause")["done"] == {"evidence": f"pid {pid} is in state T"}
    assert (state(pid), state(child)) == ("T", "T")
    inject(agent, "f2", "pause")
    undo(agent, "f1")
    assert state(pid) == "T", "f2 still holds it"
    assert undo(agent, "f2")[0]["bit"] is True
    assert "T" not in (state(pid), state(child))


def test_a_kill_during_a_pause_leaves_no_stopped_child(agent: LocalAgent, broker: Path) -> None:
    pid = read_pid(broker)
    child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
    inject(agent, "f1", "pause")
    inject(agent, "f2", "kill")
    assert state(child) != "T"
    assert undo(agent, "f1")[0]["evidence"] == f"pid {pid} was stopped; state gone at the end"
    os.kill(child, signal.SIGKILL)


def test_an_end_that_nobody_asked_for_is_told(agent: LocalAgent, broker: Path) -> None:
    os.kill(read_pid(broker), signal.SIGKILL)
    event = agent.event("exit")
    assert (event["incarnation"], event["reason"], event["asked"]) == (1, "signal SIGKILL", False)


def test_what_ended_by_itself_starts_again_and_meanwhile_no_fault_can_tell(agent: LocalAgent, broker: Path) -> None:
    pid = read_pid(broker)
    os.kill(pid, signal.SIGKILL)
    agent.event("exit")
    assert inject(agent, "f1", "pause")["done"] == {"evidence": "it had ended by itself"}
    assert undo(agent, "f1") == [{"verb": "pause", "bit": None, "evidence": "it had ended by itself"}]
    assert read_pid(broker, other_than=pid)
    assert agent.ask("start", name="broker")["done"] == {"incarnation": 2}


def test_an_undo_that_follows_at_once_does_not_overtake_its_inject(agent: LocalAgent, broker: Path) -> None:
    for number in range(20):
        request = {"fault": f"f{number}", "verb": "pause", "process": "broker", "args": {}}
        agent.send("inject", **request)
        assert [probe["bit"] for probe in undo(agent, f"f{number}")] == [True]


def test_when_its_input_ends_it_undoes_everything_and_goes(agent: LocalAgent, broker: Path) -> None:
    pid = read_pid(broker)
    inject(agent, "f1", "pause")
    inject(agent, "f2", "pause")
    undone = [event for event in agent.rest() if event["event"] == "undone"]
    assert [(event["fault"], event["probes"][0]["bit"]) for event in undone] == [("f1", True), ("f2", True)]
    assert state(pid) != "T"


def test_after_a_silence_it_undoes_everything_and_stays(agent: LocalAgent, broker: Path) -> None:
    pid = read_pid(broker)
    inject(agent, "f1", "pause")
    agent.ask("silence", seconds=0.2)
    assert agent.event("silence")["seconds"] == 0.2
    assert agent.event("undone")["fault"] == "f1"
    assert state(pid) != "T"
    assert "done" in agent.ask("ping")


def test_undoing_what_never_was_is_harmless(agent: LocalAgent) -> None:
    assert undo(agent, "f9") == []


@pytest.mark.parametrize(
    ("verb", "args", "problem"),
    [
        ("melt", {}, "'melt' is not a verb of this agent"),
        ("kill", {}, "no process 'broker' on this node; known: none"),
        ("cut", {}, "rules: None is not list"),
        ("cut", {"rules": [{"direction": "up", "peer": "::1"}]}, "direction: 'up' is neither in nor out"),
        ("cut", {"rules": [{"direction": "in", "peer": "n1; flush ruleset"}]}, "peer: 'n1; flush ruleset' is not an"),
        ("cut", {"rules": [{"direction": "in", "peer": "::1", "ports": [0]}]}, "ports: [0] are not all ports"),
        ("loss", {"rules": [], "probability": "0.1"}, "probability: '0.1' is not int or float"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(agent: LocalAgent, verb: str, args: Any, problem: str) -> None:
    assert problem in inject(agent, "f1", verb, **args)["error"]
    assert undo(agent, "f1") == []


def test_files_are_written_with_their_mode(agent: LocalAgent, tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret"
    user = {"user": os.getuid()}
    for content in ("b25l", "dHdv"):  # the second replaces a read-only file
        assert "done" in agent.ask("files", files=[{"path": str(path), "data": content, "mode": 0o400, **user}])
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two", 0o400)


def test_views_are_pushed_with_the_times_around_them_and_the_life_that_answered(
    agent: LocalAgent, broker: Path, tmp_path: Path
) -> None:
    answers: list[dict[str, Any]] = [
        {"pid": str(read_pid(broker)), "views": [{"scope": "q"}]},
        {"pid": "1", "views": []},
    ]
    with reporter(tmp_path / "socket", answers) as questions:
        agent.ask("sample", path=str(tmp_path / "socket"), question="views", period=0.01)
        first, second = agent.event("views"), agent.event("views")
    assert questions[:2] == ["views", "views"]
    assert (first["incarnation"], first["views"]) == (1, [{"scope": "q"}])
    assert first["asked"] <= first["at"] <= second["asked"]
    assert second["incarnation"] is None, "a process that is not ours"


@contextlib.contextmanager
def reporter(path: Path, answers: list[dict[str, Any]]) -> Iterator[list[str]]:
    """A broker's reporter on a unix socket: answers in turn, and the questions that it was asked."""
    questions: list[str] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection, connection.makefile("rwb") as stream:
                    for answer in answers:
                        questions.append(stream.readline().decode().strip())
                        stream.write(json.dumps(answer).encode() + b"\n")
                        stream.flush()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield questions
        thread.join(5)
