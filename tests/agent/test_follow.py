"""Lines of a log, told as they come."""

from __future__ import annotations

import re
from pathlib import Path

from clusters.agent.follow import Follower
from tests.agent.driver import local_agent


def test_lines_that_match_and_come_from_now_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old: x\n")
    told: list[str] = []
    follower = Follower(str(log), ["x", "^y"], told.append)
    with log.open("a") as file:
        file.write("1 x\nno y\ny 2\nhalf x")
    follower.look()
    assert told == ["1 x", "y 2"]
    with log.open("a") as file:
        file.write(" whole\n")
    follower.look()
    assert told == ["1 x", "y 2", "half x whole"]


def test_a_log_that_comes_later_is_cut_or_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    told: list[str] = []
    follower = Follower(str(log), ["x"], told.append)
    follower.look()
    log.write_text("x1 is long enough\n")
    follower.look()
    log.write_text("x2\n")
    follower.look()
    log.rename(tmp_path / "log.1")
    log.write_text("x3\n")
    follower.look()
    assert told == ["x1 is long enough", "x2", "x3"]


def test_the_agent_pushes_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with local_agent() as agent:
        agent.ask("follow", paths=[str(log)], patterns=["lead[s]"])
        log.write_text("nothing\nit leads\n")
        assert re.fullmatch("it leads", agent.event("line")["line"])
