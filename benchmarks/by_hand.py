"""What `splitbrain ingest` makes of a store of generated runs, written by hand: one process, DuckDB, the same checkers.

As somebody would write it for one machine, once: nothing is incremental, a checker may take everything down with it,
and a run must fit in memory. Each history is read once, for the checkers and for the tables; runs of one day and
scenario go through SQL together, a million rows at a time. It knows no delivery limits, no samples of leaders, no fault
that came to nothing: generated runs have none.

    python -m benchmarks.by_hand STORE TABLES
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.model.errors import BadHistory, BadInput
from chaos.model.history import SCHEMA, Columns, History
from chaos.model.history_pieces import opened
from checkers.leaders import claims, views
from checkers.run import guarded, overall
from results.checking import judge
from results.spark.verdicts import row_of
from results.tables.manifest import File, Manifest, Tables
from results.tables.record import describe
from results.tables.schema import SCHEMA_VERSION, TABLES
from results.tables.survey import Found, survey

ROWS = 1_000_000  # of histories, in SQL at a time
Row = dict[str, Any]

OPS = """
CREATE OR REPLACE TABLE ops AS
SELECT r.run, r.day, r.scenario, i.n, i.index AS op, CASE WHEN i.type <> 0 THEN i.index ELSE c.index END AS "end",
    i.process, i.f, coalesce(c.key, i.key) AS key, coalesce(c.value, i.value) AS value,
    coalesce(c.node, i.node) AS node,
    CASE coalesce(c.type, i.type) WHEN 1 THEN 'ok' WHEN 2 THEN 'fail' ELSE 'info' END AS outcome,
    i.time AS invoked, CASE WHEN i.type <> 0 THEN i.time ELSE c.time END AS completed, c.time - i.time AS latency,
    coalesce(c.error, i.error) AS error, i.detail, c.detail AS answer, coalesce(c.channel, i.channel) AS channel,
    coalesce(c.redelivered, i.redelivered) AS redelivered, coalesce(c.term, i.term) AS term,
    coalesce(c.incarnation, i.incarnation) AS incarnation
FROM rows i LEFT JOIN (SELECT * FROM rows WHERE op IS NOT NULL) c ON i.n = c.n AND i.index = c.op
    JOIN told r ON r.n = i.n
WHERE i.op IS NULL
"""
PUBLISH = "(f = 'publish' AND \"end\" IS DISTINCT FROM op)"
CONFIRMED = f"({PUBLISH} AND outcome = 'ok')"
WHOLE = "coalesce(error NOT IN ('corrupt', 'foreign'), true)"
DELIVERED = f"(f = 'consume' AND outcome = 'ok' AND value IS NOT NULL AND {WHOLE})"
TOOK = f"({DELIVERED} AND coalesce(json_extract_string(answer, '$.queue') = key, true))"
ACKED = "(f = 'ack' AND outcome = 'ok')"
MESSAGES = f"""
CREATE OR REPLACE TABLE messages AS
WITH one AS (
    SELECT n, key, value AS id, min(op) FILTER ({PUBLISH}) AS op, min(process) FILTER ({PUBLISH}) AS process,
        max(node) FILTER ({PUBLISH}) AS node,
        min(CASE outcome WHEN 'ok' THEN 0 WHEN 'fail' THEN 1 ELSE 2 END) FILTER ({PUBLISH}) AS outcome,
        min(invoked) FILTER ({PUBLISH}) AS published, min(completed) FILTER ({CONFIRMED}) AS confirmed,
        min("end") FILTER ({CONFIRMED}) AS "end", count(*) FILTER ({TOOK}) AS deliveries,
        count(*) FILTER ({ACKED}) AS acks, min(completed) FILTER ({TOOK}) AS first,
        max(completed) FILTER ({TOOK}) AS last
    FROM ops WHERE f IN ('publish', 'consume', 'ack') AND value IS NOT NULL GROUP BY n, key, value
), drained AS (
    SELECT n, key, max("end") AS drained FROM ops WHERE f = 'drain' AND outcome = 'ok' GROUP BY n, key
)
SELECT run, day, scenario, n, key, id, process, node, ['ok', 'fail', 'info'][outcome + 1] AS outcome, published,
    confirmed, deliveries, acks, first, last,
    coalesce(outcome = 0 AND deliveries = 0 AND one."end" < drained AND cut IS NULL, false) AS lost,
    deliveries > 1 AS duplicated
