"""`python -m tests.linearizability.monitors.million CASE [COUNT [SEED]]`: a monitor against brute force.

CASE: one of the monitors' (see `agree`), or of what queues promise (see `test_deliveries`).
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from random import Random

from tests.linearizability.monitors.agree import CASES, agree
from tests.linearizability.test_deliveries import CASES as DELIVERIES

ALL = CASES | DELIVERIES


def main(case: str, count: int = 1_000_000, seed: int = 1) -> None:
    """Run them; stops at the first disagreement with its history."""
    begun = time.process_time()
    rng, seen = Random(f"{case} {seed}"), Counter[str]()
    while sum(seen.values()) < count:
        agree(ALL[case], rng, 500, seen)
    print(f"{case}: {sum(seen.values()):,} histories, {dict(seen)}, {time.process_time() - begun:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
