from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.model.schedule import Action
from results.ledger import Entry, Ledger, open_entries

CUT = Action("cut", ("n1",), {"links": [["n1", "n2"]]})
KILL = Action("kill", ("n2",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def test_what_was_noted_is_open_until_it_is_struck_out(path: Path) -> None:
    ledger = Ledger(path)
    ledger.note("partition-1", CUT, 10)
    ledger.note("kill-1", KILL, 20)
    ledger.note("kill-1", CUT, 21)
    assert open_entries(path) == [
        Entry("partition-1", CUT, 10),
        Entry("kill-1", KILL, 20),
        Entry("kill-1", CUT, 21),
    ]
    ledger.strike("kill-1", 30)
    assert open_entries(path) == [Entry("partition-1", CUT, 10)]
    ledger.strike("partition-1", 40)
    ledger.strike("never-was", 40)
    ledger.close()
    ledger.close()
    assert open_entries(path) == []


def test_a_fault_of_the_same_id_can_be_open_again(path: Path) -> None:
    ledger = Ledger(path)
    ledger.note("kill-1", KILL, 10)
    ledger.strike("kill-1", 20)
    ledger.note("kill-1", KILL, 30)
    assert open_entries(path) == [Entry("kill-1", KILL, 30)]


def test_it_is_on_the_disk_when_note_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    sync = os.fsync

    def watched(handle: int) -> None:
        sync(handle)
        synced.append(path.read_text())

    monkeypatch.setattr(os, "fsync", watched)
    Ledger(path).note("kill-1", KILL, 10)
    assert synced == [path.read_text()]
    assert "kill-1" in synced[0]


def test_there_may_be_no_ledger(path: Path) -> None:
    assert open_entries(path) == []


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_torn_line_leaves_the_fault_as_it_was(path: Path, cut: int) -> None:
    ledger = Ledger(path)
    ledger.note("kill-1", KILL, 10)
    ledger.strike("kill-1", 20)
    ledger.close()
    path.write_bytes(path.read_bytes()[:-cut])
    assert open_entries(path) == [Entry("kill-1", KILL, 10)]
