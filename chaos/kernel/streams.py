"""Randomness in streams keyed (seed, component, purpose): removing one user of it does not reshuffle the rest."""

from __future__ import annotations

import hashlib
from random import Random


class Streams:
    """All the randomness of a run. Streams with different keys are independent; the same key gives the same stream."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def draw(self, *key: str | int) -> int:
        """A 64-bit number that depends on the seed and the key only, in every process and on every machine."""
        text = "\x1f".join([str(self.seed), *map(str, key)])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")

    def stream(self, *key: str | int) -> Random:
        """A fresh generator for the key. Asking twice gives two that produce the same sequence: keep it."""
        return Random(self.draw(*key))
