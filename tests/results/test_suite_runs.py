"""What is recorded of a suite's run: whole, torn, in parts; and that it is found again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.expectation import Expectation
from chaos.model.errors import BadInput
from chaos.model.verdict import Verdict
from results import suite_runs
from results.store import Store
from results.suite_judged import failed, judged
from results.suite_runs import Cell, Line, Plan, begin, find, part_of, resume

VALID = Expectation(Verdict.VALID)


def cell(name: str, seeds: tuple[int, ...] = (1, 2), expect: Expectation = VALID) -> Cell:
    told = (expect.says(), expect.to_json())
    return Cell(name, name, "", name, "rabbitmq-quorum", "4.0", "simulated", "", "", *told, seeds, "d")


PLAN = Plan("it", "mine", "mine.toml", "2026-11-20T02:00:00.000000+00:00", "0.1.0", "c0", (cell("a"), cell("b")))


def line(name: str, seed: int, verdict: str = "valid", attempt: int = 1, repetition: int = 1) -> Line:
    return Line(name, seed, repetition, attempt, f"run-{name}-{seed}", verdict)


def test_a_run_is_as_it_was_written(tmp_path: Path) -> None:
    said = [line("a", 1), line("a", 2, "unknown"), line("a", 2, attempt=2), line("b", 1)]
    with begin(tmp_path, PLAN) as recorder:
        for one in said:
            recorder.add(one)
        assert find(tmp_path, "it").state == "running"
    found = find(tmp_path, "latest")
    assert found.plan == PLAN
    assert [replace(one, ended="") for one in found.lines] == said
    assert found.last["a", 2, 1].attempt == 2
    assert (found.missing, found.state) == ([("b", 2, 1)], "interrupted")
    with resume(found.parts[0]) as recorder:
        recorder.add(line("b", 2))
        recorder.finish()
    assert (find(tmp_path, "i").missing, find(tmp_path, "it").state) == ([], "done")
    assert find(tmp_path, "it").plan.finished is not None


def test_a_line_that_was_torn_is_not_there_and_is_written_anew(tmp_path: Path) -> None:
    with begin(tmp_path, PLAN) as recorder:
        recorder.add(line("a", 1))
    file = tmp_path / "suite-runs" / "it" / "cells.jsonl"
    with file.open("ab") as torn:
        torn.write(b'{"cell": "a", "se')
    assert list(find(tmp_path, "it").last) == [("a", 1, 1)]
    with resume(find(tmp_path, "it").parts[0]) as recorder:
        recorder.add(line("a", 2))
    assert list(find(tmp_path, "it").last) == [("a", 1, 1), ("a", 2, 1)]
    assert [json.loads(text)["seed"] for text in file.read_text().splitlines()] == [1, 2]


def test_parts_copied_into_one_store_are_one_run(tmp_path: Path) -> None:
    keys = [*PLAN.planned()]
    for number in (1, 2, 3):
        with begin(tmp_path / str(number), replace(PLAN, shard=(number, 3))) as recorder:
            for name, seed, _ in filter(recorder.plan.mine, keys):
                recorder.add(line(name, seed))
            recorder.finish()
    shutil.copytree(tmp_path / "1", tmp_path / "all")
    shutil.copytree(tmp_path / "3", tmp_path / "all", dirs_exist_ok=True)
    assert find(tmp_path / "all", "it").absent == [2]
    shutil.copytree(tmp_path / "2", tmp_path / "all", dirs_exist_ok=True)
    found = find(tmp_path / "all", "it")
    assert (found.absent, found.missing, found.state, len(found.last)) == ([], [], "done", 4)
    with begin(tmp_path / "other", replace(PLAN, shard=(2, 3), cells=(cell("z"),))):
        pass
    shutil.rmtree(tmp_path / "all" / "suite-runs" / "it.2-of-3")
    shutil.copytree(tmp_path / "other", tmp_path / "all", dirs_exist_ok=True)
    with pytest.raises(BadInput, match="its plan is another than that of"):
        find(tmp_path / "all", "it")


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=5, unique=True),
    st.integers(1, 30),
    st.integers(1, 3),
    st.integers(1, 9),
)
def test_the_parts_are_the_whole_and_nothing_twice(names: list[str], seeds: int, repeat: int, parts: int) -> None:
    cells = tuple(cell(name, tuple(range(seeds))) for name in names)
    plans = [replace(PLAN, cells=cells, repeat=repeat, shard=(number + 1, parts)) for number in range(parts)]
    each = [[key for key in plan.planned() if plan.mine(key)] for plan in plans]
    assert sorted(key for keys in each for key in keys) == sorted(plans[0].planned())
    turned = replace(plans[0], cells=cells[::-1])
    assert sorted(filter(turned.mine, turned.planned())) == sorted(each[0])


def test_which_part_runs_what_is_for_ever() -> None:
    """Another version of ours, on another machine, has to share the work in the same way."""
    assert [part_of(("a [cluster.nodes=3]", seed, 1), 4) for seed in range(1, 9)] == [4, 2, 3, 1, 2, 1, 4, 2]


def test_what_failed_or_is_missing_is_run_again(tmp_path: Path) -> None:
    lost = Expectation(Verdict.INVALID, ("messages.lost",), 0.5)
    ratio = Expectation(measure="leaders.changes", ratio=(1, 2))
    cells = (
        cell("fine"),
        cell("bad", (1, 2, 3)),
        cell("half", (1, 2), lost),
        cell("cut"),
        cell("ratio", (5, 6), ratio),
    )
    with begin(tmp_path, replace(PLAN, cells=cells)) as recorder:
        for one in (
            line("fine", 1), line("fine", 2), line("bad", 1), line("bad", 2, "unknown"), line("bad", 3, "invalid"),
            replace(line("half", 1, "invalid"), anomalies=("messages.lost",)), line("half", 2), line("cut", 2),
            replace(line("ratio", 5), measured=9.0, versus=1.0), replace(line("ratio", 6), measured=9.0, versus=1.0),
        ):  # fmt: skip
            recorder.add(one)
    found = find(tmp_path, "it")
    assert failed(found) == {"bad": (2, 3), "cut": (1,), "ratio": (5, 6)}
    assert [(one.cell.cell, one.whole) for one in judged(found)] == [
        ("fine", True), ("bad", False), ("half", True), ("cut", False), ("ratio", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (PLAN, r"there is a suite's run it in .*; --resume it goes on with it, or name another"),
        (replace(PLAN, id="a/b"), "'a/b' cannot be the id of a suite's run"),
        (replace(PLAN, id="x.1-of-2"), "'x.1-of-2' cannot be the id"),
        (replace(PLAN, id="latest"), "'latest' cannot be the id"),
    ],
)
def test_an_id_that_cannot_be(tmp_path: Path, plan: Plan, problem: str) -> None:
    with begin(tmp_path, PLAN):
        pass
    with pytest.raises(BadInput, match=problem), begin(tmp_path, plan):
        pass


def test_none_is_run_by_two(tmp_path: Path) -> None:
    with (
        begin(tmp_path, PLAN),
        pytest.raises(BadInput, match=r"it is being run by another process"),
        resume(find(tmp_path, "it").parts[0]),
    ):
        pass


def test_finding_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no suite's run in .*: make one with"):
        find(tmp_path, "latest")
    for id_ in ("night-1", "night-2"):
        with begin(tmp_path, replace(PLAN, id=id_)):
            pass
    with begin(tmp_path, replace(PLAN, id="", created="2026-11-21T02:00:00+00:00", suite="of mine")) as fresh:
        assert fresh.plan.id == "20261121-020000-of-mine"
    assert find(tmp_path, "latest").id == fresh.plan.id
    assert find(tmp_path, "latest", "mine").id == "night-2"
    with pytest.raises(BadInput, match="'night' begins 2 suites' runs"):
        find(tmp_path, "night")
    with pytest.raises(BadInput, match=r"no suite's run 'night-3' in .*; did you mean 'night-"):
        find(tmp_path, "night-3")


def test_a_store_with_suites_runs_and_tables_still_lists_its_runs(tmp_path: Path) -> None:
    with begin(tmp_path, PLAN):
        pass
    (tmp_path / "tables" / "manifests").mkdir(parents=True)
    (tmp_path / "suite-runs" / "stray").mkdir()
    (tmp_path / "suite-runs" / "half").mkdir()
    (tmp_path / "suite-runs" / "half" / "suite.json").write_text('{"schema": 2}')
    assert Store(tmp_path).runs() == []
    assert [one.id for one in suite_runs.suite_runs(tmp_path)] == ["it"]


@pytest.mark.parametrize(
    "expect",
    [
        VALID,
        Expectation(Verdict.INVALID, ("messages.lost", "leaders.dual-confirm"), 3),
        Expectation(Verdict.UNKNOWN, ("streams.max_lag",), 0.8),
        Expectation(None, (), 1.0, "availability.longest_gap", (0.0, 1e9)),
        Expectation(measure="leaders.changes", ratio=(0.5, 1.0)),
    ],
)
def test_an_expectation_is_kept_as_data(expect: Expectation) -> None:
    assert Expectation.from_json(json.loads(json.dumps(expect.to_json()))) == expect
