"""`python -m benchmarks [NAME ...]`: run the benchmarks, all or the named ones, and print their figures."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks import (
    containers,
    gate,
    linearizability,
    overhead,
    pipeline,
    prove,
    search,
    shrink,
    simulation,
    starts,
    stretches,
)
from benchmarks.machine import describe

BENCHMARKS: dict[str, Callable[[], None]] = {
    "simulation": simulation.main,
    "search": search.main,
    "shrink": shrink.main,
    "prove": prove.main,
    "overhead": overhead.main,
    "linearizability": linearizability.main,
    "gate": gate.main,
    "pipeline": pipeline.main,
    "stretches": stretches.main,
    "containers": containers.main,
    "starts": starts.main,
}


def main(names: list[str]) -> int:
    """Run them; 254 for a name that is none."""
    for name in names:
        if name not in BENCHMARKS:
            print(f"no benchmark {name!r}; known: {', '.join(BENCHMARKS)}", file=sys.stderr)
            return 254
    print(describe())
    for name, benchmark in BENCHMARKS.items():
        if not names or name in names:
            print(f"\n## {name}\n", flush=True)
            benchmark()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
