"""What is told of a LavinMQ node, by what its socket says and what etcd shows."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clusters.reporters.lavinmq import Elections, Node, asking, found, watch
from tests.reporters.test_etcd import member

NODES = ("n1", "n2", "n3")
NAMES = {node: node for node in NODES}


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def put(key: str, value: str, revision: int, created: int | None = None) -> dict[str, Any]:
    entry = {"key": b64(key), "value": b64(value), "mod_revision": str(revision)}
    return {"kv": {**entry, "create_revision": str(created or revision)}}


def delete(key: str, revision: int) -> dict[str, Any]:
    return {"type": "DELETE", "kv": {"key": b64(key), "mod_revision": str(revision)}}


def candidate(lease: str, node: str, revision: int) -> dict[str, Any]:
    return put(f"lavinmq/leader/{lease}", f"tcp://{node}:5679", revision)


def noted(elections: Elections) -> list[tuple[str, int, str]]:
    return [(one["what"], one["revision"], one["words"]) for one in elections.noted]


def test_nodes_that_know_each_other_by_address_are_called_by_name() -> None:
    elections = Elections({"10.0.0.2": "n2", "[fd00::3]": "n3"})
    for event in (candidate("aa", "10.0.0.2", 3), delete("lavinmq/leader/aa", 4), candidate("bb", "[fd00::3]", 5)):
        elections.take(event)
    assert [words for _, _, words in noted(elections)] == ["n2, term 3", "nobody", "n3, term 5"]
    assert (elections.leader, elections.term("n2"), elections.term("n3")) == ("n3", 3, 5)


def test_the_first_candidate_leads_and_its_keys_revision_is_its_term() -> None:
    elections = Elections(NAMES)
    for event in (
        candidate("aa", "n2", 3),
        put("lavinmq/isr", "n2", 4),
        candidate("bb", "n1", 5),
        candidate("cc", "n3", 6),
        put("lavinmq/isr", "n2,n1", 7, created=4),
        put("lavinmq/clustering_secret", "xyz", 8),
        delete("lavinmq/leader/aa", 9),
        candidate("dd", "n2", 10),
        delete("lavinmq/leader/bb", 11),
        delete("lavinmq/leader/cc", 12),
        delete("lavinmq/leader/dd", 13),
        delete("lavinmq/isr", 14),
    ):
        elections.take(event)
    assert noted(elections) == [
        ("elected", 3, "n2, term 3"),
        ("in-sync", 4, "n2"),
        ("in-sync", 7, "n1 n2"),
        ("elected", 9, "n1, term 5"),
        ("elected", 11, "n3, term 6"),
        ("elected", 12, "n2, term 10"),
        ("elected", 13, "nobody"),
        ("in-sync", 14, "nobody"),
    ]
    assert [elections.term(node) for node in NODES] == [5, 10, 6], (
        "a key that is gone was its owner's term all the same"
    )
    assert elections.revision == 14


def test_a_candidate_that_comes_back_at_once_has_another_term() -> None:
    elections = Elections(NAMES)
    elections.take(candidate("aa", "n1", 3))
    elections.take(delete("lavinmq/leader/aa", 4))
    elections.take(candidate("bb", "n1", 5))
    assert noted(elections) == [
        ("elected", 3, "n1, term 3"), ("elected", 4, "nobody"), ("elected", 5, "n1, term 5"),
    ]  # fmt: skip


# ---- the broker's socket


@contextmanager
def broker(path: Path, answers: dict[str, tuple[int, Any] | None]) -> Iterator[None]:
    """A server on a unix socket: for each path, status and body; None: it takes the question and says nothing."""
    held: list[socket.socket] = []

    def serve(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            request = connection.recv(4096).decode().split()[1]
            if (said := answers[request]) is None:
                held.append(connection)
                continue
            status, body = said
            text = json.dumps(body)
            connection.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
            connection.close()

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(("status", "role", "term"), [(200, "leader", 3), (503, "follower", None)])
def test_what_it_believes(tmp_path: Path, status: int, role: str, term: int | None) -> None:
    elections = Elections(NAMES)
    elections.take(candidate("aa", "n2", 3))
    with broker(tmp_path / "s", {"/api/nodes": (status, [])}):
        view = Node("n2", NODES, elections, str(tmp_path / "s")).view()
    assert view.pop("asked") < view.pop("answered")
    assert view == {"scope": "*", "role": role, "term": term}


def test_a_leader_whose_key_this_etcd_does_not_know_has_no_term(tmp_path: Path) -> None:
    with broker(tmp_path / "s", {"/api/nodes": (200, [])}):
        assert Node("n2", NODES, Elections(NAMES), str(tmp_path / "s")).view()["term"] is None


def test_one_that_is_down_paused_or_odd_is_not_answered_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        Node("n2", NODES, Elections(NAMES), str(tmp_path / "none")).view()
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(tmp_path / "stale"))
    with pytest.raises(ConnectionRefusedError):
        Node("n2", NODES, Elections(NAMES), str(tmp_path / "stale")).view()
    with broker(tmp_path / "odd", {"/api/nodes": (500, "")}), pytest.raises(ValueError, match="/api/nodes: 500"):
        Node("n2", NODES, Elections(NAMES), str(tmp_path / "odd")).view()
    monkeypatch.setattr("clusters.reporters.lavinmq.control.__defaults__", (0.1,))
    with broker(tmp_path / "paused", {"/api/nodes": None}), pytest.raises(TimeoutError):
        Node("n2", NODES, Elections(NAMES), str(tmp_path / "paused")).view()


@pytest.mark.parametrize("names", [("ready", "unacked"), ("messages_ready", "messages_unacknowledged")])
def test_what_its_queues_hold(tmp_path: Path, names: tuple[str, str]) -> None:
    elections = Elections(NAMES)
    elections.take(candidate("aa", "n2", 3))
    elections.take(put("lavinmq/isr", "n3,n2", 4))
    queues = [{"name": "a", names[0]: 5, names[1]: 1}]
    with broker(tmp_path / "s", {"/api/nodes": (200, []), "/api/queues": (200, queues)}):
        (led,) = Node("n2", NODES, elections, str(tmp_path / "s")).queues()
    picked = {name: led[name] for name in ("scope", "role", "term", "leader", "ready", "unacked", "in_sync", "members")}
    assert picked == {
        "scope": "a", "role": "leader", "term": 3, "leader": "n2", "ready": 5, "unacked": 1,
        "in_sync": ["n2", "n3"], "members": ["n1", "n2", "n3"],
    }  # fmt: skip
    with broker(tmp_path / "f", {"/api/nodes": (503, "")}):
        (followed,) = Node("n3", NODES, elections, str(tmp_path / "f")).queues()
    assert (followed["scope"], followed["role"], followed["leader"]) == ("*", "follower", "n2")


def test_each_who_asks_is_told_of_each_change_once_also_of_a_broker_that_is_down(tmp_path: Path) -> None:
    elections = Elections(NAMES)
    node = Node("n1", NODES, elections, str(tmp_path / "none"))
    elections.take(candidate("aa", "n1", 3))
    with asking(node, elections) as one:
        assert one("views") == {
            "process": "broker", "views": [], "noted": [{"what": "elected", "revision": 3, "words": "n1, term 3"}],
        }  # fmt: skip
        assert one("views")["noted"] == []
        elections.take(put("lavinmq/isr", "n1", 4))
        assert [note["what"] for note in one("views")["noted"]] == ["in-sync"]
        assert one("cluster") == {"process": "broker", "running": ["n1"]}
        with asking(node, elections) as other:
            assert [note["what"] for note in other("views")["noted"]] == ["elected", "in-sync"]
        with pytest.raises(FileNotFoundError):
            one("queues")
        with pytest.raises(ValueError, match="unknown question"):
            one("clock")


# ---- etcd's watch


@contextmanager
def etcd(lines: list[dict[str, Any]], asked: list[Any]) -> Iterator[int]:
    """A server that says those lines, a chunk each, and hangs up."""

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as stream:
            while b"Content-Length: " not in (head := stream.readline()):
                pass
            length = int(head.split()[1])
            while stream.readline().strip():
                pass
            asked.append(json.loads(stream.read(length)))
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for line in lines:
                text = json.dumps(line).encode() + b"\n"
                connection.sendall(b"%x\r\n%s\r\n" % (len(text), text))
            connection.sendall(b"0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def test_a_watch_that_is_begun_again_goes_on_where_it_was() -> None:
    elections = Elections(NAMES)
    asked: list[Any] = []
    said: list[dict[str, Any]] = [
        {"result": {"header": {}, "created": True}},
        {"result": {"header": {}, "events": [candidate("aa", "n1", 3), put("lavinmq/isr", "n1", 4)]}},
    ]
    with etcd(said, asked) as port:
        watch(elections, port=port)
    with etcd([], asked) as port:
        watch(elections, port=port)
    assert [request["create_request"] for request in asked] == [
        {"key": b64("lavinmq/"), "range_end": b64("lavinmq0"), "start_revision": 1},
        {"key": b64("lavinmq/"), "range_end": b64("lavinmq0"), "start_revision": 5},
    ]
    assert noted(elections) == [("elected", 3, "n1, term 3"), ("in-sync", 4, "n1")]


def test_a_watch_of_what_is_forgotten_goes_on_from_what_is_not() -> None:
    elections = Elections(NAMES)
    with etcd([{"result": {"canceled": True, "compact_revision": "40"}}], []) as port:
        watch(elections, port=port)
    assert elections.revision == 39
    with (
        etcd([{"error": {"message": "etcdserver: no leader"}}], []) as port,
        pytest.raises(ValueError, match="no leader"),
    ):
        watch(elections, port=port)


@pytest.mark.parametrize("others", [True, False])
def test_the_lead_is_taken_from_it_by_its_lease(monkeypatch: pytest.MonkeyPatch, others: bool) -> None:
    monkeypatch.setattr("clusters.reporters.lavinmq.HANDED", 0.2)
    keys = [
        {"key": b64(f"lavinmq/leader/{lease}"), "value": b64(f"tcp://{node}:5679"), "lease": lease,
         "create_revision": str(created)}
        for lease, node, created in [("77", "n2", 5), ("78", "n3", 8)][: 2 if others else 1]
    ]  # fmt: skip
    revoked: list[str] = []

    def revoke(asked: dict[str, Any]) -> dict[str, Any]:
        revoked.append(asked["ID"])
        keys[:] = [key for key in keys if key["lease"] != asked["ID"]]
        return {}

    with member({"/v3/kv/range": lambda asked: {"kvs": keys[: asked["limit"]]}, "/v3/lease/revoke": revoke}) as etcd:
        assert Node("n3", NODES, Elections(NAMES)).transfer(etcd) == {"done": [], "failed": []}, "it only stands by"
        now = "n3 leads term 8" if others else "nobody leads"
        assert Node("n2", NODES, Elections(NAMES)).transfer(etcd) == {"done": [f"n2 led term 5, {now}"], "failed": []}
        assert revoked == ["77"]


def test_the_brokers_secret_is_there_before_any_of_them_looks() -> None:
    asked: list[dict[str, Any]] = []

    def txn(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {}

    with member({"/debug/vars": {"raft.status": {"lead": "1"}}, "/v3/kv/txn": txn}) as etcd:
        found(etcd)
        found(etcd)
    key = b64("lavinmq/clustering_secret")
    compare = {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
    assert [request["compare"] for request in asked] == [[compare], [compare]], "whoever is first makes it"
    puts = [request["success"][0]["request_put"] for request in asked]
    assert [put["key"] for put in puts] == [key, key]
    assert len({put["value"] for put in puts}) == 2
    with member({"/debug/vars": {"raft.status": {"lead": "0"}}}) as etcd, pytest.raises(ValueError, match="no leader"):
        found(etcd)
