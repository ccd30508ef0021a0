"""Files damaged while a process is down, on this machine: nothing here needs root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.driver import LocalAgent, local_agent

ARGS = {"patterns": ["**/*.wal", "*.idx"], "files": 1, "draw": 3}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[LocalAgent]:
    with local_agent() as running:
        sleep: dict[str, Any] = {"argv": ["sleep", "600"], "env": {}, "user": None, "output": str(tmp_path / "output")}
        running.ask("process", name="broker", **sleep)
        running.ask("start", name="broker")
        yield running
        running.ask("inject", fault="end", verb="kill", process="broker", args={})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "1.wal").write_bytes(bytes(1000))
    (folder / "empty.wal").touch()
    (folder / "other.txt").write_bytes(bytes(1000))
    return folder


def inject(agent: LocalAgent, data: Path | None, **args: Any) -> str:
    if data is not None:
        agent.ask("data", folder=str(data))
    answer = agent.ask("inject", fault="f", verb="damage", process="broker", args={**ARGS, **args})
    evidence: str = answer["done"]["evidence"] if "done" in answer else answer["error"]
    return evidence


def undo(agent: LocalAgent) -> bool | None:
    (probe,) = agent.ask("undo", fault="f")["done"]["probes"]
    bit: bool | None = probe["bit"]
    return bit


def test_bits_are_flipped_while_the_process_is_down(agent: LocalAgent, data: Path) -> None:
    said = inject(agent, data, how="flip")
    assert said.startswith("deep/er/1.wal 8 bits flipped from byte ")
    after = (data / "deep/er/1.wal").read_bytes()
    assert len(after) == 1000
    assert sum(byte.bit_count() for byte in after) == 8
    assert agent.event("exit")["reason"] == "signal SIGKILL"
    assert undo(agent) is True
    assert agent.ask("start", name="broker")["done"] == {"incarnation": 2}
    assert (data / "deep/er/1.wal").read_bytes() == after, "what is damaged stays so"
    assert (data / "other.txt").read_bytes() == bytes(1000)


def test_a_file_is_cut_short(agent: LocalAgent, data: Path) -> None:
    said = inject(agent, data, how="truncate", files=5)
    left = (data / "deep/er/1.wal").stat().st_size
    assert f"deep/er/1.wal cut to {left} of 1000 bytes" in said
    assert undo(agent) is True


def test_the_same_draw_does_the_same(agent: LocalAgent, data: Path) -> None:
    said = []
    for _ in range(2):
        (data / "deep/er/1.wal").write_bytes(bytes(1000))
        said.append(inject(agent, data, how="flip"))
        undo(agent)
    assert said[0] == said[1]


def test_where_there_is_nothing_to_damage_it_did_not_bite(agent: LocalAgent, data: Path) -> None:
    said = inject(agent, data, how="flip", patterns=["*.nothing", "empty.*"])
    assert said == "nothing to damage: no file is like *.nothing or empty.*"
    assert undo(agent) is False


def test_what_cannot_be_is_refused(agent: LocalAgent, data: Path) -> None:
    assert inject(agent, None, how="flip") == "inject: where the broker has its data is not known"
    assert inject(agent, data, how="melt") == "inject: how: 'melt' is neither truncate nor flip"
    done = agent.ask("inject", fault="g", verb="disk-full", process="broker", args={})
    assert done["error"].startswith("inject: the broker's data are not on a disk of ours: ")
