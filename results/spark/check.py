"""Every checker over every run, as a job; the verdicts are those of `splitbrain check`.

A run below a size is judged whole, in the task that reads it; a task has many, packed by size. A larger one is judged
in three ways at once. Checkers that are not cut read it from end to end. For those that are, its rows go to parts
(`scatter`): a part has a bucket of message ids, never one message, or a key; and comes to the task that judges it as a
sorted stream, which those that are `Streamed` judge in stretches, so that it need not fit in memory. What was found in
the parts is put together by each checker's own merge.

Tasks do not judge: each has a process that does (`results.checking.apart`). A checker that takes that down is tried
once more, by itself; its result is then *unknown*, and no other run knows of it.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.model.errors import SplitbrainError
from chaos.model.verdict import Result, Verdict
from checkers.base import Part, Parted
from checkers.run import failure
from results.checking import judge
from results.checking.apart import Apart, Died, Judged, Limits
from results.spark import tasks
from results.spark.scatter import GROUP, PARTS, SENT, gather, scatter
from results.spark.verdicts import Judge, row_of
from results.tables.manifest import filesystem
from results.tables.schema import VERDICTS
from results.tables.survey import HISTORIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LARGE = 1_000_000  # rows of a history that is cut
PACKS_A_CORE = 4
BYTES_A_ROW, BYTES_A_ROW_STREAMED = 5, 60  # of files, about; of Parquet at the least
USUAL = Limits()

# Rows of VERDICTS; or of a run that cannot be judged only `run`, and in `bad` why. `result`: pickled.
JUDGED = pa.schema([*VERDICTS, ("result", pa.binary()), ("bad", pa.string())])
FOUND = pa.schema([("n", pa.int32()), ("checker", pa.string()), ("kind", pa.string()), ("what", pa.binary())])

Run = Mapping[str, Any]  # store, run, day, scenario, rows (of its history)


def judging(limits: Limits = USUAL, large: int = LARGE) -> Judge:
    """A judge for `ingest`: every run anew."""

    def each(session: SparkSession, runs: DataFrame) -> DataFrame:
        rows = runs.select("store", "run", "day", "scenario", "rows").toArrow().to_pylist()
        found = check(session, rows, limits, large)
        return found.where("bad is null").select(*VERDICTS.names)

    return each


def check(session: SparkSession, runs: Sequence[Run], limits: Limits = USUAL, large: int = LARGE) -> DataFrame:
    """Rows of JUDGED. `large`: rows of a history from which on it is cut."""
    small = [_piece(run, limits) for run in runs if run["rows"] < large]
    packs = tasks.spread(small, lambda piece: int(piece["rows"]), tasks.cores(session) * PACKS_A_CORE)
    found = tasks.run(session, packs, _whole, JUDGED)
    rest = [_piece(run, limits, n) for n, run in enumerate(runs) if run["rows"] >= large]
    return found.union(tasks.frame(session, _cut(session, rest, large))) if rest else found


def check_store(session: SparkSession, store: str, runs: Sequence[str], limits: Limits) -> Iterator[Judged]:
    """As `results.checking.store.check_store`, on Spark."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    named = {"store": store, "day": "", "scenario": ""}
    rows = [named | {"run": run, "rows": size} for run, size in zip(runs, _sizes(store, runs), strict=True)]
    for row in check(session, rows, limits).select("run", "result", "bad").toArrow().to_pylist():
        found[row["run"]].append(row)
    for run in runs:
        bad = next((row["bad"] for row in found[run] if row["bad"] is not None), None)
        results = [pickle.loads(row["result"]) for row in found[run] if row["result"] is not None]
        yield Judged(run, tuple(results), bad)


def _sizes(store: str, runs: Sequence[str]) -> list[int]:
    """How many rows the history of each run has, roughly: those of a large file are looked up."""
    fs, root = filesystem(store)
    infos = fs.get_file_info([f"{root}/{run}/{name}" for run in runs for name in HISTORIES])
    sizes = []
    for parquet, stream in zip(infos[::2], infos[1::2], strict=True):
        rows = (parquet.size or 0) // BYTES_A_ROW if parquet.is_file else (stream.size or 0) // BYTES_A_ROW_STREAMED
        if parquet.is_file and rows >= LARGE // 10:
            try:
                with fs.open_input_file(parquet.path) as file:
                    rows = pq.read_metadata(file).num_rows
            except (OSError, pa.ArrowException):
                pass  # whoever reads it says what is wrong
        sizes.append(int(rows))
    return sizes


def _piece(run: Run, limits: Limits, n: int = 0) -> dict[str, Any]:
    told = {name: run[name] for name in ("store", "run", "day", "scenario", "rows")}
    return told | {"n": n, "time": limits.time, "memory": limits.memory}


_apart: Apart | None = None


