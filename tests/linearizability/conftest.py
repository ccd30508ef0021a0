"""The worker, for all tests here; where none can be had they are skipped, and say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.linearizability.porcupine import build


@pytest.fixture(scope="session")
def binary() -> Path:
    try:
        return build.worker()
    except build.Unavailable as why:
        pytest.skip(str(why))
