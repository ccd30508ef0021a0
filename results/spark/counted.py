"""What is counted of each run: its row among the runs, from the tables that were made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.spark.faults import merged
from results.spark.ops import delivered, invoked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = ("run", "op", "end", "f", "value", "outcome", "invoked", "completed", "error")
F_OF_COUNTS = ("publish", "consume", "open")
OF_MESSAGES = ("run", "outcome", "lost", "duplicated")
SECOND = 1_000_000_000


def of_messages(messages: DataFrame) -> DataFrame:
    """Counts of messages, a row a run that published."""
    from pyspark.sql import functions as F

    def of(outcome: str) -> Column:
        return F.count(F.when(F.col("outcome") == outcome, 1))

    return messages.groupBy("run").agg(
        F.count(F.lit(1)).alias("published"),
        of("ok").alias("confirmed"),
        of("fail").alias("failed"),
        of("info").alias("unknown"),
        F.sum(F.col("lost").cast("bigint")).alias("lost"),
        F.sum(F.col("duplicated").cast("bigint")).alias("duplicated"),
    )


def slim(ops: DataFrame) -> DataFrame:
    """What is counted of ops (COLUMNS, of F_OF_COUNTS), each as `what` it is: "publish", "confirmed" (a publish that
    was), "delivered", "open"."""
    from pyspark.sql import functions as F

    publish = (F.col("f") == "publish") & invoked()
    what = (
        F.when(publish & (F.col("outcome") == "ok"), "confirmed")
        .when(publish, "publish")
        .when(delivered(), "delivered")
        .when((F.col("f") == "open") & invoked(), "open")
    )
    return ops.select("run", what.alias("what"), "op", "invoked", "completed").where("what is not null")


def of_ops(ops: DataFrame, few: DataFrame, spans: DataFrame) -> DataFrame:
    """`delivered`, `confirmed_under_faults`, `outage`, `recovery`: a row a run, as `checkers.availability` has them.
    `ops`: as `slim` has them; `few`: those of which there are few (`ops.FEW`); `spans`: the faults that took place
    (`took_place`). Read several times: to be kept."""
    from pyspark.sql import functions as F

    confirmed = F.col("what") == "confirmed"
    publish = confirmed | (F.col("what") == "publish")
    # when the undoing of all began: until then connections were tried for in order to work
    over = (
        few.where((F.col("f") == "phase") & (F.get_json_object("detail", "$.name") == "undo"))
        .groupBy("run")
        .agg(F.min("op").alias("over"))
    )
    opened = (F.col("what") == "open") & (F.col("op") < F.col("over"))
    asked = (
        ops.join(F.broadcast(over), "run", "left")
        .groupBy("run")
        .agg(
            F.count(F.when(F.col("what") == "delivered", 1)).alias("delivered"),
            F.min(F.when(publish, F.col("invoked"))).alias("start"),
            F.max(F.when(publish, F.col("invoked"))).alias("asked"),
            F.max(F.when(confirmed, F.col("completed"))).alias("confirmed_last"),
            F.max(F.when(opened, F.col("invoked"))).alias("opened"),
        )
        .withColumn("opened", F.when(F.col("start").isNotNull(), F.col("opened")))
        .withColumn("finish", F.greatest("asked", "confirmed_last", "opened"))
        .select("run", "delivered", "start", "finish")
    )
    confirms = ops.where(confirmed).select("run", "invoked", "completed")
    return (
        asked.join(F.broadcast(_under_faults(confirms, spans)), "run", "left")
        .join(F.broadcast(_outage(confirms, asked)), "run", "left")
        .join(F.broadcast(_recovery(confirms, asked, spans)), "run", "left")
        .select("run", "delivered", "confirmed_under_faults", "outage", "recovery")
    )


def took_place(faults: DataFrame, runs: DataFrame) -> DataFrame:
    """Spans (run, fault, asked, start, undoing, end, undone) of faults that took place: what was never undone lasts to
    the end of its history."""
    from pyspark.sql import functions as F

    last = F.broadcast(runs.select("run", "ended"))
    return faults.where(F.col("in_force").isNotNull()).join(last, "run").select(
        "run",
        "fault",
        F.col("injected").alias("asked"),
        F.col("in_force").alias("start"),
        F.coalesce("undoing", "ended").alias("undoing"),
        F.coalesce("undone", "ended").alias("end"),
        F.col("undone").isNotNull().alias("undone"),
    )  # fmt: skip


def _under_faults(confirms: DataFrame, spans: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    within = F.exists("union", lambda span: (span["start"] <= F.col("invoked")) & (F.col("completed") <= span["end"]))
    union = F.broadcast(merged(spans, "start", "undoing"))
    confirms = confirms.join(union, "run").where(within)
    return confirms.groupBy("run").agg(F.count(F.lit(1)).alias("confirmed_under_faults"))


def _outage(confirms: DataFrame, asked: DataFrame) -> DataFrame:
    """The longest time from a confirm to the next. Within each second of a run by itself, then between the seconds: no
    task must put all of a run in order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    second = F.floor(F.col("completed") / F.lit(SECOND)).alias("second")
    order = Window.partitionBy("run", "second").orderBy("completed")
    seconds = (
        confirms.select("run", second, "completed")
        .withColumn("gap", F.col("completed") - F.lag("completed").over(order))
        .groupBy("run", "second")
        .agg(F.min("completed").alias("first"), F.max("completed").alias("last"), F.max("gap").alias("gap"))
    )
    between = F.col("first") - F.lag("last").over(Window.partitionBy("run").orderBy("second"))
    inner = (
        seconds.withColumn("between", between)
        .groupBy("run")
        .agg(
            F.greatest(F.max("gap"), F.max("between")).alias("inner"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
        )
    )
    ends = (F.col("first") - F.col("start"), F.col("finish") - F.col("last"))
    return inner.join(F.broadcast(asked), "run").select("run", F.greatest("inner", *ends).alias("outage"))


def _recovery(confirms: DataFrame, asked: DataFrame, spans: DataFrame) -> DataFrame:
    """The longest time from the undoing of a fault to a confirm of what was invoked after it; at least so long where
    another fault came first, or nothing more was asked."""
    from pyspark.sql import functions as F

    one, other = spans.alias("one"), spans.alias("other")
    apart = (F.col("one.run") == F.col("other.run")) & (
        (F.col("one.fault") != F.col("other.fault")) | (F.col("one.asked") != F.col("other.asked"))
    )
    later = F.when(F.col("other.asked") > F.col("one.end"), F.col("other.asked"))
    meanwhile = (F.col("other.asked") <= F.col("one.end")) & (F.col("one.end") < F.col("other.end"))
    healed = (
        one.where("undone")
        .join(F.broadcast(other), apart, "left")
        .groupBy("one.run", "one.fault", "one.asked", "one.end")
        .agg(F.min(later).alias("next"), F.max(F.coalesce(meanwhile, F.lit(False))).alias("meanwhile"))
        .where(~F.col("meanwhile"))
        .join(F.broadcast(asked.select("run", "finish")), "run")
        .withColumn("quiet", F.least("finish", "next"))
        .where(F.col("quiet") > F.col("end"))
        .select("run", "fault", "end", "quiet")
    )
    after = (F.col("invoked") > F.col("end")) & (F.col("completed") <= F.col("quiet"))
    first = (
        confirms.join(F.broadcast(healed), "run")
        .where(after)
        .groupBy("run", "fault", "end")
        .agg(F.min("completed").alias("confirmed"))
    )
    ns = F.coalesce("confirmed", "quiet") - F.col("end")
    each = healed.join(F.broadcast(first), ["run", "fault", "end"], "left")
    return each.groupBy("run").agg(F.max(ns).alias("recovery"))


def of_faults(faults: DataFrame) -> DataFrame:
    """`faults` that took place, and how many of them have `bitten`: a row a run that has any."""
    from pyspark.sql import functions as F

    return (
        faults.where(F.col("in_force").isNotNull())
        .groupBy("run")
        .agg(F.count(F.lit(1)).alias("faults"), F.count(F.when(F.col("bit"), 1)).alias("bitten"))
    )


def of_verdicts(verdicts: DataFrame) -> DataFrame:
    """The `verdict` of each run that was judged: the worst; *unknown* where nothing was applicable."""
    from pyspark.sql import functions as F

    applicable = F.count(F.when(F.col("verdict") != "not applicable", 1))
    rank = F.max(F.when(F.col("verdict") == "invalid", 2).when(F.col("verdict") == "unknown", 1).otherwise(0))
    word = F.when(F.col("rank") == 2, "invalid").when((F.col("rank") == 1) | (F.col("applicable") == 0), "unknown")
    return (
        verdicts.groupBy("run")
        .agg(rank.alias("rank"), applicable.alias("applicable"))
        .select("run", word.otherwise("valid").alias("verdict"))
    )
