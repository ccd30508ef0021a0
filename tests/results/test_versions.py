from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from results.versions import commit, versions


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    done = subprocess.run(["git", "-C", str(root), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_working_copy_says_its_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    assert commit(tmp_path) is None
    try:
        git(tmp_path, "init", "-q")
    except FileNotFoundError:
        pytest.skip("no git")
    assert commit(tmp_path) is None
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "first")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit(tmp_path) == head
    (tmp_path / "new").write_text("untracked files change nothing")
    assert commit(tmp_path) == head
    (tmp_path / "file").write_text("b")
    assert commit(tmp_path) == f"{head}+changes"


def test_what_is_kept_of_versions(tmp_path: Path) -> None:
    (tmp_path / "requirements.lock").write_text("numpy==1\n")
    kept = versions(tmp_path)
    assert kept["lock"] == hashlib.sha256(b"numpy==1\n").hexdigest()[:32]
    assert kept["commit"] is None
    assert {"numpy", "pyarrow", "click"} <= set(kept["packages"])
    assert versions(tmp_path / "nowhere")["lock"] is None
