"""Literal histories: what happened, written down in the order in which it happened.

A row takes the next index, and the next millisecond unless `at` sets the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.model.history import History
from chaos.model.op import CONTROLLER, INFO, INVOKE, NEMESIS, OBSERVER, OK, Op, OpType
from chaos.model.settings import resolve
from chaos.model.verdict import Result
from checkers.base import Checker

MS = 1_000_000
SECOND = 1000 * MS


class Story:
    """Writes a history, a line an op. Methods that begin something return its index, for `end`."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.now = 0

    def history(self, cut: str | None = None) -> History:
        return History.from_ops(self.ops, cut).validate()

    def at(self, ns: int) -> Story:
        """The next row happens then."""
        self.now = ns
        return self

    def row(self, process: int, type_: OpType, f: str, **columns: Any) -> int:
        index = len(self.ops)
        self.ops.append(Op(index=index, time=self.now, process=process, type=type_, f=f, **columns))
        self.now += MS
        return index

    def begin(self, process: int, f: str, *, channel: int = 0, **columns: Any) -> int:
        return self.row(process, INVOKE, f, channel=channel, **columns)

    def end(self, op: int, type_: OpType = OK, **columns: Any) -> int:
        begun = self.ops[op]
        same: dict[str, Any] = {"key": begun.key, "value": begun.value, "node": begun.node, "channel": begun.channel}
        return self.row(begun.process, type_, begun.f, op=op, **(same | columns))

    # Clients

    def publish(self, id_: int, queue: str = "q", end: OpType | None = OK, process: int = 0, **columns: Any) -> int:
        """A publish that ends at once (or never: None)."""
        op = self.begin(process, "publish", key=queue, value=id_, **columns)
        if end is not None:
            self.end(op, end)
        return op

    def credit(self, queue: str = "q", process: int = 10, **columns: Any) -> int:
        return self.begin(process, "consume", key=queue, **columns)

    def deliver(self, id_: int | None, queue: str = "q", process: int = 10, channel: int = 0, **columns: Any) -> int:
        """A delivery on a credit granted just before it. Returns the index of the delivery."""
        return self.end(self.credit(queue, process, channel=channel), value=id_, **columns)

    def ack(self, id_: int, queue: str = "q", end: OpType = OK, process: int = 10) -> int:
        op = self.begin(process, "ack", key=queue, value=id_)
        self.end(op, end)
        return op

    def close(self, process: int, channel: int = 0) -> int:
        return self.row(process, INFO, "close", channel=channel, error="connection lost")

    # Operations on objects, with values of any kind

    def ask(self, process: int, f: str, value: Any = None, **columns: Any) -> int:
        return self.begin(process, f, **_said(value), **columns)

    def answer(self, op: int, value: Any = None, type_: OpType = OK) -> int:
        begun = self.ops[op]
        return self.row(begun.process, type_, begun.f, key=begun.key, channel=begun.channel, op=op, **_said(value))

    def did(self, process: int, f: str, value: Any = None, answer: Any = None, end: OpType = OK, **columns: Any) -> int:
        """An operation that ends at once; the answer is the value, where there is no other."""
        op = self.ask(process, f, value, **columns)
        self.answer(op, value if answer is None else answer, end)
        return op

    # What is ours

    def drain(self, queue: str = "q", end: OpType = OK, error: str | None = None) -> int:
        return self.row(CONTROLLER, end, "drain", key=queue, error=error)

    def serve(self, end: OpType = OK, error: str | None = None) -> int:
        return self.row(CONTROLLER, end, "serve", error=error)

    def phase(self, name: str) -> int:
        return self.row(CONTROLLER, INFO, "phase", detail={"name": name})

    def stall(self, ns: int) -> int:
        return self.row(CONTROLLER, INFO, "stall", value=ns)

    def inject(self, fault: str, *nodes: str, end: OpType = OK, **detail: Any) -> int:
        """A fault that is in force on its nodes when the injection completes."""
        op = self.row(NEMESIS, INVOKE, "inject", key=fault)
        if end is not OK:
            self.row(NEMESIS, end, "inject", key=fault, op=op, error="nobody to hurt")
            return op
        said = {
            "nemesis": "partition",
            "kind": "halves",
            "target": "one",
            "actions": [{"verb": "cut", "nodes": list(nodes), "args": {}, "process": "broker"}],
            "in_force": dict.fromkeys(nodes, self.now),
            "evidence": "",
        }
        self.row(NEMESIS, OK, "inject", key=fault, op=op, detail=said | detail)
        return op

    def undo(self, fault: str, bit: bool | None = True, end: OpType = OK) -> int:
        op = self.row(NEMESIS, INVOKE, "undo", key=fault)
        said: dict[str, Any] = {"times": {}, "bit": bit, "evidence": "12 packets dropped" if bit else ""}
        self.row(
            NEMESIS,
            end,
            "undo",
            key=fault,
            op=op,
            detail=said if end is OK else None,
            error=None if end is OK else "no answer",
        )
        return op

    def sample(
        self, node: str, role: str, term: int | None, *, scope: str = "q", took: int = MS, incarnation: int | None = 1,
        reign: str | None = None,
    ) -> int:  # fmt: skip
        """A sampled view, answered now and asked `took` before."""
        detail: dict[str, Any] = {"role": role, "asked": self.now - took, "answered": self.now}
        if reign is not None:
            detail["reign"] = reign
        columns: dict[str, Any] = {"key": scope, "node": node, "term": term, "incarnation": incarnation}
        return self.row(OBSERVER, INFO, "leader", detail=detail, **columns)

    def belief(self, node: str, role: str, term: int | None, *, scope: str = "q", incarnation: int | None = 1) -> int:
        columns: dict[str, Any] = {"key": scope, "node": node, "term": term, "incarnation": incarnation}
        return self.row(OBSERVER, INFO, "belief", detail={"role": role}, **columns)

    def exit(self, node: str, asked: bool, reason: str = "killed") -> int:
        return self.row(OBSERVER, INFO, "exit", node=node, error=reason, incarnation=1, detail={"asked": asked})

    def log(self, node: str, line: str) -> int:
        return self.row(OBSERVER, INFO, "log", node=node, error=line)


