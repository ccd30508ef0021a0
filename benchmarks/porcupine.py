"""Porcupine through our binding against Porcupine as it is, in Go, on the same operations in one run.

Native is Porcupine's published API with the models of its own tests, given its operations ready made: only its check is
timed. Ours is all of `search`, from the columns in Python to the decision: for the verdict alone (`explain=False`), as
Porcupine's CheckOperations gives it, and with how far an order comes. For that its CheckOperationsVerbose takes more
memory than there is on the key-value logs.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks import porcupine_logs
from checkers.linearizability.calls import Calls, F
from checkers.linearizability.porcupine import build, models, search, worker
from checkers.linearizability.porcupine.process import message

REPETITIONS = 7
NONE = np.iinfo(np.int64).min
MEMORY = 16 << 30

Histories = Sequence[tuple[Calls, models.Model]]


def main() -> None:
    """A table; the aim is a ratio of at least 0.9 in every line."""
    with native() as program:
        if program is None:
            print("no Go here, so nothing to compare with")
            return
        print("| histories | operations | native (s) | through the binding (s) | native / ours | ours, explained (s) |")
        print("|---|---|---|---|---|---|")
        for size, keys in ((100_000, 10_000), (1_000_000, 100_000), (1_000_000, 1_000)):
            line(program, f"register, {keys:,} keys", "register", [(registers(size, keys), models.register(0))])
        logs = list(porcupine_logs.recorded(porcupine_logs.module()))
        etcd, kv = [], []
        for name, log, _ in logs:
            history, table = porcupine_logs.operations(log)
            if name.startswith("etcd"):
                etcd.append((history, models.cas_register()))
            else:
                kv.append((history, models.key_value(table)))
        line(program, f"Porcupine's {len(etcd)} etcd logs", "etcd", etcd)
        line(program, f"Porcupine's {len(kv)} key-value logs", "kv", kv)


@contextmanager
def native() -> Iterator[Path | None]:
    """Porcupine without us, built; None where there is no Go."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "native"
        go = build.toolchain()
        if go is not None:
            build.build(go[0], program, package="./bench")
        yield program if go is not None else None


def run(program: Path, kind: str, histories: Histories) -> tuple[float, int]:
    """Its seconds for all of them, and how many are linearizable."""
    request = b"".join(
        message(worker.request("search", model, worker.columns(calls, model)[1])) for calls, model in histories
    )
    done = subprocess.run([program, kind, "1"], input=request, capture_output=True, check=True)
    seconds, legal = done.stdout.split()
    return float(seconds), int(legal)


def line(program: Path, title: str, kind: str, histories: Histories) -> None:
    """All in turn, so that what else the machine does falls on all; the medians."""
    theirs: list[float] = []
    ours: dict[bool, list[float]] = {False: [], True: []}
    for round_ in range(REPETITIONS + 1):
        seconds, agreed = run(program, kind, histories)
        if round_:  # the first starts the worker
            theirs.append(seconds)
        for explain, times in ours.items():
            begun = time.perf_counter()
            decisions = [search(some, model, timeout=300, memory=MEMORY, explain=explain) for some, model in histories]
            if round_:
                times.append(time.perf_counter() - begun)
            legal = sum(decision.valid is True for decision in decisions)
            if legal != agreed:
                raise AssertionError(f"{title}: {legal} against {agreed} linearizable")
    native_s, ours_s, explained_s = map(statistics.median, (theirs, ours[False], ours[True]))
    operations = sum(len(calls) for calls, _ in histories)
    print(
        f"| {title} | {operations:,} | {native_s:.3f} | {ours_s:.3f} | {native_s / ours_s:.2f} | {explained_s:.3f} |",
        flush=True,
    )


def registers(size: int, keys: int, clients: int = 4, seed: int = 1) -> Calls:
    """Reads and writes of registers by a few clients each, with the answers of some order."""
    draw = np.random.default_rng(seed)
    key = draw.integers(0, keys, size)
    # An operation takes effect at 10 times its place among those of its key; the calls of a client do not overlap.
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    place = np.empty(size, dtype=np.int64)
    place[order] = np.arange(size) - np.repeat(starts, np.diff([*starts, size]))
    write = draw.random(size) < 0.5
    value = draw.integers(1, 1_000_000, size)
    # What a read answers: the value of the last write before it, of its key; 0 where there is none.
    last = np.maximum.accumulate(np.where(write[order], np.arange(size), -1))
    first = np.repeat(starts, np.diff([*starts, size]))
    held = np.zeros(size, dtype=np.int64)
    held[order] = np.where(last >= first, value[order][last], 0)
    point = 10 * clients * place
    call = point - draw.integers(0, 10 * clients * clients // 2, size)
    ret = point + draw.integers(1, 10 * clients * clients // 2, size)
    rows = np.argsort(call, kind="stable")
    nothing = np.full(size, NONE)
    calls = Calls(
        f=np.where(write, F.WRITE, F.READ).astype(np.int8),
        arg=np.where(write, value, nothing),
        out=np.where(write, nothing, held),
        call=call,
        ret=ret,
        key=key,
        process=place % clients,
        channel=np.full(size, -1),
        op=np.arange(size),
        end=np.arange(size),
    )
    return calls.select(rows)


if __name__ == "__main__":
    main()