def _mine(piece: Mapping[str, Any]) -> Apart:
    """The process that judges for this one. It is kept from task to task, and ends with this one."""
    global _apart
    limits = Limits(piece["time"], piece["memory"])
    if _apart is None:
        _apart = Apart(limits)
    _apart.limits = limits
    return _apart


def _whole(piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    judged = _mine(piece).judge(piece["store"], piece["run"], piece.get("only"))
    yield from _rows(piece, judged)


def _uncut(piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    judged = _mine(piece).judge(piece["store"], piece["run"], whole=False)
    yield from _rows(piece, judged)


def _rows(piece: Mapping[str, Any], judged: Judged) -> Iterator[pa.RecordBatch]:
    of_run = {name: piece[name] for name in ("run", "day", "scenario")}
    rows = [of_run | row_of(result) | {"result": pickle.dumps(result)} for result in judged.results]
    if judged.bad is not None:
        rows = [of_run | {"bad": judged.bad}]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, JUDGED)


def _cut(session: SparkSession, runs: Sequence[dict[str, Any]], large: int) -> pa.Table:
    """What comes of runs that are cut."""
    by_n = {run["n"]: run for run in runs}
    uncut = tasks.run(session, [[run] for run in runs], _uncut, JUDGED).toArrow()
    bad = {row["run"] for row in uncut.select(["run", "bad"]).to_pylist() if row["bad"] is not None}
    work = [run | {"parts": min(-(-run["rows"] // large) + 1, PARTS)} for run in runs if run["run"] not in bad]
    asked = {run["n"]: judge.asked(run["store"], run["run"]) for run in work}
    found = _pieces(session, work).to_pylist()
    by_checker: dict[tuple[int, str], list[tuple[str, Any]]] = defaultdict(list)
    for row in found:
        by_checker[row["n"], row["checker"]].append((row["kind"], pickle.loads(row["what"])))
    again: dict[int, list[str]] = defaultdict(list)
    tables = [uncut]
    for (n, name), told in sorted(by_checker.items()):
        if any(kind == "died" for kind, _ in told):
            again[n].append(name)
            continue
        result = _merged(asked[n][name], told)
        tables += map(pa.Table.from_batches, ([batch] for batch in _rows(by_n[n], Judged(by_n[n]["run"], (result,)))))
    # what its process died of is tried once more, whole and by itself
    retried = [[by_n[n] | {"only": names}] for n, names in again.items()]
    if retried:
        tables.append(tasks.run(session, retried, _whole, JUDGED).toArrow())
    rows = standing(pa.concat_tables(table.cast(JUDGED) for table in tables).to_pylist())
    # in the order that its scenario has them in
    places = {(by_n[n]["run"], name): place for n, of_run in asked.items() for place, name in enumerate(of_run)}
    rows.sort(key=lambda row: (row["run"], places.get((row["run"], row["checker"]), 0)))
    return pa.Table.from_pylist(rows, JUDGED)


def standing(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each checker of a run what was said last: a process that died while it read speaks for all of them, also for
    those that were judged in parts, whose verdicts come after it."""
    return list({(row["run"], row["checker"]): row for row in rows}.values())


def _pieces(session: SparkSession, runs: Sequence[dict[str, Any]]) -> pa.Table:
    """What is found in the parts of runs, as rows of FOUND."""
    by_n = {run["n"]: run for run in runs}

    def each(batches: tasks.Batches) -> tasks.Batches:
        for (n, split, _), cut, rows in gather(batches):
            run = by_n[n]
            try:
                found = _mine(run).part(run["store"], run["run"], split, rows, cut)
            except (Died, SplitbrainError) as error:
                wanted = judge.parted(judge.asked(run["store"], run["run"]), split)
                found = dict.fromkeys(wanted, ("died", str(error)))
            told = [{"n": n, "checker": name, "kind": kind, "what": pickle.dumps(what)}
                    for name, (kind, what) in found.items()]  # fmt: skip
            if told:
                yield pa.RecordBatch.from_pylist(told, FOUND)

    sent = tasks.run(session, [[run] for run in runs], scatter, SENT)
    parts = max(sum(run["parts"] for run in runs), tasks.cores(session))
    together = sent.repartition(min(parts, PARTS), *GROUP).sortWithinPartitions(*GROUP, "index")
    return together.mapInArrow(each, tasks.spark_schema(FOUND)).toArrow()


def _merged(one: judge.Asked, told: Iterable[tuple[str, Any]]) -> Result:
    """The checker's result, from what was found in all parts."""
    assert isinstance(one.checker, Parted)
    name = one.checker.name
    pieces: list[tuple[int, Part]] = []
    failed = []
    for kind, what in told:
        if kind == "failed":
            failed.append(what)
        else:
            pieces += what
    if failed:  # of several always the same one, whichever part was done first
        return Result(name, Verdict.UNKNOWN, min(failed))
    try:
        return one.checker.merge([part for _, part in sorted(pieces, key=lambda piece: piece[0])], one.options)
    except Exception as error:
        return Result(name, Verdict.UNKNOWN, failure(error))
