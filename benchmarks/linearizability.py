"""Our monitors against Porcupine, on the same histories in one run; Porcupine through the binding against native Go.

Histories are made by an order of correct operations, each client's calls widened around the moments at which they take
effect. Ratios are of medians; CPU seconds where it is our own process, else seconds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import porcupine
from benchmarks.porcupine import registers
from chaos.model.history import NONE, SCHEMA, History, Ints
from chaos.model.history_file import read, write_parquet
from checkers.linearizability import planner
from checkers.linearizability.calls import Calls, F
from checkers.linearizability.from_history import calls_of
from checkers.linearizability.planner import MONITOR, PORCUPINE
from checkers.linearizability.porcupine.models import MODELS
from checkers.linearizability.verdict import Decision

DEEP = 20
PATIENCE = 20.0  # s that Porcupine gets where it is asked how far it comes
MEMORY = 3 << 30
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]
SIZES = (100_000, 1_000_000, 10_000_000)


def main() -> None:
    """Tables; the aims are in benchmarks/README.md."""
    print(f"FIFO queue, 20 clients, {DEEP} deep, from columns in memory:\n")
    print("| operations | CPU s | of it sorting as many numbers would take | bytes an operation above the columns |")
    print("|---|---|---|---|")
    for size in SIZES:
        fifo(size)
    print("\nThe monitors and Porcupine on the same histories:\n")
    print("| history | operations | monitor (s) | Porcupine, native (s) | ratio | through the binding (s) | ratio |")
    print("|---|---|---|---|---|---|---|")
    with porcupine.native() as native:
        both("FIFO, 1 client", queue(100_000, 1), "fifo-queue", native, "queue")
        both("FIFO, 2 clients", queue(1_000, 2), "fifo-queue", native, "queue")
        both("FIFO, 2 clients", queue(10_000, 2), "fifo-queue", native, "queue")
        both("bag, 20 clients", queue(100_000, 20), "bag", native, None)
        both("register, 100,000 keys", once(registers(1_000_000, 100_000)), "register", native, "register")
    print("\nHow far Porcupine comes on FIFO queues, in", f"{PATIENCE:g} s and {MEMORY >> 30} GiB:\n")
    print("| clients | decided | stopped at | there, the monitor took (s) |")
    print("|---|---|---|---|")
    for clients in (1, 2, 5, 10, 20):
        how_far(clients)
    print("\nFrom a Parquet file to the verdict:\n")
    print("| operations | read (s) | operations of the history (s) | decided (s) | in all (s) |")
    print("|---|---|---|---|---|")
    for size in SIZES[1:]:
        from_file(size)
    print("\nThrough the binding, and native:\n")
    porcupine.main()


def fifo(size: int) -> None:
    """One line: the time and the memory of the monitor."""
    calls = queue(size, 20)
    numbers = np.random.default_rng(1).permutation(size)
    ours, sorting = [], []
    for _ in range(5):
        ours.append(cpu(lambda: _decided(calls, "fifo-queue", MONITOR)))
        sorting.append(cpu(lambda: np.sort(numbers)))
    tracemalloc.start()
    _decided(calls, "fifo-queue", MONITOR)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    took, sort = statistics.median(ours), statistics.median(sorting)
    print(f"| {size:,} | {took:.4f} | {took / sort:.2f} | {peak / size:.0f} |", flush=True)


def both(title: str, calls: Calls, model: str, native: Path | None, kind: str | None) -> None:
    """One line, all in turn: the monitor, Porcupine as it is (where it has such a model), and through the binding."""
    mine, theirs, bound = [], [], []
    for _ in range(3):
        if native and kind:
            theirs.append(porcupine.run(native, kind, [(calls, MODELS[model]())])[0])
        bound.append(seconds(lambda: _decided(calls, model, PORCUPINE, 300)))
        mine += [seconds(lambda: _decided(calls, model, MONITOR)) for _ in range(max(1, 100_000 // len(calls)))]
    ours, other = statistics.median(mine), statistics.median(bound)
    alone = f"{statistics.median(theirs):.3f} | {statistics.median(theirs) / ours:,.0f}" if theirs else " | "
    print(f"| {title} | {len(calls):,} | {ours:.4f} | {alone} | {other:.3f} | {other / ours:,.0f} |", flush=True)


def how_far(clients: int) -> None:
    """One line: the largest history that Porcupine decides, and the first that it does not."""
    decided = 0
    for size in (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000):
        calls = queue(size, clients)
        found = planner.decide(calls, "fifo-queue", engine=PORCUPINE, timeout=PATIENCE, memory=MEMORY)
        if found.valid is None:
            mine = seconds(lambda calls=calls: _decided(calls, "fifo-queue", MONITOR))  # type: ignore[misc]
            why = found.reason.split(";")[0].removeprefix("Porcupine ran ")
            print(f"| {clients} | {decided:,} | {size:,} ({why}) | {mine:.4f} |", flush=True)
            return
        decided = size
    print(f"| {clients} | {decided:,} | | |", flush=True)


def from_file(size: int) -> None:
    """One line: what a stored history costs from the file on."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.parquet"
        write_parquet(history(queue(size, 20)), path)
        begun = time.perf_counter()
        stored = read(path)
        loaded = time.perf_counter()
        calls = calls_of(stored, "fifo-queue").calls
        prepared = time.perf_counter()
        _decided(calls, "fifo-queue", MONITOR)
        done = time.perf_counter()
    parts = (loaded - begun, prepared - loaded, done - prepared, done - begun)
    print(f"| {size:,} | " + " | ".join(f"{part:.2f}" for part in parts) + " |", flush=True)


