"""A store and its tables in an object store: a server on this machine that speaks S3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from click.testing import CliRunner

from benchmarks.store import EMPTY, LOST, make
from chaos.cli import main
from chaos.model.errors import BadInput, SplitbrainError
from results.spark.ingest import ingest
from results.tables.load import load
from results.tables.manifest import Manifest, Tables, filesystem
from tests.results.tables.s3 import serving

STORE = "s3://nightly/runs"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[pafs.FileSystem]:
    """A server of its own, with an empty bucket."""
    with serving("nightly") as server:
        told = {"ENDPOINT_URL": server.address, "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "REGION": "us-east-1"}
        for name, value in told.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        yield filesystem("s3://nightly")[0]


def upload(s3: pafs.FileSystem, store: Path) -> None:
    pafs.copy_files(str(store), "nightly/runs", source_filesystem=pafs.LocalFileSystem(), destination_filesystem=s3)


def splitbrain(*words: str) -> tuple[object, str]:
    done = CliRunner().invoke(main.group(), words, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout


def test_every_run_is_judged_as_in_a_folder(s3: pafs.FileSystem, tmp_path: Path) -> None:
    make(tmp_path / "runs", runs=3, ops=60, plants={LOST: 1, EMPTY: 1})
    upload(s3, tmp_path / "runs")
    words = ("check", "--all", "--json", "--jobs", "1", "--store")
    assert splitbrain(*words, STORE) == splitbrain(*words, str(tmp_path / "runs"))


def test_tables_are_made_switched_and_read(s3: pafs.FileSystem, tmp_path: Path) -> None:
    explore = ("explore", "--broker", "null", "--nemesis", "none", "--time", "1s", "--jobs", "1", "--seeds", "2")
    splitbrain(*explore, "--store", str(tmp_path / "runs"))
    upload(s3, tmp_path / "runs")
    tables = Tables(f"{STORE}/tables")
    done = ingest(lambda: pytest.fail("it asked for Spark"), STORE, tables)
    assert (done.generation, list(done.explored.values())) == (1, [2])
    _, said = splitbrain("export", "seeds", "--store", STORE, "--format", "json", "--columns", "seed,verdict")
    assert [json.loads(line) for line in said.splitlines()] == [
        {"seed": 1, "verdict": "valid"}, {"seed": 2, "verdict": "valid"}
    ]  # fmt: skip
    assert splitbrain("trends", "--store", STORE)[1].startswith("✓ null-queue, explored")
    # who is late finds another generation
    with pytest.raises(SplitbrainError, match="another job has written generation 000001 meanwhile"):
        tables.switch(Manifest(1))
    assert len(load(STORE).seeds) == 2


@pytest.mark.parametrize("store", ["s3://nightly/none", "s3://no-such-bucket/runs"])
def test_where_there_is_none(s3: pafs.FileSystem, store: str) -> None:
    with pytest.raises(BadInput, match=f"{store}: there is no such store"):
        ingest(lambda: pytest.fail("it asked for Spark"), store, Tables(f"{store}/tables"))


def test_what_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="leave out what follows the question mark"):
        filesystem("s3://nightly/runs?region=x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:9000")
    with pytest.raises(BadInput, match=r"AWS_ENDPOINT_URL=127.0.0.1:9000: write it as http://HOST:PORT"):
        filesystem("s3://nightly/runs")
    with pytest.raises(BadInput, match="ftp://x: not a place to keep tables in"):
        filesystem("ftp://x")


def test_what_needs_a_folder_says_so() -> None:
    with pytest.raises(BadInput, match="--store s3://nightly/runs: this command needs a store in a folder"):
        splitbrain("list", "--store", STORE)
    with pytest.raises(BadInput, match="of an object store all runs are judged at once: --all"):
        splitbrain("check", "--store", STORE)
