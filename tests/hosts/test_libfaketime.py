"""What is written for libfaketime to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.agent.process import Process
from clusters.faults import libfaketime
from clusters.faults.base import FaultError, Probe
from clusters.faults.libfaketime import Clock, ClockFile, written

SECOND = 10**9


@pytest.mark.parametrize(
    ("offset", "rate", "age", "text"),
    [
        (0, 1.0, 5 * SECOND, "+0.000000000 x1\n"),
        (-3600 * SECOND - 5, 1.0, 5 * SECOND, "-3600.000000005 x1\n"),
        (250_000_000, 1.0, 0, "+0.250000000 x1\n"),
        (0, 1.5, 10 * SECOND, "-5.000000000 x1.5\n"),
        (SECOND, 0.5, 10 * SECOND, "+6.000000000 x0.5\n"),
    ],
)
def test_the_text_of_the_file(offset: int, rate: float, age: int, text: str) -> None:
    assert written(offset, rate, age) == text


@given(st.integers(-(10**14), 10**14), st.sampled_from([0.5, 0.9, 1.0, 1.1, 2.0]), st.integers(0, 10**13))
def test_libfaketimes_arithmetic_gives_back_the_offset(offset: int, rate: float, age: int) -> None:
    """faked = start + (now - start) * rate + offset, as libfaketime.c has it."""
    base, _, speed = written(offset, rate, age).partition(" x")
    seconds, _, fraction = base[1:].partition(".")
    shift = (-1 if base[0] == "-" else 1) * (int(seconds) * SECOND + int(fraction))
    assert abs(age * float(speed) + shift - (age + offset)) <= 0.01 * SECOND


class Stub:
    """As much of a process as a clock needs: started at the stamp 0, whose clock libfaketime moves as the file says."""

    def __init__(self, path: Path, late: int = 0) -> None:
        self.path, self.late = path, late
        self.started: int | None = 0
        self.pid: int | None = 7
        self.on_start: Callable[[], None] = lambda: None

    def off(self, now: int) -> int:
        base, _, speed = self.path.read_text().partition(" x")
        shift = round(float(base) * SECOND)
        return shift + round((float(speed) - 1) * (now - self.late))


class Node:
    """A node where time passes as it is told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, late: int = 0) -> None:
        self.now = 0
        monkeypatch.setattr(libfaketime, "stamp", lambda: self.now)
        monkeypatch.setattr(libfaketime, "library", lambda: "/lib/faketime.so")
        monkeypatch.setattr("time.time_ns", lambda: self.now)
        monkeypatch.setattr(libfaketime, "_LOOK", 3600 * SECOND)
        self.process = Stub(folder / "clock", late)
        self.file = ClockFile(str(folder / "clock"), self.process)  # type: ignore[arg-type]  # as much as it needs

    def clock(self, **args: Any) -> Clock:
        return Clock(self.file, self.read, args)

    def read(self) -> int | None:
        return None if self.process.pid is None else self.now + self.off()

    def off(self) -> int:
        return self.process.off(self.now)


def test_faults_that_overlap_add_up_and_each_is_undone_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, monkeypatch)
    node.now = 60 * SECOND
    first, second, third = node.clock(offset=5 * SECOND), node.clock(rate=2.0), node.clock(offset=-3600 * SECOND)
    first.inject()
    second.inject()
    assert node.off() == 5 * SECOND
    node.now += 10 * SECOND
    third.inject()
    assert node.off() == (5 + 10 - 3600) * SECOND
    assert first.undo() == Probe(True, "the process's clock was off by at least 5.000 s")
    assert node.off() == (10 - 3600) * SECOND
    node.now += SECOND
    assert node.off() == (11 - 3600) * SECOND
    assert second.undo() == Probe(True, "the process's clock was off by at least 10.900 s"), "what the third did not do"
    assert node.off() == -3600 * SECOND
    assert third.undo().bit is True
    assert node.off() == 0
    assert node.process.path.read_text() == "+0.000000000 x1\n"


def test_two_that_cancel_each_other_have_both_bitten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, monkeypatch)
    faults = [node.clock(offset=sign * SECOND) for sign in (1, -1)]
    for fault in faults:
        fault.inject()
    assert node.off() == 0
    assert [fault.undo().bit for fault in faults] == [True, True]


def test_an_undo_that_cannot_be_written_leaves_it_in_force_to_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, monkeypatch)
    fault = node.clock(offset=SECOND)
    fault.inject()
    (tmp_path / "clock.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        fault.undo()
    assert node.off() == SECOND
    (tmp_path / "clock.new").rmdir()
    assert fault.undo().bit is True
    assert node.off() == 0


def test_the_library_was_loaded_later_than_the_process_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, monkeypatch, late=SECOND // 2)
    node.now = 60 * SECOND
    fault = node.clock(rate=3.0)
    fault.inject()
    assert node.off() == 0
    node.now += SECOND
    assert node.off() == 2 * SECOND
    fault.undo()


def test_a_new_life_takes_over_what_is_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, monkeypatch)
    node.now = 60 * SECOND
    fault = node.clock(rate=2.0, offset=SECOND)
    fault.inject()
    node.now += SECOND
    node.process.started = node.process.late = node.now
    node.process.on_start()
    assert node.off() == 2 * SECOND
    fault.undo()


def test_a_process_that_never_ran_was_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, monkeypatch)
    node.process.pid = None
    fault = node.clock(offset=SECOND)
    fault.inject()
    assert fault.undo() == Probe(None, "the process was not asked for its clock: it was not running")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({}, "a clock fault needs an offset, or a rate other than 1"),
        ({"offset": "5s"}, "offset: '5s' is not int"),
        ({"offset": 1, "rate": 0}, "rate: 0.0 is not between 0.01 and 100"),
        ({"offset": 1, "strobe": 5}, "strobe: 5 ns is neither 0 nor at least 10 ms"),
    ],
)
def test_bad_arguments(tmp_path: Path, args: Mapping[str, Any], problem: str) -> None:
    process = Process(["true"], {}, None, str(tmp_path / "output"), lambda *_: None)
    file = ClockFile(str(tmp_path / "clock"), process)
    with pytest.raises(FaultError) as raised:
        Clock(file, lambda: None, args)
    assert str(raised.value) == problem
    assert (tmp_path / "clock").read_text() == "+0.000000000 x1\n"
