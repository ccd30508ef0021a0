"""A store of runs made of numbers, not of simulation: any number of them in seconds, with failures planted in some.

    python -m benchmarks.store FOLDER --runs 1000 --ops 10000

Each run is a queue with three producers and three consumers, a leader that is cut off for a while, and another that
takes over: valid, but for what was planted. Two thirds of the rows of a history are those of pairs that share nothing
but an index, as in real ones.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.model import history_file
from chaos.model.history import SCHEMA, SCHEMA_VERSION
from chaos.model.op import CONTROLLER, INFO, INVOKE, NEMESIS, OBSERVER, OK
from chaos.scenario import load
from results.store import DONE, RUNNING, Run, RunDirectory

LOST, DUPLICATED, DUAL_LEADER = "lost", "duplicated", "dual-leader"  # what a checker finds
CUT = "cut"  # the controller was killed: its history ends in the middle of a batch
TRUNCATED, WRONG_SCHEMA, EMPTY, NO_HISTORY, BAD_JSON = "truncated", "wrong-schema", "empty", "no-history", "bad-json"
PLANTS = (LOST, DUPLICATED, DUAL_LEADER, CUT, TRUNCATED, WRONG_SCHEMA, EMPTY, NO_HISTORY, BAD_JSON)
REJECTED = (TRUNCATED, WRONG_SCHEMA, EMPTY, NO_HISTORY, BAD_JSON)

OPS_A_MESSAGE = 3  # publish, consume, ack
MS, SECOND = 1_000_000, 1_000_000_000
RATE = 1000  # messages a second
NODES = ("n1", "n2", "n3")
BEGUN = datetime(2026, 11, 1, 2, tzinfo=UTC)
F = ("publish", "consume", "ack")


def make(
    store: Path,
    runs: int = 1000,
    ops: int = 10_000,
    plants: Mapping[str, int] | None = None,
    scenarios: int = 8,
    days: int = 1,
    suite_run: str | None = "generated",
) -> dict[str, str]:
    """Make a store of `runs` runs with about `ops` operations each. `plants`: how many runs have each failure, one of
    each kind unless told; those of one kind are spread over the store.

    Returns the runs that something was planted in, and what.
    """
    plants = dict.fromkeys(PLANTS, 1) if plants is None else plants
    wanted = [kind for kind, number in plants.items() for _ in range(number)]
    assert len(wanted) <= runs, "more plants than runs"
    step = runs // max(len(wanted), 1)
    planted = {number * step: kind for number, kind in enumerate(wanted)}
    found = {}
    for number in range(runs):
        name = f"generated-{number % scenarios}"
        created = BEGUN + timedelta(days=number % days, seconds=number)
        plant = planted.get(number)
        run = Run(
            f"{created:%Y%m%d-%H%M%S}-rabbitmq-quorum-s{number}",
            created.isoformat(timespec="microseconds"),
            name,
            number,
            "rabbitmq-quorum",
            "simulated",
            RUNNING if plant == CUT else DONE,
            suite_run=suite_run,
            cell=name,
        )
        write_run(store, run, max(ops // OPS_A_MESSAGE, 10), plant)
        if plant:
            found[run.id] = plant
    return found


def write_run(store: Path, run: Run, messages: int, plant: str | None = None) -> RunDirectory:
    """The directory of one run."""
    directory = RunDirectory(store / run.id)
    shutil.rmtree(directory.path, ignore_errors=True)
    directory.path.mkdir(parents=True)
    if plant == EMPTY:
        return directory
    record = json.dumps(asdict(run))
    directory.record.write_text(record[:-9] if plant == BAD_JSON else record)
    directory.scenario.write_text(_scenario(run.name).replace("seed = 1\n", f"seed = {run.seed}\n", 1))
    directory.versions.write_text(
        json.dumps({"splitbrain": "0.1.0", "commit": "0" * 40, "python": "3.11.7", "broker": "rabbitmq-quorum 4.0"})
    )
    if plant == NO_HISTORY:
        return directory
    table = history(messages, run.seed, plant)
    if plant == CUT:
        _cut(table, directory.stream)
        return directory
    version = b"99" if plant == WRONG_SCHEMA else str(SCHEMA_VERSION).encode()
    coded = table.replace_schema_metadata({b"splitbrain.schema": version})
    pq.write_table(coded, directory.parquet, compression="zstd")
    if plant == TRUNCATED:
        whole = directory.parquet.read_bytes()
        directory.parquet.write_bytes(whole[: len(whole) // 2])
    return directory


@cache
def _scenario(name: str) -> str:
    """As a run keeps it: with every setting at its value."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(
            f'schema = 1\nname = "{name}"\n[cluster]\nbroker = "rabbitmq-quorum@4.0"\non = "simulated"\n'
            '[workload]\nname = "queue"\n[[nemesis]]\nname = "partition"\n'
        )
        file.flush()
        return load(Path(file.name)).dumps()


