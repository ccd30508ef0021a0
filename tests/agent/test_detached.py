"""The agent that nobody holds, on this machine: connections that drop, silence, a guard above it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.agent.daemon import named
from clusters.agent.detached import BYE, PID, RECORD, SOCKET
from clusters.agent.guest import listens
from clusters.agent.process import state, tree
from clusters.agent.relay import GONE
from clusters.agent.session import Lines
from tests.agent.driver import ROOT
from tests.agent.somebody import ME, free, somebody

PATIENCE = 60  # seconds that an end may take, on a busy machine


class Session:
    """A session on the agent's host: our end of the lines, through a relay that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lines, self.number = folder, Lines(), 0
        self.said: list[dict[str, Any]] = []
        self.open()

    def open(self) -> None:
        command = [sys.executable, "-m", "clusters.agent.relay", str(self.folder / SOCKET)]
        self.relay = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.write(self.lines.greeting())

    def drop(self) -> None:
        self.relay.kill()
        self.relay.communicate()

    def write(self, frame: bytes) -> None:
        assert self.relay.stdin is not None
        self.relay.stdin.write(frame)
        self.relay.stdin.flush()

    def send(self, do: str, **arguments: Any) -> int:
        self.number += 1
        self.write(self.lines.put(json.dumps({"id": self.number, "do": do, **arguments}).encode()))
        return self.number

    def next(self) -> dict[str, Any]:
        assert self.relay.stdout is not None
        while frame := self.relay.stdout.readline():
            line, again = self.lines.take(frame)
            for one in again:
                self.write(one)
            if line is not None:
                message: dict[str, Any] = json.loads(line)
                self.said.append(message)
                return message
        raise EOFError

    def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while not condition(message := self.next()):
            pass
        return message

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        number = self.send(do, **arguments)
        return self.until(lambda message: message.get("id") == number)


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "clusters.agent.detached", str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    wait((tmp_path / SOCKET).exists)
    yield process
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=PATIENCE)


@pytest.fixture
def session(guard: subprocess.Popen[bytes], tmp_path: Path) -> Iterator[Session]:
    one = Session(tmp_path)
    yield one
    one.drop()


@pytest.fixture
def broker(session: Session, tmp_path: Path) -> Iterator[int]:
    """A process that only sleeps; its pid."""
    pid = tmp_path / "pid"
    argv = ["/bin/sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600"]
    session.ask("process", name="broker", argv=argv, env={}, user=None, output=str(tmp_path / "output"))
    session.ask("start", name="broker")
    wait(pid.exists)
    yield int(pid.read_text())
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGKILL)


