"""The reporter of BlazingMQ, against a server that speaks its admin protocol byte by byte."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clusters.agent.reporter import ask
from clusters.reporters.blazingmq import Admin, Reporter, event, unready, version, views
from clusters.reporters.server import serve

Q1 = "bmq://splitbrain/q1"
STORED = {"storages": [{"queueUri": Q1, "partitionId": 0, "numMessages": 12}]}
ALIVE = bytes((0, 0, 0, 8, 0x40 | 12, 2, 0, 0))
ARE_YOU = bytes((0, 0, 0, 8, 0x40 | 11, 2, 0, 0))


def status(**given: Any) -> dict[str, Any]:
    """CLUSTER STATUS as n1 answers it, which leads."""
    nodes = [{"description": f"[n{n}, {n}]", "status": "E_AVAILABLE", "primaryForPartitionIds": []} for n in (1, 2, 3)]
    return {
        "name": "splitbrain",
        "nodeStatuses": {"nodes": nodes},
        "electorInfo": {
            "electorState": "LEADER",
            "leaderNode": "[n1, 1]",
            "leaderMessageSequence": {"electorTerm": 4, "sequenceNumber": 9},
            "leaderStatus": "ACTIVE",
        },
        "partitionsInfo": {
            "partitions": [{"primaryNode": "[n1, 1]", "primaryLeaseId": 7, "primaryStatus": "ACTIVE"}],
        },
        "queuesInfo": {"storages": [{"queueUri": Q1, "partitionId": 0, "numMessages": 0, "queueKey": "AB"}]},
    } | given


class FakeBroker:
    """Answers one command of each connection after the other, with a heartbeat before each, and keeps what it got."""

    def __init__(self) -> None:
        self.status: Any = status()
        self.stored: Any = {"storageContent": STORED}
        self.version: Any = 9514
        self.got: list[Any] = []
        self.beats: list[bytes] = []
        self.hang_up = False
        self.log = Path("/dev/null")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while head := stream.read(8):
                body = stream.read(int.from_bytes(head[:4], "big") - 8)
                if head == ALIVE:
                    self.beats.append(head)
                    continue
                assert head[4:] == bytes((0x41, 2, 0x20, 0)), "CONTROL, header of two words, JSON"
                assert body[-1] in (1, 2, 3, 4)
                assert set(body[-body[-1] :]) == {body[-1]}
                assert (len(body) + 8) % 4 == 0
                said = json.loads(body[: -body[-1]])
                self.got.append(said)
                if "clientIdentity" in said:
                    answer: Any = {"brokerResponse": {"brokerVersion": self.version, "result": {"code": 0}}}
                elif self.hang_up:
                    return
                else:
                    if self.log.is_file():
                        with self.log.open("a") as log:
                            log.write("21NOV2026_13:00:00.000 (7) INFO mqbs_x.cpp:1 something else\n")
                            log.write("21NOV2026_13:00:01.250 (7) INFO mqba_application.cpp:875 Received command 'X'\n")
                    stored = "QUEUE_STATUS" in said["adminCommand"]["command"]
                    text = json.dumps(self.stored if stored else {"clusterStatus": self.status})
                    answer = {"rId": said["rId"], "adminCommandResponse": {"text": text}}
                connection.sendall(ARE_YOU + event(1, answer))


@contextmanager
def reporter(broker: FakeBroker, node: str = "n1") -> Iterator[Reporter]:
    made = Reporter(node, str(broker.log), port=broker.port)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("size", range(8))
def test_an_event_is_padded_to_words(size: int) -> None:
    sent = event(1, "x" * size)
    assert len(sent) % 4 == 0
    assert int.from_bytes(sent[:4], "big") == len(sent)
    assert sent[8 : -sent[-1]] == json.dumps("x" * size).encode()


def test_who_asks_what() -> None:
    broker = FakeBroker()
    with reporter(broker) as one:
        one.answer("cluster")
        one.answer("views")
    identity, *commands = broker.got
    assert identity["clientIdentity"]["clientType"] == "E_TCPADMIN"
    cluster = "ENCODING JSON_COMPACT CLUSTERS CLUSTER splitbrain"
    assert commands == [
        {"rId": 1, "adminCommand": {"command": f"{cluster} STATUS"}},
        {"rId": 2, "adminCommand": {"command": f"{cluster} STATUS"}},
        {"rId": 3, "adminCommand": {"command": f"{cluster} STORAGE DOMAIN splitbrain QUEUE_STATUS"}},
    ], "on one connection"
    assert broker.beats


def test_what_a_leader_holds_to_be_true() -> None:
    times = {"asked": 10, "answered": 20}
    elector, queue = views(status(), STORED, "n1", 10, 20)
    assert elector == {
        "scope": "elector", "role": "leader", "term": 4, "leader": "n1", "status": "active", **times,
    }  # fmt: skip
    assert queue == {
        "scope": "q1", "role": "leader", "term": 7, "leader": "n1", "members": ["n1", "n2", "n3"], "available": True,
        "ready": 12, "unacked": 0, **times,
    }  # fmt: skip


def partition(**given: Any) -> dict[str, Any]:
    one = {"primaryNode": "[n1, 1]", "primaryLeaseId": 7, "primaryStatus": "ACTIVE"} | given
    return {"partitionsInfo": {"partitions": [{name: value for name, value in one.items() if value is not None}]}}


@pytest.mark.parametrize(
    ("node", "given", "role", "leader"),
    [
        ("n2", {}, "follower", "n1"),
        ("n1", partition(primaryStatus="PASSIVE"), "passive", ""),
        ("n2", partition(primaryStatus="PASSIVE"), "follower", ""),
        ("n1", partition(primaryNode=None, primaryStatus="UNDEFINED"), "follower", ""),
    ],
)
def test_whose_queue_it_is(node: str, given: dict[str, Any], role: str, leader: str) -> None:
    queue = views(status(**given), STORED, node, 1, 2)[1]
    assert (queue["role"], queue["leader"]) == (role, leader)


def elector(state: str, leader: str, is_: str) -> dict[str, Any]:
    sequence = {"electorTerm": 5, "sequenceNumber": 0}
    return {
        "electorInfo": {
            "electorState": state, "leaderNode": leader, "leaderMessageSequence": sequence, "leaderStatus": is_,
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, None),
        (elector("FOLLOWER", "[n2, 2]", "PASSIVE"), "its leader is n2, passive"),
        (elector("CANDIDATE", "[ ** NA **, -1]", "UNDEFINED"), "its leader is nobody, undefined"),
        (partition(primaryStatus="PASSIVE"), "the primary of partition 0 is n1, passive"),
        (partition(primaryNode=None, primaryStatus="UNDEFINED"), "the primary of partition 0 is nobody, undefined"),
        ({"partitionsInfo": {"partitions": []}}, "it knows of no partition"),
    ],
)
def test_what_a_node_is_not_ready_for(given: dict[str, Any], why: str | None) -> None:
    assert unready(status(**given)) == why


def test_of_a_queue_without_messages_nothing_is_stored() -> None:
    broker = FakeBroker()
    with reporter(broker) as one:
        for broker.stored in ({"storageContent": {}}, {"error": {"message": "Unknown domain 'splitbrain'"}}):
            assert one.answer("views")["views"][1]["ready"] == 0
        broker.status["queuesInfo"] = {}
        before = len(broker.got)
        assert len(one.answer("views")["views"]) == 1
        assert len(broker.got) == before + 1, "nor is it asked for where there is no queue"


def test_a_broker_that_went_is_asked_anew_when_it_is_back() -> None:
    broker = FakeBroker()
    with reporter(broker) as one:
        assert one.answer("cluster")["running"] == ["n1", "n2", "n3"]
        broker.hang_up = True
        with pytest.raises(OSError, match="closed the connection"):
            one.answer("cluster")
        broker.hang_up = False
        broker.status["nodeStatuses"]["nodes"][2]["status"] = "E_UNAVAILABLE"
        assert one.answer("cluster") == {"process": "broker", "running": ["n1", "n2"], "wrong": None}


def test_the_brokers_clock_is_that_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker()
    broker.log = tmp_path / "log"
    broker.log.write_text("01JAN2026_00:00:00.000 (7) INFO mqba_application.cpp:875 Received command 'of before'\n")
    with reporter(broker) as one:
        assert one.answer("clock") == {"process": "broker", "os": 1795266001_250_000_000}
        monkeypatch.setattr("clusters.reporters.blazingmq.PATIENCE", 0.05)
        one._log, broker.log = broker.log, Path("/dev/null")
        with pytest.raises(ValueError, match="the broker logged nothing"):
            one.answer("clock")
        one._log = tmp_path / "none"
        with pytest.raises(FileNotFoundError):
            one.answer("clock")


@pytest.mark.parametrize("nonsense", [["a list"], {"no": "status"}, status(partitionsInfo={"partitions": []})])
def test_an_answer_that_is_none(nonsense: Any) -> None:
    broker = FakeBroker()
    broker.status = nonsense
    with reporter(broker) as one, pytest.raises(ValueError, match="not the status of a cluster"):
        one.answer("views")


def test_a_broker_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    silent = socket.create_server(("127.0.0.1", 0))  # as one that is paused: the kernel accepts, and nobody reads
    with silent, pytest.raises(TimeoutError):
        Admin("127.0.0.1", silent.getsockname()[1], patience=0.1)


@pytest.mark.parametrize("said", [b"\0\0\0\4....", b"\xff\xff\xff\xff....", event(1, ["a list"]), event(1, {"a": 1})])
def test_something_else_on_that_port(said: bytes) -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(said)

    threading.Thread(target=answer, daemon=True).start()
    with listening, pytest.raises((ValueError, OSError)):
        Admin("127.0.0.1", listening.getsockname()[1], patience=1)


def test_the_version_that_a_broker_says(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker()
    monkeypatch.setattr("clusters.reporters.blazingmq.Admin", lambda address: Admin(address, broker.port))
    assert version("127.0.0.1") == 9514
    broker.version = None
    with pytest.raises(ValueError, match="no version"):
        version("127.0.0.1")


def test_on_the_unix_socket_a_broker_that_is_gone_closes_the_connection(tmp_path: Path) -> None:
    path, broker = str(tmp_path / "socket"), FakeBroker()

    @contextmanager
    def asking() -> Iterator[Any]:
        with reporter(broker) as one:
            yield one.answer

    threading.Thread(target=serve, args=(path, asking), daemon=True).start()
    for _ in range(250):
        try:
            assert ask(path, "cluster", 5)["running"] == ["n1", "n2", "n3"]
            break
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.02)
    assert ask(path, "nonsense", 5)["error"] == "unknown question: nonsense"
    broker.hang_up = True
    with pytest.raises(ConnectionError):
        ask(path, "views", 5)
    broker.hang_up = False
    assert [view["scope"] for view in ask(path, "views", 5)["views"]] == ["elector", "q1"]
