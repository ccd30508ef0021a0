"""Two runs at once on one machine: what is done to the nodes of one is not done to the other's, nothing is shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.model.history import History
from chaos.model.history_file import read
from chaos.model.op import FAIL, INFO, OK, Op
from tests.docker.cli import SECOND, Started, fault, made_by, running

pytestmark = pytest.mark.docker

ASKED = ("--broker", "etcd@3.5", "--workload", "register")
# nothing of it comes near the patience of a node, or a client, however slow the machine is
PATIENT = ("--set", "cluster.settings.election_timeout=10s", "--set", "workload.timeout=30s")


def history(started: Started) -> History:
    return read(started.store / started.run / "history.parquet")


def troubled(op: Op) -> bool:
    """Not what a client meets on a sound cluster. A compare-and-set may find another value; in the end each closes."""
    return (op.type is INFO and (op.f, op.error) != ("close", "done")) or (op.type is FAIL and op.f != "cas")


def test_one_is_cut_apart_and_the_other_sees_nothing_of_it(tmp_path: Path) -> None:
    cut = {**fault("partition", "halves", "all", clients=True, service=None), "at": 0, "duration": 4 * SECOND}
    for name in ("cut", "calm"):
        (tmp_path / name).mkdir()
    with (
        running(tmp_path / "cut", *ASKED, "--time", "8s", "--set", "expect.faults=any", faults=[cut]) as hurt,
        running(tmp_path / "calm", *ASKED, *PATIENT, "--time", "20s", "--nemesis", "none") as calm,
    ):
        hurt.wait_for_faults(1)
        calm_things, hurt_things = made_by(calm.run), made_by(hurt.run)
        assert len(hurt_things) == 4, "three nodes and a network"
        assert not set(calm_things) & set(hurt_things)
        assert calm.end(200) == (0, "")
        assert hurt.end(200) == (0, "")
    cut_apart = history(hurt)
    assert [(cut_apart[int(row)].detail or {})["bit"] for row in cut_apart.rows("undo", OK)] == [True]
    ops = [history(calm)[row] for row in range(len(history(calm)))]
    assert len({op.term for op in ops if op.f == "leader"}) == 1, "nobody lost its leader"
    assert [str(op) for op in ops if op.process >= 0 and troubled(op)] == []
    assert [str(op) for op in ops if op.f in ("exit", "session", "watchdog", "error", "log")] == []
    assert [made_by(started.run) for started in (hurt, calm)] == [[], []]
