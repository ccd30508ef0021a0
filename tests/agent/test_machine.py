"""A machine taken and given back, on folders that stand for it; also when it went down in between."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clusters.agent import machine
from tests.agent.driver import ROOT

RUN = "20260101-a-run"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(machine, "_SYSTEMD", tmp_path / "systemd")
    monkeypatch.setattr(machine, "sweep", list)
    (tmp_path / "runs" / RUN).mkdir(parents=True)
    return tmp_path / "runs"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Somebody's broker's data: files, a folder, a link."""
    folder = tmp_path / "data"
    (folder / "mnesia").mkdir(parents=True)
    (folder / "mnesia" / "precious").write_text("precious")
    (folder / ".hidden").write_text("secret")
    (folder / "link").symlink_to("mnesia")
    return folder


def tree(folder: Path) -> dict[str, str]:
    def content(path: Path) -> str:
        return os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else ""

    return {str(path.relative_to(folder)): content(path) for path in sorted(folder.rglob("*"))}


def take(*folders: Path, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"services": [], "ports": [], "made": [], "users": [], "files": [], "commands": []}
    return machine.take(RUN, folders=[str(folder) for folder in folders], **{**told, **more})


def test_what_was_in_a_folder_is_aside_meanwhile_and_back_in_the_end(data: Path, tmp_path: Path, runs: Path) -> None:
    before, new = tree(data), tmp_path / "new"
    assert take(data, new)["aside"] == [str(data)]
    assert [path.name for path in machine._entries(data)] == []
    assert new.is_dir()
    for folder in (data, new):
        (folder / "mnesia").mkdir()
        (folder / "mnesia" / "ours").write_text("ours")
    assert len(machine.leave(RUN)["removed"]) == 3
    assert tree(data) == before
    assert not new.exists()
    assert not runs.exists()
    (runs / RUN).mkdir(parents=True)
    assert machine.leave(RUN)["removed"] == [str(runs / RUN)], "nothing else"
    assert tree(data) == before


class Power(Exception):
    """The machine goes down."""


@pytest.mark.parametrize("moves", range(8))
@pytest.mark.parametrize("again", [False, True])
def test_a_machine_that_goes_down_amid_it_loses_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch, moves: int, again: bool
) -> None:
    """After so many renames, of those that move things aside and of those that move them back; and then once more."""
    before = tree(data)
    left = [moves]
    rename = Path.rename

    def renamed(self: Path, target: Path) -> Path:
        if left[0] == 0:
            raise Power
        left[0] -= 1
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", renamed)
    try:
        take(data)
        (data / "ours").write_text("ours")
        machine.leave(RUN)
    except Power:
        left[0] = moves if again else -1
        try:
            machine.leave(RUN)
        except Power:
            left[0] = -1
            machine.leave(RUN)
    assert tree(data) == before


def test_a_journal_whose_last_line_is_torn(data: Path, runs: Path) -> None:
    before = tree(data)
    journal = runs / RUN / "journal.jsonl"
    journal.write_text(json.dumps({"aside": str(data), "there": True})[:-5])
    machine.leave(RUN)
    assert tree(data) == before


def test_files_and_commands_of_ours_go_and_so_does_a_link(tmp_path: Path) -> None:
    ours, link, kept = tmp_path / "ours", tmp_path / "link", tmp_path / "kept"
    kept.mkdir()
    (kept / "mine").write_text("mine")
    link.symlink_to(kept)
    user = os.getuid()
    take(
        made=[str(ours), str(link)],
        files=[{"path": str(ours / "source"), "data": "b25l", "mode": 0o640, "user": user}],
        commands=[["cp", str(ours / "source"), str(ours / "made")]],
    )
    assert (ours / "made").read_text() == "one"
    machine.leave(RUN)
    assert not ours.exists()
    assert not link.is_symlink()
    assert (kept / "mine").read_text() == "mine", "a link's target is not ours"


def test_a_command_that_fails_and_a_port_that_is_taken() -> None:
    with pytest.raises(machine.Refused, match=r"^sh failed: no such luck$"):
        take(commands=[["sh", "-c", "echo no such luck >&2; exit 1"]])
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(machine.Refused, match=f"^its port {port} is taken by a process that is none of ours"):
            take(ports=[port])


def test_services_that_ran_are_stopped_and_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a systemctl that keeps what runs in files."""
    running, tools = tmp_path / "running", tmp_path / "tools"
    running.mkdir()
    tools.mkdir()
    (tmp_path / "systemd").mkdir()
    (tools / "systemctl").write_text(
        f"""#!/bin/sh
case $1 in
    is-active) [ -e {running}/$3 ];;
    stop) rm {running}/$2;;
    start) touch {running}/$2;;
esac
"""
    )
    (tools / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    (running / "rabbitmq-server.service").touch()
    assert take(services=["rabbitmq-server.service", "epmd.socket"])["stopped"] == ["rabbitmq-server.service"]
    assert list(running.iterdir()) == []
    assert "the halt of rabbitmq-server.service" in machine.leave(RUN)["removed"]
    assert [path.name for path in running.iterdir()] == ["rabbitmq-server.service"], "and no other"


def test_processes_that_bear_the_run_end_and_no_others() -> None:
    script = "import os, time; os.fork() or os.setsid(); time.sleep(600)"
    ours = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, machine.MARK: RUN})
    other = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, machine.MARK: RUN + "-2"})
    try:
        while len(machine.marked(RUN)) < 2 or len(machine.marked(RUN + "-2")) < 2:
            pass
        assert machine.leave(RUN)["removed"][0] == "2 processes"
        assert ours.wait(10) < 0
        assert other.poll() is None
    finally:
        machine._end(RUN + "-2")
        other.wait(10)


def test_requests_and_answers_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(verb: str, **request: Any) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["machine", verb])
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
        return machine.answer()

    needs = {"sh": "dash", "no-such-tool": "its-package", "/etc/pass*": "base-passwd", "/no/such/*": "nothing"}
    version = ["echo", "Broker 1.2"]
    looked = answer("look", run=RUN, needs=needs, version=version, data=["/nowhere"], peers=["127.0.0.1"])
    assert looked == {
        "done": {
            "missing": {"no-such-tool": "its-package", "/no/such/*": "nothing"},
            "version": "Broker 1.2",
            "data": [],
            "ways": {"127.0.0.1": "127.0.0.1"},
            "unable": {},
        }
    }
    refused = answer("take", run=RUN, services=[], ports=[], folders=["/proc/nothing"], made=[], users=[], files=[],
                     commands=[])  # fmt: skip
    assert refused == {"error": "No such file or directory: /proc/nothing"}


def test_it_runs_by_itself_with_nothing_but_the_standard_library() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import clusters.agent.machine"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
