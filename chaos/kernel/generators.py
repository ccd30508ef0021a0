"""Generators in Jepsen's sense: lazy sequences of what is to be asked, when, and by whom.

A source yields `Intent`s in the order of their times. Sources are made by `always`, given times by `rate` or `stagger`,
and combined by the rest: `time_limit(stagger(each_key(always("publish"), queues), 500, random), 60 * SECOND)`.
Nothing here waits or reads a clock, and randomness comes only from the `Random` passed in, so the same arguments give
the same intents (https://github.com/jepsen-io/jepsen/blob/main/jepsen/src/jepsen/generator.clj for the vocabulary).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import cycle, islice, repeat, takewhile
from random import Random
from typing import NamedTuple

from chaos.kernel.clock import SECOND


class Intent(NamedTuple):
    """What a worker is to ask. at: ns since the phase began; f: the operation; key: of what; worker: which, from 0."""

    at: int
    f: str
    key: str | None = None
    worker: int = 0


def always(f: str, key: str | None = None) -> Iterator[Intent]:
    """The same operation for ever, with no time to it yet (all at 0)."""
    return repeat(Intent(0, f, key))


def rate(source: Iterable[Intent], per_second: float) -> Iterator[Intent]:
    """Evenly spaced, the first at 0. Rounded down one by one, so that the rate holds exactly however long it lasts."""
    exact = Fraction(per_second)
    top, bottom = SECOND * exact.denominator, exact.numerator
    for number, intent in enumerate(source):
        yield intent._replace(at=number * top // bottom)


def stagger(source: Iterable[Intent], per_second: float, random: Random) -> Iterator[Intent]:
    """Spaced at random, uniformly from nothing to twice the mean spacing, the first intent included."""
    longest = round(2 * SECOND / Fraction(per_second))
    at = 0
    for intent in source:
        at += random.randint(0, longest)
        yield intent._replace(at=at)


def mix(sources: Sequence[tuple[float, Iterable[Intent]]], random: Random) -> Iterator[Intent]:
    """Each intent from a source chosen at random by weight, until all have run out.

    For sources without times: those of different sources would not be in order. Time the mixture.
    """
    weights = [weight for weight, _ in sources]
    iterators = [iter(source) for _, source in sources]
    while iterators:
        (chosen,) = random.choices(range(len(iterators)), weights)
        intent = next(iterators[chosen], None)
        if intent is None:
            del weights[chosen], iterators[chosen]
        else:
            yield intent


def merge(*sources: Iterable[Intent]) -> Iterator[Intent]:
    """All intents of all sources by time; at the same time, those of an earlier source first."""
    return heapq.merge(*sources, key=lambda intent: intent.at)


def phases(*parts: tuple[int, Iterable[Intent]]) -> Iterator[Intent]:
    """One (duration in ns, source) after another, each beginning when the time of the one before is over."""
    start = 0
    for duration, source in parts:
        for intent in time_limit(source, duration):
            yield intent._replace(at=start + intent.at)
        start += duration


def time_limit(source: Iterable[Intent], duration: int) -> Iterator[Intent]:
    """Only what falls due before `duration` ns."""
    return takewhile(lambda intent: intent.at < duration, source)


def limit(source: Iterable[Intent], count: int) -> Iterator[Intent]:
    """Only the first `count`."""
    return islice(source, count)


def each_key(source: Iterable[Intent], keys: Sequence[str]) -> Iterator[Intent]:
    """The keys in turn."""
    return (intent._replace(key=key) for intent, key in zip(source, cycle(keys), strict=False))


def round_robin(source: Iterable[Intent], workers: int) -> Iterator[Intent]:
    """The workers in turn."""
    return (intent._replace(worker=number % workers) for number, intent in enumerate(source))


def per_process(make: Callable[[int], Iterable[Intent]], workers: int) -> Iterator[Intent]:
    """A source of its own for each worker, merged by time. `make` is given the worker's number."""

    def of(worker: int) -> Iterator[Intent]:
        return (intent._replace(worker=worker) for intent in make(worker))

    return merge(*(of(worker) for worker in range(workers)))
