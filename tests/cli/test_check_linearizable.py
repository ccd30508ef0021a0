"""`splitbrain check FILE --checker linearizable`: verdicts, exit codes, and one line about each bad file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos import formats
from chaos.cli import main
from checkers.linearizability.porcupine import build, worker
from checkers.linearizability.porcupine.process import Worker

FIFO = ("--checker", "linearizable", "--model", "fifo-queue")
GOOD = """\
{:process 0, :type :invoke, :f :enqueue, :value 17, :time 0, :index 0}
{:process 0, :type :ok, :f :enqueue, :value 17, :time 1, :index 1}
{:process 1, :type :invoke, :f :dequeue, :value nil, :time 2, :index 2}
{:process 1, :type :ok, :f :dequeue, :value 17, :time 3, :index 3}
"""
PHANTOM = GOOD.replace(":dequeue, :value 17", ":dequeue, :value 18")
AGAIN = """\
{:process 2, :type :invoke, :f :enqueue, :value 17, :time 4, :index 4}
{:process 2, :type :ok, :f :enqueue, :value 17, :time 5, :index 5}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def searcher() -> None:
    """Skips where there is no Porcupine."""
    try:
        build.worker()
    except build.Unavailable as why:
        pytest.skip(str(why))


def check(text: str, *words: str, name: str = "history.edn") -> int:
    Path(name).write_text(text, encoding="utf-8")
    return main.run(["check", name, *words])


def told(text: str, *words: str, code: int, capsys: pytest.CaptureFixture[str], name: str = "history.edn") -> Any:
    """What --json says of the one checker, after that exit code."""
    assert check(text, *words, "--json", name=name) == code
    said = json.loads(capsys.readouterr().out)
    assert said["file"] == name
    assert said["checkers"].keys() == {"linearizable"}
    return said["checkers"]["linearizable"] | {"all": said["valid"]}


def test_a_valid_history_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(GOOD, *FIFO) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1] == "  ✓ linearizable  2 operations have a FIFO order (monitor)"
    assert err == ""
    assert [path.name for path in Path().iterdir()] == ["history.edn"]


def test_an_invalid_one_is_1_and_names_the_operations(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(PHANTOM, *FIFO) == 1
    said = capsys.readouterr().out
    assert "linearizable.phantom message 18 was consumed, but never published  #2, #3" in said
    found = told(PHANTOM, *FIFO, code=1, capsys=capsys)
    assert (found["all"], found["valid"], found["metrics"]) == (False, False, {"engine": "monitor"})
    (anomaly,) = found["anomalies"]
    assert (anomaly["kind"], anomaly["ops"]) == ("phantom", [2, 3])
    assert anomaly["detail"] == {"engine": "monitor", "window": [2, 3]}


def test_a_model_alone_asks_this_checker(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(PHANTOM, "--model", "bag", code=1, capsys=capsys)["anomalies"][0]["kind"] == "phantom"


@pytest.mark.usefixtures("searcher")
def test_the_engine_that_is_asked_for_decides(capsys: pytest.CaptureFixture[str]) -> None:
    for engine, decided in (("auto", "monitor"), ("monitor", "monitor"), ("porcupine", "porcupine")):
        for text, code in ((GOOD, 0), (PHANTOM, 1)):
            found = told(text, *FIFO, "--engine", engine, code=code, capsys=capsys)
            assert found["metrics"] == {"engine": decided}


def test_what_the_engine_cannot_decide_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(GOOD + AGAIN, *FIFO, "--engine", "monitor", code=2, capsys=capsys)
    assert (found["all"], found["valid"]) == ("unknown", "unknown")
    why = "the fifo-queue monitor does not take it: operation 4 puts 17, which was put before (monitor)"
    assert found["reason"] == why


@pytest.mark.parametrize("name", ["history.jsonl", "history.csv", "history.parquet", "history.edn"])
@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), (PHANTOM, 1)])
def test_every_format_is_judged_the_same(name: str, text: str, code: int) -> None:
    Path("source.edn").write_text(text, encoding="utf-8")
    formats.save(formats.load(Path("source.edn")), Path(name))
    assert main.run(["check", name, *FIFO]) == code


