"""What an etcd member holds to be true of itself, asked over HTTP: `python3 -m clusters.reporters.etcd SOCKET`.

A process beside etcd, which asks that member alone, anew for each answer; one that is paused or dead does not answer.

Role and term come out of one state of the member's Raft node, as /debug/vars shows it. The status that the API gives
(/v3/maintenance/status) does not do: there the leader is what Raft says, and the term that of the last entry applied,
so that a new leader shows itself for a moment with its predecessor's term, that is as a second leader in it.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from clusters.reporters.server import Answer, serve

PORT = 2379
SCOPE = "etcd"  # of its views: there is one leader for all keys
PATIENCE = 2.0  # seconds that etcd may take for an answer
HANDED = 15.0  # that it may take to hand over
NOBODY = "0"
HAND_OVER = "transfer"  # a question, with a tab and to whom, if that matters

_ROLES = {
    "StateLeader": "leader", "StateFollower": "follower",
    "StateCandidate": "candidate", "StatePreCandidate": "candidate",
}  # fmt: skip


class Member:
    """One connection to one member. Everything raises OSError, or ValueError for nonsense."""

    def __init__(self, host: str = "127.0.0.1", port: int = PORT, patience: float = PATIENCE) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=patience)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def raft(self) -> Mapping[str, Any]:
        """One state of its Raft node: id, term, lead (hex; 0: nobody), raftState, applied..."""
        found = self.ask("GET", "/debug/vars").get("raft.status")
        if not isinstance(found, dict):
            raise ValueError("etcd does not run its Raft node yet")
        return found

    def members(self) -> dict[int, str]:
        """The members that have come up and said so, as this one knows: id -> name."""
        found = self.ask("POST", "/v3/cluster/member/list", {}).get("members", [])
        return {int(member["ID"]): member["name"] for member in found if member.get("clientURLs")}

    def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """What it answers to one request, which is JSON."""
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body))
            answer = self._connection.getresponse()
            said = answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{path}: {error or type(error).__name__}") from None
        if answer.status != http.client.OK:
            raise ValueError(f"{path}: {answer.status} {said[:200].decode(errors='replace')}")
        found: dict[str, Any] = json.loads(said)
        return found


def view(member: Member) -> dict[str, Any]:
    """What it believes of who leads."""
    asked = time.monotonic_ns()
    raft = member.raft()
    answered = time.monotonic_ns()
    role = _ROLES.get(raft["raftState"], "none")
    if role == "follower" and raft["lead"] == NOBODY:
        role = "none"
    return {"scope": SCOPE, "role": role, "term": raft["term"], "asked": asked, "answered": answered}


def cluster(member: Member) -> dict[str, Any]:
    """The members that have come up, if there is a leader to have told it of them."""
    known = member.members()
    led = member.raft()["lead"] != NOBODY
    return {"running": sorted(known.values()) if led else []}


def transfer(member: Member, to: str) -> dict[str, Any]:
    """Have it hand over what it leads, to the member of that name ("": to whoever has most of the log). What came of
    that: {done: in words, failed: why it may be asked for again}; nothing of either, where there is nothing to do."""
    before = member.raft()
    names, own = member.members(), int(before["id"], 16)
    others = {number: one for key, one in before.get("progress", {}).items() if (number := int(key, 16)) != own}
    able = [number for number in others if not to or names.get(number) == to]
    if _ROLES.get(before["raftState"]) != "leader" or not able:
        return {"done": [], "failed": []}
    most = max(able, key=lambda number: int(others[number]["match"]))
    try:
        member.ask("POST", "/v3/maintenance/transfer-leadership", {"targetID": str(most)})
        after = member.raft()
    except (OSError, ValueError) as error:
        return {"done": [], "failed": [str(error)]}
    now = names.get(int(after["lead"], 16), "nobody")
    return {"done": [f"{names.get(own)} led term {before['term']}, {now} leads term {after['term']}"], "failed": []}


@contextmanager
def asking() -> Iterator[Answer]:
    """Answers for the member on this node."""
    with closing(Member()) as member:

        def answer(question: str) -> dict[str, Any]:
            if question == "views":
                return {"process": "broker", "views": [view(member)]}
            if question == "cluster":
                return {"process": "broker", **cluster(member)}
            if question.startswith(HAND_OVER):
                with closing(Member(patience=HANDED)) as patient:
                    return {"process": "broker", **transfer(patient, question.removeprefix(HAND_OVER).strip())}
            raise ValueError(f"unknown question: {question}")

        yield answer


if __name__ == "__main__":
    serve(sys.argv[1], asking)
