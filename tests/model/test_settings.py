"""What people write: durations, and words spelt nearly right."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.errors import did_you_mean
from chaos.model.settings import LONGEST, duration, format_duration, parse_duration


@given(st.integers(-LONGEST, LONGEST))
def test_a_time_survives_its_own_text(ns: int) -> None:
    assert parse_duration(format_duration(ns)) == ns


@pytest.mark.parametrize("text", ["60s", "1m", "1m30s", "0s", "1h", "-2.5s", "+3s", "0.3ms", "90s", "1500ms"])
def test_a_duration_is_told_as_it_was_written(text: str) -> None:
    ns = duration(f" {text} ")
    assert (ns, format_duration(ns)) == (parse_duration(text), text)
    assert format_duration(duration(ns)) == text
    assert format_duration(copy.deepcopy(ns)) == format_duration(pickle.loads(pickle.dumps(ns))) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (60 * 10**9, "60s"),
        (-1_500_000_000, "-1.5s"),
        (830 * 10**6, "830ms"),
        (1, "1ns"),
        (1_000_001, "1000.001us"),
    ],
)
def test_other_times_are_told_in_seconds_or_less(ns: int, text: str) -> None:
    assert format_duration(ns) == text


@pytest.mark.parametrize("text", ["100001h", "99999999999999999999s"])
def test_nobody_waits_that_long(text: str) -> None:
    with pytest.raises(ValueError, match="longer than anybody waits: at most 100000h"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("rabbit", "did you mean 'rabbitmq-quorum'?"),
        ("quorum", "did you mean 'rabbitmq-quorum'?"),
        ("RabbitMQ-Quorum", "did you mean 'rabbitmq-quorum'?"),
        ("nul", "did you mean 'null'?"),
        ("q", "known: null, rabbitmq-quorum"),
        ("kafka", "known: null, rabbitmq-quorum"),
        ("", "known: null, rabbitmq-quorum"),
    ],
)
def test_what_was_meant(word: str, meant: str) -> None:
    assert did_you_mean(word, ["rabbitmq-quorum", "null"]) == meant
