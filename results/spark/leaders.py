"""The table of leaders: when each node said that it leads, as `checkers.leaders` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def claims(few: DataFrame, runs: DataFrame) -> DataFrame:
    """From ops of which there are few (`ops.FEW`): rows of the table, with `sure` (the node surely led all the while)
    and `op` (of the first view)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    def told(name: str) -> Column:
        return F.get_json_object("detail", f"$.{name}")

    views = (
        few.where(F.col("f").isin("leader", "belief") & (F.col("outcome") == "info") & told("role").isNotNull())
        .select(
            "run",
            "day",
            "scenario",
            F.col("op"),
            F.coalesce("key", F.lit("")).alias("scope"),
            F.coalesce("node", F.lit("")).alias("node"),
            told("role").alias("role"),
            "term",
            "incarnation",
            F.coalesce(told("asked").cast("bigint"), F.col("invoked")).alias("asked"),
            F.coalesce(told("answered").cast("bigint"), F.col("invoked")).alias("answered"),
            (F.col("f") == "belief").alias("exact"),
            told("reign").alias("reign"),
        )
    )  # fmt: skip
    exits = few.where(F.col("f") == "exit").select(
        "run", "op", F.coalesce("node", F.lit("")).alias("node"), F.col("invoked").alias("asked")
    )
    # the end of its process ends what a node believed of every scope
    believed = views.where("exact").select("run", "day", "scenario", "scope", "node").distinct()
    ends = exits.join(F.broadcast(believed), ["run", "node"]).select(
        "run", "day", "scenario", "op", "scope", "node", F.lit("exited").alias("role"),
        F.lit(None).cast("bigint").alias("term"), F.lit(None).cast("bigint").alias("incarnation"),
        "asked", F.col("asked").alias("answered"), F.lit(True).alias("exact"),
        F.lit(None).cast("string").alias("reign"),
    )  # fmt: skip
    order = Window.partitionBy("run", "exact", "scope", "node").orderBy("answered", "op")
    state = F.struct("role", "term", "incarnation", "reign")
    new = (F.col("role") != "leader") | ~F.lag(state).over(order).eqNullSafe(state)
    last = F.broadcast(runs.select("run", "ended").withColumnRenamed("ended", "over"))
    runs_of_views = (
        views.unionByName(ends)
        .withColumn("next", F.lead("answered").over(order))
        .withColumn("new", F.when(new, 1).otherwise(0))
        .withColumn("number", F.sum("new").over(order))
        .where(F.col("role") == "leader")
        .groupBy("run", "day", "scenario", "exact", "scope", "node", "number")
        .agg(
            F.min(F.struct("answered", "op", "term", "incarnation", "reign")).alias("one"),
            F.max(F.struct("answered", "op", "asked", "next")).alias("last"),
        )
        .join(last, "run")
    )
    ended = F.when(F.col("exact"), F.coalesce(F.col("last.next"), F.col("over"))).otherwise(
        F.greatest(F.col("one.answered"), F.col("last.asked"))
    )
    return runs_of_views.select(
        "run",
        "day",
        "scenario",
        "scope",
        "node",
        F.lit("leader").alias("role"),
        F.col("one.term").alias("term"),
        F.col("one.incarnation").alias("incarnation"),
        F.col("one.answered").alias("began"),
        ended.alias("ended"),
        "exact",
        (F.col("exact") | F.col("one.term").isNotNull() | F.col("one.reign").isNotNull()).alias("sure"),
        F.col("one.op").alias("op"),
    )


def vacancies(held: DataFrame) -> DataFrame:
    """From claims: a row a run, `failover`: the longest time between one sure claim and the next to the same scope, 0
    where they overlap; no row for a run without a next one."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("run", "scope").orderBy("began", "op")
    until = F.max("ended").over(order.rowsBetween(Window.unboundedPreceding, -1))
    gap = F.greatest(F.col("began") - F.col("until"), F.lit(0))
    return (
        held.where("sure")
        .withColumn("until", until)
        .where(F.col("until").isNotNull())
        .groupBy("run")
        .agg(F.max(gap).alias("failover"))
    )
