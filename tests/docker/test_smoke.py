"""The smoke suite, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docker.cli import ROOT, splitbrain


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_the_smoke_suite_comes_out_as_expected(tmp_path: Path) -> None:
    done = splitbrain(tmp_path, "suite", str(ROOT / "suites" / "smoke.toml"))
    assert done.returncode == 0, done.stdout + done.stderr
