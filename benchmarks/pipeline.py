"""What the pipeline costs: `splitbrain ingest`, which makes the tables and judges every run, against the same job
written by hand without Spark (`benchmarks.by_hand`), side by side on the same stores; and a run as large as a thousand.

    python -m benchmarks.pipeline [--runs 100,1000,5000] [--ops 10000] [--single 10000000] [--folder FOLDER]

`--runs 40 --single 300000` takes a minute or two. Stores stay in FOLDER and are used again. The rows that both jobs
make are compared, all of them: the benchmark fails where they differ.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.processes import Taken, watched
from benchmarks.store import make
from results.spark import java
from results.tables.load import Loaded, load
from results.tables.schema import PARTITIONS, TABLES

RUNS, OPS, SINGLE = "100,1000,5000", 10_000, 10_000_000
MEMORY = "4g"  # of the heap of the executor, which on one machine is that of the driver too
FACTOR, EXPONENT = 10, 1.1  # wanted, at most
CORES = 2
KEYS = {
    "runs": ("run",),
    "ops": ("run", "op"),
    "messages": ("run", "key", "id"),
    "faults": ("run", "fault"),
    "leaders": ("run", "scope", "node", "began"),
    "verdicts": ("run", "checker"),
    "latency": ("run", "f", "phase", "began"),
    "seeds": ("run", "seed"),
    "rejected": ("run",),
}


@dataclass(frozen=True)
class Job:
    """What a job took. `took`: seconds a step."""

    ops: int
    took: dict[str, float]
    taken: Taken

    @property
    def start(self) -> float:
        """Seconds until Spark was there."""
        return self.took.get("start", 0.0)

    @property
    def seconds(self) -> float:
        """By the clock, without the start of Spark."""
        return self.taken.wall - self.start


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default=RUNS, help="how many, store by store")
    parser.add_argument("--ops", type=int, default=OPS, help="of each run")
    parser.add_argument("--single", type=int, default=SINGLE, help="ops of the run that is by itself; 0: none")
    parser.add_argument("--folder", type=Path, help="where stores are kept")
    parser.add_argument("--memory", default=MEMORY)
    said = parser.parse_args(arguments)
    if (trouble := java.trouble()) is not None:
        print(f"left out: {trouble}")
        return
    with tempfile.TemporaryDirectory() as aside:
        folder = said.folder or Path(aside)
        sizes = [int(runs) for runs in said.runs.split(",") if int(runs)]
        found = [beside(stored(folder, runs, said.ops), Path(aside), said.memory) for runs in sizes]
        if found:
            print_jobs(sizes, found)
        if said.single:
            print_single(on_spark(stored(folder, 1, said.single), Path(aside) / "single", said.memory))


def stored(folder: Path, runs: int, ops: int) -> Path:
    """A store of generated runs, made where there is none; each plant is in some of a hundred."""
    store = folder / f"{runs}x{ops}"
    if not store.exists():
        aside = folder / f".{store.name}"
        shutil.rmtree(aside, ignore_errors=True)
        make(aside, runs, ops, None if runs >= 20 else {})
        aside.rename(store)
    return store


def beside(store: Path, aside: Path, memory: str = MEMORY) -> tuple[Job, Job]:
    """The job by hand and on Spark, one after the other, and their rows compared."""
    hand, spark = aside / "by-hand", aside / "spark"
    jobs = by_hand(store, hand), on_spark(store, spark, memory)
    compare(load(store, hand), load(store, spark))
    shutil.rmtree(hand)
    shutil.rmtree(spark)
    return jobs


def by_hand(store: Path, tables: Path) -> Job:
    return _job(watched([sys.executable, "-m", "benchmarks.by_hand", str(store), str(tables)]))


def on_spark(store: Path, tables: Path, memory: str = MEMORY, *more: str) -> Job:
    code = "import sys; from chaos.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "ingest", str(store), "--tables", str(tables), "--json", *more]
    return _job(watched([*command, "--master", f"local[{CORES}]", "--memory", memory]))


def _job(taken: Taken) -> Job:
    assert taken.code == 0, taken.said
    said = json.loads(taken.said)
    done = Job(said["ops"], said["took"], taken)
    # a long benchmark may be ended before its tables are printed
    told = {"ops": done.ops, "wall": taken.wall, "cpu": taken.cpu, "memory": taken.memory, "took": done.took}
    print(json.dumps(told | {"together": taken.together}), file=sys.stderr, flush=True)
    return done


def compare(one: Loaded, other: Loaded) -> None:
    """Raises AssertionError where a table does not have the same rows."""
    for name, keys in KEYS.items():
        assert len(one[name]) == len(other[name]), f"{name}: {len(one[name])} rows and {len(other[name])}"
        for place in _places(one):
            assert _sorted(one, name, keys, place).equals(_sorted(other, name, keys, place)), f"{name} of {place}"
    assert set(KEYS) == set(TABLES)


def _places(loaded: Loaded) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = loaded.runs.to_arrow(PARTITIONS).group_by(list(PARTITIONS)).aggregate([]).to_pylist()
    return [*rows, dict.fromkeys(PARTITIONS)]


def _sorted(loaded: Loaded, name: str, keys: Sequence[str], place: dict[str, Any]) -> pa.Table:
    where = pc.scalar(True)
    for column, value in place.items():
        where &= pc.field(column).is_null() if value is None else pc.field(column) == value
    table: pa.Table = loaded[name].to_arrow(where=where).sort_by([(key, "ascending") for key in keys])
    return table


def print_jobs(sizes: Sequence[int], found: Sequence[tuple[Job, Job]]) -> None:
    print("| runs | operations | job | seconds by the clock | of it Spark's start | operations/s | a core "
          "| processor seconds | by hand |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for runs, (hand, spark) in zip(sizes, found, strict=True):
        for name, job in (("by hand", hand), ("Spark", spark)):
            cores = CORES if job is spark else 1
            times = f"{job.taken.wall / hand.taken.wall:.1f} times" if job is spark else ""
            print(f"| {runs:,} | {job.ops:,} | {name} | {job.taken.wall:.1f} | {job.start:.1f} "
                  f"| {job.ops / job.taken.wall:,.0f} | {job.ops / job.taken.wall / cores:,.0f} "
                  f"| {job.taken.processor:.0f} | {times} |")  # fmt: skip
    print(f"\nwanted: at most {FACTOR} times at ten million. Every row of both is the same.")
    for one, other in pairwise(found):
        more = log(other[1].ops / one[1].ops)
        clock = log(other[1].seconds / one[1].seconds) / more
        processor = log(other[1].taken.processor / one[1].taken.processor) / more
        print(f"from {one[1].ops:,} to {other[1].ops:,} operations: exponent {clock:.2f} by the clock without Spark's "
              f"start, {processor:.2f} by processor time (wanted: {EXPONENT})")  # fmt: skip
    for name in ("by hand", "Spark"):
        jobs = [job[name == "Spark"] for job in found]
        steps = list(dict.fromkeys(step for job in jobs for step in job.took))
        print(f"\n{name}, seconds:\n\n| operations | {' | '.join(steps)} |\n|---|{'---|' * len(steps)}")
        for job in jobs:
            print(f"| {job.ops:,} | {' | '.join(f'{job.took.get(step, 0):.1f}' for step in steps)} |")
    print_processes([spark for _, spark in found])


def print_processes(jobs: Sequence[Job]) -> None:
    kinds = list(jobs[0].taken.cpu)
    print(f"\nProcessor seconds, and GiB that one took at most:\n\n| operations | {' | '.join(kinds)} | all at once |")
    print(f"|---|{'---|' * len(kinds)}---|")
    for job in jobs:
        cells = [f"{job.taken.cpu.get(kind, 0):.0f} s, {job.taken.memory.get(kind, 0) / 2**30:.1f}" for kind in kinds]
        print(f"| {job.ops:,} | {' | '.join(cells)} | {job.taken.together / 2**30:.1f} |")


def print_single(job: Job) -> None:
    print(f"\nOne run of {job.ops:,} operations on one queue: {job.taken.wall:.0f} s by the clock, of it Spark's start "
          f"{job.start:.0f} s; steps: {', '.join(f'{step} {s:.0f} s' for step, s in job.took.items())}")  # fmt: skip
    print_processes([job])


if __name__ == "__main__":
    main(sys.argv[1:])
