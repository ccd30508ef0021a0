"""The exit codes, as a shell sees them, and that nobody ever sees a traceback unasked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from chaos.cli import main
from chaos.model.errors import BadInput, SplitbrainError
from results.store import Store

PROGRAM = [sys.executable, "-c", "from chaos.cli.main import main; main()"]
QUICK = ["run", "--broker", "null", "--nemesis", "none", "--rate", "50", "--time", "1s"]


def splitbrain(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words], cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["rum"], "no command 'rum'; did you mean 'run'?"),
        (["--nonsense"], "No such option"),
        (["run", "--nonsense"], "No such option"),
        (["run", "--seed"], "requires an argument"),
        (["run", "a", "b"], "unexpected extra argument"),
        (["run", "missing.toml"], "missing.toml: cannot be read: No such file or directory"),
        (["run"], "For example: splitbrain run --broker rabbitmq-quorum --nemesis partition,kill --time 60s;"),
        (
            ["run", "rabbitmq-quorum@4.0"],
            "no such file; for the broker of that name write --broker rabbitmq-quorum@4.0",
        ),
        (["run", "--broker", "rabbit"], "did you mean 'rabbitmq-mirrored' or 'rabbitmq-quorum' or 'rabbitmq-stream'?"),
        (["run", "--broker", "rabbitmq-qourum"], "did you mean 'rabbitmq-quorum'?"),
        (["run", "--broker", "null", "--nemesis", "partitoin"], "did you mean 'partition'?"),
        (["run", "--broker", "null", "--set", "workload.rat=1"], "did you mean 'rate'?"),
        (["check", "nowhere"], "there are no runs in splitbrain-runs"),
        (["check", "nowhere.parquet"], "nowhere.parquet: there is no such file"),
        (["show"], "there are no runs in splitbrain-runs"),
        (["list", "nemesis"], "did you mean 'nemeses'?"),
        (["list", "checkers", "message"], "did you mean 'messages'?"),
        (["clean"], "say which RUN to clean up after, or --all"),
    ],
)
def test_bad_input_is_254_and_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(words) == 254
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("splitbrain: error: ")
    assert problem in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_shell_sees_the_same(tmp_path: Path) -> None:
    done = splitbrain("run", "--nonsense", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (254, "")
    assert done.stderr.startswith("splitbrain: error: No such option")
    assert done.stderr.endswith("; see `splitbrain run --help`\n")


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["run", "--help"], ["list", "workloads"], ["list"]])
def test_help_and_lists_are_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(words) == 0


def test_a_valid_run_is_0_and_a_closed_output_is_not(tmp_path: Path) -> None:
    assert splitbrain(*QUICK, cwd=tmp_path).returncode == 0
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, "show", "--json"], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert done.returncode == 255
    assert b"Traceback" not in done.stderr


def test_a_store_that_cannot_be_written_is_255(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = splitbrain(*QUICK, cwd=tmp_path, SPLITBRAIN_STORE="file/runs")
    assert done.returncode == 255
    assert done.stderr.splitlines()[-1] == "splitbrain: error: file/runs: cannot be written: Not a directory"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_being_stopped_still_gives_a_verdict(tmp_path: Path, number: signal.Signals) -> None:
    """A run of an hour of work, stopped once it has begun."""
    hour = ["run", "--broker", "null", "--nemesis", "none", "--rate", "2000", "--time", "1h", "--json"]
    running = subprocess.Popen(
        [*PROGRAM, *hour], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    for line in running.stderr:
        if "confirmed" in line:
            break
    running.send_signal(number)
    out, err = running.communicate(timeout=120)
    assert running.returncode in (0, 2)
    assert json.loads(out)["valid"] is not False
    assert "splitbrain: interrupted; what had happened by then was judged" in err


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_being_stopped_while_it_judges_is_130(tmp_path: Path, asked: signal.Signals) -> None:
    """The checkers stop the process themselves, as nobody else could in time."""
    code = (
        "import os, chaos.cli.run as run\n"
        f"run.check_all = lambda *_: os.kill(os.getpid(), {int(asked)})\n"
        "from chaos.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *QUICK, "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    (run,) = Store(tmp_path / "splitbrain-runs").runs()
    assert (done.returncode, done.stdout) == (130, "")
    said = f"splitbrain: interrupted before a verdict; `splitbrain check {run.id}` gives one"
    assert done.stderr.splitlines()[-1] == said
    assert (run.verdict.exists(), run.parquet.exists(), run.running()) == (False, True, False)
    assert splitbrain("check", cwd=tmp_path).returncode == 0


def test_nobody_need_watch(tmp_path: Path) -> None:
    """stderr closed at its other end from the start."""
    reader, writer = os.pipe()
    os.close(reader)
    words = [*PROGRAM, *QUICK, "--json"]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writer, timeout=120)
    assert (done.returncode, json.loads(done.stdout)["valid"]) == (0, True)
    done = subprocess.run([*PROGRAM, "show", "x"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=writer, timeout=120)
    assert (done.returncode, done.stdout) == (254, b"")
    os.close(writer)


def test_any_terminal_will_do(tmp_path: Path) -> None:
    assert splitbrain(*QUICK, cwd=tmp_path, PYTHONIOENCODING="ascii").stdout.startswith("\\u2713 VALID  ")


@pytest.mark.parametrize("word", [b"\xff\xfe.toml", b"--broker=\xff", b"--set=\xff=1", b"--store=\xff/\xff"])
def test_arguments_that_are_no_text(tmp_path: Path, word: bytes) -> None:
    words = [os.fsencode(part) for part in PROGRAM]
    done = subprocess.run([*words, b"run", word], cwd=tmp_path, capture_output=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (254, b"", 1)
    assert done.stderr.startswith(b"splitbrain: error: ")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_before_a_verdict_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(monkeypatch, KeyboardInterrupt()) == 130
    assert capsys.readouterr().err.endswith("splitbrain: error: interrupted\n")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (BadInput("scenario.toml:3: no"), 254, "splitbrain: error: scenario.toml:3: no\n"),
        (
            SplitbrainError("no engine", tail=["a\x1b[2J", "b"]),
            255,
            "splitbrain: error: no engine\n  | a\\x1b[2J\n  | b\n",
        ),
        (click.ClickException("no"), 254, "splitbrain: error: no\n"),
        (click.exceptions.Exit(3), 3, ""),
        (OSError(28, "No space left on device", "x"), 255, "splitbrain: error: x: No space left on device\n"),
        (
            ZeroDivisionError("by nothing"),
            255,
            "splitbrain: error: internal error: ZeroDivisionError: by nothing; `splitbrain --debug ...` (or "
            "SPLITBRAIN_DEBUG=1) shows where\n",
        ),
    ],
)
def test_every_error_is_a_code_and_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    assert raising(monkeypatch, error) == code
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("asked", ["flag", "environment"])
def test_a_traceback_is_there_for_the_asking(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], asked: str
) -> None:
    if asked == "environment":
        monkeypatch.setenv("SPLITBRAIN_DEBUG", "1")
    assert raising(monkeypatch, ZeroDivisionError("x"), *(["--debug"] if asked == "flag" else [])) == 255
    said = capsys.readouterr().err
    assert said.startswith("splitbrain: error: internal error: ZeroDivisionError: x\n")
    assert "Traceback (most recent call last)" in said


def test_a_shadowed_package_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "__init__.py").write_text("")
    done = splitbrain("list", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 255
    assert done.stderr.startswith("splitbrain: error: the package 'results' comes from ")
    assert done.stderr.count("\n") == 1


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException, *words: str) -> int:
    """The exit code when a command raises."""

    @click.group(invoke_without_command=True)
    @click.option("--debug", is_flag=True)
    def broken(debug: bool) -> None:
        raise error

    monkeypatch.setattr(main, "group", lambda: broken)
    return main.run(words)
