"""Delta debugging: the fewest of many things that still do it.

After Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002): try parts, then all but a part,
in ever smaller parts. What is left is 1-minimal: without any one of them it does not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

First = Callable[[Sequence[Sequence[T]]], int | None]


def ddmin(items: Sequence[T], first: First[T]) -> list[T]:
    """A part of `items`, in their order, that still does it, and of which none can be left out.

    `first` says which of some candidates is the first that does it, or None; so candidates may be tried side by side
    and what comes out is the same. All of `items` together are taken to do it.
    """
    left = list(items)
    if left and first([[]]) is not None:
        return []
    parts = 2
    while len(left) >= 2:
        chunks = _split(left, parts)
        others = [[item for other in chunks if other is not chunk for item in other] for chunk in chunks]
        candidates = [*chunks, *others] if parts > 2 else chunks  # of two, each is what the other leaves
        found = first(candidates)
        if found is None:
            if parts == len(left):
                break
            parts = min(2 * parts, len(left))
        else:
            parts = 2 if found < len(chunks) else max(parts - 1, 2)
            left = list(candidates[found])
    return left


def _split(items: list[T], parts: int) -> list[list[T]]:
    """Into so many parts, as even as can be."""
    edges = [len(items) * number // parts for number in range(parts + 1)]
    return [items[begin:end] for begin, end in pairwise(edges)]
