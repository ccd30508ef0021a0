"""One long run on one queue, judged by order and by linearizability: as it is read, in stretches, and from memory.

    python -m benchmarks.stretches [--ops 3000000,10000000] [--folder FOLDER]

Each in a process of its own, one after the other, reading the file included. Both must say the same. Stores stay in
FOLDER and are used again, also by `benchmarks.pipeline`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.pipeline import stored
from checkers import stretches
from checkers.base import Streamed
from results.checking.judge import Source, ready
from results.checking.store import runs_of

OPS = "3000000,10000000"
NAMES = ("order", "linearizable")
STREAMED, AT_ONCE = "in stretches", "from memory"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default=OPS, help="of each run")
    parser.add_argument("--folder", type=Path, help="where stores are kept")
    said = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as aside:
        print("| checker | operations | in stretches | from memory | ratio of memory |\n|---|---|---|---|---|")
        for ops in map(int, said.ops.split(",")):
            store = stored(said.folder or Path(aside), 1, ops)
            for name in NAMES:
                one, other = (_apart(store, name, how) for how in (STREAMED, AT_ONCE))
                assert one["verdict"] == other["verdict"], (one, other)
                cells = [f"{it['seconds']:.0f} s, {it['memory'] / 2**20:.1f} GiB" for it in (one, other)]
                ratio = other["memory"] / one["memory"]
                print(f"| {name} | {ops:,} | {' | '.join(cells)} | {ratio:.1f} |", flush=True)


def _apart(store: Path, name: str, how: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.stretches", "judge", str(store), name, how]
    told: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return told


def judge(store: str, name: str, how: str) -> None:
    """Judge the only run of a store, and print what that took: seconds, and KiB of memory at most."""
    (run,) = runs_of(store)
    source, one = Source(store, run), ready({name: {}})[name]
    assert isinstance(one.checker, Streamed)
    begun = time.perf_counter()
    if how == STREAMED:
        result = one.checker.streamed(source.read, one.options)
    else:
        with patch.object(stretches, "LONG", 1 << 62):
            result = one.checker.check(source.history(), one.options)
    # (what getrusage says begins with what the process that started this one had)
    status = Path("/proc/self/status").read_text()
    taken = {"seconds": time.perf_counter() - begun, "memory": int(status.split("VmHWM:")[1].split()[0])}
    counts = {key: many for key, many in result.counts.items() if key != "pairs"}
    print(json.dumps(taken | {"verdict": [result.verdict, counts]}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["judge"]:
        judge(*sys.argv[2:])
    else:
        main(sys.argv[1:])
