"""Keyed randomness: known values, so that a change that would break every stored seed is seen."""

from __future__ import annotations

from chaos.kernel.streams import Streams


def test_streams_are_pinned() -> None:
    streams = Streams(7)
    assert streams.draw("network", "n1", "n2") == streams.draw("network", "n1", "n2")
    assert [streams.stream("network", "n1").randrange(1000) for _ in range(2)] == [PINNED, PINNED]


def test_streams_differ_by_seed_and_by_every_part_of_the_key() -> None:
    draws = [
        Streams(1).draw("a", "b"), Streams(2).draw("a", "b"), Streams(1).draw("ab"), Streams(1).draw("a"),
        Streams(1).draw("a", "b", 0), Streams(1).draw("b", "a"),
    ]  # fmt: skip
    assert len(dict.fromkeys(draws)) == len(draws)


PINNED = 744
