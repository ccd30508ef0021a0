"""Where Spark cannot run, a line says why; no test here starts it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from chaos.model.errors import BadInput, SplitbrainError
from results.spark import java, session
from results.spark.session import Where, explained, opened


def begin(where: Where) -> None:
    with opened(where) as session:
        session()


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SplitbrainError, match="Spark needs Java 17 or newer, and there is none here: Debian"):
        begin(Where())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SplitbrainError, match="which has no bin/java"):
        begin(Where())


@pytest.mark.parametrize(
    ("said", "problem"),
    [('openjdk version "11.0.2"', "is version 11"), ('version "1.8.0_3"', "is version 8"), ("?", "does not say")],
)
def test_a_java_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, problem: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SplitbrainError, match=problem):
        begin(Where())


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "pyspark", lambda: None)
    with pytest.raises(SplitbrainError, match="there is no PySpark here: pip install"):
        begin(Where())


def test_a_master_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "trouble", lambda remote=False: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(SplitbrainError, match=f"spark://127.0.0.1:{port} does not answer: .*refused"):
            begin(Where(master=f"spark://127.0.0.1:{port}"))
        with pytest.raises(SplitbrainError, match="does not answer"):
            begin(Where(remote=f"sc://127.0.0.1:{port}"))


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "trouble", lambda remote=False: None)
    monkeypatch.setattr(session, "ANSWER", 1.0)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises(SplitbrainError, match="does not answer: what listens there is no server of Spark Connect"):
            begin(Where(remote=f"sc://127.0.0.1:{mute.getsockname()[1]}"))


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        (Where(master="locl"), "--master locl: write it as"),
        (Where(remote="http://x"), "--remote http://x: write it as"),
        (Where(memory="4"), "--memory 4: write it as"),
    ],
)
def test_what_is_no_place(where: Where, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        begin(where)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("An error ...\njava.io.IOException: No space left on device\n\tat x", "no space left on the disk"),
        (
            "Traceback\nchaos.model.errors.SplitbrainError: r1: changed while it was read: run it again\n\n\tat x",
            "r1: changed while it was read: run it again",
        ),
        (
            "Traceback\nModuleNotFoundError: No module named 'results'\n\tat x",
            "the Python of the executors has no module 'results': give them the environment of this command",
        ),
        ('Caused by: java.io.IOException: Cannot run program "./env/bin/python": error=2', "is not there: ./env/bin"),
        ("pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker", "is of another version"),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat x", "Spark ran out of its memory \\(4g\\)"),
        ("Job aborted\norg.apache.spark.SparkException: worker died\n\tat x", "Spark failed: .*worker died"),
    ],
)
def test_what_spark_says_in_a_line(text: str, line: str) -> None:
    with pytest.raises(SplitbrainError, match=line):
        raise explained(text, Where())