def _cut(table: pa.Table, path: Path) -> None:
    writer = history_file.HistoryWriter(path)
    for start in range(0, table.num_rows * 2 // 3, 1000):
        writer.append(table.slice(start, 1000))
    writer._file.close()  # without its end marker
    whole = path.read_bytes()
    path.write_bytes(whole[:-500])


def history(messages: int, seed: int, plant: str | None = None) -> pa.Table:
    """The rows of a run with so many messages, as a table of `SCHEMA`."""
    random = np.random.default_rng(seed)
    number = np.arange(messages)
    begin = SECOND
    end = begin + messages * SECOND // RATE
    fault, healed = begin + (end - begin) // 3, begin + (end - begin) * 2 // 3
    takes_over = fault + (healed - fault) // 2
    published = begin + number * (SECOND // RATE)
    confirmed = published + random.integers(MS, 5 * MS, messages)
    # nobody confirms until another leads
    confirmed = np.where((confirmed > fault) & (confirmed < takes_over), takes_over + number, confirmed)
    delivered = np.maximum.accumulate(confirmed + MS) + number
    of_consume = number
    if plant == LOST:
        of_consume = np.delete(number, messages // 2)
    elif plant == DUPLICATED:
        of_consume = np.insert(number, messages // 2, messages // 2 - 5)
    took = delivered[of_consume] if plant != DUPLICATED else np.sort(delivered[of_consume])
    took = took + np.arange(len(took))
    times = [published, confirmed, took - 10 * MS, took, took + MS // 10, took + MS // 10]
    of = [number, number, of_consume, of_consume, of_consume, of_consume]
    types = (INVOKE, OK, INVOKE, OK, INVOKE, INFO)
    sizes = [len(each) for each in of]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    told = list(_told(begin, fault, takes_over, healed, int(took.max(initial=end)) + SECOND, plant))
    client = sum(sizes)
    total = client + len(told)
    time = np.concatenate([*times, [row["time"] for row in told]]).astype(np.int64)
    order = np.argsort(time, kind="stable")
    place = np.empty(total, dtype=np.int64)
    place[order] = np.arange(total)

    op = np.full(total, -1, dtype=np.int64)
    for invoked, completed in ((0, 1), (2, 3), (4, 5)):
        at = np.arange(sizes[completed])
        op[starts[completed] + at] = place[starts[invoked] + at]
    for here, row in enumerate(told):
        if "op" in row:
            op[client + here] = place[client + row["op"]]
    process = np.concatenate(
        [each % 3 + (0 if at < 2 else 3) for at, each in enumerate(of)] + [[row["process"] for row in told]]
    ).astype(np.int32)
    kinds = [np.full(size, int(kind)) for size, kind in zip(sizes, types, strict=True)]
    type_ = np.concatenate([*kinds, [int(row["type"]) for row in told]]).astype(np.int8)
    value = np.concatenate([*(each + 1 for each in of), np.zeros(len(told), dtype=np.int64)])
    empty = np.zeros(total, dtype=np.bool_)
    empty[client:] = True
    empty[starts[2] : starts[2] + sizes[2]] = True  # a credit does not say what for
    words = [*F, *dict.fromkeys(row["f"] for row in told)]
    f = np.concatenate(
        [np.full(size, at // 2) for at, size in enumerate(sizes)] + [[words.index(row["f"]) for row in told]]
    )
    extra: dict[str, Any] = {}
    for name in ("key", "node", "detail", "term", "incarnation"):
        column = np.full(total, None, dtype=object)
        column[client:] = [row.get(name) for row in told]
        extra[name] = column
    extra["key"][:client] = "q1"
    nodes = np.array(NODES, dtype=object)
    extra["node"][:client] = nodes[process[:client] % 3]
    by = order

    def coded(column: np.ndarray[Any, Any]) -> pa.Array:
        return pa.array(column[by], pa.string())

    channel = np.zeros(total, dtype=np.int32)
    return pa.Table.from_arrays(
        [
            pa.array(np.arange(total)),
            pa.array(time[by]),
            pa.array(process[by]),
            pa.array(type_[by]),
            pa.DictionaryArray.from_arrays(pa.array(f[by].astype(np.int32)), pa.array(words)).cast(pa.string()),
            coded(extra["key"]),
            pa.array(value[by], mask=empty[by]),
            coded(extra["node"]),
            pa.nulls(total, pa.string()),
            coded(extra["detail"]),
            pa.array(op[by], mask=op[by] < 0),
            pa.array(channel, mask=(process < 0)[by]),
            pa.nulls(total, pa.bool_()),
            pa.array(extra["term"][by], pa.int64()),
            pa.array(extra["incarnation"][by], pa.int64()),
        ],
        schema=SCHEMA,
    )


def _told(
    begin: int, fault: int, takes_over: int, healed: int, over: int, plant: str | None
) -> Iterator[dict[str, Any]]:
    """What is no client's operation, in order; `op`: of a completion, which of these rows it completes."""
    at = 0

    def row(time: int, process: int, type_: int, f: str, said: object = None, **more: Any) -> dict[str, Any]:
        nonlocal at
        at += 1
        detail = {} if said is None else {"detail": json.dumps(said, sort_keys=True, separators=(",", ":"))}
        return {"time": time, "process": process, "type": type_, "f": f, **detail, **more}

    def belief(time: int, node: str, role: str, term: int) -> dict[str, Any]:
        return row(time, OBSERVER, INFO, "belief", {"role": role}, key="q1", node=node, term=term, incarnation=1)

    def pair(time: int, process: int, f: str, said: object = None, **more: Any) -> Iterator[dict[str, Any]]:
        yield row(time, process, INVOKE, f, **more)
        yield row(time, process, OK, f, said, op=at - 1, **more)

    yield row(0, CONTROLLER, INFO, "phase", {"name": "provision"})
    for node in NODES:
        yield belief(begin // 2, node, "leader" if node == "n1" else "follower", 1)
    yield row(begin // 2, CONTROLLER, INFO, "phase", {"name": "open"})
    for process in range(6):
        yield from pair(begin // 2, process, "open", node=NODES[process % 3])
    yield row(begin, CONTROLLER, INFO, "phase", {"name": "work"})
    action = {"args": {"links": [["n1", "n2"], ["n1", "n3"]]}, "nodes": ["n1"], "process": "broker", "verb": "cut"}
    said: dict[str, Any] = {"nemesis": "partition", "kind": "leader", "target": "leader"}
    said |= {"actions": [action], "in_force": {"n1": fault}}
    yield from pair(fault, NEMESIS, "inject", said, key="partition-1")
    term = 1 if plant == DUAL_LEADER else 2
    if plant != DUAL_LEADER:
        yield belief(takes_over - MS, "n1", "follower", 1)
    yield belief(takes_over, "n2", "leader", term)
    said = {"bit": True, "evidence": "12 messages dropped", "times": {"n1": healed}}
    yield from pair(healed, NEMESIS, "undo", said, key="partition-1")
    if plant == DUAL_LEADER:
        yield belief(healed + MS, "n1", "follower", term)
    yield row(over, CONTROLLER, INFO, "phase", {"name": "undo"})
    yield from pair(over, CONTROLLER, "serve")
    yield row(over, CONTROLLER, INFO, "phase", {"name": "drain"})
    yield from pair(over, CONTROLLER, "drain", key="q1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--ops", type=int, default=10_000, help="of each run")
    parser.add_argument("--scenarios", type=int, default=8)
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--clean", action="store_true", help="with nothing planted")
    said = parser.parse_args()
    found = make(said.store, said.runs, said.ops, {} if said.clean else None, said.scenarios, said.days)
    for run, plant in found.items():
        print(f"{run}: {plant}")


if __name__ == "__main__":
    main()