def _said(value: Any) -> dict[str, Any]:
    whole = type(value) is int or value is None
    return {"value": value} if whole else {"detail": {"value": value}}


def judge(checker: Checker, history: History, options: Mapping[str, Any] | None = None) -> Result:
    """What the checker says, settings left out taking their defaults."""
    return checker.check(history, resolve(checker.settings, options or {}, f"checkers.{checker.name}"))


Write = Callable[[Story], str | None]


@dataclass(frozen=True)
class Case:
    """A literal history, the settings given, and the whole result expected."""

    history: Callable[[], History]
    options: Mapping[str, Any]
    expected: Result


class Cases(dict[str, Case]):
    """The literal cases of one checker, by name."""

    def add(self, expected: Result, **options: Any) -> Callable[[Write], Write]:
        """Decorates what writes the history; it may return why the history was cut."""

        def record(write: Write) -> Write:
            def history() -> History:
                story = Story()
                return story.history(write(story))

            name = write.__name__.strip("_")
            assert name not in self
            self[name] = Case(history, options, expected)
            return write

        return record


def taken_back(story: Story, *, elsewhere: bool) -> None:
    """A consumer of two credits, whose node was cut off, is back. It gets 1 and 2, which were meanwhile given to
    another (`elsewhere`), so that the broker had given it credits anew; with those it took 3, before the other took 4.
    """
    for id_ in (1, 2, 3, 4):
        story.publish(id_)
    first, second = story.credit(), story.credit()
    others = [story.credit(process=11) for _ in range(3)]
    story.end(first, value=1, redelivered=False)
    story.end(second, value=2, redelivered=False)
    if elsewhere:
        story.end(others[0], value=1, redelivered=True)
        story.end(others[1], value=2, redelivered=True)
    story.end(others[2], value=4, redelivered=False)
    story.end(story.credit(), value=3, redelivered=False)