def test_a_format_is_named_where_the_name_of_the_file_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(GOOD, *FIFO, "--format", "edn", code=0, capsys=capsys, name="recorded")["valid"] is True
    assert check(GOOD, *FIFO, name="recorded") == 254
    assert "recorded: what format is it?" in capsys.readouterr().err


PUBLISHED = (GOOD + AGAIN).replace("enqueue", "publish").replace("dequeue", "consume")
DONE = "{:process 1, :type :ok, :f :dequeue, :value 17, :time 4, :index 4}\n"
SETS = """\
{:process 0, :type :invoke, :f :cas, :value 5, :index 0}
{:process 0, :type :ok, :f :cas, :value 5, :index 1}
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PUBLISHED, ": op 4 (publish): 17 was published already, by op 0; values are unique per attempt"),
        (GOOD + DONE, ", line 5: op 4: it completes nothing: process 1's op before was completed already, by op 3"),
        (
            GOOD + DONE.replace("process 1", "process 5"),
            ", line 5: op 4: it completes nothing: process 5 has invoked nothing before",
        ),
        (
            GOOD.replace(":time 2", ":time 0"),
            ", line 3: op 2: its time runs backwards: it was called at 0 ns, but before it stands op 1, which ended at "
            "1 ns; sort the file, or leave the times out if its order holds",
        ),
        (GOOD.replace(":index 2", ":index 1"), ", line 3: op 1: its index is not above the one before"),
        (GOOD + "{:process 1, :type :ok, :f #\n", ", line 5: not EDN (column 28): '#' is no EDN"),
        (GOOD + "{:process 1, :f}\n", ", line 5: not EDN (column 1): a map with a key that has no value"),
        (GOOD[:-20], ", line 4: not EDN: '{' is not closed; the file ends before it does: it was cut off"),
        ("[" + GOOD, ": the file is cut off: the bracket of line 1 around its ops is not closed"),
        (
            GOOD.replace("dequeue", "deqeue"),
            ": op 2: 'deqeue' is nothing that a fifo-queue does; did you mean 'dequeue'?",
        ),
    ],
)
def test_a_bad_file_is_254_and_one_line_that_says_where(
    capsys: pytest.CaptureFixture[str], text: str, line: str
) -> None:
    assert check(text, *FIFO) == 254
    assert capsys.readouterr() == ("", f"splitbrain: error: history.edn{line}\n")


def test_a_value_that_is_not_of_its_kind_is_254(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(SETS, "--model", "cas-register") == 254
    assert capsys.readouterr().err == (
        "splitbrain: error: history.edn: op 0 (cas): its value is 5: [from to] was meant\n"
    )


@pytest.mark.parametrize("name", ["history.parquet", "history.jsonl", "history.csv"])
def test_a_file_that_was_cut_off_is_254(capsys: pytest.CaptureFixture[str], name: str) -> None:
    Path("source.edn").write_text(GOOD, encoding="utf-8")
    formats.save(formats.load(Path("source.edn")), Path(name))
    Path(name).write_bytes(Path(name).read_bytes()[:-15])
    assert main.run(["check", name, *FIFO]) == 254
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"splitbrain: error: {name}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--model", "fifo-qeue"), "--model: 'fifo-qeue' is not one of them: did you mean 'fifo-queue'?"),
        ((*FIFO, "--engine", "montor"), "--engine: 'montor' is not one of them: did you mean 'monitor'?"),
        ((*FIFO, "--format", "ednn"), "format 'ednn': did you mean 'edn'?"),
        (
            (*FIFO, "--timeout", "soon"),
            '--timeout: \'soon\' is not a duration: write a number with a unit, such as "250ms", "10s" or "2m"',
        ),
        (
            (*FIFO, "--memory", "much"),
            '--memory: \'much\' is not a size: write a number with a unit, such as "512MiB" or "2GB"',
        ),
        (("--checker", "order", "--model", "bag"), "--model is for --checker linearizable, which is not asked"),
        ((), "history.edn: say what to check: --model register, or another model, or --checker NAME"),
    ],
)
def test_what_cannot_be_asked_is_254_and_one_line(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str
) -> None:
    assert check(GOOD, *words) == 254
    assert capsys.readouterr() == ("", f"splitbrain: error: {line}\n")


def hard() -> str:
    """A queue that 12 clients fill at once and empty at once, in an order that no queue allows; 0 is put twice, which
    no monitor takes."""
    rows: list[tuple[int, str, str, int | None]]
    rows = [(place, "invoke", "enqueue", max(place, 1) - 1) for place in range(12)]
    rows += [(place, "ok", "enqueue", max(place, 1) - 1) for place in range(12)]
    rows += [(place, "invoke", "dequeue", None) for place in range(11)]
    rows += [(place, "ok", "dequeue", place) for place in range(11)]
    for f, value in (("enqueue", 99), ("dequeue", 0), ("dequeue", 98)):
        rows += [(0, "invoke", f, value if f == "enqueue" else None), (0, "ok", f, value)]
    ops = ({"process": process, "type": type_, "f": f, "value": value} for process, type_, f, value in rows)
    return "".join(json.dumps(op) + "\n" for op in ops)


@pytest.mark.usefixtures("searcher")
@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (("--timeout", "200ms"), "Porcupine ran out of time (200ms); the longest order found takes 1"),
        (("--memory", "20MiB"), "Porcupine ran out of memory (20 MiB); the longest order found takes 1"),
    ],
)
def test_a_search_without_enough_time_or_memory_is_2_with_what_was_learnt(
    capsys: pytest.CaptureFixture[str], limit: tuple[str, str], reason: str
) -> None:
    found = told(hard(), *FIFO, *limit, code=2, capsys=capsys, name="hard.jsonl")
    assert (found["valid"], found["metrics"]) == ("unknown", {"engine": "porcupine"})
    assert found["reason"].startswith(reason)
    assert "the fifo-queue monitor does not take it" in found["reason"]


@pytest.mark.usefixtures("searcher")
def test_ctrl_c_amid_a_search_is_130_at_once_and_leaves_no_worker(here: Path) -> None:
    """The worker has a session of its own; who started it, and is stopped, ends it."""
    Path("hard.jsonl").write_text(hard(), encoding="utf-8")
    words = [sys.executable, "-c", "from chaos.cli.main import main; main()", "check", "hard.jsonl", *FIFO]
    asked = subprocess.Popen(
        [*words, "--timeout", "1h"], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    ours = patiently(lambda: searchers(asked.pid))[0]
    asked.send_signal(signal.SIGINT)
    out, err = asked.communicate(timeout=60)
    assert (asked.returncode, out, err) == (130, "", "\nsplitbrain: error: interrupted\n")
    patiently(lambda: not Path(f"/proc/{ours}").exists())


def searchers(pid: int) -> list[int]:
    """Workers that a process started."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in found if _program(child) == build.worker().resolve()]


def _program(pid: str) -> Path | None:
    try:
        return Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return None


def patiently(look: Callable[[], Any]) -> Any:
    """What there is to see, once there is something."""
    end = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def test_a_worker_that_dies_is_2_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dying = Worker([sys.executable, "-c", "raise SystemExit('out of coffee')"])
    monkeypatch.setattr(worker, "_workers", {None: dying})
    found = told(GOOD + AGAIN, *FIFO, code=2, capsys=capsys)
    assert found["reason"].startswith("Porcupine gave no answer: the worker died; out of coffee")


def test_without_a_worker_it_is_2_and_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(source: Path | None = None) -> Path:
        raise build.Unavailable("no Go toolchain: install one")

    monkeypatch.setattr(worker, "_workers", {})
    monkeypatch.setattr(build, "worker", missing)
    found = told(GOOD + AGAIN, *FIFO, code=2, capsys=capsys)
    assert "no search: no Go toolchain: install one" in found["reason"]
    assert told(GOOD, *FIFO, code=0, capsys=capsys)["valid"] is True
