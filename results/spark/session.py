"""A session of Spark: on this machine, on a cluster, or with a server of Spark Connect; and its errors in a line."""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from chaos.model.errors import BadInput, SplitbrainError
from results.spark import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session: TypeAlias = "SparkSession"
LOCAL = "local[*]"
MEMORY = "4g"
ANSWER = 10.0  # seconds that a master has to take a connection
_MASTER = re.compile(r"local(\[[^\]]*\])?|spark://.+|yarn|k8s://.+")
_MEMORY = re.compile(r"[1-9]\d*[mMgG]")


@dataclass(frozen=True, slots=True)
class Where:
    """Where jobs run. `master`: local[*], spark://..., yarn, k8s://...; or `remote`: sc://... of Spark Connect.
    `memory`: of the heap of each executor, and of the driver. `conf`: Spark's own settings."""

    master: str = LOCAL
    remote: str | None = None
    memory: str = MEMORY
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        return self.remote is None and self.master.startswith("local")


@contextmanager
def opened(where: Where) -> Iterator[Callable[[], SparkSession]]:
    """A session that begins when it is first asked for, and ends with the block. What Spark says meanwhile is kept
    aside, and the end of it told when it fails.

    Raises BadInput for a master that cannot be one; and then, in a line, SplitbrainError when Spark or Java is missing,
    nobody answers, or a job fails.
    """
    _refuse(where)
    with tempfile.TemporaryFile() as log:
        started: list[SparkSession] = []

        def session() -> SparkSession:
            if not started:
                if (trouble := java.trouble(remote=where.remote is not None)) is not None:
                    raise SplitbrainError(trouble)
                _reach(where)
                with failing(where, log.fileno()):
                    started.append(_start(where, log.fileno()))
            return started[0]

        try:
            with failing(where, log.fileno()):
                yield session
        finally:
            for spark in started:
                with suppress(Exception):
                    spark.stop()


def _refuse(where: Where) -> None:
    if where.remote is not None and not re.fullmatch(r"sc://[^/:]+(:\d+)?(/.*)?", where.remote):
        raise BadInput(f"--remote {where.remote}: write it as sc://HOST:PORT")
    if where.remote is None and not _MASTER.fullmatch(where.master):
        raise BadInput(f"--master {where.master}: write it as local[2], spark://HOST:PORT, yarn or k8s://URL")
    if not _MEMORY.fullmatch(where.memory):
        raise BadInput(f"--memory {where.memory}: write it as 4g or 512m")


def _reach(where: Where) -> None:
    """Ask for a connection first: Spark itself would try for minutes."""
    url = where.remote or where.master
    scheme, _, rest = url.partition("://")
    if scheme not in ("spark", "sc"):
        return
    problems = []
    for address in rest.partition("/")[0].split(","):
        host, _, port = address.partition(":")
        try:
            with socket.create_connection((host, int(port or (7077 if scheme == "spark" else 15002))), ANSWER):
                pass
            if scheme == "spark" or _speaks(f"{host}:{port or 15002}", rest):
                return
            problems.append("what listens there is no server of Spark Connect")
        except (OSError, ValueError) as error:
            problems.append(str(error))
    raise SplitbrainError(f"{url} does not answer: {problems[0]}; is it started, and its address right?")


def _speaks(address: str, rest: str) -> bool:
    """Whether gRPC is spoken there, as far as that can be told without TLS: PySpark would wait for it without end."""
    if "use_ssl=true" in rest.lower() or "token=" in rest.lower():
        return True
    try:
        import grpc
    except ImportError:
        return True  # PySpark says what is missing
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=ANSWER)
        except grpc.FutureTimeoutError:
            return False
    return True


def _start(where: Where, log: int) -> SparkSession:
    from pyspark.sql import SparkSession

    # PySpark reads its own setting for that only where spark-submit has started it
    os.environ["PYSPARK_PYTHON"] = where.conf.get("spark.pyspark.python", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if where.local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("splitbrain")
    builder = builder.remote(where.remote) if where.remote else builder.master(where.master)
    settings = {
        # times are UTC, wherever we are
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        # a task an element of a list of tasks
        "spark.sql.leafNodeDefaultParallelism": "100000",
        # rows that are together by a part of what they are joined or grouped by are together enough
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
    }
    if where.remote is None:
        settings |= {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.driver.memory": where.memory,
            "spark.executor.memory": where.memory,
            "spark.pyspark.python": sys.executable,
            "spark.sql.artifact.isolation.enabled": "false",
        }
    for name, value in (settings | dict(where.conf)).items():
        builder = builder.config(name, value)
    if where.remote is not None:
        return builder.getOrCreate()
    # whoever starts it hands it stderr for life: its own lines are not for the terminal
    kept = os.dup(2)
    os.dup2(log, 2)
    try:
        return builder.getOrCreate()
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def failing(where: Where, log: int) -> Iterator[None]:
    """Turns what Spark raises into a line, with the end of what it said below it."""
    try:
        yield
    except SplitbrainError:
        raise
    except Exception as error:
        # an error of ours is told as such; PySpark's are many
        if not type(error).__module__.startswith(("py4j", "pyspark", "grpc")):
            raise
        raise explained(str(error), where, log) from error


_MISSING = re.compile(r"No module named '?([\w.]+)|Cannot run program \"([^\"]+)\"|(PYTHON_VERSION_MISMATCH)")


def unfit(text: str) -> str | None:
    """What the Python of executors lacks to do anything at all, in a line; None where it is not that which Spark
    tells."""
    if (found := _MISSING.search(text)) is None:
        return None
    module, program, _ = found.groups()
    if module:
        why = f"has no module {module!r}"
    else:
        why = f"is not there: {program}" if program else "is of another version than this one"
    return f"the Python of the executors {why}: give them the environment of this command, or ship it with the job"


_OURS = re.compile(r"chaos\.model\.errors\.(?:SplitbrainError|BadInput|BadHistory): (.*)")


def explained(text: str, where: Where, log: int | None = None) -> SplitbrainError:
    """One line for what Spark said in hundreds."""
    tail: list[str] = []
    if log is not None:
        with suppress(OSError):
            size = os.fstat(log).st_size
            said = os.pread(log, 20_000, max(0, size - 20_000)).decode(errors="replace").splitlines()
            tail = [line for line in said if line.strip() and not line.startswith(("\tat ", "WARNING:"))][-8:]
    if "No space left on device" in text:
        return SplitbrainError("no space left on the disk of the tables, or of Spark's own files (spark.local.dir)")
    if (ours := _OURS.search(text)) is not None:
        return SplitbrainError(ours[1].strip())
    if (lacking := unfit(text)) is not None:
        return SplitbrainError(lacking)
    if "OutOfMemoryError" in text or "GC overhead" in text:
        return SplitbrainError(f"Spark ran out of its memory ({where.memory}): give it more with --memory", tail=tail)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    worst = [line for line in lines if re.match(r"(?:[\w.]+\.)?\w*(?:Error|Exception)\b.*:", line)]
    return SplitbrainError(f"Spark failed: {(worst or lines or ['it does not say why'])[-1][:400]}", tail=tail)
