"""How sure a share is that was seen so many times: the score interval of Wilson (1927).

It stays within 0 and 1, and says something of none or all of few, where the interval about the mean says nothing.
"""

from __future__ import annotations

from math import sqrt

Z95 = 1.959963984540054  # of the normal distribution, 95 % within


def wilson(successes: int, tries: int, z: float = Z95) -> tuple[float, float]:
    """Where the true share lies, with 95 % confidence: (0, 1) where nothing was tried."""
    if tries == 0:
        return 0.0, 1.0
    share, square = successes / tries, z * z
    middle = share + square / (2 * tries)
    reach = z * sqrt(share * (1 - share) / tries + square / (4 * tries * tries))
    below, above = ((middle + sign * reach) / (1 + square / tries) for sign in (-1, 1))
    return (0.0 if successes == 0 else below), (1.0 if successes == tries else above)
