"""From a store of runs to its tables: only what is new or has changed is read.

1. Survey the store: names, sizes and times of files tell which runs are new, or not as they were.
2. Examine those: their small files, and their histories held to the rules. What breaks them is rejected, with why.
3. Read their ops, and join invocations with completions. Everything else is made from the ops that were written.
4. Write what is new beside what is there, with the rows kept of files that must change; then switch the pointer.

What explorations tell of seeds needs no Spark: their journals are read, and written as a table, from here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from results.spark import counted, faults, latency, leaders, messages, ops, reading, tasks, verdicts
from results.spark.plan import Place, Planned, keep, plan, table
from results.spark.reading import FACTS
from results.spark.writing import write, write_small
from results.tables.explored import Explored, explored
from results.tables.load import Loaded
from results.tables.lock import held
from results.tables.manifest import File, Manifest, Tables
from results.tables.schema import REJECTED, RUNS, SCHEMA_VERSION, SEEDS, TABLES
from results.tables.survey import Found, survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS_A_CORE = 4
BYTES_A_TASK = 16_000_000
_FROM_FACTS = tuple(name for name in RUNS.names if name in FACTS.names)


@dataclass(frozen=True)
class Ingested:
    """What an ingest did: names of runs. `gone`: in the tables, no longer in the store. `going_on`: left for later.
    `explored`: explorations that are new or went on, and how many seeds they have. `took`: seconds a step."""

    generation: int
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: int = 0
    rejected: dict[str, str] = field(default_factory=dict)
    going_on: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    ops: int = 0
    tidied: int = 0
    explored: dict[str, int] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Known:
    """What the tables hold already: of each run, the fingerprint, and its day and scenario; of each exploration the
    fingerprint; and who was rejected."""

    runs: dict[str, tuple[str, Place]] = field(default_factory=dict)
    rejected: dict[str, dict[str, Any]] = field(default_factory=dict)
    explored: dict[str, str] = field(default_factory=dict)


def known(tables: Tables, manifest: Manifest) -> Known:
    """Read from the small tables, without Spark."""
    loaded = Loaded(tables, manifest)
    rows = loaded.runs.to_arrow(["run", "day", "scenario", "fingerprint"]).to_pylist()
    runs = {row["run"]: (row["fingerprint"], (row["day"], row["scenario"])) for row in rows}
    seeds = loaded.seeds.to_arrow(["run", "fingerprint"]).group_by(["run", "fingerprint"]).aggregate([])
    explored = dict(zip(seeds["run"].to_pylist(), seeds["fingerprint"].to_pylist(), strict=True))
    return Known(runs, {row["run"]: row for row in loaded.rejected.to_arrow().to_pylist()}, explored)


def ingest(
    session: Callable[[], SparkSession],
    store: str,
    tables: Tables,
    judge: verdicts.Judge = verdicts.kept,
    say: Callable[[str], None] = lambda line: None,
) -> Ingested:
    """Bring the tables up to what the store holds. `session` is called when there is work. Raises SplitbrainError, and
    then nothing that is read has changed."""
    found, journals = survey(store), list(explored(store))
    with held(tables):
        before = tables.current() or Manifest()
        tidied = tables.tidy()
        had = known(tables, before)
        going_on = [one.name for one in found if one.going_on] + [one.name for one in journals if one.going_on]
        fresh = [one for one in found if not one.going_on and not _same(one, had)]
        names = {one.name for one in found}
        gone = sorted(set(had.runs) - names)
        unchanged = sum(not one.going_on for one in found) - len(fresh)
        seeds = [one for one in journals if not one.going_on and not _same_seeds(one, had)]
        names |= {one.id for one in journals if one.reason is not None}
        stale = set(had.rejected) - names
        if not fresh and not seeds and not stale and before.generation:
            rejected = {name: row["reason"] for name, row in had.rejected.items()}
            return Ingested(before.generation, [], [], unchanged, rejected, going_on, gone, 0, tidied)
        say(f"{len(fresh)} runs to read, {unchanged} as they were")
        job = Job(session, store, tables, before, had, judge, say)
        return job.run(fresh, seeds, names, going_on, gone, unchanged, tidied)


def _same(one: Found, had: Known) -> bool:
    row = had.rejected.get(one.name)
    told = row["fingerprint"] if row else had.runs.get(one.name, ("", None))[0]
    return told == one.fingerprint


def _same_seeds(one: Explored, had: Known) -> bool:
    if one.reason is not None:
        row = had.rejected.get(one.id)
        return row is not None and row["fingerprint"] == one.fingerprint
    return not one.rows or had.explored.get(one.id) == one.fingerprint


class Job:
    """One generation in the making."""

    def __init__(
        self,
        session: Callable[[], SparkSession],
        store: str,
        tables: Tables,
        before: Manifest,
        had: Known,
        judge: verdicts.Judge,
        say: Callable[[str], None],
    ) -> None:
        self.begin, self.store, self.tables, self.before, self.had = session, store, tables, before, had
        self.judge, self.say = judge, say
        self.generation = before.generation + 1
        self.files: dict[str, list[File]] = {}
        self.fresh: dict[str, list[File]] = {}
        self.joined = False  # whether rows of other runs are in the files written
        self.took: dict[str, float] = {}

    @cached_property
    def session(self) -> SparkSession:
        """It begins when it is first needed."""
        with self.step("start"):
            return self.begin()

    @cached_property
    def cores(self) -> int:
        """How many tasks can run at once."""
        return tasks.cores(self.session)

    def run(
        self,
        fresh: Sequence[Found],
        seeds: Sequence[Explored],
        there: Collection[str],
        going_on: list[str],
        gone: list[str],
        unchanged: int,
        tidied: int,
    ) -> Ingested:
        facts = self.examine(fresh)
        self.read = {one.name for one in fresh} | {one.id for one in seeds}
        good = [fact for fact in facts if fact["reason"] is None]
        bad = [fact for fact in facts if fact["reason"] is not None]
        bad += [
            {"run": one.id, "path": f"{self.store}/{one.name}", "fingerprint": one.fingerprint, "reason": one.reason}
            for one in seeds
            if one.reason is not None
        ]
        planned = plan(good, self.store)
        # rows of runs that have changed, or can no longer be read, are replaced
        replaced = [(fact["run"], self.had.runs[fact["run"]][1]) for fact in facts if fact["run"] in self.had.runs]
        seeds = [one for one in seeds if one.reason is None]
        if good:
            parts = max(2 * self.cores, planned.slots["ops"])
            self.session.conf.set("spark.sql.shuffle.partitions", str(min(parts, 4000)))
            self.say(f"{sum(fact['rows'] for fact in good):,} rows of {len(good)} histories")
        self.make(planned, replaced)
        self.files["seeds"] = self.seeds(seeds)
        rejected = self.rejected(bad, there)
        files = {name: tuple(self.files[name]) for name in TABLES}
        self.tables.switch(Manifest(self.generation, SCHEMA_VERSION, files))
        return Ingested(
            self.generation,
            [fact["run"] for fact in good if fact["run"] not in self.had.runs],
            [fact["run"] for fact in good if fact["run"] in self.had.runs],
            unchanged,
            rejected,
            going_on,
            gone,
            sum(file.rows for file in self.fresh["ops"]),
            tidied,
            {one.id: len(one.rows) for one in seeds},
            {name: round(seconds, 3) for name, seconds in self.took.items()},
        )

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Takes the time of a step."""
        began = time.monotonic()
        yield
        self.took[name] = self.took.get(name, 0.0) + time.monotonic() - began

    def tasks(self, total: int) -> int:
        """How many tasks so many bytes are worth."""
        return max(self.cores * TASKS_A_CORE, total // BYTES_A_TASK)

    def examine(self, fresh: Sequence[Found]) -> list[dict[str, Any]]:
        """Facts of runs (`reading.FACTS`)."""
        if not fresh:
            return []
        pieces = [
            {"store": self.store, "run": one.name, "path": one.path, "fingerprint": one.fingerprint,
             "files": list(one.sizes), "size": sum(one.sizes.values())}
            for one in fresh
        ]  # fmt: skip
        work = tasks.spread(pieces, _size, self.tasks(sum(map(_size, pieces))))  # which a session is begun for
        with self.step("read"):
            found = tasks.run(self.session, work, reading.examine, FACTS).toArrow()
        rows: list[dict[str, Any]] = found.to_pylist()
        return sorted(rows, key=lambda row: str(row["run"]))

    def make(self, planned: Planned, replaced: Collection[tuple[str, Place]]) -> None:
        """Every table but `rejected` and `seeds`."""
        self.fresh = {name: [] for name in TABLES}
        if not planned.runs:
            for name in TABLES:
                self.rewrite(name, None, planned, replaced)
            return
        runs = tasks.frame(self.session, table(planned.runs))
        self.names = runs.select("run")
        self.rewrite("ops", self.ops(planned, runs), planned, replaced)
        self.say("ops are written")
        limits = any(run["limit"] for run in planned.runs)
        few = self.written("ops", ops.FEW, ops.F_OF_FEW).persist()
        of_messages = self.written("ops", [*messages.COLUMNS, "channel", *messages.TEXT], messages.F_OF_MESSAGES)
        parts = self.parts(planned.slots["messages"])
        self.rewrite("messages", messages.messages(of_messages, few, runs, parts, limits), planned, replaced)
        self.say("messages are written")
        self.small("faults", faults.faults(few), planned, replaced)
        spans = counted.took_place(self.written("faults"), runs)
        claims = leaders.claims(few, runs).persist()
        self.small("leaders", claims, planned, replaced)
        self.small(
            "latency",
            latency.latency(
                self.written("ops", latency.COLUMNS, but=latency.NOT_MEASURED),
                self.written("messages", latency.OF_MESSAGES),
                runs,
                faults.merged(spans, "asked", "end"),
            ),
            planned,
            replaced,
        )
        self.small("verdicts", self.judge(self.session, runs), planned, replaced)
        self.say("faults, leaders, latencies and verdicts are written")
        counts = counted.slim(self.written("ops", counted.COLUMNS, counted.F_OF_COUNTS)).persist()
        self.small("runs", self.runs(runs, counted.of_ops(counts, few, spans), claims), planned, replaced)
        for kept in (few, claims, counts):
            kept.unpersist()

    def ops(self, planned: Planned, runs: DataFrame) -> DataFrame:
        pieces = [piece for run in planned.runs for piece in _pieces(run)]
        work = tasks.spread(pieces, _size, self.tasks(sum(map(_size, pieces)) * 10))
        begun = tasks.run(self.session, work, reading.invocations, reading.ROW)
        ended = tasks.run(self.session, work, reading.completions, reading.ROW)
        return ops.ops(begun, ended, runs, self.parts(planned.slots["ops"]))

    def runs(self, runs: DataFrame, counts: DataFrame, claims: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        row = runs.select(
            *_FROM_FACTS,
            F.col("rows").alias("ops"),
            (F.col("ended") - F.col("begun")).alias("length"),
            F.lit(SCHEMA_VERSION).alias("schema"),
            "asked",
        )
        for more in (
            counted.of_messages(self.written("messages", counted.OF_MESSAGES)),
            counts,
            counted.of_faults(self.written("faults")),
            leaders.vacancies(claims),
            counted.of_verdicts(self.written("verdicts", ["run", "verdict"])),
        ):
            row = row.join(F.broadcast(more), "run", "left")
        none = ("published", "confirmed", "failed", "unknown", "confirmed_under_faults", "delivered")
        for name in (*none, "faults", "bitten"):
            row = row.withColumn(name, F.coalesce(name, F.lit(0)))
        for name in ("lost", "duplicated"):
            row = row.withColumn(name, F.when(F.col("asked"), F.coalesce(name, F.lit(0))))
        return row.withColumn("verdict", F.coalesce("verdict", F.lit("unknown")))

    def parts(self, slots: int) -> int:
        """In how many tasks rows of so many slots are brought together."""
        return max(min(slots, 4000), self.cores)

    def written(
        self, name: str, columns: Sequence[str] | None = None, of: Sequence[str] = (), but: Sequence[str] = ()
    ) -> DataFrame:
        """The new rows of a table, as they were written."""
        from pyspark.sql import functions as F

        rows = self.scan(name, [(file, 0) for file in self.fresh[name]], columns, of, but)
        if not self.joined:
            return rows
        # rows of others were written anew along with them
        return rows.join(F.broadcast(self.names), "run", "left_semi")

    def scan(
        self,
        name: str,
        files: Sequence[tuple[File, int]],
        columns: Sequence[str] | None = None,
        of: Sequence[str] = (),
        but: Sequence[str] = (),
    ) -> DataFrame:
        names = list(columns or TABLES[name].names)
        schema = pa.schema([*(TABLES[name].field(each) for each in names), ("slot", pa.int32())])
        pieces = [
            {"tables": self.tables.location, "table": name, "path": file.path, "columns": names, "slot": slot,
             "f": list(of), "but": list(but), "size": file.size}
            for file, slot in files
        ]  # fmt: skip
        work = tasks.spread(pieces, _size, self.tasks(sum(map(_size, pieces))))
        return tasks.run(self.session, work, reading.rows_of_table, schema)

    def small(self, name: str, frame: DataFrame, planned: Planned, replaced: Collection[tuple[str, Place]]) -> None:
        """A table of few rows: brought together a file a day and scenario."""
        from pyspark.sql import functions as F

        slots = [(*place, slot) for place, slot in planned.places["small"].items()]
        of = tasks.frame(self.session, pa.table({
            "day": [slot[0] for slot in slots],
            "scenario": [slot[1] for slot in slots],
            "slot": pa.array([slot[2] for slot in slots], pa.int32()),
        }))  # fmt: skip
        self.rewrite(name, frame.drop("slot").join(F.broadcast(of), ["day", "scenario"]), planned, replaced)

    def rewrite(
        self, name: str, frame: DataFrame | None, planned: Planned, replaced: Collection[tuple[str, Place]]
    ) -> None:
        """Write the new rows of a table, and anew those of the files that cannot stay."""
        from pyspark.sql import functions as F

        kind = name if name in planned.slots else "small"
        kept = keep(self.before.files[name], replaced, planned.places[kind], planned.slots[kind])
        if name in ("rejected", "seeds"):
            return
        rows, parts = frame, None  # those of a slot of ops or messages are together already
        if frame is not None and name not in ("ops", "messages"):
            parts = self.parts(planned.slots[kind])
        if kept.anew:
            old = self.scan(name, kept.anew)
            if replaced:
                names = tasks.frame(self.session, pa.table({"run": [run for run, _ in replaced]}))
                old = old.join(F.broadcast(names), "run", "left_anti")
            rows = old if frame is None else frame.select("slot", *TABLES[name].names).unionByName(old)
            parts = self.parts(planned.slots[kind] + len(kept.anew))
            self.joined = True
        with self.step(name):
            new = write(rows, name, self.tables, self.generation, parts) if rows is not None else []
        self.fresh[name] = new if frame is not None else []
        self.files[name] = sorted([*kept.stay, *new], key=lambda file: file.path)

    def seeds(self, fresh: Sequence[Explored]) -> list[File]:
        """Write the seeds of explorations, a file each."""
        gone = {one.id for one in fresh}
        files = [file for file in self.before.files["seeds"] if file.first not in gone]
        for one in fresh:
            rows = pa.Table.from_pylist(one.rows, SEEDS)
            files += write_small(rows, "seeds", self.tables, self.generation, (one.day, one.scenario), one.id)
        return sorted(files, key=lambda file: file.path)

    def rejected(self, bad: Sequence[dict[str, Any]], there: Collection[str]) -> dict[str, str]:
        """Write who is rejected: those that were, and are there as they were; and those that are now."""
        now = {fact["run"] for fact in bad} | self.read
        rows = [row for name, row in self.had.rejected.items() if name in there and name not in now]
        rows += [{name: fact.get(name) for name in REJECTED.names} for fact in bad]
        rows.sort(key=lambda row: row["run"])
        self.files["rejected"] = write_small(
            pa.Table.from_pylist(rows, REJECTED), "rejected", self.tables, self.generation
        )
        return {row["run"]: row["reason"] for row in rows}


def _pieces(run: dict[str, Any]) -> list[dict[str, Any]]:
    """What is read by itself of a run's history: groups of rows, of a large one."""
    same = {name: run[name] for name in ("store", "run", "n", "history", "rows", "base", "first", "chunk")}
    groups, rows = run["groups"], run["rows"]
    if not run["history"].endswith(".parquet") or groups <= 1:
        return [same | {"group": 0, "groups": None, "size": rows}]
    return [same | {"group": at, "groups": at + 1, "size": rows // groups} for at in range(groups)]


def _size(piece: dict[str, Any]) -> int:
    return int(piece["size"])


def told(done: Ingested) -> dict[str, Any]:
    """As JSON data."""
    return asdict(done)
