"""Whether the process that made something still runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from clusters.hosts import owner


def test_a_process_is_there_until_it_ends() -> None:
    code = "from clusters.hosts import owner; print(owner.me(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        word = process.stdout.readline().strip()
        assert owner.holder(word) == f"process {process.pid}"
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owner.holder(word) is None  # a zombie runs no more
    assert owner.holder(word) is None
    assert owner.holder(owner.me()) == f"process {os.getpid()}"


def changed(place: int, to: str) -> str:
    parts = owner.me().split("/")
    parts[place] = to
    return "/".join(parts)


@pytest.mark.parametrize(
    ("word", "who"),
    [
        ("", None),
        ("a/b", None),
        (changed(2, "x"), None),
        (changed(3, "12"), None),  # the pid came again
        (changed(1, "another-boot"), None),
        ("elsewhere/another-boot/12/34", "process 12 on elsewhere, which cannot be seen from here"),
    ],
    ids=["nothing", "too-little", "another-start", "another-pid", "another-boot", "another-host"],
)
def test_who_it_was(word: str, who: str | None) -> None:
    assert owner.holder(word) == who
