"""What a space-time diagram is drawn from: messages between lines, what happens on a line, and links that are cut.

A line is a node ("n1"), a process beside it ("n1/etcd") or a client ("client-3"). Times are integer nanoseconds on
the run's clock; where there is no clock, as in an exhaustive search, the number of the step.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

SCHEMA = 1

# Kinds of happenings. A protocol may add its own; a diagram shows those that it does not know by their label.
START = "start"  # a process begins, in a new life
SERVES = "serves"  # it has started, and answers from now on
CRASH = "crash"  # it is gone: killed, powered off, or by itself
PAUSE = "pause"  # it stands still
RESUME = "resume"
ROLE = "role"  # what it believes to be of leadership from now on: the label is the role ("leader"), with its term
NOTE = "note"  # what it says itself: a line of its log

LEADER = "leader"  # the label of a ROLE that leads
HEARTBEAT = "heartbeat"  # the label of messages that say nothing else


@dataclass(frozen=True, slots=True)
class Message:
    """One message from a line to another. arrival: None when it was lost, cut off, or nobody was there to take it.

    label: what the protocol calls it. carries: ids of the queue's messages that are in it. term: that of its sender.
    """

    time: int
    source: str
    target: str
    arrival: int | None = None
    label: str = ""
    carries: tuple[int, ...] = ()
    term: int | None = None


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happens on a line. label: in words, or the role. scope: the queue that it is about."""

    time: int
    line: str
    kind: str
    label: str = ""
    term: int | None = None
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Cut:
    """Nothing passes from one line to another from `begin` on, until `end` (None: for ever)."""

    begin: int
    end: int | None
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Trace:
    """All of it, each part ordered by time. `lines`: from top to bottom."""

    lines: tuple[str, ...]
    messages: tuple[Message, ...] = ()
    happenings: tuple[Happening, ...] = ()
    cuts: tuple[Cut, ...] = ()

    def dumps(self) -> str:
        """As JSON text, a row a line."""
        parts = [(name, asdict(self)[name]) for name in ("messages", "happenings", "cuts")]
        written = [
            f'"{name}": [' + ",".join("\n  " + json.dumps(list(row.values())) for row in rows) + "]"
            for name, rows in parts
        ]
        return f'{{"schema": {SCHEMA}, "lines": {json.dumps(self.lines)},\n' + ",\n".join(written) + "}\n"

    @staticmethod
    def loads(text: str) -> Trace:
        """Read back what `dumps` wrote. Raises ValueError for text that is no trace of this version."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ValueError(f"not a trace of schema {SCHEMA}")
        try:
            return Trace(
                tuple(data["lines"]),
                tuple(
                    Message(time, source, target, arrival, label, tuple(ids), term)
                    for time, source, target, arrival, label, ids, term in data["messages"]
                ),
                tuple(Happening(*row) for row in data["happenings"]),
                tuple(Cut(*row) for row in data["cuts"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a whole trace: {error}") from error


class Recording:
    """A trace while it is made. Whoever sends keeps the number that `sent` gave, and hands it to `arrived`.

    `identify`: the id of a queue's message by its body, None for what is none.
    """

    def __init__(self, identify: Callable[[bytes], int | None] = lambda body: None) -> None:
        self._identify = identify
        self._lines: dict[str, None] = {}
        self._messages: list[Message] = []
        self._happenings: list[Happening] = []
        self._cuts: list[Cut] = []
        self._open: dict[tuple[str, str], list[int]] = {}

    def ids(self, content: object) -> tuple[int, ...]:
        """The ids of the queue's messages whose bodies are anywhere in it, each once."""
        found: dict[int, None] = {}
        left = [content]
        while left:
            part = left.pop()
            if isinstance(part, bytes):
                if (id_ := self._identify(part)) is not None:
                    found[id_] = None
            elif isinstance(part, dict):
                left += part.values()
            elif isinstance(part, tuple | list):
                left += part
        return tuple(sorted(found))

    def sent(self, message: Message) -> int:
        """A message is sent; its number here."""
        self._lines.update({message.source: None, message.target: None})
        self._messages.append(message)
        return len(self._messages) - 1

    def arrived(self, number: int, time: int) -> None:
        """That message has come to its target."""
        self._messages[number] = replace(self._messages[number], arrival=time)

    def happened(self, happening: Happening) -> None:
        """Something happens on a line."""
        self._lines[happening.line] = None
        self._happenings.append(happening)

    def cut(self, source: str, target: str, time: int) -> None:
        """Nothing passes from now on, until as many `mended`s."""
        self._open.setdefault((source, target), []).append(len(self._cuts))
        self._cuts.append(Cut(time, None, source, target))

    def mended(self, source: str, target: str, time: int) -> None:
        """The newest cut between the two is over."""
        number = self._open[source, target].pop()
        self._cuts[number] = replace(self._cuts[number], end=time)

    def trace(self) -> Trace:
        """What was recorded so far. Nodes come first, in the order of their numbers, each with what is beside it."""
        lines = sorted(self._lines, key=_place)
        return Trace(tuple(lines), tuple(self._messages), tuple(self._happenings), tuple(self._cuts))


def _place(line: str) -> tuple[bool, int, str]:
    """n1, n1/etcd, n2, n10; then clients, by number."""
    machine = line.partition("/")[0]
    digits = "".join(letter for letter in machine if letter.isdigit())
    return line.startswith("client"), int(digits or 0), line
