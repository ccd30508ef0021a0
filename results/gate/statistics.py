"""The two tests that a gate compares with, one-sided: of shares by Fisher, of times by Mann and Whitney.

Both are exact where there are few runs, and say how small a p-value so few could give at all: a test that cannot shut
a gate is not one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, erfc, sqrt

import numpy as np

EXACT = 40  # values in all, up to which ranks are counted out instead of approximated


def fisher(passed: int, runs: int, before: int, runs_before: int) -> float:
    """The chance of `passed` of `runs`, or fewer, if the share were that of `before` of `runs_before`: all passes being
    dealt out among all runs at random (Fisher 1922)."""
    total, passes = runs + runs_before, passed + before
    ways = comb(total, passes)
    least = max(0, passes - runs_before)
    return sum(comb(runs, k) * comb(runs_before, passes - k) for k in range(least, passed + 1)) / ways


def least_fisher(runs: int, before: int, runs_before: int) -> float:
    """The smallest that `fisher` can be: when none passes."""
    return fisher(0, runs, before, runs_before)


def mann_whitney(ours: Sequence[float], before: Sequence[float]) -> float:
    """The chance of values so large among `ours`, or larger, if they came from where those `before` came from: by the
    sum of their ranks (Mann and Whitney 1947), ties having the rank in their middle."""
    ranks = _ranks([*ours, *before])
    mine = int(ranks[: len(ours)].sum())
    if len(ranks) <= EXACT:
        return _exact(ranks, len(ours), mine)
    n, m = len(ours), len(before)
    total = n + m
    _, ties = np.unique(ranks, return_counts=True)
    spread = n * m / 12 * (total + 1 - float((ties.astype(float) ** 3 - ties).sum()) / (total * (total - 1)))
    if spread <= 0:
        return 1.0
    above = mine / 2 - n * (total + 1) / 2 - 0.5  # with the correction for continuity
    return 0.5 * erfc(above / sqrt(spread) / sqrt(2))


def least_mann_whitney(runs: int, runs_before: int) -> float:
    """The smallest that `mann_whitney` can be: when all of ours are above all of the others."""
    return 1 / comb(runs + runs_before, runs)


def _ranks(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Twice the rank of each, so that those in the middle of a tie are whole numbers too."""
    array = np.asarray(values, dtype=float)
    _, place, times = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    ranks: np.ndarray[tuple[int], np.dtype[np.int64]] = (2 * last - times + 1)[place].astype(np.int64)
    return ranks


def _exact(ranks: np.ndarray[tuple[int], np.dtype[np.int64]], chosen: int, least: int) -> float:
    """The share of all ways to choose so many of the ranks whose sum is at least that."""
    top = int(ranks.sum())
    ways = np.zeros((chosen + 1, top + 1), dtype=np.int64)  # by how many were chosen, and their sum
    ways[0, 0] = 1
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, : top + 1 - rank].copy()
    return float(ways[chosen, least:].sum() / comb(len(ranks), chosen))
