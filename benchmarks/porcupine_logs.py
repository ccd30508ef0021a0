"""The logs that Porcupine tests itself with: as they lie in its Go module, and as operations.

An event is a dictionary with process, type (invoke, ok, fail, info), f, value, and key where there is one.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from checkers.linearizability.calls import Calls, F, calls
from checkers.linearizability.porcupine import build

Event = dict[str, Any]

_ETCD = re.compile(r"^INFO\s+jepsen\.util\s+-\s+(\d+)\s+:(invoke|ok|fail|info)\s+:(read|write|cas)\s+(.*)$")
_KV = re.compile(r'^\{:process (\d+), :type :(\w+), :f :(\w+), :key "(.*?)", :value (nil|".*")\}$')
_EXPECTED = re.compile(r'check(Jepsen|Kv)\(t, "?([\w-]+)"?, (true|false)')


def module() -> Path:
    """The folder of Porcupine's own sources. Raises build.Unavailable where there is no Go."""
    go = build.toolchain()
    if go is None:
        raise build.Unavailable("Porcupine's own logs come with its Go module, and there is no Go here")
    command = [go[0], "list", "-m", "-f", "{{.Dir}}", "github.com/anishathalye/porcupine"]
    done = subprocess.run(command, cwd=build.SOURCES, capture_output=True, text=True)
    if not done.stdout.strip():
        raise build.Unavailable(f"Porcupine's module is not here: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def recorded(folder: Path) -> Iterator[tuple[str, list[Event], bool]]:
    """All logs in Porcupine's sources: name, events, whether its tests expect it to be linearizable."""
    source = (folder / "porcupine_test.go").read_text()
    expected = {
        (f"etcd_{int(name):03}" if kind == "Jepsen" else name): verdict == "true"
        for kind, name, verdict in _EXPECTED.findall(source)
    }
    for path in sorted((folder / "test_data").glob("*/*")):
        if path.stem in expected:
            yield path.stem, list(events(path)), expected[path.stem]


def events(path: Path) -> Iterator[Event]:
    """The events of one log."""
    for line in path.read_text().splitlines():
        if match := _ETCD.match(line):
            process, type_, f, text = match.groups()
            numbers = [int(number) for number in re.findall(r"\d+", text)]
            value: Any = numbers if f == "cas" else numbers[0] if numbers else None
            yield {"process": int(process), "type": type_, "f": f, "value": value}
        elif match := _KV.match(line):
            process, type_, f, key, text = match.groups()
            value = None if text == "nil" else json.loads(text)
            yield {"process": int(process), "type": type_, "f": f, "key": key, "value": value}


def operations(log: Iterable[Event], *, refused_cas: bool = True) -> tuple[Calls, list[Any]]:
    """Calls, and the table that other values than whole numbers are in.

    A cas that failed is an observation (or, without `refused_cas`, nothing); other failures are nothing. Ranks are the
    `time`s, where all events have one, else their order. What never completed, or with info, is unknown.
    """
    table: dict[str, int] = {}
    keys: dict[Any, int] = {}
    open_: dict[Any, tuple[int, Event]] = {}
    done: list[tuple[F, int | None, int | None, int, int | None, int]] = []
    log = list(log)
    timed = all("time" in event for event in log)

    def coded(value: Any) -> int | None:
        if value is None or isinstance(value, int):
            return value
        return table.setdefault(json.dumps(value), len(table))

    def add(start: int, end: int | None, asked: Event, answer: Any, failed: bool = False) -> None:
        name, value = asked["f"], asked["value"]
        f, arg, out = {
            "read": (F.READ, None, answer),
            "get": (F.READ, None, answer),
            "get-all": (F.READ, None, answer),
            "get-any": (F.FETCH, None, answer),
            "write": (F.WRITE, value, None),
            "put": (F.WRITE, value, None),
            "put-any": (F.WRITE, value, None),
            "append": (F.APPEND, value, None),
            "add": (F.ADD, value, None),
            "cas": (F.CAS, *(value if name == "cas" else (None, None))),
            "txn": (F.TXN, answer or value, None),
        }[name]
        if failed:
            f, out = F.CAS_REFUSED, None
        key = keys.setdefault(asked.get("key"), len(keys))
        done.append((f, coded(arg), coded(out), start, end, key))

    for place, event in enumerate(log):
        rank = event["time"] if timed else place
        if event["type"] == "invoke":
            open_[event["process"]] = (rank, event)
            continue
        if event["process"] not in open_ or event["type"] == "info":
            continue
        start, asked = open_.pop(event["process"])
        if event["type"] == "ok":
            add(start, rank, asked, event["value"])
        elif asked["f"] == "cas" and refused_cas:
            add(start, rank, asked, None, failed=True)
    for start, asked in open_.values():
        add(start, None, asked, None)
    return calls([row[:5] for row in done], keys=[row[5] for row in done]), [json.loads(text) for text in table]
