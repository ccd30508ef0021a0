"""The table of messages: what became of each publish attempt, as the checker `messages` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.spark.ops import delivered, invoked, said

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("run", "op", "end", "process", "f", "key", "value", "node", "outcome", "invoked", "completed", "error")
TEXT = ("detail", "answer")
F_OF_MESSAGES = ("publish", "consume", "ack")


def messages(ops: DataFrame, few: DataFrame, runs: DataFrame, parts: int, limits: bool) -> DataFrame:
    """From ops (COLUMNS, of F_OF_MESSAGES), those of which there are few (`ops.FEW`), and runs (`plan.PLANNED`): rows
    of the table, with `slot` and `n`. `limits`: whether any run has a delivery limit."""
    from pyspark.sql import functions as F

    of = F.broadcast(runs.select("run", "n", "message_base", "message_pieces"))
    rows = ops.join(of, "run").drop("slot")
    publish = (F.col("f") == "publish") & invoked()
    confirmed = publish & (F.col("outcome") == "ok")
    stray = F.get_json_object(said(), "$.queue") != F.col("key")
    took = delivered() & ~F.coalesce(stray, F.lit(False))
    acked = (F.col("f") == "ack") & (F.col("outcome") == "ok")
    slot = (F.col("message_base") + F.pmod(F.col("value"), F.col("message_pieces"))).cast("int")
    outcome = F.when(F.col("outcome") == "ok", 0).when(F.col("outcome") == "fail", 1).otherwise(2)
    each = (
        rows.where((publish | took | acked) & F.col("value").isNotNull())
        .select(
            "n",
            slot.alias("slot"),
            "key",
            F.col("value").alias("id"),
            F.when(publish, F.col("op")).alias("op"),
            F.when(publish, F.col("process")).alias("process"),
            F.when(publish, F.col("node")).alias("node"),
            F.when(publish, outcome).alias("outcome"),
            F.when(publish, F.col("invoked")).alias("published"),
            F.when(confirmed, F.col("completed")).alias("confirmed"),
            F.when(confirmed, F.col("end")).alias("end"),
            F.when(took, F.col("completed")).alias("took"),
            F.when(acked, 1).alias("acked"),
        )
        .repartition(parts, "slot")
        .groupBy("slot", "n", "key", "id")
        .agg(
            *(F.min(name).alias(name) for name in ("op", "process", "outcome", "published", "confirmed", "end")),
            F.max("node").alias("node"),
            F.count("took").alias("deliveries"),
            F.count("acked").alias("acks"),
            F.min("took").alias("first"),
            F.max("took").alias("last"),
        )
        .where(F.col("op").isNotNull())
    )
    drained = (
        few.where((F.col("f") == "drain") & (F.col("outcome") == "ok"))
        .join(F.broadcast(runs.select("run", "n")), "run")
        .groupBy("n", "key")
        .agg(F.max("end").alias("drained"))
    )
    asked = runs.select("n", "run", "day", "scenario", "cut", "asked")
    each = each.join(F.broadcast(drained), ["n", "key"], "left").join(F.broadcast(asked), "n")
    unseen = (F.col("outcome") == 0) & (F.col("deliveries") == 0)
    lost = unseen & (F.col("end") < F.col("drained")) & F.col("cut").isNull()
    if limits:
        each = each.join(F.broadcast(_droppable(rows, runs)), ["n", "key"], "left")
        lost = lost & ~F.coalesce(F.col("op") <= F.col("droppable"), F.lit(False))
    return each.select(
        "slot",
        "n",
        "run",
        "day",
        "scenario",
        "key",
        "id",
        "process",
        "node",
        F.when(F.col("outcome") == 0, "ok").when(F.col("outcome") == 1, "fail").otherwise("info").alias("outcome"),
        "published",
        "confirmed",
        "deliveries",
        "acks",
        "first",
        "last",
        F.when(F.col("asked"), F.coalesce(lost, F.lit(False))).alias("lost"),
        F.when(F.col("asked"), F.col("deliveries") > 1).alias("duplicated"),
    )


def _droppable(rows: DataFrame, runs: DataFrame) -> DataFrame:
    """For each queue of a run with a delivery limit: up to which op a publish began that so many connections of
    consumers, which were there after it, could have had."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    limited = F.broadcast(runs.where(F.col("limit") > 0).select("n", "limit"))
    last = (
        rows.where(F.col("f") == "consume")
        .join(limited, "n")
        .groupBy("n", "limit", "key", "process", "channel")
        .agg(F.max(F.coalesce(F.col("end"), F.col("op"))).alias("last"))
    )
    number = F.row_number().over(Window.partitionBy("n", "key").orderBy(F.desc("last")))
    return last.withColumn("number", number).where(F.col("number") == F.col("limit")).select(
        "n", "key", F.col("last").alias("droppable")
    )  # fmt: skip
