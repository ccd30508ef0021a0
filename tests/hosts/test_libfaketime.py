"""What is written for libfaketime to read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.agent.process import Process
from clusters.faults.base import FaultError
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