def queue(size: int, clients: int, seed: int = 1) -> Calls:
    """A FIFO queue that is filled to DEEP, then put to and taken from in pairs; ranks are rows of a history."""
    draw = np.random.default_rng(seed)
    deep = min(DEEP, size // 4)
    put = np.zeros(size, dtype=np.bool_)
    put[:deep] = True
    pairs = (size - deep) // 2
    ahead = draw.random(pairs) < 0.5
    put[deep : deep + 2 * pairs : 2], put[deep + 1 : deep + 2 * pairs : 2] = ahead, ~ahead
    number = np.where(put, np.cumsum(put), np.cumsum(~put))  # the n-th put, or the n-th take
    # The k-th takes effect at k + 1/2; each client calls its next operation as soon as it has the answer to one.
    client = draw.integers(0, clients, size)
    mine = np.argsort(client, kind="stable")
    same = np.append(client[mine][1:] == client[mine][:-1], False)
    after = np.where(same, np.append(mine[1:], 0), size + 2 * clients)
    end, begin = np.empty(size), np.empty(size)
    end[mine] = mine + 0.5 + draw.random(size) * (after - mine)
    begin[mine] = np.append(-1.0, end[mine][:-1])
    begin[mine[np.append(True, ~same[:-1])]] = -draw.random(int((~same).sum()))
    call, ret = as_rows(begin, end)
    return Calls(
        f=np.where(put, F.PUT, F.TAKE).astype(np.int8),
        arg=np.where(put, number, NONE),
        out=np.where(put, NONE, number),
        call=call,
        ret=ret,
        key=np.zeros(size, dtype=np.int64),
        process=client,
        channel=np.full(size, -1),
        op=call,
        end=ret,
    ).select(np.argsort(call))


def as_rows(call: Numbers, ret: Numbers) -> tuple[Ints, Ints]:
    """The rows that these moments would have in a history; an answer before a call at the same moment."""
    rank = np.empty(2 * len(call), dtype=np.int64)
    rank[np.argsort(np.concatenate((ret, call)), kind="stable")] = np.arange(2 * len(call))
    return rank[len(call) :], rank[: len(call)]


def once(calls: Calls) -> Calls:
    """Of these registers those in which each value was written once, as their monitor wants it, and no read of 0."""
    write = np.flatnonzero(calls.f == F.WRITE)
    pairs = calls.key[write] * 2**20 + calls.arg[write]
    _, number, times = np.unique(pairs, return_inverse=True, return_counts=True)
    twice = np.unique(calls.key[write[times[number] > 1]])
    kept = calls.select(np.flatnonzero(~np.isin(calls.key, twice) & (calls.out != 0)))
    call, ret = as_rows(kept.call, kept.ret)
    return replace(kept, call=call, ret=ret)


def history(calls: Calls) -> History:
    """The history that these operations came from, a row an event."""
    rows = 2 * len(calls)
    asked, answered = calls.call, calls.ret
    columns: dict[str, Ints] = {
        name: np.zeros(rows, dtype=np.int64) for name in ("process", "type", "put", "value", "op")
    }
    is_put = calls.f == F.PUT
    for place, type_ in ((asked, 0), (answered, 1)):
        columns["process"][place] = calls.process
        columns["type"][place] = type_
        columns["put"][place] = is_put
    columns["value"][asked] = calls.arg
    columns["value"][answered] = np.where(is_put, calls.arg, calls.out)
    columns["op"][asked] = NONE
    columns["op"][answered] = asked
    blank = pa.nulls(rows)
    f = pa.DictionaryArray.from_arrays(pa.array(columns["put"].astype(np.int8)), pa.array(["consume", "publish"]))
    key = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int8)), pa.array(["q1"]))
    known = {
        "index": pa.array(np.arange(rows)),
        "time": pa.array(np.arange(rows) * 1000),
        "process": pa.array(columns["process"].astype(np.int32)),
        "type": pa.array(columns["type"].astype(np.int8)),
        "f": f.cast(pa.string()),
        "key": key.cast(pa.string()),
        "value": pa.array(columns["value"], mask=columns["value"] == NONE),
        "op": pa.array(columns["op"], mask=columns["op"] == NONE),
    }
    return History.from_table(
        pa.table([known.get(field.name, blank).cast(field.type) for field in SCHEMA], schema=SCHEMA), None
    )


def _decided(calls: Calls, model: str, engine: str, timeout: float = 60.0) -> Decision:
    found = planner.decide(calls, model, engine=engine, timeout=timeout, memory=16 << 30)
    if found.valid is not True:
        raise AssertionError(f"{engine}, {len(calls):,} operations: {found.reason}")
    return found


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def seconds(work: Callable[[], object]) -> float:
    """Seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
