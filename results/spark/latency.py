"""The table of latencies: percentiles, a row an operation, a phase and a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.spark.ops import invoked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("run", "op", "end", "process", "f", "outcome", "invoked", "completed", "latency")
OF_MESSAGES = ("run", "published", "first")
NOT_MEASURED = ("consume", "open", "close", "seek")  # a credit waits until there is something; the others are no asking
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
ACCURACY = 10_000
WINDOWS = 100  # of a run, at most
WIDTHS = (1, 10, 60, 600, 3600, 36_000, 360_000)  # seconds


def latency(ops: DataFrame, messages: DataFrame, runs: DataFrame, union: DataFrame) -> DataFrame:
    """From ops (COLUMNS, but NOT_MEASURED) and messages (OF_MESSAGES): rows of the table. `union`: of the
    intervals of the faults, from the asking for one to its end (`faults.merged`)."""
    from pyspark.sql import functions as F

    asked = ops.where((F.col("process") >= 0) & invoked()).select(
        "run",
        "f",
        F.col("invoked").alias("start"),
        F.col("completed").alias("end"),
        F.when(F.col("outcome") == "ok", F.col("latency")).alias("ns"),
    )
    first = messages.where(F.col("first").isNotNull()).select(
        "run",
        F.lit("delivery").alias("f"),
        F.col("published").alias("start"),
        F.col("first").alias("end"),
        (F.col("first") - F.col("published")).alias("ns"),
    )
    length = F.col("ended") - F.col("begun")
    width = F.lit(WIDTHS[-1] * 1_000_000_000)
    for seconds in reversed(WIDTHS[:-1]):
        width = F.when(length <= seconds * 1_000_000_000 * WINDOWS, seconds * 1_000_000_000).otherwise(width)
    of = F.broadcast(runs.select("run", "day", "scenario", width.alias("width")))
    touched = F.exists(
        "union", lambda span: (span["start"] <= F.coalesce("end", "start")) & (F.col("start") <= span["end"])
    )
    rows = (
        asked.unionByName(first)
        .join(of, "run")
        .join(F.broadcast(union), "run", "left")
        .withColumn("phase", F.when(F.coalesce(touched, F.lit(False)), "faulted").otherwise("quiet"))
        .withColumn("began", F.col("start") - F.pmod("start", "width"))
    )
    told = F.explode(
        F.array(
            F.struct(F.lit("all").alias("phase"), F.col("began")),
            F.struct(F.lit("all").alias("phase"), F.lit(None).cast("bigint").alias("began")),
            F.struct(F.col("phase"), F.lit(None).cast("bigint").alias("began")),
        )
    )
    percentiles = F.percentile_approx("ns", list(QUANTILES.values()), ACCURACY)
    return (
        rows.select("run", "day", "scenario", "f", "width", "ns", told.alias("of"))
        .groupBy("run", "day", "scenario", "f", "width", F.col("of.phase"), F.col("of.began"))
        .agg(
            F.count(F.lit(1)).alias("ops"),
            F.count("ns").alias("ok"),
            F.max("ns").alias("max"),
            percentiles.alias("p"),
        )
        .select(
            "run",
            "day",
            "scenario",
            "f",
            "phase",
            "began",
            F.when(F.col("began").isNotNull(), F.col("width")).alias("width"),
            "ops",
            "ok",
            *(F.col("p")[at].cast("double").alias(name) for at, name in enumerate(QUANTILES)),
            "max",
        )
    )
