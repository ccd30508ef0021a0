"""What a BlazingMQ broker holds to be true, asked over its admin protocol: `python3 -m clusters.reporters.blazingmq`.

A process beside the broker, which asks that broker alone, anew for each answer; one that is paused or dead does not
answer. One command, CLUSTER STATUS, gives what the node believes of the elector, of the primary of each partition, of
the other nodes, and which queues there are; another, what it has stored of each queue.

The protocol, after bmqp_protocol.h and mqba_adminsession: an event is its length (4 bytes, big endian, all of it), its
type, the length of the header in words, the encoding of what follows (JSON), 0; the JSON; 1 to 4 bytes each of which
says how many they are. A heartbeat that asks is answered. Clients say who they are first.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusters.reporters.server import Answer, serve

PORT = 30114
CLUSTER = "splitbrain"
DOMAIN = "splitbrain"
ELECTOR = "elector"  # the scope of the views of who leads the cluster; those of a queue's primary have its name
PATIENCE = 5.0  # seconds that the broker may take for an answer

_CONTROL, _HEARTBEAT, _ALIVE = 1, 11, 12  # types of events
_VERSION, _WORDS, _JSON = 0x40, 2, 0x20
_LONGEST = 1 << 26
_ASKED = re.compile(rb"^(\d\d[A-Z]{3}\d{4}_\d\d:\d\d:\d\d\.\d{3})\d* .*Received command", re.MULTILINE)
_COMMAND = f"ENCODING JSON_COMPACT CLUSTERS CLUSTER {CLUSTER}"
_STATUS, _STORED = f"{_COMMAND} STATUS", f"{_COMMAND} STORAGE DOMAIN {DOMAIN} QUEUE_STATUS"


def event(kind: int, payload: object = None) -> bytes:
    """An event on the wire; without a payload only its header."""
    if payload is None:
        return (8).to_bytes(4, "big") + bytes((_VERSION | kind, _WORDS, 0, 0))
    text = json.dumps(payload).encode()
    padding = 4 - len(text) % 4
    size = (8 + len(text) + padding).to_bytes(4, "big")
    return size + bytes((_VERSION | kind, _WORDS, _JSON, 0)) + text + bytes([padding]) * padding


class Admin:
    """One connection to a broker, as its administrator. Everything raises OSError, or ValueError for nonsense."""

    def __init__(self, address: str, port: int = PORT, patience: float = PATIENCE) -> None:
        self._socket = socket.create_connection((address, port), patience)
        self._stream = self._socket.makefile("rb")
        self._number = 0
        try:
            self.broker = self._introduce()
        except BaseException:
            self.close()
            raise

    def ask(self, command: str) -> str:
        """What the broker answers to a command."""
        self._number += 1
        self._socket.sendall(event(_CONTROL, {"rId": self._number, "adminCommand": {"command": command}}))
        while True:
            said = self._next()
            if said.get("rId") == self._number:
                return str(said["adminCommandResponse"]["text"])

    def close(self) -> None:
        """End the connection."""
        self._stream.close()
        self._socket.close()

    def _introduce(self) -> Mapping[str, Any]:
        """Say who we are; what the broker says of itself."""
        identity = {
            "protocolVersion": 1,
            "sdkVersion": 999999,
            "clientType": "E_TCPADMIN",
            "processName": "splitbrain",
            "pid": 0,
            "sessionId": 1,
            "hostName": "localhost",
            "features": "PROTOCOL_ENCODING:JSON",
            "clusterName": "",
            "clusterNodeId": -1,
            "sdkLanguage": "E_CPP",
        }
        self._socket.sendall(event(_CONTROL, {"clientIdentity": identity}))
        said = self._next()
        if "brokerResponse" not in said:
            raise ValueError(f"not a broker's answer: {str(said)[:200]}")
        response: Mapping[str, Any] = said["brokerResponse"]
        return response

    def _next(self) -> dict[str, Any]:
        while True:
            head = self._exactly(8)
            size, kind = int.from_bytes(head[:4], "big"), head[4] & 0x3F
            if not 8 <= size <= _LONGEST:
                raise ValueError(f"an event of {size} bytes")
            body = self._exactly(size - 8)
            if kind == _HEARTBEAT:
                self._socket.sendall(event(_ALIVE))
            elif kind == _CONTROL and body and 1 <= body[-1] <= 4:
                said = json.loads(body[: -body[-1]])
                if not isinstance(said, dict):
                    raise ValueError("not an object")
                return said

    def _exactly(self, count: int) -> bytes:
        data = self._stream.read(count)
        if len(data) != count:
            raise ConnectionError("the broker closed the connection")
        return data


def version(address: str) -> int:
    """What a broker says of its version: 9514 for 0.95.14; 999999 where its builder gave it none."""
    admin = Admin(address)
    try:
        return int(admin.broker["brokerVersion"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"no version: {error}") from None
    finally:
        admin.close()


class Reporter:
    """Answers to the agent's questions, of the broker on this node. Raises OSError, ValueError."""

    def __init__(self, node: str, log: str, address: str = "127.0.0.1", port: int = PORT) -> None:
        self._node, self._log, self._address, self._port = node, Path(log), address, port
        self._admin: Admin | None = None

    def answer(self, question: str) -> dict[str, Any]:
        """`views`: of the elector and of each queue. `cluster`: which nodes are available, and why it is not ready.
        `clock`: the broker's wall clock."""
        try:
            return {"process": "broker", **self._answer(question)}
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            self.close()
            raise ValueError(f"not the status of a cluster: {error!r}") from None
        except (OSError, ValueError):
            self.close()
            raise

    def _answer(self, question: str) -> dict[str, Any]:
        if question == "views":
            asked = time.monotonic_ns()
            status = self._ask(_STATUS)["clusterStatus"]
            answered = time.monotonic_ns()
            # of queues that hold nothing it says nothing; and that it knows no such domain, where no queue is
            stored = self._ask(_STORED).get("storageContent", {}) if status["queuesInfo"].get("storages") else {}
            return {"views": views(status, stored, self._node, asked, answered)}
        if question == "cluster":
            status = self._ask(_STATUS)["clusterStatus"]
            return {"running": available(status), "wrong": unready(status)}
        if question == "clock":
            return {"os": self._clock()}
        return {"error": f"unknown question: {question}"}

    def _clock(self) -> int:
        """The broker's wall clock, ns since 1970, by the stamp of the line that it logs of our question."""
        before = self._log.stat().st_size
        self._ask(_STATUS)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with self._log.open("rb") as log:
                log.seek(before)
                if (line := _ASKED.search(log.read())) is not None:
                    stamp = datetime.strptime(line[1].decode(), "%d%b%Y_%H:%M:%S.%f").replace(tzinfo=UTC)
                    return round(stamp.timestamp() * 1000) * 1_000_000
            time.sleep(0.005)
        raise ValueError("the broker logged nothing of our question")

    def close(self) -> None:
        """End the connection to the broker, if there is one."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _ask(self, command: str) -> dict[str, Any]:
        if self._admin is None:
            self._admin = Admin(self._address, self._port)
        result: dict[str, Any] = json.loads(self._admin.ask(command))
        return result


def views(
    status: Mapping[str, Any], stored: Mapping[str, Any], node: str, asked: int, answered: int
) -> list[dict[str, Any]]:
    """What the node's own status says of who leads, and what it has stored, as the agent hands it on.

    A queue's leader is the primary of its partition, once that is active; its term is the primary's lease.
    """
    elector = status["electorInfo"]
    times = {"asked": asked, "answered": answered}
    seen = [
        {
            "scope": ELECTOR,
            "role": elector["electorState"].lower(),
            "term": elector["leaderMessageSequence"]["electorTerm"],
            "leader": _name(elector.get("leaderNode")),
            "status": elector["leaderStatus"].lower(),
            **times,
        }
    ]
    partitions = status["partitionsInfo"]["partitions"]
    messages = {storage["queueUri"]: storage["numMessages"] for storage in stored.get("storages", ())}
    members = [_name(other["description"]) for other in status["nodeStatuses"]["nodes"]]
    for storage in status["queuesInfo"].get("storages", ()):
        partition = partitions[storage["partitionId"]]
        primary, active = _name(partition.get("primaryNode")), partition["primaryStatus"] == "ACTIVE"
        role = "follower" if primary != node else "leader" if active else "passive"
        seen.append(
            {
                "scope": storage["queueUri"].rpartition("/")[2],
                "role": role,
                "term": partition["primaryLeaseId"],
                "leader": primary if active else "",
                "members": members,
                "available": node in available(status),
                "ready": messages.get(storage["queueUri"], 0),
                "unacked": 0,  # what is out with consumers is counted with the rest until it is confirmed
                **times,
            }
        )
    return seen


def available(status: Mapping[str, Any]) -> list[str]:
    """The nodes that this one holds to be available."""
    return [_name(node["description"]) for node in status["nodeStatuses"]["nodes"] if node["status"] == "E_AVAILABLE"]


def unready(status: Mapping[str, Any]) -> str | None:
    """Why the cluster is not ready, as this node sees it: it wants an active leader and an active primary of each
    partition."""
    elector, partitions = status["electorInfo"], status["partitionsInfo"]["partitions"]
    if elector["leaderStatus"] != "ACTIVE":
        return f"its leader is {_name(elector.get('leaderNode')) or 'nobody'}, {elector['leaderStatus'].lower()}"
    for number, partition in enumerate(partitions):
        if partition["primaryStatus"] != "ACTIVE":
            primary = _name(partition.get("primaryNode")) or "nobody"
            return f"the primary of partition {number} is {primary}, {partition['primaryStatus'].lower()}"
    return None if partitions else "it knows of no partition"


def _name(description: str | None) -> str:
    """A node's name from how the broker describes it: "[n1, 1]"; empty for nobody."""
    name = (description or "").strip("[] ").partition(",")[0].strip()
    return "" if name.startswith("**") else name


@contextmanager
def _asking(node: str, log: str) -> Iterator[Answer]:
    reporter = Reporter(node, log)
    try:
        yield reporter.answer
    finally:
        reporter.close()


if __name__ == "__main__":
    serve(sys.argv[2], lambda: _asking(sys.argv[1], sys.argv[3]))
