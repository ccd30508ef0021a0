"""What is told of an etcd member, by what its HTTP server says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from clusters.reporters.etcd import Member, cluster, transfer, view

ME, OTHER = "2e1259d415f2a040", "8e9e05c52164694d"


@contextmanager
def member(said: Mapping[str, Any]) -> Iterator[Member]:
    """A member that says that of each path, or what that makes of the request; a status alone where it has nothing to
    say."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = said[self.path]
            if callable(answer):
                answer = answer(json.loads(asked))
            body = json.dumps({} if isinstance(answer, int) else answer).encode()
            self.send_response(answer if isinstance(answer, int) else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_request(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        one = Member(port=server.server_address[1], patience=2)
        try:
            yield one
        finally:
            one.close()
            server.shutdown()


def raft(state: str, lead: str, term: int = 4) -> dict[str, Any]:
    status = {"id": ME, "term": term, "vote": ME, "commit": 9, "lead": lead, "raftState": state, "applied": 9}
    return {"/debug/vars": {"cmdline": ["etcd"], "raft.status": status}}


@pytest.mark.parametrize(
    ("state", "lead", "role"),
    [
        ("StateLeader", ME, "leader"),
        ("StateFollower", OTHER, "follower"),
        ("StateFollower", "0", "none"),
        ("StateCandidate", "0", "candidate"),
        ("StatePreCandidate", "0", "candidate"),
        ("StateOfTomorrow", "0", "none"),
    ],
)
def test_what_it_believes(state: str, lead: str, role: str) -> None:
    before = time.monotonic_ns()
    with member(raft(state, lead)) as one:
        said = view(one)
    asked, answered = said.pop("asked"), said.pop("answered")
    assert said == {"scope": "etcd", "role": role, "term": 4}
    assert before <= asked < answered <= time.monotonic_ns()


MEMBERS = {
    "members": [
        {"ID": "9", "name": "n2", "peerURLs": ["http://n2:2380"], "clientURLs": ["http://n2:2379"]},
        {"ID": "5", "name": "n1", "peerURLs": ["http://n1:2380"], "clientURLs": ["http://n1:2379"]},
        {"ID": "7", "name": "n3", "peerURLs": ["http://n3:2380"]},  # has not come up yet
    ]
}


@pytest.mark.parametrize(("lead", "running"), [(OTHER, ["n1", "n2"]), ("0", [])])
def test_who_runs_as_far_as_it_knows(lead: str, running: list[str]) -> None:
    with member({**raft("StateFollower", lead), "/v3/cluster/member/list": MEMBERS}) as one:
        assert cluster(one) == {"running": running}


def test_a_member_that_starts_or_fails_is_not_answered_for() -> None:
    with member({"/debug/vars": {"raft.status": None}}) as one, pytest.raises(ValueError, match="not run its Raft"):
        view(one)
    with member({"/debug/vars": 500}) as one, pytest.raises(ValueError, match="/debug/vars: 500"):
        view(one)
    with pytest.raises(OSError):
        view(Member(port=1))


def leading(moves: bool = True) -> tuple[dict[str, Any], list[str]]:
    """What n1 says, which leads term 4, and then whoever it was told to hand over to term 5; and who that was."""
    told: list[str] = []
    progress = {str(number): {"match": 10 * number, "next": 99, "state": "StateReplicate"} for number in (1, 2, 3)}
    status = {"id": "1", "term": 4, "lead": "1", "raftState": "StateLeader", "progress": progress}
    members = [{"ID": str(number), "name": f"n{number}", "clientURLs": ["http"]} for number in (1, 2, 3)]

    def move(asked: Mapping[str, Any]) -> dict[str, Any] | int:
        told.append(asked["targetID"])
        if not moves:
            return 504
        status.update(term=5, lead=asked["targetID"], raftState="StateFollower")
        return {}

    path = "/v3/maintenance/transfer-leadership"
    return {"/debug/vars": {"raft.status": status}, "/v3/cluster/member/list": {"members": members}, path: move}, told


@pytest.mark.parametrize(("to", "target"), [("", "3"), ("n2", "2"), ("n3", "3")])
def test_it_hands_over_to_the_one_that_is_named_or_has_the_most(to: str, target: str) -> None:
    said, told = leading()
    with member(said) as one:
        done = [f"n1 led term 4, n{target} leads term 5"]
        assert transfer(one, to) == {"done": done, "failed": []}
        assert told == [target]
        assert transfer(one, to) == {"done": [], "failed": []}, "it leads nothing any more"


@pytest.mark.parametrize("to", ["n1", "n9"])
def test_it_hands_over_to_nobody_who_is_itself_or_not_there(to: str) -> None:
    said, told = leading()
    with member(said) as one:
        assert transfer(one, to) == {"done": [], "failed": []}
    assert told == []


def test_one_that_could_not_hand_over_may_be_asked_again() -> None:
    said, _ = leading(moves=False)
    with member(said) as one:
        assert transfer(one, "n2") == {"done": [], "failed": ["/v3/maintenance/transfer-leadership: 504 {}"]}
