"""A run on real nodes is replayed: the same faults, on the nodes that they hurt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.model.op import OK
from results.store import RunDirectory, Store
from tests.docker.cli import SEED, made_by, splitbrain

pytestmark = pytest.mark.docker

RUN = (
    "run", "--broker", "rabbitmq-quorum@4.0", "--on", "docker", "--nemesis", "kill", "--rate", "20", "--time", "12s",
    "--set", "nemesis[0].every=4s", "--set", "nemesis[0].for=1s", "--seed", SEED,
)  # fmt: skip


def hurt(directory: RunDirectory) -> dict[str | None, list[str]]:
    history = directory.history()
    return {
        history.key[row]: [node for action in history.detail(row)["actions"] for node in action["nodes"]]
        for row in history.rows("inject", OK).tolist()
    }


def test_by_node_the_same_nodes_are_hurt(tmp_path: Path) -> None:
    store = Store(tmp_path / "splitbrain-runs")
    assert splitbrain(tmp_path, *RUN).returncode in (0, 2)
    (first,) = store.runs()
    done = splitbrain(tmp_path, "replay", "--by", "node", "--json")
    told = json.loads(done.stdout)
    again = store.runs()[1]
    assert (told["run"], told["times"], [one["run"] for one in told["replays"]]) == (first.id, 1, [again.id])
    assert hurt(again) == hurt(first) != {}
    assert made_by(first.id) == made_by(again.id) == []
