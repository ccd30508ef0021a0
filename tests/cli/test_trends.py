"""`splitbrain trends` on a terminal, as JSON, and as a page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaos.cli import main
from chaos.cli.trends import begin
from chaos.model.errors import BadInput
from tests.results.tables.made import make
from tests.results.test_trends import S, run

Invoke = Callable[..., Result]
WEEK = range(13, 20)
NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPLITBRAIN_STORE", raising=False)
    runner = CliRunner()

    def call(*words: str) -> Result:
        done = runner.invoke(main.group(), ("trends", "--since", "2026-11-01", *words), standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done

    return call


def nights(store: Path) -> None:
    quiet = [run(day, scenario="calm") for day in range(2, 20)]
    slow = {"recovery": 3673 * S, "failover": 3673 * S, "lost": 123_456_789, "duplicated": 123_456_789}
    make(
        store,
        runs=[
            *quiet, run(2, seed=1), run(2, seed=2), run(3, "invalid", seed=1, **slow), run(3, seed=2),
            run(3, None, seed=3, status="running"),
        ],
        rejected=[{"path": "torn", "reason": "not the record of a run"}],
    )  # fmt: skip


def test_a_table_for_a_terminal_of_80_columns(invoke: Invoke) -> None:
    nights(Path("splitbrain-runs"))
    done = invoke()
    assert done.stdout.splitlines() == [
        "✗ queue  rabbitmq-quorum 4.0",
        "  night         runs   valid    95 %    lost     dup     recovery    fail-over",
        "  2026-11-02       2   100 %  34–100       0       0            –            –",
        "  2026-11-03       2    50 %    9–91    123M    123M  61 min 13 s  61 min 13 s",
        "  all              4    75 %   30–95    123M    123M  61 min 13 s  61 min 13 s",
        "  ✗ invalid since 2026-11-03, 1 night; first 20261103-02-s1",
        "    at commit c3; before it c2",
        "  – 1 run left out: it was still running, or cut off",
        "",
        "✓ calm  rabbitmq-quorum 4.0",
        "  night         runs   valid    95 %    lost     dup     recovery    fail-over",
        "  and 11 nights before",
        *(f"  2026-11-{day}       1   100 %  21–100       0       0            –            –" for day in WEEK),
        "  all             18   100 %  82–100       0       0            –            –",
        "",
        "1 run could not be read into the tables",
        "  torn: not the record of a run",
    ]
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_json_has_every_night(invoke: Invoke) -> None:
    nights(Path("splitbrain-runs"))
    said = json.loads(invoke("--json", "--scenario", "queue", "--broker", "rabbitmq-quorum@4.0").stdout)
    (trend,) = said["trends"]
    assert [(night["day"], night["valid"], night["runs"], night["lost"]) for night in trend["nights"]] == [
        ("2026-11-02", 2, 2, 0),
        ("2026-11-03", 1, 2, 123_456_789),
    ]
    assert trend["nights"][1]["recovery"] == {"median": 3673 * S, "worst": 3673 * S, "runs": 1}
    assert trend["trouble"] == {
        "day": "2026-11-03", "nights": 1, "run": "20261103-02-s1", "verdict": "invalid", "seed": 1, "commit": "c3",
        "before": "c2", "expected": None,
    }  # fmt: skip
    assert trend["left_out"] == [{"run": "20261103-02-s3", "why": "it was still running, or cut off"}]
    assert said["rejected"] == [{"run": "torn", "why": "not the record of a run"}]
    assert said["since"] == "2026-11-01T00:00:00+00:00"


def test_the_page_is_written_beside_what_is_printed(invoke: Invoke) -> None:
    nights(Path("splitbrain-runs"))
    assert invoke("--html", "trends.html").stdout.endswith("page: trends.html\n")
    assert Path("trends.html").read_text().startswith("<!DOCTYPE html>")


def test_without_tables_it_is_one_line(invoke: Invoke) -> None:
    with pytest.raises(BadInput, match="there are no tables: make them with `splitbrain ingest"):
        invoke("--html", "trends.html")
    make(Path("splitbrain-runs"))
    with pytest.raises(BadInput, match="there is no run in the tables"):
        invoke("--html", "trends.html")
    assert not Path("trends.html").exists()


def test_spark_is_not_even_imported(tmp_path: Path) -> None:
    make(tmp_path, runs=[{**run(2), "created": datetime.now(UTC)}])
    code = (
        "import sys; from chaos.cli.main import run\n"
        f"code = run(['trends', '--store', {str(tmp_path)!r}, '--html', {str(tmp_path / 't.html')!r}])\n"
        "print(code, 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 False"


@pytest.mark.parametrize(
    ("text", "day"),
    [("30d", datetime(2026, 10, 22)), ("2w", datetime(2026, 11, 7)), ("12h", datetime(2026, 11, 20)),
     ("0d", datetime(2026, 11, 21)), ("2026-02-28", datetime(2026, 2, 28))],
)  # fmt: skip
def test_since_when(text: str, day: datetime) -> None:
    assert begin(text, NOW) == day.replace(tzinfo=UTC)
    assert begin(text, NOW + timedelta(hours=1)) == day.replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["30", "d", "-3d", "2026-02-30", "yesterday", "99999x", "99999999w", ""])
def test_since_what_is_no_time(text: str) -> None:
    with pytest.raises(BadInput, match=r"--since .*: write how long ago, such as 30d, 2w or 12h, or a date"):
        begin(text, NOW)
