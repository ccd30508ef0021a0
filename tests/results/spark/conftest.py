"""One session of Spark, and so one Java machine, for all tests that need one: it takes long to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pytest

from results.spark.session import Where, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# For small data: compiling well takes longer than running.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
WHERE = Where("local[2]", memory="1g", conf=QUICK)
Session: TypeAlias = "Callable[[], SparkSession]"


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    with opened(WHERE) as begin:
        yield begin
