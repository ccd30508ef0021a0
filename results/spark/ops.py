"""The table of ops: each invocation with its completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.model.op import FAIL, INFO, OK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# Rows of ops of which a run has few, however long it is; and what is asked of them.
F_OF_FEW = ("inject", "undo", "leader", "belief", "exit", "phase", "drain")
FEW = ("run", "day", "scenario", "op", "end", "f", "key", "node", "outcome", "invoked", "completed", "error", "detail",
       "answer", "term", "incarnation")  # fmt: skip


def ops(begun: DataFrame, ended: DataFrame, runs: DataFrame, parts: int) -> DataFrame:
    """From rows that begin an op, or stand alone, and rows that end one (`reading.ROW`): rows of the table, with `slot`
    and `n`, in their order."""
    from pyspark.sql import functions as F

    # both sides brought together by slot, and merged: what comes out is in the order, and in the tasks, that it is
    # written in; and no side must fit in memory, whatever Spark takes its size for
    i = begun.repartition(parts, "slot").alias("i")
    c = ended.repartition(parts, "slot").alias("c")
    same = [F.col(f"i.{key}") == F.col(f"c.{key}") for key in ("slot", "n")]
    joined = i.join(c.hint("merge"), [*same, F.col("i.index") == F.col("c.op")], "left").join(
        F.broadcast(runs.select("n", "run", "day", "scenario")).alias("r"), F.col("i.n") == F.col("r.n")
    )

    def either(name: str) -> Column:
        return F.coalesce(F.col(f"c.{name}"), F.col(f"i.{name}")).alias(name)

    type_ = F.coalesce(F.col("c.type"), F.col("i.type"))
    alone = F.col("i.type") != 0
    outcome = F.when(type_ == int(OK), str(OK)).when(type_ == int(FAIL), str(FAIL)).otherwise(str(INFO))
    return joined.select(
        F.col("i.slot").alias("slot"),
        F.col("i.n").alias("n"),
        F.col("r.run").alias("run"),
        F.col("r.day").alias("day"),
        F.col("r.scenario").alias("scenario"),
        F.col("i.index").alias("op"),
        F.when(alone, F.col("i.index")).otherwise(F.col("c.index")).alias("end"),
        F.col("i.process").alias("process"),
        F.col("i.f").alias("f"),
        either("key"),
        either("value"),
        either("node"),
        outcome.alias("outcome"),
        F.col("i.time").alias("invoked"),
        F.when(alone, F.col("i.time")).otherwise(F.col("c.time")).alias("completed"),
        (F.col("c.time") - F.col("i.time")).alias("latency"),
        either("error"),
        F.col("i.detail").alias("detail"),
        F.col("c.detail").alias("answer"),
        either("channel"),
        either("redelivered"),
        either("term"),
        either("incarnation"),
    )


def alone() -> Column:
    """Whether a row of ops stands alone: it is no invocation."""
    from pyspark.sql import functions as F

    return F.col("end") == F.col("op")


def invoked() -> Column:
    """Whether a row of ops is an invocation, completed or not."""
    from pyspark.sql import functions as F

    return F.col("end").isNull() | (F.col("end") != F.col("op"))


def said() -> Column:
    """The JSON of the row that ended an op, or stands alone."""
    from pyspark.sql import functions as F

    return F.when(alone(), F.col("detail")).otherwise(F.col("answer"))


def delivered() -> Column:
    """Whether a row of ops is a delivery of an intact message of ours."""
    from pyspark.sql import functions as F

    from chaos.model.op import CORRUPT, FOREIGN

    whole = F.col("error").isNull() | ~F.col("error").isin(CORRUPT, FOREIGN)
    return (F.col("f") == "consume") & (F.col("outcome") == "ok") & F.col("value").isNotNull() & whole
