"""Histories of others, from their files to the verdicts that their authors expect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.formats import load, save
from checkers.linearizable import Linearizable
from tests.checkers.histories import judge

pytestmark = pytest.mark.usefixtures("binary")


def entries(corpus: Path, suite: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads((corpus / "manifest.json").read_text())[suite]["entries"]
    return listed


def told(entry: dict[str, Any]) -> dict[str, Any] | None:
    """The settings that say what the manifest says in words; None for the one model that files have no words for."""
    model = entry["model"]
    if model == "etcd-register":
        return {"model": "cas-register", "refused_cas": True}
    if model.startswith("kv"):
        return {"model": "key-value"}
    if model.startswith("register init 0"):
        return {"model": "register", "initial": "0"}
    if model.startswith("set"):
        return {"model": "set"}
    if model.startswith("nondeterministic"):
        return None
    return {"model": model, "initial": json.dumps(entry["init"])}


@pytest.mark.parametrize("suite", ["porcupine", "porcupine/unit", "knossos"])
def test_a_file_has_the_verdict_that_its_author_expects(corpus: Path, suite: str) -> None:
    wrong = []
    judged = 0
    for entry in entries(corpus, suite):
        settings = told(entry)
        if settings is not None:
            result = judge(Linearizable(), load(corpus / entry["file"]), settings)
            judged += 1
            if result.verdict.to_json() is not entry["expected_valid"]:
                wrong.append((entry["file"], result.reason))
    assert wrong == []
    assert judged == {"porcupine": 55, "porcupine/unit": 7, "knossos": 28}[suite]


def test_written_as_edn_it_has_the_same_verdict(corpus: Path, tmp_path: Path) -> None:
    for entry in entries(corpus, "knossos")[:5]:
        save(load(corpus / entry["file"]), tmp_path / "history.edn")
        history = load(tmp_path / "history.edn")
        settings = told(entry) or {}
        assert judge(Linearizable(), history, settings).verdict.to_json() is entry["expected_valid"]


def test_the_operation_that_its_author_names_is_the_one_that_cannot_be(corpus: Path) -> None:
    """Knossos' first unlinearizable op is where our shortest failing piece ends."""
    named = 0
    for entry in entries(corpus, "knossos"):
        expected = entry.get("expected_detail", {}).get("first_unlinearizable_ok_op")
        if expected is not None and not entry["expected_valid"]:
            initial = entry["expected_detail"]["init"]
            settings = {"model": "cas-register", "initial": None if initial is None else json.dumps(initial)}
            result = judge(Linearizable(), load(corpus / entry["file"]), settings)
            assert max(result.anomalies[0].detail["window"]) == expected["index"], entry["file"]
            named += 1
    assert named == 4
