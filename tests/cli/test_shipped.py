"""What comes with Splitbrain is found from anywhere; what is here goes before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.shipped import shipped
from chaos.suite import load


def test_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(shipped(Path("suites/smoke.toml"))).rows
    assert shipped(Path("policies/smoke.toml")).is_file()
    assert shipped(Path("policies/none.toml")) == Path("policies/none.toml")
    here = tmp_path / "policies" / "smoke.toml"
    here.parent.mkdir()
    here.touch()
    assert shipped(Path("policies/smoke.toml")).resolve() == here
