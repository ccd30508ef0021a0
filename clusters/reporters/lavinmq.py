"""What a LavinMQ node holds to be true, and what its etcd shows of all: `python3 -m clusters.reporters.lavinmq`.

A process beside the broker. The node's own belief is asked anew for each answer, on the unix socket that its control
program uses: 200 it leads, 503 it follows; refused, and it does neither. Nothing else will do: followers pass clients
and their HTTP requests on to the leader.

All that is under the brokers' prefix in etcd is watched for the whole run, each change once: candidates for the lead
(the first of them to have come leads; the revision that created its key is its term) and the in-sync set. What the
local etcd does not know yet, such as the key of a node that was elected on the other side of a partition, is not known
here either: the term is then missing.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from clusters.reporters.etcd import HAND_OVER, HANDED, NOBODY, PORT, Member
from clusters.reporters.server import Answer, serve

PREFIX = "lavinmq"
LEADER, IN_SYNC = f"{PREFIX}/leader/", f"{PREFIX}/isr"
SECRET = f"{PREFIX}/clustering_secret"
FOUNDED = "founded"  # a question that has an answer once etcd serves, and the brokers' secret is in it
ALL = "*"  # the scope of views that hold for every queue
CONTROL = "/tmp/lavinmqctl.sock"
PATIENCE = 2.0  # seconds that the broker may take to say whether it leads
_LOOK = 0.05  # seconds between looks for who leads next
_BY_AGE = {"sort_order": "ASCEND", "sort_target": "CREATE"}
_AGAIN = 0.5  # seconds before a watch that was lost is begun again


class Elections:
    """What etcd's events come to. `names`: of each node, by the address that it gives the others. `noted`: what
    changed, in order: {"what", "revision", "words"}."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._lock = threading.Lock()
        self._candidates: dict[str, tuple[int, str]] = {}  # key -> the revision that created it, node
        self._terms: dict[str, int] = {}  # node -> the newest revision that made it a candidate
        self.leader: str | None = None
        self.in_sync: tuple[str, ...] = ()
        self.noted: list[dict[str, Any]] = []
        self.revision = 0  # the newest seen

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of a watch, as the JSON gateway has it."""
        entry = event["kv"]
        key, revision = _text(entry["key"]), int(entry["mod_revision"])
        value = None if event.get("type") == "DELETE" else _text(entry.get("value", ""))
        with self._lock:
            self.revision = max(self.revision, revision)
            if key == IN_SYNC:
                self.in_sync = tuple(sorted((value or "").split(","))) if value else ()
                self._note("in-sync", revision, " ".join(self.in_sync) or "nobody")
            elif key.startswith(LEADER):
                self._candidate(key, value, int(entry.get("create_revision", 0)))
                first = min(self._candidates.values(), default=None)
                if (first[1] if first else None) != self.leader or (first and first[0] == revision):
                    self.leader = first[1] if first else None
                    self._note("elected", revision, f"{first[1]}, term {first[0]}" if first else "nobody")

    def term(self, node: str) -> int | None:
        """That of the node's latest candidacy."""
        return self._terms.get(node)

    def _candidate(self, key: str, value: str | None, created: int) -> None:
        if value is None:
            self._candidates.pop(key, None)
        else:
            node = self._called(value)
            self._candidates[key] = created, node
            self._terms[node] = max(created, self._terms.get(node, 0))

    def name(self, entry: Mapping[str, Any]) -> str:
        """Whose key a candidate's is."""
        return self._called(_text(entry["value"]))

    def _called(self, value: str) -> str:
        address = value.removeprefix("tcp://").rpartition(":")[0]
        return self._names.get(address, address)

    def _note(self, what: str, revision: int, words: str) -> None:
        self.noted.append({"what": what, "revision": revision, "words": words})


def watch(elections: Elections, host: str = "127.0.0.1", port: int = PORT) -> None:
    """Follow all changes from the beginning until the connection is lost. Raises OSError, ValueError."""
    create = {"key": _b64(f"{PREFIX}/"), "range_end": _b64(f"{PREFIX}0"), "start_revision": elections.revision + 1}
    with closing(http.client.HTTPConnection(host, port)) as connection:
        try:
            connection.request("POST", "/v3/watch", json.dumps({"create_request": create}))
            answer = connection.getresponse()
            while line := answer.readline():
                said = json.loads(line)
                result = said.get("result")
                if result is None:
                    raise ValueError(f"watch: {said.get('error')}")
                if result.get("compact_revision"):  # what is older is forgotten
                    elections.revision = int(result["compact_revision"]) - 1
                    return
                for event in result.get("events", ()):
                    elections.take(event)
        except http.client.HTTPException as error:
            raise ConnectionError(f"watch: {error or type(error).__name__}") from None


def first(member: Member) -> Mapping[str, Any] | None:
    """The key of the candidate that has come first, which leads; None where nobody stands."""
    asked = {"key": _b64(LEADER), "range_end": _b64(LEADER[:-1] + "0"), "limit": 1, **_BY_AGE}
    found: list[dict[str, Any]] = member.ask("POST", "/v3/kv/range", asked).get("kvs", [])
    return found[0] if found else None


