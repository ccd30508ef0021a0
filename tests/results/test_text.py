from __future__ import annotations

import pytest

from chaos.kernel.clock import SECOND
from results.text import length, moment, plural, printable


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1500, "1.5 µs"),
        (12_340_000, "12.3 ms"),
        (999_000_000, "999 ms"),
        (8 * SECOND, "8 s"),
        (99 * SECOND, "99 s"),
        (120 * SECOND, "2 min"),
        (125 * SECOND, "2 min 5 s"),
        (-1500, "-1.5 µs"),
    ],
)
def test_lengths(ns: int, text: str) -> None:
    assert length(ns) == text


def test_moments_and_plurals() -> None:
    assert moment(12_345_678_901) == "12.346 s"
    assert [plural(n, "message") for n in (0, 1, 2000)] == ["0 messages", "1 message", "2,000 messages"]
    assert plural(2, "nemesis", "nemeses") == "2 nemeses"


def test_control_characters_are_spelt_out() -> None:
    assert printable("a\x1b[31mred\x07\tb\nü") == "a\\x1b[31mred\\x07\tb\nü"
