"""`python -m tests.linearizability.monitors.million MODEL [COUNT [SEED]]`: a monitor against brute force."""

from __future__ import annotations

import sys
import time
from collections import Counter
from random import Random

from tests.linearizability.monitors.agree import CASES, agree


def main(model: str, count: int = 1_000_000, seed: int = 1) -> None:
    """Run them; stops at the first disagreement with its history."""
    begun = time.process_time()
    rng, seen = Random(f"{model} {seed}"), Counter[str]()
    while sum(seen.values()) < count:
        agree(CASES[model], rng, 500, seen)
    print(f"{model}: {sum(seen.values()):,} histories, {dict(seen)}, {time.process_time() - begun:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
