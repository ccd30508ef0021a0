"""The table of faults: each as an interval, as `checkers.faults` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.spark.ops import invoked, said

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAID = (
    "struct<nemesis:string,kind:string,target:string,actions:array<struct<nodes:array<string>>>,"
    "in_force:map<string,bigint>>"
)


def faults(few: DataFrame) -> DataFrame:
    """From ops of which there are few (`ops.FEW`): rows of the table."""
    from pyspark.sql import functions as F

    undo = few.where(F.col("f") == "undo")
    done = F.col("outcome") == "ok"
    done = done & F.col("end").isNotNull()
    undone = undo.groupBy("run", "key").agg(
        F.min(F.when(invoked(), F.struct("op", "invoked")))["invoked"].alias("began"),
        F.max(F.when(done, F.struct("end", "completed", said().alias("said")))).alias("undone"),
    )
    told = F.from_json(said(), SAID)
    inject = few.where(F.col("f") == "inject").withColumn("told", told)
    in_force = F.coalesce(F.array_max(F.map_values("told.in_force")), F.col("completed"))
    nodes = F.array_distinct(F.flatten(F.col("told.actions.nodes")))
    bit = F.get_json_object("undone.said", "$.bit").cast("boolean")
    return inject.join(F.broadcast(undone), ["run", "key"], "left").select(
        "run",
        "day",
        "scenario",
        F.col("key").alias("fault"),
        F.col("told.nemesis").alias("nemesis"),
        F.col("told.kind").alias("kind"),
        F.col("told.target").alias("target"),
        nodes.alias("nodes"),
        F.col("invoked").alias("injected"),
        F.when(F.col("outcome") == "ok", in_force).alias("in_force"),
        F.coalesce(F.col("began"), F.col("undone.completed")).alias("undoing"),
        F.col("undone.completed").alias("undone"),
        bit.alias("bit"),
        F.col("error"),
    )


def merged(spans: DataFrame, start: str, end: str) -> DataFrame:
    """The union of intervals, a row a run: `union`, an array of {start, end}, ordered and apart from one another."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("run").orderBy("start", "end")
    before = F.max("end").over(order.rowsBetween(Window.unboundedPreceding, -1))
    apart = F.when(before.isNull() | (F.col("start") > before), 1).otherwise(0)
    return (
        spans.select("run", F.col(start).alias("start"), F.col(end).alias("end"))
        .withColumn("apart", apart)
        .withColumn("island", F.sum("apart").over(order))
        .groupBy("run", "island")
        .agg(F.min("start").alias("start"), F.max("end").alias("end"))
        .groupBy("run")
        .agg(F.sort_array(F.collect_list(F.struct("start", "end"))).alias("union"))
    )
