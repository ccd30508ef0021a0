"""A process that somebody else started, hurt and brought back as it was: on this machine, nothing here needs root."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.agent import guest
from clusters.agent.daemon import named
from clusters.agent.guest import Guest, bring_back
from clusters.agent.process import state, wait_for
from clusters.faults.base import FaultError
from clusters.faults.signals import Kill, Pause, Stop
from tests.agent.somebody import ME, SERVER, Somebody, free, somebody


@pytest.fixture(name="somebody")
def _somebody(tmp_path: Path) -> Iterator[Somebody]:
    with somebody(tmp_path) as made:
        yield made


def looks(pid: int) -> tuple[object, ...]:
    place = Path(f"/proc/{pid}")
    limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    return (place / "cmdline").read_bytes(), (place / "environ").read_bytes(), os.readlink(place / "cwd"), limit


@pytest.mark.parametrize("fault", [Kill, Stop])
def test_it_is_started_again_as_it_was(somebody: Somebody, tmp_path: Path, fault: type[Kill | Stop]) -> None:
    port = free()
    pid = somebody.start(port)
    before = looks(pid)
    one = fault(somebody.guest(port, tmp_path))
    one.inject()
    assert wait_for(lambda: state(pid) in (None, "Z"), 5)
    (note,) = tmp_path.glob(guest.HELD)
    assert note.stat().st_mode & 0o777 == 0o600, "an environment may hold secrets"
    assert one.undo().bit is True
    (again,) = named(somebody.program.name, ME)
    assert again != pid
    assert wait_for(lambda: guest.listens(again, [port]), 10)
    assert looks(again) == before
    assert list(tmp_path.glob(guest.HELD)) == []


def test_one_that_its_owner_stopped_is_left_so(somebody: Somebody) -> None:
    port = free()
    pid = somebody.start(port)
    one = somebody.guest(port)
    os.kill(pid, signal.SIGKILL)
    somebody.started[0].wait()
    kill = Kill(one)
    assert kill.inject() == "it was not running"
    assert kill.undo().bit is False
    assert one.pid is None


def test_one_that_is_back_by_itself_is_not_started_twice(somebody: Somebody) -> None:
    port = free()
    somebody.start(port)
    kill = Kill(somebody.guest(port))
    kill.inject()
    again = somebody.start(port)
    assert kill.undo().bit is True
    assert named(somebody.program.name, ME) == [again]


def test_another_of_the_same_name_is_never_touched(somebody: Somebody) -> None:
    port, others = free(), free()
    other = somebody.start(others)  # the older, too
    pid = somebody.start(port)
    one = somebody.guest(port)
    assert one.pid == pid
    Kill(one).inject()
    assert named(somebody.program.name, ME) == [other]
    assert state(other) not in (None, "Z")


def test_what_an_agent_left_held_is_brought_back(somebody: Somebody, tmp_path: Path) -> None:
    """It was killed itself, and its guard, or `clean`, comes after it."""
    killed, paused = free(), free()
    somebody.start(killed)
    stopped = somebody.start(paused)
    Kill(Guest("one", somebody.program.name, ME, [killed], tmp_path)).inject()
    Pause(Guest("other", somebody.program.name, ME, [paused], tmp_path)).inject()
    assert state(stopped) == "T"
    assert bring_back(tmp_path) == []
    assert state(stopped) in ("S", "R")
    again = [pid for pid in named(somebody.program.name, ME) if pid != stopped]
    assert len(again) == 1
    assert wait_for(lambda: guest.listens(again[0], [killed]), 10)
    assert bring_back(tmp_path) == []
    assert len(named(somebody.program.name, ME)) == 2, "once"


def test_one_that_was_only_paused_is_not_started(somebody: Somebody, tmp_path: Path) -> None:
    port = free()
    pid = somebody.start(port)
    Pause(somebody.guest(port, tmp_path)).inject()
    os.kill(pid, signal.SIGKILL)
    somebody.started[0].wait()
    assert bring_back(tmp_path) == []
    assert named(somebody.program.name, ME) == []


def test_what_cannot_be_brought_back_is_said_and_kept(
    somebody: Somebody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free()
    somebody.start(port)
    Kill(somebody.guest(port, tmp_path)).inject()
    (note,) = tmp_path.glob(guest.HELD)
    told = json.loads(note.read_text())
    told["life"]["argv"][0] = str(tmp_path / "gone")
    note.write_text(json.dumps(told))
    monkeypatch.setattr(guest, "_APPEARS", 0.1)
    (problem,) = bring_back(tmp_path)
    assert problem == f"held-broker.json: it does not run again, 0.1 s after {tmp_path}/gone"
    assert note.exists()


def test_one_that_is_not_there_is_refused(somebody: Somebody) -> None:
    port, other = free(), free()
    with pytest.raises(FaultError, match=rf"no {somebody.program.name} of {ME} runs there, to listen on port {port}$"):
        somebody.guest(port)
    somebody.start(other)
    with pytest.raises(
        FaultError, match=rf"no {somebody.program.name} of {ME} that runs there listens on port {port}$"
    ):
        somebody.guest(port)


def test_two_that_nobody_can_tell_apart_are_refused(somebody: Somebody) -> None:
    port = free()
    somebody.start(port)
    argv = [str(somebody.program), "-c", SERVER.format(port=port)]
    inspect = {
        "PYTHONHOME": sys.base_prefix,
        "PYTHONINSPECT": "1",
    }  # it cannot listen there too, and stays
    twin = subprocess.Popen(argv, env=inspect, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    somebody.started.append(twin)
    with pytest.raises(FaultError, match=rf"2 {somebody.program.name} of {ME} run there with the same words"):
        somebody.guest(port)


@pytest.mark.parametrize(
    ("groups", "unit"),
    [
        ("0::/system.slice/rabbitmq-server.service\n", "rabbitmq-server.service"),
        ("4:cpu:/\n1:name=systemd:/system.slice/rabbitmq-server.service/below\n", "rabbitmq-server.service"),
        ("0::/user.slice/user-0.slice/session-3.scope\n", None),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice\n", None),
        ("0::/system.slice/docker-0123.scope\n", None),
    ],
)
def test_the_service_that_a_process_is_of(groups: str, unit: str | None) -> None:
    assert guest._unit(groups) == unit
