"""What executors read, without executors: every row once, and both ends of an op in one slot."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from chaos.model.errors import SplitbrainError
from results.spark import plan
from results.spark.ingest import _pieces
from results.spark.reading import completions, examine, invocations
from results.store import Run
from tests.results.spark.odd import history

ROWS = 20  # of a group


def facts(store: Path, seed: int) -> dict[str, object]:
    path = store / f"r{seed}"
    path.mkdir()
    run = Run(path.name, "2026-11-02T03:00:00+00:00", "odd", seed, "null", "simulated")
    (path / "run.json").write_text(json.dumps(asdict(run)))
    pq.write_table(history(seed).to_table(), path / "history.parquet", row_group_size=ROWS)
    piece = {"store": str(store), "run": path.name, "path": str(path), "fingerprint": "f"}
    (batch,) = examine(piece | {"files": ["run.json", "history.parquet"]})
    (row,) = batch.to_pylist()
    assert row["reason"] is None
    return dict(row)


@pytest.mark.parametrize("slot", [7, 10**6])
def test_a_large_run_is_read_in_groups_into_slots(tmp_path: Path, slot: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SLOT", slot)
    planned = plan.plan([facts(tmp_path, seed) for seed in range(12)], str(tmp_path))
    for run in planned.runs:
        whole = history(run["seed"]).to_table().to_pylist()
        pieces = _pieces(run)
        assert len(pieces) == max(-(-len(whole) // ROWS), 1)
        begun = [row for piece in pieces for batch in invocations(piece) for row in batch.to_pylist()]
        ended = [row for piece in pieces for batch in completions(piece) for row in batch.to_pylist()]
        told = sorted(begun + ended, key=lambda row: row["index"])
        assert [{name: row[name] for name in whole[0]} for row in told] == whole
        assert {row["n"] for row in told} == {run["n"]}
        slots = {row["index"]: row["slot"] for row in begun}
        assert all(slots[row["op"]] == row["slot"] for row in ended)
        assert all(0 <= row["slot"] < planned.slots["ops"] for row in told)
        if len(whole) > slot:
            assert len(set(slots.values())) > 1
            assert max(Counter(slots.values()).values()) <= run["chunk"] <= 2 * slot
    if slot > 7:
        assert planned.slots["ops"] == 1


def test_a_history_that_is_gone_meanwhile_is_told(tmp_path: Path) -> None:
    planned = plan.plan([facts(tmp_path, 3)], str(tmp_path))
    (tmp_path / "r3" / "history.parquet").write_bytes(b"")
    with pytest.raises(SplitbrainError, match="r3: changed while it was read"):
        list(invocations(_pieces(planned.runs[0])[0]))
