"""Suites in parts, repeated, tried again, filtered, run once more, and with what is known to be bad."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from chaos.cli import main
from chaos.cli.suite_progress import SuiteProgress
from chaos.expectation import Expectation, Seen
from chaos.model.errors import BadInput
from chaos.model.verdict import Verdict
from chaos.quarantine import Quarantine
from chaos.search import suites
from chaos.search.suite_plan import Work, plan, works
from chaos.search.suites import NOTHING, again, attempts
from chaos.selection import select
from chaos.suite import load
from results.store import Store
from results.suite_runs import Line, find
from tests.search.test_suites_resumed import STORE, TEXT, mine, suite

__all__ = ["mine"]


def test_parts_are_told_apart_and_are_one_run_in_the_end(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert suite("--suite-run", "night", "--shard", "1/2") in (0, 1)
    assert "part 1 of 2" in capsys.readouterr().out
    assert main.run(["list", "suite-runs"]) == 0
    assert "interrupted, parts 2 not here" in capsys.readouterr().out
    assert suite("--suite-run", "night", "--shard", "2/2") in (0, 1)
    found = find(STORE, "night")
    assert (found.state, len(found.lines), len(found.parts)) == ("done", 7, 2)
    runs = Store(STORE).runs()
    assert {run.run().suite_run for run in runs} == {"night"}
    ends = (re.search(r"\.\d-of-2", run.id) for run in runs)  # behind it is a number where two began in one second
    assert Counter(end and end[0] for end in ends) == Counter(
        f".{p.plan.shard[0]}-of-2" for p in found.parts for _ in p.lines
    )
    capsys.readouterr()
    assert suite("--resume", "night") == 254
    assert "was made in parts, and of these 1/2, 2/2 is here: say which with --shard" in capsys.readouterr().err


def test_a_part_fails_only_for_what_the_others_cannot_mend() -> None:
    half = Expectation(Verdict.INVALID, ("messages.lost",), 0.5)
    lost, fine = Seen(1, Verdict.INVALID, ("messages.lost",)), Seen(2, Verdict.VALID)
    assert [half.judge(seen, 4).met for seen in ([fine], [fine, fine], [fine, fine, fine], [lost])] == [
        True, True, False, True,
    ]  # fmt: skip
    assert half.judge([fine, fine, lost, lost], 4).met
    assert half.judge([fine], 4).observed == "0 of 1 (4 in all): 1 valid"
    twice = Expectation(Verdict.VALID, (), 2)
    assert [twice.judge([fine] * number, repeat=3).met for number in (5, 6)] == [True, True]
    assert [twice.judge([fine] * number + [lost] * 4, repeat=3).met for number in (5, 6)] == [False, True]
    ratio = Expectation(measure="leaders.changes", ratio=(1, 2))
    assert ratio.judge([replace(fine, measured=9.0, versus=1.0)], 2).met
    assert not ratio.judge([replace(fine, measured=9.0, versus=1.0)] * 2, 2).met


def work(mine: Path, expect: Expectation, retries: int) -> Work:
    loaded = load(mine)
    return replace(next(works(loaded, plan(loaded, mine, keep=NOTHING, retries=retries), mine.parent)), expect=expect)


@pytest.mark.parametrize(
    ("came", "expect", "retries", "ends"),
    [
        ("UV", Verdict.VALID, 2, "UV"),
        ("UUUU", Verdict.VALID, 2, "UUU"),
        ("UI", Verdict.VALID, 2, "UI"),
        ("I", Verdict.VALID, 2, "I"),
        ("V", Verdict.VALID, 2, "V"),
        ("V", Verdict.UNKNOWN, 2, "V"),
        ("U", Verdict.UNKNOWN, 2, "U"),
        ("U", Verdict.VALID, 0, "U"),
    ],
)
def test_only_what_is_unknown_is_tried_again(mine: Path, came: str, expect: Verdict, retries: int, ends: str) -> None:
    words = {"U": Verdict.UNKNOWN, "V": Verdict.VALID, "I": Verdict.INVALID}
    left = iter(came)
    one = work(mine, Expectation(expect), retries)
    tried = list(attempts(one, lambda _, attempt: (Seen(1, words[next(left)]), f"run-{attempt}")))
    assert [each.seen.verdict for each in tried] == [words[letter] for letter in ends]
    assert [each.attempt for each in tried] == list(range(1, len(ends) + 1))
    assert not again(one, tried[-1])


def test_what_was_tried_again_is_told_and_every_attempt_kept(
    mine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    look = suites._look

    def flaky(work: Work, attempt: int) -> tuple[Seen, str | None]:
        what, run = look(work, attempt)
        return (replace(what, verdict=Verdict.UNKNOWN, why="nobody knows") if attempt == 1 else what), run

    monkeypatch.setattr(suites, "_look", flaky)
    assert suite("--row", "fine", "--filter", "label=*3", "--seeds", "1", "--retries", "1") == 0
    assert capsys.readouterr().out.splitlines() == [
        "✓ fine [cluster.nodes=3]  valid in all seeds: 1 of 1",
        "    seed 1: valid on attempt 2",
        "as expected: 1 of 1, 1 run, 1 run tried more than once",
    ]
    assert [(line.attempt, line.verdict) for line in find(STORE, "latest").lines] == [(1, "unknown"), (2, "valid")]
    assert [run.run().attempt for run in Store(STORE).runs()] == [1, 2]


def test_each_seed_as_often_as_asked(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert suite("--row", "fine", "--seeds", "1", "--repeat", "2", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [[(seed["seed"], seed["repetition"]) for seed in row["seeds"]] for row in rows] == [[(1, 1), (1, 2)]] * 2


def test_what_failed_is_run_once_more_by_itself(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert suite("--suite-run", "night") == 1
    capsys.readouterr()
    assert suite("--rerun-failed", "--json", "--suite-run", "again") == 1
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["name"], len(row["seeds"])) == ("wrong", 1)
    assert find(STORE, "again").plan.rerun_of == "night"
    mine.write_text(TEXT.replace('name = "wrong"', 'name = "worse"'))
    assert suite("--rerun-failed", "night") == 254
    assert "'wrong' failed in night, and is not in mine.toml any more" in capsys.readouterr().err
    mine.write_text(TEXT)
    assert suite("--row", "fine", "--suite-run", "good") == 0
    capsys.readouterr()
    assert suite("--rerun-failed", "good") == 0
    assert capsys.readouterr().out == "nothing of this failed or is missing in good\n"


@pytest.mark.parametrize(
    ("expression", "cells"),
    [
        ("row=fine", 2),
        ("row=f* label=cluster.nodes=3", 1),
        ("label=*5", 1),
        ("[cluster.nodes", 2),
        ("row!=fine", 1),
        ("broker=rabbitmq*", 3),
        ("broker=rabbitmq-quorum@4*", 3),
        ("nemesis!=kill on=simulated workload=queue", 3),
    ],
)
def test_a_filter_in_words(mine: Path, expression: str, cells: int) -> None:
    assert sum(len(row.cases) for row in select(load(mine), expression).rows) == cells


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("nemesis=kill", "no cell of 'mine' is 'nemesis=kill'; `--dry-run` lists them"),
        ("brokr=x", "unknown key 'brokr' in 'brokr=x'; did you mean 'broker'"),
        (" ", "it is empty; write row=PATTERN"),
        ("'", "No closing quotation"),
    ],
)
def test_a_filter_that_is_none(mine: Path, expression: str, problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        select(load(mine), expression)
    assert problem in str(caught.value)


def test_quarantine_excuses_until_its_day_is_over(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    today = datetime.now(UTC).date()
    for until, code in ((today + timedelta(1), 0), (today - timedelta(1), 1)):
        excuse = f'quarantine = {{ owner = "ann", until = {until}, why = "a bug" }}'
        mine.write_text(TEXT + excuse)
        assert suite("--row", "wrong") == code
        first, second, *_, last = capsys.readouterr().out.splitlines()
        assert first.startswith("~" if code == 0 else "✗")
        word = "in quarantine until" if code == 0 else "its quarantine ended on"
        assert second == f"    {word} {until} (ann: a bug)"
        assert last.startswith("as expected: 0 of 1 as expected, 1 in quarantine" if code == 0 else "NOT as expected")
    assert find(STORE, "latest").plan.cells[0].quarantine == {
        "owner": "ann", "until": str(today - timedelta(1)), "why": "a bug",
    }  # fmt: skip


def test_the_last_day_of_a_quarantine_still_counts() -> None:
    one = Quarantine("ann", date(2026, 12, 31), "a bug")
    assert [one.holds(date(2026, 12, 31)), one.holds(date(2027, 1, 1))] == [True, False]
    assert Quarantine.from_json(one.to_json()) == one


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ("until = 2026-12-31, why = 'x'", "scenario[1].quarantine.owner: who mends it? write quarantine = {"),
        ("owner = ' ', until = 2026-12-31, why = 'x'", "scenario[1].quarantine.owner: who mends it?"),
        ("owner = 'ann', why = 'x'", "scenario[1].quarantine.until: until when? write quarantine"),
        ("owner = 'ann', until = '2026-12-31', why = 'x'", "scenario[1].quarantine.until: '2026-12-31' is not a day"),
        ("owner = 'ann', until = 2026-12-31T00:00:00, why = 'x'", "is not a day: write quarantine"),
        ("owner = 'ann', until = 2026-12-31", "scenario[1].quarantine.why: what is wrong?"),
        ("ower = 'ann'", "scenario[1].quarantine.ower: unknown key 'ower'; did you mean 'owner'?"),
    ],
)
def test_a_quarantine_without_owner_or_day_is_none(
    mine: Path, capsys: pytest.CaptureFixture[str], told: str, problem: str
) -> None:
    mine.write_text(TEXT + f"quarantine = {{ {told} }}")
    assert suite() == 254
    err = capsys.readouterr().err
    assert problem in err
    assert (err.count("\n"), STORE.exists()) == (1, False)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "-1/2", "1/2/3"])
def test_a_part_that_is_none(mine: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert suite(f"--shard={text}") == 254
    assert "is not a part of so many, such as 1/4" in capsys.readouterr().err


def test_the_table_of_progress(mine: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=20)
    progress = SuiteProgress(Counter({"a": 2, "b": 1, "c": 1}), console)
    for cell, seed, verdict, final in (
        ("a", 1, "valid", True), ("b", 1, "unknown", False), ("b", 1, "unknown", True), ("c", 1, "invalid", True),
    ):  # fmt: skip
        progress.ran(Line(cell, seed, 1, 1, None, verdict), Expectation(Verdict.VALID), final=final)
    assert progress.line() == "3 of 4 runs, 1 as expected, 1 failed, 1 unknown, 1 retried"
    plain = Console(file=io.StringIO(), width=100)
    plain.print(progress.table())
    assert [line.split() for line in plain.file.getvalue().splitlines()[1:4]] == [  # type: ignore[attr-defined]
        ["a", "1/2", "1"], ["b", "1/1", "0", "1"], ["c", "1/1", "0", "1"],
    ]  # fmt: skip
