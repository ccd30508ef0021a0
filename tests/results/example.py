"""A run as it could have been: the leader cut off, three confirmed messages lost, a pause that did not bite."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from chaos.model.history import History
from chaos.model.history_file import HistoryWriter
from chaos.model.op import CONTROLLER, INFO, INVOKE, NEMESIS, OBSERVER, OK, Op, OpType
from chaos.model.schedule import Action
from chaos.model.verdict import Anomaly, Result, Verdict
from results.store import RunDirectory, Store

S = 1_000_000_000
SCRIPT = "<script>alert('from the broker')</script>"
SCENARIO = """\
schema = 1
name = "quorum-partition"
seed = 7
[cluster]
broker = "rabbitmq-quorum@4.0"
on = "docker"
nodes = 3
[workload]
name = "queue"
rate = 120.0
time = "45s"
[[nemesis]]
name = "partition"
kinds = ["leader", "halves"]
[[nemesis]]
name = "kill"
[[nemesis]]
name = "pause"
"""


class Script:
    """Ops in any order of writing; `history` sorts them by time and numbers them."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, dict[str, Any], int | None]] = []

    def add(self, time: float, process: int, type_: OpType, f: str, of: int | None = None, **more: Any) -> int:
        number = len(self.rows)
        self.rows.append((round(time * S), number, {"process": process, "type": type_, "f": f, **more}, of))
        return number

    def history(self, cut: str | None = None, until: float | None = None) -> History:
        rows = sorted(row for row in self.rows if until is None or row[0] <= until * S)
        index = {number: at for at, (_, number, _, _) in enumerate(rows)}
        ops = [
            Op(index=at, time=time, op=None if of is None else index[of], **more)
            for at, (time, _, more, of) in enumerate(rows)
        ]
        return History.from_ops(ops, cut)


PHASES = (
    (0, "provision"),
    (8, "open"),
    (8.4, "work"),
    (53.4, "undo"),
    (53.5, "serve"),
    (54.6, "drain"),
    (56, "collect"),
)
LEADERS = ((8.0, "n1", 1), (18.9, "n2", 2), (32.1, "n3", 3), (46.6, "n1", 4))
ELECTIONS = ((16.2, 19.0), (30.4, 32.2), (44.2, 46.6))
FAULTS = (
    ("partition-1", "partition", "leader", "leader", "n1", 16.0, 24.0, True, "cut"),
    ("kill-1", "kill", "kill", "leader", "n2", 30.4, 36.0, True, "kill"),
    ("pause-1", "pause", "pause", "one", "n3", 34.0, 35.2, False, "pause"),
    ("partition-2", "partition", "halves", "one", "n3", 44.0, 52.0, True, "cut"),
)
NODES = ("n1", "n2", "n3")
CUT_OFF = {
    node: [link for other in NODES if other != node for link in ([node, other], [other, node])] for node in NODES
}
LOST = (913, 917, 921)


def script(rate: int = 120) -> Script:
    """The run, at so many publishes a second."""
    it = Script()
    for time, name in PHASES:
        it.add(time, CONTROLLER, INFO, "phase", detail={"name": name})
    _leaders(it)
    _faults(it)
    _messages(it, rate)
    asked = it.add(53.6, CONTROLLER, INVOKE, "serve")
    it.add(54.5, CONTROLLER, OK, "serve", of=asked)
    asked = it.add(54.6, CONTROLLER, INVOKE, "drain", key="q1")
    it.add(55.9, CONTROLLER, OK, "drain", of=asked, key="q1")
    it.add(55.95, OBSERVER, INFO, "log", node="n2", error=f"CRASH REPORT {SCRIPT}")
    return it


@cache
def whole_run() -> History:
    """All of it."""
    return script().history()


def _leaders(it: Script) -> None:
    """Five samples a second; n1 goes on believing in itself while it is cut off, and n2 is gone for a while."""
    for number in range(8 * 5, 56 * 5):
        time = number / 5 + 0.013
        for node in NODES:
            _, leader, term = [entry for entry in LEADERS if entry[0] <= time][-1]
            if node == "n1" and 16.0 < time < 21.0:
                leader, term = "n1", 1
            if node == "n2" and 30.4 < time < 37.2:
                continue
            at = round(time * S)
            detail = {"role": "leader" if leader == node else "follower", "asked": at, "answered": at + 2_000_000}
            more: dict[str, Any] = {"key": "q1", "node": node, "term": term, "incarnation": 1, "detail": detail}
            it.add(time + 0.01, OBSERVER, INFO, "leader", **more)


