"""The smoke suite, as a user runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docker.cli import COMMAND, ROOT, environment


@pytest.mark.docker
@pytest.mark.timeout(1200)
def test_the_smoke_suite_comes_out_as_expected(tmp_path: Path) -> None:
    # five minutes on two cores, which it shares here with other tests
    command = [*COMMAND, "suite", str(ROOT / "suites" / "smoke.toml")]
    done = subprocess.run(command, cwd=tmp_path, env=environment({}), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
