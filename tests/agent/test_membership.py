"""What the agent asks and runs to change who belongs to a cluster; the broker here is a few lines."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from clusters.agent.process import Process
from clusters.faults import membership
from clusters.faults.base import FaultError, Probe
from clusters.faults.membership import Leave, Replicas, Transfer

SHRINK = {"asks": "shrink", "back": "grow", "nothing": "it has no replica of any queue"}


class Broker:
    """Answers questions from a list, each once, and keeps what it was asked."""

    def __init__(self, *answers: Mapping[str, Any] | OSError) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, question: str, patience: float) -> Mapping[str, Any]:
        self.asked.append(question)
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


def done(*queues: str, failed: tuple[str, ...] = ()) -> Mapping[str, Any]:
    return {"done": [f"{queue}: changed" for queue in queues], "queues": list(queues), "failed": list(failed)}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "_PAUSE", 0.01)
    monkeypatch.setattr(membership, "JOINS", 5.0)


def test_replicas_are_taken_away_and_those_same_added_again() -> None:
    broker = Broker(done("a", failed=("b: cluster_change_not_permitted",)), OSError("busy"), done("b"), done("a", "b"))
    fault = Replicas(broker, SHRINK)
    assert fault.inject() == "a: changed; b: changed"
    assert fault.undo() == Probe(True, "a: changed; b: changed")
    assert broker.asked == ["shrink", "shrink", "shrink", "grow\ta\tb"]


@pytest.mark.parametrize("first", [done(failed=("s: {still,[n1]}",)), OSError("no answer")])
def test_what_was_refused_and_done_all_the_same_is_taken_back_of_all(first: Mapping[str, Any] | OSError) -> None:
    """As a database that learns of it a moment later makes it look."""
    broker = Broker(first, done(), done("s"))
    fault = Replicas(broker, SHRINK)
    with pytest.raises(FaultError, match="the broker refused, and has done it all the same, it may be"):
        fault.inject()
    assert fault.undo().bit is False
    assert broker.asked == ["shrink", "shrink", "grow"]


def test_what_the_broker_goes_on_refusing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = [done("a", failed=("b: last_node",))] * 1000
    broker = Broker(*refusals)
    monkeypatch.setattr(membership.ask_until, "__defaults__", (0.05,))
    fault = Replicas(broker, SHRINK)
    with pytest.raises(FaultError, match=r"^b: last_node$"):
        fault.inject()
    broker.answers = [done("a")]
    assert fault.undo().bit is False
    assert broker.asked[-1] == "grow", "nobody knows which were changed, so all are meant"


def test_nothing_to_change_is_no_fault_and_there_is_nothing_to_undo() -> None:
    fault = Replicas(Broker(done()), SHRINK)
    with pytest.raises(FaultError, match="it has no replica of any queue"):
        fault.inject()
    assert fault.undo().bit is False


def test_what_is_led_is_handed_over_and_stays_so() -> None:
    broker = Broker(done("a"))
    fault = Transfer(broker, {"asks": "transfer", "to": "n2"})
    assert (fault.inject(), fault.undo()) == ("a: changed", Probe(True, "a: changed"))
    assert broker.asked == ["transfer\tn2"]
    with pytest.raises(FaultError, match=r"it leads nothing$"):
        Transfer(Broker(done()), {"asks": "transfer", "to": None}).inject()


def process(tmp_path: Path) -> Process:
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    made = Process(argv, {}, None, str(tmp_path / "out"), lambda *_: None)
    made.start()
    return made


def leave(tmp_path: Path, broker: Broker, listed: str, orderly: bool, **told: Any) -> Leave:
    data = tmp_path / "data"
    (data / "mnesia").mkdir(parents=True)
    (data / "wal").write_text("x")
    echo = [sys.executable, "-c", f"print({listed!r})"]
    fails = [sys.executable, "-c", "raise SystemExit('nobody there')"]
    args = {
        "orderly": orderly,
        "asks": "shrink",
        "back": "grow",
        "name": "rabbit@n3",
        "leaves": [[sys.executable, "-c", f"open({str(tmp_path / 'reset')!r}, 'w')"]],
        "forgets": [fails, [sys.executable, "-c", f"open({str(tmp_path / 'forgot')!r}, 'w')"]],
        "lists": [fails, echo],
        **told,
    }
    return Leave(process(tmp_path), str(data), broker, args)


@pytest.mark.parametrize("orderly", [True, False])
def test_a_node_leaves_and_joins_with_what_it_had(tmp_path: Path, orderly: bool) -> None:
    asked = [done("a")] if orderly else []
    broker = Broker(*asked, OSError("it boots"), {"running": ["rabbit@n3"]}, {"running": ["1", "2"]}, done("a"))
    fault = leave(tmp_path, broker, "[rabbit@n1,rabbit@n2]", orderly)
    made = fault._process
    assert fault.inject() == "members of the cluster without it: [rabbit@n1,rabbit@n2]"
    assert made.pid is None
    assert (tmp_path / "reset").exists() is orderly
    assert (tmp_path / "forgot").exists() is not orderly
    assert bool(list((tmp_path / "data").iterdir())) is orderly
    assert fault.undo().bit is True
    assert (made.incarnation, broker.asked[-1]) == (2, "grow")
    made.end(signal.SIGKILL)
    assert made.wait(5)


def test_one_that_the_others_still_list_has_not_left(tmp_path: Path) -> None:
    broker = Broker({"running": ["1", "2"]}, done())
    fault = leave(tmp_path, broker, "[rabbit@n1,rabbit@n3]", orderly=False)
    with pytest.raises(FaultError, match="rabbit@n3 is still a member of the cluster"):
        fault.inject()
    assert fault.undo() == Probe(False, "it did not leave")
    fault._process.end(signal.SIGKILL)
    assert fault._process.wait(5)


@pytest.mark.parametrize("orderly", [True, False])
def test_where_replicas_come_and_go_by_themselves_nobody_asks_for_them(tmp_path: Path, orderly: bool) -> None:
    broker = Broker({"running": ["1", "2", "3"]})
    fault = leave(tmp_path, broker, "[rabbit@n1,rabbit@n2]", orderly, asks="", back="")
    assert fault.inject() == "members of the cluster without it: [rabbit@n1,rabbit@n2]"
    assert fault.undo().bit is True
    assert broker.asked == ["cluster"]