def found(member: Member) -> None:
    """Have the brokers' secret in etcd before any of them looks for it. Of two that find none, as they may when all
    start at once, each makes one; who leads with the one that is lost lets nobody in. Raises OSError, ValueError."""
    if member.raft()["lead"] == NOBODY:
        raise ValueError("etcd knows no leader")
    nothing = {"key": _b64(SECRET), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
    put = {"key": _b64(SECRET), "value": _b64(_b64(secrets.token_hex(16)))}
    member.ask("POST", "/v3/kv/txn", {"compare": [nothing], "success": [{"request_put": put}]})


def _term(entry: Mapping[str, Any]) -> int:
    return int(entry["create_revision"])


def keep_watching(elections: Elections) -> None:
    """For ever."""
    while True:
        with contextlib.suppress(OSError, ValueError):
            watch(elections)
        time.sleep(_AGAIN)  # its etcd is down, or has no leader: what happens meanwhile is told when it is back


def control(path: str, request: str, patience: float = PATIENCE) -> tuple[int, bytes]:
    """What the broker itself answers: status and body. Raises OSError (time-outs too), or ValueError for nonsense.

    On a connection of its own, since one that was accepted by a follower goes on being answered as by a follower.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience)
        connection.connect(path)
        connection.sendall(f"GET {request} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = http.client.HTTPResponse(connection)
        try:
            answer.begin()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{request}: {error or type(error).__name__}") from None
        finally:
            answer.close()


class Node:
    """One node, asked for its views. Everything raises OSError or ValueError where it does not answer."""

    def __init__(self, name: str, nodes: Sequence[str], elections: Elections, path: str = CONTROL) -> None:
        self._name, self._nodes, self._elections, self._path = name, nodes, elections, path

    def transfer(self, member: Member) -> dict[str, Any]:
        """Take the lead from it in etcd, whose words those of `etcd.transfer` are: there its lease is revoked, and with
        that its key is gone. Nothing is asked of the broker."""
        before = first(member)
        if before is None or self._elections.name(before) != self._name:
            return {"done": [], "failed": []}
        member.ask("POST", "/v3/lease/revoke", {"ID": before["lease"]})
        end = time.monotonic() + HANDED
        while (after := first(member)) is None and time.monotonic() < end:
            time.sleep(_LOOK)
        leads = "nobody leads" if after is None else f"{self._elections.name(after)} leads term {_term(after)}"
        return {"done": [f"{self._name} led term {_term(before)}, {leads}"], "failed": []}

    def view(self) -> dict[str, Any]:
        """What it believes of itself."""
        asked = time.monotonic_ns()
        status, _ = control(self._path, "/api/nodes")
        answered = time.monotonic_ns()
        if status not in (http.client.OK, http.client.SERVICE_UNAVAILABLE):
            raise ValueError(f"/api/nodes: {status}")
        leads = status == http.client.OK
        term = self._elections.term(self._name) if leads else None
        role = "leader" if leads else "follower"
        return {"scope": ALL, "role": role, "term": term, "asked": asked, "answered": answered}

    def queues(self) -> list[dict[str, Any]]:
        """Its view with what its queues hold, if it leads; else whether it follows in step."""
        view = {**self.view(), "in_sync": list(self._elections.in_sync), "members": list(self._nodes)}
        if view["role"] != "leader":
            return [{**view, "leader": self._elections.leader or "", "ready": 0, "unacked": 0}]
        _, body = control(self._path, "/api/queues")
        found = json.loads(body)
        return [
            {
                **view, "scope": queue["name"], "leader": self._name,
                "ready": queue.get("ready", queue.get("messages_ready")),
                "unacked": queue.get("unacked", queue.get("messages_unacknowledged")),
            }
            for queue in (found["items"] if isinstance(found, dict) else found)
        ]  # fmt: skip


@contextmanager
def asking(node: Node, elections: Elections) -> Iterator[Answer]:
    """Answers for the broker on this node. Each who asks is told once of each change in etcd."""
    told = 0

    def answer(question: str) -> dict[str, Any]:
        nonlocal told
        if question == "views":
            try:
                views = [node.view()]
            except (OSError, ValueError):
                views = []  # it says nothing; what etcd shows is told all the same
            noted, told = elections.noted[told:], len(elections.noted)
            return {"process": "broker", "views": views, "noted": noted}
        if question == "queues":
            return {"process": "broker", "views": node.queues()}
        if question == "cluster":
            return {"process": "broker", "running": list(elections.in_sync) if elections.leader else []}
        if question.startswith(HAND_OVER):
            with closing(Member()) as member:
                return {"process": "broker", **node.transfer(member)}
        if question == FOUNDED:
            with closing(Member()) as member:
                found(member)
            return {"process": "etcd"}
        raise ValueError(f"unknown question: {question}")

    yield answer


def _text(value: str) -> str:
    return base64.b64decode(value).decode()


def _b64(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


if __name__ == "__main__":
    _, path, name, *nodes = sys.argv  # each of these NAME=ADDRESS
    addresses = dict(node.split("=", 1) for node in nodes)
    seen = Elections({address: node for node, address in addresses.items()})
    threading.Thread(target=keep_watching, args=(seen,), daemon=True).start()
    serve(path, lambda: asking(Node(name, [*addresses], seen), seen))
