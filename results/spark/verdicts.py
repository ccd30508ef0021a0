"""Where verdicts come from. A judge makes rows of the table `verdicts` of the runs that are new or have changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from chaos.model.verdict import Result
from results.spark.tasks import Batches, spark_schema
from results.tables.manifest import filesystem
from results.tables.schema import VERDICTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# From a session and the runs (`plan.PLANNED`: a row a run, with `store`, `run`, `day`, `scenario`, `history`, `rows`)
# to rows of VERDICTS. What it says of a run that cannot be judged is its own matter; one of which it says nothing has
# none.
Judge: TypeAlias = "Callable[[SparkSession, DataFrame], DataFrame]"


def kept(session: SparkSession, runs: DataFrame) -> DataFrame:
    """What each run's verdict.json says, where there is one and it is whole."""

    def each(batches: Batches) -> Batches:
        for batch in batches:
            for row in batch.to_pylist():
                yield from of_run(row)

    return runs.select("store", "run", "day", "scenario").mapInArrow(each, spark_schema(VERDICTS))


def of_run(row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Rows of what one run's verdict.json says."""
    fs, root = filesystem(row.pop("store"))
    try:
        with fs.open_input_stream(f"{root}/{row['run']}/verdict.json") as file:
            said = json.loads(file.read())["checkers"]
        results = [Result.from_json(name, data) for name, data in said.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return
    yield pa.RecordBatch.from_pylist([row | row_of(result) for result in results], VERDICTS)


def row_of(result: Result) -> dict[str, Any]:
    """A result as a row of VERDICTS, but for which run's it is."""
    kinds = Counter(anomaly.kind for anomaly in result.anomalies)
    return {
        "checker": result.checker,
        "verdict": str(result.verdict),
        "reason": result.reason,
        "counts": list(result.counts.items()),
        "anomalies": json.dumps([anomaly.to_json() for anomaly in result.anomalies], default=_plain),
        "kinds": list(kinds.items()),
        "metrics": json.dumps(dict(result.metrics), default=_plain),
    }


def _plain(value: Any) -> Any:
    """NumPy's numbers as JSON has them."""
    return value.item() if hasattr(value, "item") else str(value)