FROM one LEFT JOIN drained USING (n, key) JOIN told USING (n) WHERE op IS NOT NULL
"""
LATENCY = """
CREATE OR REPLACE TABLE latency AS
WITH asked AS (
    SELECT n, f, invoked AS start, completed AS stop, CASE WHEN outcome = 'ok' THEN latency END AS ns FROM ops
    WHERE process >= 0 AND "end" IS DISTINCT FROM op AND f NOT IN ('consume', 'open', 'close', 'seek')
    UNION ALL SELECT n, 'delivery', published, first, first - published FROM messages WHERE first IS NOT NULL
), phased AS (
    SELECT a.*, width, start - start % width AS began, CASE WHEN EXISTS (
        SELECT 1 FROM faults s WHERE s.n = a.n AND s.injected <= coalesce(a.stop, a.start) AND a.start <= s.over
    ) THEN 'faulted' ELSE 'quiet' END AS phase
    FROM asked a JOIN told USING (n)
), of AS (
    SELECT n, f, width, ns, 'all' AS phase, began FROM phased
    UNION ALL SELECT n, f, width, ns, 'all', NULL FROM phased
    UNION ALL SELECT n, f, width, ns, phase, NULL FROM phased
), each AS (
    SELECT n, f, phase, began, CASE WHEN began IS NOT NULL THEN width END AS width, count(*) AS ops, count(ns) AS ok,
        quantile_disc(ns, [0.5, 0.9, 0.99, 0.999]) AS p, max(ns) AS max
    FROM of GROUP BY n, f, phase, began, of.width
)
SELECT run, day, scenario, f, phase, began, each.width, ops, ok, p[1]::DOUBLE AS p50, p[2]::DOUBLE AS p90,
    p[3]::DOUBLE AS p99, p[4]::DOUBLE AS p999, max
FROM each JOIN told USING (n)
"""
COUNTS = f"""
WITH over AS (
    SELECT n, min(op) AS over FROM ops WHERE f = 'phase' AND json_extract_string(detail, '$.name') = 'undo' GROUP BY n
), asked AS (
    SELECT n, count(*) FILTER ({DELIVERED}) AS delivered, min(invoked) FILTER ({PUBLISH}) AS start,
        greatest(max(invoked) FILTER ({PUBLISH}), max(completed) FILTER ({CONFIRMED}),
            max(invoked) FILTER (f = 'open' AND "end" IS DISTINCT FROM op AND op < over)) AS finish
    FROM ops LEFT JOIN over USING (n) WHERE f IN ('publish', 'consume', 'open') GROUP BY n
), confirms AS (SELECT n, invoked, completed FROM ops WHERE {CONFIRMED}), gaps AS (
    SELECT n, completed, completed - lag(completed) OVER (PARTITION BY n ORDER BY completed) AS gap FROM confirms
), outage AS (
    SELECT n, greatest(max(gap), min(completed) - any_value(start), any_value(finish) - max(completed)) AS outage
    FROM gaps JOIN asked USING (n) GROUP BY n
), under AS (
    SELECT n, count(*) AS confirmed_under_faults FROM confirms c JOIN faults s USING (n)
    WHERE s.in_force <= c.invoked AND c.completed <= s.until GROUP BY n
), alone AS (
    SELECT s.n, s.injected, s.over, least(any_value(finish), min(o.injected) FILTER (o.injected > s.over)) AS quiet
    FROM faults s JOIN asked USING (n) LEFT JOIN faults o ON o.n = s.n AND o.injected <> s.injected
    WHERE s.undone IS NOT NULL GROUP BY s.n, s.injected, s.over
    HAVING NOT coalesce(bool_or(o.injected <= s.over AND s.over < o.over), false)
), healed AS (
    SELECT s.n, coalesce(min(c.completed), any_value(quiet)) - s.over AS recovery FROM alone s
        LEFT JOIN confirms c ON c.n = s.n AND c.invoked > s.over AND c.completed <= quiet
    WHERE quiet > s.over GROUP BY s.n, s.injected, s.over
), found AS (
    SELECT n, count(*) AS published, count(*) FILTER (outcome = 'ok') AS confirmed,
        count(*) FILTER (outcome = 'fail') AS failed, count(*) FILTER (outcome = 'info') AS unknown,
        sum(lost::BIGINT)::BIGINT AS lost, sum(duplicated::BIGINT)::BIGINT AS duplicated
    FROM messages GROUP BY n
)
SELECT n, published, confirmed, failed, unknown, lost, duplicated, delivered,
    coalesce(confirmed_under_faults, 0) AS confirmed_under_faults, outage, recovery
FROM told LEFT JOIN found USING (n) LEFT JOIN asked USING (n) LEFT JOIN under USING (n) LEFT JOIN outage USING (n)
    LEFT JOIN (SELECT n, max(recovery) AS recovery FROM healed GROUP BY n) USING (n)
