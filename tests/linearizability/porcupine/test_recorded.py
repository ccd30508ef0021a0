"""Histories that others recorded, with the verdicts they expect: Porcupine's tests and logs, and Knossos' histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import porcupine_logs
from checkers.linearizability.calls import Calls, F
from checkers.linearizability.porcupine import build, models, search

pytestmark = pytest.mark.usefixtures("binary")


def load(corpus: Path, suite: str) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    entries = json.loads((corpus / "manifest.json").read_text())[suite]["entries"]
    return [(entry, [json.loads(line) for line in (corpus / entry["file"]).open()]) for entry in entries]


def decide(name: str, log: list[dict[str, Any]]) -> bool | None:
    """With the model that the manifest names in words."""
    history, table = porcupine_logs.operations(log)
    if name.startswith("etcd"):
        return search(history, "cas-register").valid
    if name.startswith("kv"):
        return search(history, models.key_value(table)).valid
    if name.startswith("register init 0"):
        return search(history, models.register(0)).valid
    if name.startswith("set"):
        return search(history, models.set_(table)).valid
    assert name.startswith("nondeterministic register"), name
    return search(history, models.subset_register(table)).valid


def test_porcupines_logs(corpus: Path) -> None:
    entries = load(corpus, "porcupine")
    wrong = [entry["file"] for entry, log in entries if decide(entry["model"], log) is not entry["expected_valid"]]
    assert (len(entries) > 50, wrong) == (True, [])


def test_porcupines_unit_cases(corpus: Path) -> None:
    entries = load(corpus, "porcupine/unit")
    wrong = [entry["file"] for entry, log in entries if decide(entry["model"], log) is not entry["expected_valid"]]
    assert (len(entries), wrong) == (8, [])


def test_porcupines_logs_as_they_come_with_its_module() -> None:
    try:
        folder = porcupine_logs.module()
    except build.Unavailable as why:
        pytest.skip(str(why))
    logs = list(porcupine_logs.recorded(folder))
    wrong = [
        name for name, log, expected in logs if decide("etcd" if name.startswith("etcd") else "kv", log) is not expected
    ]
    assert (len(logs), wrong) == (108, [])


def test_knossos_histories(corpus: Path) -> None:
    def found(entry: dict[str, Any], log: list[dict[str, Any]]) -> bool | None:
        # Its failures are nothing at all, and a read of nil says nothing.
        for event in log:
            event.pop("time", None)
        log = [event for event in log if event["process"] != "nemesis"]
        if entry["model"] == "multi-register":
            return search(*multi(log, entry["init"])).valid
        history, _ = porcupine_logs.operations(log, refused_cas=False)
        said = np.flatnonzero(~((history.f == F.READ) & (history.out == np.iinfo(np.int64).min)))
        return search(history.select(said), models.cas_register(entry["init"])).valid

    entries = load(corpus, "knossos")
    wrong = [entry["file"] for entry, log in entries if found(entry, log) is not entry["expected_valid"]]
    assert (len(entries), wrong) == (28, [])


def multi(log: list[dict[str, Any]], init: dict[str, int]) -> tuple[Calls, models.Model]:
    names = {name: number for number, name in enumerate(sorted(init))}
    history, table = porcupine_logs.operations(log)
    steps = [
        [(f, names[register], value) for f, register, value in transaction if f == "write" or value is not None]
        for transaction in table
    ]
    return history, models.multi_register(steps, {names[name]: value for name, value in init.items()})
