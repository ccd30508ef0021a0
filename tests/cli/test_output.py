"""How verdicts look on a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.cli.output import print_verdict


def result(*kinds: str, reason: str = "so", **counts: int) -> dict[str, Any]:
    anomalies = [{"kind": kind, "message": f"it {kind}", "ops": [at]} for at, kind in enumerate(kinds)]
    return {"valid": not kinds, "reason": reason, "counts": counts, "anomalies": anomalies}


def printed(capsys: pytest.CaptureFixture[str], anomalies: int = 2, **checkers: dict[str, Any]) -> list[str]:
    valid = all(checker["valid"] for checker in checkers.values())
    print_verdict({"valid": valid, "run": "r", "checkers": checkers}, anomalies=anomalies)
    return capsys.readouterr().out.splitlines()


def test_one_of_each_kind_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    messages = result(*["lost"] * 10, "corrupted", "duplicated", lost=4000, corrupted=1, duplicated=2, confirmed=9000)
    assert printed(capsys, messages=messages, order=result()) == [
        "✗ INVALID  r",
        "  ✗ messages  so",
        "      messages.lost it lost  #0",
        "      messages.corrupted it corrupted  #10",
        "      messages.duplicated it duplicated  #11",
        "      and 4,000 more",
        "  ✓ order     so",
    ]


def test_then_the_next_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, 3, x=result("a", "a", "b", "a"))[2:] == [
        "      x.a it a  #0",
        "      x.b it b  #2",
        "      x.a it a  #1",
        "      and 1 more",
    ]
    assert printed(capsys, 4, x=result("a", "a", "b", "a"))[-1] == "      x.a it a  #3"


def test_what_a_broker_says_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    said = "a [red]word[/red] \x1b[2J :smile: http://x.y/z 'quoted' 12.5"
    assert printed(capsys, x=result(reason=said))[1] == f"  ✓ x  {said}".replace("\x1b", "\\x1b")


@pytest.mark.parametrize("columns", ["1", "40", "not a number"])
def test_lines_are_whole_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert printed(capsys, x=result(reason="word " * 40))[1] == "  ✓ x  " + "word " * 40
