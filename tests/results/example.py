"""A run as it could have been: leader isolated, three confirmed messages lost, a node killed, a pause that did not bite."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from chaos.model.history import History
from chaos.model.history_file import HistoryWriter
from chaos.model.op import CONTROLLER, INFO, INVOKE, NEMESIS, OBSERVER, OK, Op, OpType
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


def script(rate: int = 120) -> Script:
    it, random = Script(), Random(7)
    for time, name in ((0, "provision"), (8, "open"), (8.4, "work"), (53.4, "undo"), (53.5, "serve"), (54.6, "drain"), (56, "collect")):
        it.add(time, CONTROLLER, INFO, "phase", detail={"name": name})
    leads = [(8.0, "n1", 1), (18.9, "n2", 2), (32.1, "n3", 3), (46.6, "n1", 4)]
    isolated = (16.0, 24.0)
    for number in range(8 * 5, 56 * 5):
        time = number / 5 + 0.013
        if 32.0 < time < 37 and number % 3:
            continue
        for node in ("n1", "n2", "n3"):
            current = [entry for entry in leads if entry[0] <= time][-1]
            stale = node == "n1" and isolated[0] < time < isolated[1] - 3
            leader, term = (node, 1) if stale else (current[1], current[2])
            if node == "n2" and 30.4 < time < 37.2:
                continue
            it.add(
                time + 0.01, OBSERVER, INFO, "leader", key="q1", node=node, term=term, incarnation=1,
                detail={"role": "leader" if leader == node else "follower", "asked": round(time * S), "answered": round(time * S) + 2_000_000},
            )  # fmt: skip
    for fault, nemesis, kind, target, node, begin, end, bit, verb in (
        ("partition-1", "partition", "leader", "leader", "n1", *isolated, True, "cut"),
        ("kill-1", "kill", "kill", "leader", "n2", 30.4, 36.0, True, "kill"),
        ("pause-1", "pause", "pause", "one", "n3", 34.0, 35.2, False, "pause"),
        ("partition-2", "partition", "halves", "one", "n3", 44.0, 52.0, True, "cut"),
    ):
        asked = it.add(begin - 0.05, NEMESIS, INVOKE, "inject", key=fault)
        it.add(
            begin + 0.02, NEMESIS, OK, "inject", of=asked, key=fault,
            detail={
                "nemesis": nemesis, "kind": kind, "target": target, "evidence": f"nft table in place {SCRIPT}",
                "actions": [{"verb": verb, "nodes": [node], "args": {}, "process": "broker"}], "in_force": {node: round(begin * S)},
            },
        )  # fmt: skip
        asked = it.add(end, NEMESIS, INVOKE, "undo", key=fault)
        it.add(
            end + 0.03, NEMESIS, OK, "undo", of=asked, key=fault,
            detail={"times": {node: round(end * S) + 9_000_000}, "bit": bit, "evidence": "1204 packets dropped" if bit else "the process never stopped"},
        )  # fmt: skip
    it.add(30.42, OBSERVER, INFO, "exit", node="n2", error=f"killed {SCRIPT}", detail={"asked": True}, incarnation=1)
    message = 0
    for number in range(45 * rate):
        message += 1
        time, process = 8.4 + number / rate, number % 4
        begun = it.add(time, process, INVOKE, "publish", key="q1", value=message, node=f"n{number % 3 + 1}", channel=1)
        took = random.lognormvariate(-5.0, 0.45)
        electing = any(lead < time < lead + gap for lead, gap in ((16.2, 2.8), (30.4, 1.8), (44.2, 2.4)))
        lost = message in (913, 917, 921)
        if electing and not lost:
            if number % 3:
                it.add(time + 5, process, INFO, "publish", of=begun, key="q1", value=message, node=f"n{number % 3 + 1}", channel=1, error=f"no confirm within 5 s {SCRIPT}")
                continue
            took += next(lead + gap - time for lead, gap in ((16.2, 2.8), (30.4, 1.8), (44.2, 2.4)) if lead < time < lead + gap)
        it.add(time + took, process, OK, "publish", of=begun, key="q1", value=message, node=f"n{number % 3 + 1}", channel=1)
        if not lost:
            credit = it.add(time, 4 + number % 2, INVOKE, "consume", key="q1", node="n2", channel=1)
            it.add(time + took + random.lognormvariate(-5.5, 0.5), 4 + number % 2, OK, "consume", of=credit, key="q1", value=message, node="n2", channel=1, redelivered=False)
    asked = it.add(53.6, CONTROLLER, INVOKE, "serve")
    it.add(54.5, CONTROLLER, OK, "serve", of=asked)
    asked = it.add(54.6, CONTROLLER, INVOKE, "drain", key="q1")
    it.add(55.9, CONTROLLER, OK, "drain", of=asked, key="q1")
    it.add(55.95, OBSERVER, INFO, "log", node="n2", error=f"CRASH REPORT {SCRIPT}")
    return it


def results(history: History) -> list[Result]:
    """What the checkers would have said of it."""
    def pair(message: int) -> tuple[int, ...]:
        return tuple(int(history.index[row]) for row in history.rows("publish") if history.value[row] == message)

    lost = tuple(
        Anomaly("lost", f"message {message} was confirmed and never delivered", pair(message), {"queue": "q1"})
        for message in (913, 917, 921)
    )
    odd = Anomaly("log", f"n2: CRASH REPORT {SCRIPT}", (int(history.index[-1]),), {"line": SCRIPT})
    return [
        Result("availability", Verdict.VALID, "no limit was set; the longest gap was 2.82 s", {"windows": 45, "gaps": 3}),
        Result("earned", Verdict.UNKNOWN, "pause-1 did not bite: the process never stopped", {"faults": 4, "bit": 3}),
        Result("exceptions", Verdict.INVALID, f"1 line in the logs that is never normal {SCRIPT}", {"lines": 1}, (odd,)),
        Result("latency", Verdict.VALID, "no limit was set; the 99th percentile was 2.41 s", {"confirms": 4812}),
        Result("leaders", Verdict.VALID, "one leader in each of 4 terms", {"terms": 4, "views": 690, "overlaps": 1}),
        Result("messages", Verdict.INVALID, "3 confirmed messages were lost", {"published": 5400, "confirmed": 4812, "lost": 3, "duplicated": 0, "recovered": 0}, lost),
        Result("order", Verdict.NOT_APPLICABLE, "two consumers shared the queue throughout", {"pairs": 0}),
    ]  # fmt: skip


def stored(store: Store, history: History | None = None, *, seed: int = 7) -> RunDirectory:
    """The run in a store, as the controller leaves it before its verdict."""
    directory = store.create(
        name="quorum-partition", broker="rabbitmq-quorum", on="docker", seed=seed, now=datetime(2026, 11, 20, 23, 59, 59, tzinfo=UTC)
    )
    directory.write(directory.scenario, SCENARIO)
    directory.write(directory.schedule, '{"schema": 1, "faults": []}\n')
    directory.write_json(directory.versions, {"splitbrain": "0.1.0", "python": "3.11.2", "rabbitmq": "4.0.9", "erlang": f"27 {SCRIPT}"})
    (directory.nodes / "n2").mkdir(parents=True)
    (directory.nodes / "n2" / "rabbit.log").write_text("".join(f"line {n} {SCRIPT}\n" for n in range(200)))
    write_stream(directory.stream, history if history is not None else script().history())
    return directory


def write_stream(path: Path, history: History, *, end: bool = True) -> None:
    """As the recorder leaves it; without the end marker as a killed controller does."""
    writer = HistoryWriter(path)
    writer.append(history.to_table())
    if end:
        writer.close()
