"""Which files are written and which stay, from sizes alone."""

from __future__ import annotations

from typing import Any

from results.spark import plan
from results.spark.tasks import spread
from results.tables.manifest import File

DAY = "2026-11-21"


def fact(run: str, rows: int, scenario: str = "s") -> dict[str, Any]:
    return {"run": run, "day": DAY, "scenario": scenario, "rows": rows, "first": 10, "last": 9 + rows}


def test_small_runs_share_a_slot_and_a_large_one_has_several(monkeypatch: Any) -> None:
    monkeypatch.setattr(plan, "SLOT", 100)
    planned = plan.plan([fact("d", 60, "t"), fact("c", 250), fact("b", 50), fact("a", 50), fact("e", 1)], "store")
    told = [(run["run"], run["n"], run["base"], run["chunk"] if run["chunk"] < 1000 else None) for run in planned.runs]
    # c: indices 10 to 259 in parts of 84; e joins nobody: its slot is full
    assert told == [("a", 0, 0, None), ("b", 1, 0, None), ("c", 2, 1, 84), ("e", 3, 4, None), ("d", 4, 5, None)]
    assert planned.slots["ops"] == 6
    assert planned.places["ops"] == {(DAY, "s"): 0, (DAY, "t"): 5}
    assert planned.places["small"] == {(DAY, "s"): 0, (DAY, "t"): 1}


def test_only_files_that_must_change_are_written_anew() -> None:
    def file(path: str, size: int, first: str, last: str, scenario: str = "s") -> File:
        return File(path, 1, size, DAY, scenario, first, last)

    large = plan.SMALL + 1
    files = [
        file("holds", large, "a", "c"),
        file("others", large, "d", "f"),
        file("small", 1, "d", "f"),
        file("elsewhere", 1, "a", "c", "t"),
        file("another", large, "a", "c", "t"),
        file("unknown", large, "", ""),
    ]
    kept = plan.keep(files, [("b", (DAY, "s"))], {(DAY, "s"): 3}, 10)
    assert [file.path for file in kept.stay] == ["others", "elsewhere", "another"]
    assert [(file.path, slot) for file, slot in kept.anew] == [("holds", 10), ("small", 3), ("unknown", 11)]
    # with nothing new, small ones that lose rows are joined among themselves
    kept = plan.keep(files[2:3] * 2, [("e", (DAY, "s"))], {}, 0)
    assert [slot for _, slot in kept.anew] == [0, 0]


def test_pieces_are_spread_by_size() -> None:
    assert spread([5, 4, 3, 3, 1], lambda piece: piece, 2) == [[5, 3], [4, 3, 1]]
    assert spread([1], lambda piece: piece, 9) == [[1]]
    assert spread([], lambda piece: 1, 9) == []