def _faults(it: Script) -> None:
    for fault, nemesis, kind, target, node, begin, end, bit, verb in FAULTS:
        asked = it.add(begin - 0.05, NEMESIS, INVOKE, "inject", key=fault)
        injected = {
            "nemesis": nemesis,
            "kind": kind,
            "target": target,
            "actions": [Action(verb, (node,), {"links": CUT_OFF[node]} if verb == "cut" else {}).to_json()],
            "in_force": {node: round(begin * S)},
            "evidence": f"in place {SCRIPT}",
        }
        it.add(begin + 0.02, NEMESIS, OK, "inject", of=asked, key=fault, detail=injected)
        asked = it.add(end, NEMESIS, INVOKE, "undo", key=fault)
        evidence = "1204 packets dropped" if bit else "the process never stopped"
        undone = {"times": {node: round(end * S) + 9_000_000}, "bit": bit, "evidence": evidence}
        it.add(end + 0.03, NEMESIS, OK, "undo", of=asked, key=fault, detail=undone)
    it.add(30.42, OBSERVER, INFO, "exit", node="n2", error=f"killed {SCRIPT}", detail={"asked": True}, incarnation=1)


def _messages(it: Script, rate: int) -> None:
    """While nobody leads, two of three publishes are never answered and the third waits; what is lost is confirmed."""
    random = Random(7)
    for number in range(45 * rate):
        time, process, message = 8.4 + number / rate, number % 4, number + 1
        about: dict[str, Any] = {"key": "q1", "value": message, "node": f"n{number % 3 + 1}", "channel": 1}
        begun = it.add(time, process, INVOKE, "publish", **about)
        took = random.lognormvariate(-5.0, 0.45)
        electing = next((after - time for before, after in ELECTIONS if before < time < after), None)
        if electing is not None and message not in LOST:
            if number % 3:
                error = f"no confirm within 5 s {SCRIPT}"
                it.add(time + 5, process, INFO, "publish", of=begun, **about, error=error)
                continue
            took += electing
        it.add(time + took, process, OK, "publish", of=begun, **about)
        if message not in LOST:
            about = {"key": "q1", "node": "n2", "channel": 1}
            credit = it.add(time, 4 + number % 2, INVOKE, "consume", **about)
            came = time + took + random.lognormvariate(-5.5, 0.5)
            it.add(came, 4 + number % 2, OK, "consume", of=credit, value=message, redelivered=False, **about)


def results(history: History) -> list[Result]:
    """What the checkers would have said of it."""

    def pair(message: int) -> tuple[int, ...]:
        return tuple(int(history.index[row]) for row in history.rows("publish") if history.value[row] == message)

    lost = tuple(
        Anomaly("lost", f"message {message} was confirmed and never delivered", pair(message), {"queue": "q1"})
        for message in LOST
    )
    odd = Anomaly("log", f"n2: CRASH REPORT {SCRIPT}", (int(history.index[-1]),), {"line": SCRIPT})
    counts = {"published": 5400, "confirmed": 4812, "lost": 3, "duplicated": 0, "recovered": 0}
    return [
        Result("availability", Verdict.VALID, "no limit was set; the longest gap was 2.82 s", {"windows": 45}),
        Result("earned", Verdict.UNKNOWN, "pause-1 did not bite: the process never stopped", {"faults": 4, "bit": 3}),
        Result(
            "exceptions", Verdict.INVALID, f"1 line in the logs that is never normal {SCRIPT}", {"lines": 1}, (odd,)
        ),
        Result("latency", Verdict.VALID, "no limit was set; the 99th percentile was 2.41 s", {"confirms": 4812}),
        Result("leaders", Verdict.VALID, "one leader in each of 4 terms", {"terms": 4, "views": 690, "overlaps": 1}),
        Result("messages", Verdict.INVALID, "3 confirmed messages were lost", counts, lost),
        Result("order", Verdict.NOT_APPLICABLE, "two consumers shared the queue throughout", {"pairs": 0}),
    ]


def stored(store: Store, history: History | None = None, *, seed: int = 7) -> RunDirectory:
    """The run in a store, as the controller leaves it before its verdict."""
    directory = store.create(
        name="quorum-partition",
        broker="rabbitmq-quorum",
        on="docker",
        seed=seed,
        now=datetime(2026, 11, 20, 23, 59, 59, tzinfo=UTC),
    )
    directory.write(directory.scenario, SCENARIO)
    directory.write(directory.schedule, '{"schema": 1, "faults": []}\n')
    directory.write_json(
        directory.versions, {"splitbrain": "0.1.0", "python": "3.11.2", "rabbitmq": "4.0.9", "erlang": f"27 {SCRIPT}"}
    )
    (directory.nodes / "n2").mkdir(parents=True)
    (directory.nodes / "n2" / "rabbit.log").write_text("".join(f"line {n} {SCRIPT}\n" for n in range(200)))
    write_stream(directory.stream, history if history is not None else whole_run())
    return directory


def write_stream(path: Path, history: History, *, end: bool = True) -> None:
    """As the recorder leaves it; without the end marker as a killed controller does."""
    writer = HistoryWriter(path)
    writer.append(history.to_table())
    if end:
        writer.close()