def wait(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def pause(session: Session) -> dict[str, Any]:
    return session.ask("inject", fault="f1", verb="pause", process="broker", args={})


def test_its_socket_is_for_its_user_only(session: Session, tmp_path: Path) -> None:
    assert (tmp_path / SOCKET).stat().st_mode & 0o777 == 0o600


def test_what_was_asked_and_answered_while_the_session_was_gone_is_neither_lost_nor_done_twice(
    session: Session, broker: int
) -> None:
    session.send("inject", fault="f1", verb="pause", process="broker", args={})
    wait(lambda: state(broker) == "T")  # it was asked; the answer is on its way
    session.drop()
    lost = session.lines.put(json.dumps({"id": 100, "do": "ping"}).encode())  # written to nobody
    assert lost
    session.open()
    answers = [session.until(lambda message: "id" in message)["id"] for _ in range(2)]
    assert sorted(answers) == [session.number, 100]
    undone = session.ask("undo", fault="f1")["done"]
    assert [probe["bit"] for probe in undone["probes"]] == [True], "injected once"
    assert len([message for message in session.said if message.get("id") == session.number]) == 1


def test_a_session_that_is_half_dead_gives_way_to_a_new_one(session: Session, tmp_path: Path) -> None:
    assert "done" in session.ask("ping")
    stale = session.relay
    session.open()
    assert "done" in session.ask("ping")
    assert stale.wait(PATIENCE) == 0, "the old one is shown out"
    stale.communicate()


def test_after_a_silence_it_undoes_all_and_notes_it_and_tells_who_comes_back(
    session: Session, broker: int, tmp_path: Path
) -> None:
    session.ask("silence", seconds=0.5)
    pause(session)
    assert state(broker) == "T"
    session.drop()
    wait(lambda: state(broker) != "T")
    wait(lambda: "undone" in (tmp_path / RECORD).read_text())
    record = [json.loads(line) for line in (tmp_path / RECORD).read_text().splitlines()]
    assert [entry["event"] for entry in record] == ["silence", "undone"]
    assert record[1]["fault"] == "f1"
    assert abs(record[1]["time"] - time.time()) < 60
    session.open()
    told = session.until(lambda message: message.get("event") == "undone")
    assert (told["fault"], told["probes"][0]["bit"]) == ("f1", True)
    again = session.ask("undo", fault="f1")["done"]
    assert [probe["bit"] for probe in again["probes"]] == [True], "the controller's own undo learns whether it bit"


def test_it_does_not_end_with_a_session_but_with_a_word(
    guard: subprocess.Popen[bytes], session: Session, broker: int
) -> None:
    pause(session)
    session.drop()
    session.open()
    assert "done" in session.ask("ping")
    session.write(session.lines.put(BYE))
    assert guard.wait(PATIENCE) == 0
    assert state(broker) != "T", "all is undone first"
    session.drop()
    session.open()
    assert session.relay.wait(PATIENCE) == GONE


def test_a_signal_is_as_good_as_a_word(
    guard: subprocess.Popen[bytes], session: Session, broker: int, tmp_path: Path
) -> None:
    pause(session)
    os.kill(int((tmp_path / PID).read_text()), signal.SIGTERM)
    assert guard.wait(PATIENCE) == 0
    assert state(broker) != "T"


def test_a_signal_that_interrupts_another_thread_than_the_one_that_waits(tmp_path: Path) -> None:
    script = """
import signal, sys, threading
from pathlib import Path
from clusters.agent.detached import Listener, on_sigterm
listener = Listener(Path(sys.argv[1]))
on_sigterm(listener.stop)
threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()
print(list(listener))
"""
    command = [sys.executable, "-c", script, str(tmp_path / SOCKET)]
    assert subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=PATIENCE).stdout == b"[]\n"


def test_the_guard_sweeps_when_the_agent_is_killed(guard: subprocess.Popen[bytes], session: Session) -> None:
    assert "done" in session.ask("ping")
    leftover = Path("/dev/shm/splitbrain-clock-of-a-test")
    leftover.write_text("+3600\n")
    _, agent = tree(guard.pid)
    os.kill(agent, signal.SIGKILL)
    assert guard.wait(PATIENCE) == 0
    assert not leftover.exists()
    assert guard.stdout is not None
    assert guard.stdout.readline() == b"the agent ended by -9; removing its faults\n"


def test_and_brings_back_what_is_somebody_elses(
    guard: subprocess.Popen[bytes], session: Session, tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    with somebody(folder) as owner:
        killed, paused = free(), free()
        for name, port in (("broker", killed), ("names", paused)):
            pid = owner.start(port)
            there = {"comm": owner.program.name, "user": ME, "ports": [port]}
            assert session.ask("guest", name=name, **there)["done"] == {"pid": pid}
        for verb, name in (("kill", "broker"), ("pause", "names")):
            assert "done" in session.ask("inject", fault=verb, verb=verb, process=name, args={})
        assert [state(one) for one in named(owner.program.name, ME)] == ["T"]
        _, agent = tree(guard.pid)
        os.kill(agent, signal.SIGKILL)
        assert guard.wait(PATIENCE) == 0
        assert "T" not in [state(one) for one in named(owner.program.name, ME)]
        wait(lambda: any(listens(one, [killed]) for one in named(owner.program.name, ME)))
