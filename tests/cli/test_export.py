"""`splitbrain export`: what other tools get to read is what the tables have."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from chaos.cli import main
from chaos.model.errors import BadInput, SplitbrainError
from results.tables.load import BATCH, load
from tests.results.tables.made import Row, make

Invoke = Callable[..., Result]

RUN = {"run": "a", "day": "2026-11-21", "scenario": "one"}
NASTY = 'broker said: "no",\nand λ'
VERDICTS: list[Row] = [
    {**RUN, "checker": "messages", "verdict": "invalid", "reason": NASTY, "counts": [("lost", 2), ("sent", 9)]},
    {**RUN, "checker": "order", "verdict": "valid", "reason": ""},
]
FAULTS: list[Row] = [
    {**RUN, "fault": "kill-1", "nodes": ["n1", "n2"], "injected": 5, "bit": True},
    {**RUN, "fault": "kill-2"},
]
CREATED = datetime(2026, 11, 21, 3, 4, 5, 6, tzinfo=UTC)


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPLITBRAIN_STORE", raising=False)
    make(Path("splitbrain-runs"), runs=[{**RUN, "created": CREATED, "seed": 7}], verdicts=VERDICTS, faults=FAULTS)
    runner = CliRunner()

    def run(*words: str) -> Result:
        done = runner.invoke(main.group(), ("export", *words), standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done

    return run


def test_csv_on_stdout(invoke: Invoke) -> None:
    text = invoke("verdicts", "--columns", "run,checker,reason,counts").stdout
    assert list(csv.DictReader(io.StringIO(text))) == [
        {"run": "a", "checker": "messages", "reason": NASTY, "counts": '{"lost": 2, "sent": 9}'},
        {"run": "a", "checker": "order", "reason": "", "counts": ""},
    ]
    text = invoke("faults", "--columns", "fault,nodes,injected,bit").stdout
    assert text.splitlines()[1:] == ['"kill-1","[""n1"", ""n2""]",5,true', '"kill-2",,,']


def test_json_is_an_object_a_line(invoke: Invoke) -> None:
    lines = invoke("verdicts", "--format", "json", "--where", "checker=messages").stdout.splitlines()
    (row,) = map(json.loads, lines)
    assert (row["reason"], row["counts"], row["anomalies"]) == (NASTY, {"lost": 2, "sent": 9}, None)
    (row,) = map(json.loads, invoke("runs", "--format", "json").stdout.splitlines())
    assert (row["seed"], row["created"], row["lost"]) == (7, "2026-11-21T03:04:05.000006+00:00", None)


@pytest.mark.parametrize("name", ["v.parquet", "v.arrow", "v.csv", "v.jsonl"])
def test_a_file_by_its_name(invoke: Invoke, tmp_path: Path, name: str) -> None:
    done = invoke("verdicts", "-o", name)
    assert (done.stdout, done.stderr) == ("", f"splitbrain: 2 rows of verdicts in {name}\n")
    path = tmp_path / name
    whole = load(tmp_path / "splitbrain-runs").verdicts.to_arrow()
    if name == "v.parquet":
        assert pq.read_table(path, partitioning=None).equals(whole)
    elif name == "v.arrow":
        assert pa.ipc.open_stream(path.read_bytes()).read_all().equals(whole)
    elif name == "v.csv":
        assert path.read_text() == invoke("verdicts").stdout
    else:
        assert path.read_text() == invoke("verdicts", "--format", "json").stdout
    assert sorted(tmp_path.iterdir()) == [tmp_path / "splitbrain-runs", path]


def test_no_rows_are_a_file_all_the_same(invoke: Invoke, tmp_path: Path) -> None:
    invoke("messages", "-o", "m.parquet")
    assert len(pq.read_table(tmp_path / "m.parquet")) == 0
    assert invoke("leaders", "--columns", "node,role").stdout == '"node","role"\n'
    assert invoke("messages", "--format", "json").stdout == ""


def test_a_large_table_goes_through_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = BATCH * 3 + 1
    make(tmp_path, messages=[{**RUN, "key": "q", "id": number} for number in range(rows)])
    sizes = [len(batch) for batch in load(tmp_path).messages.batches(["id"])]
    assert sum(sizes) == rows
    assert max(sizes) <= BATCH
    # whoever reads only the beginning is no error of ours
    code = "from chaos.cli.main import main; main()"
    words = ["export", "messages", "--store", str(tmp_path), "--columns", "id"]
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(3)] == ['"id"\n', "0\n", "1\n"]
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("message",), "no table 'message'; did you mean 'messages'?"),
        (("runs", "--columns", "run,sede"), "there is no column 'sede'; did you mean 'seed'?"),
        (("runs", "--columns", "run, run"), "--columns run, run: a column is named twice"),
        (("runs", "--where", "seed"), "'seed' is no condition"),
        (("runs", "--store", "elsewhere"), "there are no tables: make them with `splitbrain ingest elsewhere`"),
        (("runs", "--tables", "elsewhere"), "elsewhere: there are no tables"),
    ],
)
def test_bad_input(invoke: Invoke, tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(BadInput) as error:
        invoke(*words, "-o", "out.csv")
    assert problem in str(error.value)
    assert not (tmp_path / "out.csv").exists()


def test_a_file_that_cannot_be_written(invoke: Invoke, tmp_path: Path) -> None:
    with pytest.raises(SplitbrainError, match=r"nowhere/out.csv: cannot be written: No such file"):
        invoke("runs", "-o", "nowhere/out.csv")


def test_what_cannot_be_read_leaves_the_file_as_it_was(invoke: Invoke, tmp_path: Path) -> None:
    for path in (tmp_path / "splitbrain-runs" / "tables" / "data" / "runs").rglob("*.parquet"):
        path.write_bytes(b"torn")
    (tmp_path / "out.csv").write_text("before")
    with pytest.raises(SplitbrainError, match="table runs: cannot be read"):
        invoke("runs", "-o", "out.csv")
    assert (tmp_path / "out.csv").read_text() == "before"