"""
WIDTHS = (1, 10, 60, 600, 3600, 36_000)  # s, of windows: as few as 100 of them hold a run
SECOND = 1_000_000_000


class Job:
    """All runs of a store, to tables. `took`: seconds a step."""

    def __init__(self, store: str, tables: Tables) -> None:
        self.store, self.tables = store, tables
        self.took: defaultdict[str, float] = defaultdict(float)
        self.files: dict[str, list[File]] = {name: [] for name in TABLES}
        self.rejected: list[Row] = []
        self.number = 0
        self.sql = duckdb.connect()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.took[name] += time.monotonic() - began

    def run(self) -> None:
        groups: dict[tuple[str, str], list[tuple[Found, Row]]] = defaultdict(list)
        for found in survey(self.store):
            with self.step("read"):
                try:
                    fact = self.describe(found)
                except BadInput as error:
                    self.reject(found, str(error))
                    continue
            groups[fact["day"], fact["scenario"]].append((found, fact))
        for group in groups.values():
            self.group(group)
        self.write("rejected", self.rejected, "", "")
        self.tables.switch(Manifest(1, SCHEMA_VERSION, {name: tuple(files) for name, files in self.files.items()}))

    def describe(self, found: Found) -> Row:
        if not found.sizes:
            raise BadInput("an empty directory: nothing of a run is in it")
        fact = describe({name: Path(found.path, name).read_bytes() for name in found.sizes if "history" not in name})
        if found.history is None:
            raise BadInput("the run has no history: it ended before anything was recorded")
        return {"run": found.name, "fingerprint": found.fingerprint, "history": found.history, **fact}

    def reject(self, found: Found, reason: str) -> None:
        said = {"run": found.name, "path": found.path, "fingerprint": found.fingerprint, "reason": reason}
        self.rejected.append(said)

    def group(self, group: list[tuple[Found, Row]]) -> None:
        """The runs of one day and scenario."""
        tables: list[pa.Table] = []
        facts: list[Row] = []
        for found, fact in group:
            try:
                with self.step("read"):
                    table, history = self.read(found, fact)
            except BadHistory as error:
                self.reject(found, f"{found.history}: {error}")
                continue
            with self.step("verdicts"):
                self.judge(fact, history)
            fact |= {"n": len(facts), "leaders": list(_leaders(history)), "faults": list(_faults(history))}
            tables.append(table.append_column("n", pa.repeat(pa.scalar(len(facts), pa.int32()), len(table))))
            facts.append(fact)
            if sum(map(len, tables)) >= ROWS:
                self.made(tables, facts)
                tables, facts = [], []
        if facts:
            self.made(tables, facts)

    def read(self, found: Found, fact: Row) -> tuple[pa.Table, History]:
        columns, parts = Columns(), []
        with opened(f"{found.path}/{found.history}") as pieces:
            for part in pieces.read():
                columns.add(part)
                parts.append(part)
        fact["cut"] = pieces.cut
        history = columns.history(fact["cut"]).validate()
        last = int(history.time[-1])
        fact |= {"ops": len(history), "ended": last, "length": last - int(history.time[0])}
        return pa.concat_tables(part.select(SCHEMA.names).cast(SCHEMA) for part in parts), history

    def judge(self, fact: Row, history: History) -> None:
        wanted = judge.asked(self.store, fact["run"])
        results = [guarded(one.checker, history, one.options) for one in wanted.values()]
        fact["verdicts"] = [row_of(result) for result in results]
        fact["verdict"] = str(overall(results))

    def made(self, tables: list[pa.Table], facts: list[Row]) -> None:
        """The tables of some runs."""
        self.number += 1
        told = [{name: fact[name] for name in ("n", "run", "day", "scenario", "ended", "cut")} for fact in facts]
        for row, fact in zip(told, facts, strict=True):
            row["width"] = next((w * SECOND for w in WIDTHS if fact["length"] <= w * SECOND * 100), 360_000 * SECOND)
        schema = pa.schema([("n", pa.int32()), *((name, pa.string()) for name in ("run", "day", "scenario", "cut")),
                            ("ended", pa.int64()), ("width", pa.int64())])  # fmt: skip
        self.sql.register("told", pa.Table.from_pylist(told, schema))
        self.sql.register("rows", pa.concat_tables(tables))
        spans = [span | {"n": fact["n"], "until": _or(span["undoing"], fact["ended"]),
                         "over": _or(span["undone"], fact["ended"])}
                 for fact in facts for span in fact["faults"]]  # fmt: skip
        names = ("n", "injected", "in_force", "undone", "until", "over")
        schema = pa.schema([(name, pa.int64()) for name in names])
        self.sql.register("faults", pa.Table.from_pylist([{name: s[name] for name in names} for s in spans], schema))
        day, scenario = facts[0]["day"], facts[0]["scenario"]
        for name, make, order in (
            ("ops", OPS, "run, op"),
            ("messages", MESSAGES, "run, key, id"),
            ("latency", LATENCY, "run, f, phase, began"),
        ):
            with self.step(name):
                self.sql.execute(make)
                path = self.path(name, day, scenario)
                columns = ", ".join(f'"{column}"' for column in TABLES[name].names)
                self.sql.execute(
                    f"COPY (SELECT {columns} FROM {name} ORDER BY {order}) TO '{self.tables.path(path)}' "
                    "(FORMAT parquet, COMPRESSION zstd)"
                )
                self.keep(name, path, day, scenario)
        with self.step("runs"):
            counts = {row.pop("n"): row for row in self.sql.sql(COUNTS).to_arrow_table().to_pylist()}
            self.write("runs", [_run(fact, counts[fact["n"]]) for fact in facts], day, scenario)
            for name in ("faults", "leaders", "verdicts"):
                of = ("run", "day", "scenario")
                rows = [{**row, **{word: fact[word] for word in of}} for fact in facts for row in fact[name]]
                self.write(name, rows, day, scenario)

    def path(self, table: str, day: str, scenario: str) -> str:
        path = f"data/{table}/day={day}/scenario={scenario}/{self.number:06d}.parquet"
        Path(self.tables.path(path)).parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, table: str, rows: list[Row], day: str, scenario: str) -> None:
        if not rows:
            return
        path = self.path(table, day, scenario)
        rows = [{name: row.get(name) for name in TABLES[table].names} for row in rows]
        pq.write_table(pa.Table.from_pylist(rows, TABLES[table]), self.tables.path(path), compression="zstd")
        self.keep(table, path, day, scenario)

    def keep(self, table: str, path: str, day: str, scenario: str) -> None:
        rows, size = pq.read_metadata(self.tables.path(path)).num_rows, Path(self.tables.path(path)).stat().st_size
        self.files[table].append(File(path, rows, size, day, scenario))


def _or(value: int | None, other: int) -> int:
    return other if value is None else value


def _faults(history: History) -> Iterator[Row]:
    """Each fault that was injected, as in the table."""
    undo: dict[str | None, Row] = {}
    for row in history.rows("undo").tolist():
        one = history[row]
        told: Row = {"began": one.time}
        if one.op is not None:
            told = {"undone": one.time, "bit": (one.detail or {}).get("bit")}
        undo[one.key] = undo.get(one.key, {}) | told
    for row in history.rows("inject").tolist():
        if history.invocation[row] >= 0:
            said, key, begun = history.detail(row), history.key[row], int(history.invocation[row])
            ended = undo.get(key, {})
            yield {
                "fault": key, **{name: said.get(name) for name in ("nemesis", "kind", "target")},
                "nodes": list(dict.fromkeys(node for action in said["actions"] for node in action["nodes"])),
                "injected": int(history.time[begun]), "in_force": max(said["in_force"].values()),
                "undoing": ended.get("began"), "undone": ended.get("undone"), "bit": ended.get("bit"),
            }  # fmt: skip


def _leaders(history: History) -> Iterator[Row]:
    """Each claim to lead, as in the table, ordered by when it began."""
    for claim in claims(history, views(history)):
        yield {
            "scope": claim.key, "node": claim.node, "role": "leader", "term": claim.term,
            "incarnation": int(history.incarnation[claim.row]), "began": claim.start, "ended": claim.end, "exact": True,
        }  # fmt: skip


def _run(fact: Row, counts: Mapping[str, Any]) -> Row:
    gaps: list[int] = []
    until: dict[str, int] = {}
    for claim in fact["leaders"]:
        if (before := until.get(claim["scope"])) is not None:
            gaps.append(max(claim["began"] - before, 0))
        until[claim["scope"]] = max(claim["ended"], before or 0)
    bitten = sum(span["bit"] is True for span in fact["faults"])
    return {**fact, **counts, "faults": len(fact["faults"]), "bitten": bitten, "failover": max(gaps, default=None),
            "schema": SCHEMA_VERSION}  # fmt: skip


def main() -> None:
    store, tables = sys.argv[1:]
    job = Job(store, Tables(tables))
    job.run()
    ops = sum(file.rows for file in job.files["ops"])
    print(json.dumps({"ops": ops, "took": job.took}))


if __name__ == "__main__":
    main()
