"""Work as a frame: a row a task, and functions of ours from tasks to Arrow batches, run where the executors are."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK = pa.schema([("task", pa.string())])
Batches = Iterator[pa.RecordBatch]
T = TypeVar("T")


def frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """An Arrow table as a frame, with its columns' types as they are."""
    return session.createDataFrame(table)


def run(
    session: SparkSession,
    tasks: Sequence[Sequence[Any]],
    work: Callable[[Any], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """What `work` makes of each piece of each task, as rows of `schema`. A task is a list of pieces, which are data
    (JSON); `work` must be found by import where it runs."""
    rows = pa.table({"task": [json.dumps(task) for task in tasks]}, schema=TASK)

    def each(batches: Batches) -> Batches:
        for batch in batches:
            for text in batch["task"].to_pylist():
                for piece in json.loads(text):
                    yield from work(piece)

    return frame(session, rows).mapInArrow(each, spark_schema(schema))


def spark_schema(schema: pa.Schema) -> Any:
    """As Spark's own."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def spread(pieces: Iterable[T], size: Callable[[T], int], tasks: int) -> list[list[T]]:
    """Pieces laid into at most so many tasks, much alike in size: the largest first, each to the least so far."""
    ordered = sorted(pieces, key=size, reverse=True)
    heap: list[tuple[int, int]] = [(0, number) for number in range(min(tasks, len(ordered)))]
    found: list[list[T]] = [[] for _ in heap]
    for piece in ordered:
        total, number = heapq.heappop(heap)
        found[number].append(piece)
        heapq.heappush(heap, (total + size(piece), number))
    return found


def cores(session: SparkSession) -> int:
    """How many tasks can run at once, as far as we are told."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect keeps its context to itself
        return 8
