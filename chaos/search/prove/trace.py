"""A way through the worlds, told: each step in words, and as what a space-time diagram is drawn from.

It is gone once more, on fresh replicas and with nothing looked up, and breaks the same invariant or is no trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chaos.model.trace import CRASH, LEADER, NOTE, ROLE, START, Happening, Message, Trace
from chaos.search.prove.invariants import Chronicle, Violation, matching, witness
from chaos.search.prove.model import Core, Model, View
from chaos.search.prove.node import (
    CONNECT,
    DELIVER,
    DISCONNECT,
    FIRE,
    KILL,
    POWER,
    PUBLISH,
    SYNCED,
    Event,
    Node,
    Sent,
)
from chaos.search.prove.world import LOSE, REPEAT, Move, Worlds


@dataclass(frozen=True, slots=True)
class Step:
    """number: from 1. node: where it happens. what: in words; label: in a few; source: of the message that it is about.
    became: what the node now is, where that changed; leads: it has become a leader; ends: a crash, or a message that is
    lost. sends: each message, in words, with its targets."""

    number: int
    node: str
    what: str
    label: str
    source: str | None
    became: str = ""
    leads: bool = False
    ends: bool = False
    sends: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """What came of going that way."""

    steps: tuple[Step, ...]
    violation: Violation | None
    trace: Trace


def events(worlds: Worlds, moves: Sequence[Move]) -> list[tuple[str, Event]]:
    """Each move's node and event, complete in themselves."""
    nodes = worlds.model.nodes
    found: list[tuple[str, Event]] = []
    for move in moves:
        event = move.event
        if move.letter is not None:
            letter = worlds.letters[move.letter]
            event = (event[0], nodes[letter.source], letter.message)
        found.append((nodes[move.node], event))
    return found


def retell(model: Model, moves: Sequence[tuple[str, Event]]) -> Story:
    """Go that way: events as `events` gives them. It ends where an invariant is broken."""
    teller = _Teller(model)
    for node, event in moves:
        teller.step(node, event)
        if teller.violation is not None:
            break
    return teller.story()


@dataclass(slots=True)
class _Way:
    """A message on its way, and when it was sent."""

    source: str
    target: str
    message: tuple[Any, ...]
    sent: int


class _Teller:
    def __init__(self, model: Model) -> None:
        self.violation: Violation | None = None
        self._model = model
        self._nodes = {name: Node(model, name) for name in model.nodes}
        self._cores: dict[str, Core] = {}
        self._views: dict[str, View] = {}
        self._chronicle = Chronicle()
        self._under_way: list[_Way] = []
        self._steps: list[Step] = []
        self._messages: list[Message] = []
        self._happenings: list[Happening] = []
        for name, node in self._nodes.items():
            self._cores[name], self._views[name], sent = node.first()
            self._happen(name, START, "")
            self._happen(name, ROLE, self._views[name].role)
            self._send(name, sent)

    def story(self) -> Story:
        undelivered = [self._message(way, None) for way in self._under_way]
        messages = sorted([*self._messages, *undelivered], key=lambda message: message.time)
        trace = Trace(self._model.nodes, tuple(messages), tuple(self._happenings))
        return Story(tuple(self._steps), self.violation, trace)

    def step(self, name: str, event: Event) -> None:
        core, before = self._cores[name], self._views[name]
        what = self._in_words(core, event)
        about = event[0] in (DELIVER, REPEAT, LOSE)
        label = self._model.label(event[2]) if about else _LABELS.get(event[0], what)
        source = event[1] if about else None
        number = len(self._steps) + 1
        if about:
            way = next(
                way for way in self._under_way
                if (way.source, way.target, way.message) == (event[1], name, event[2])
            )  # fmt: skip
            self._messages.append(self._message(way, None if event[0] == LOSE else number))
            if event[0] != REPEAT:
                self._under_way.remove(way)
        if event[0] == LOSE:
            self._steps.append(Step(number, name, what, label, source, ends=True))
            return
        after = (DELIVER, *event[1:]) if event[0] == REPEAT else event
        self._cores[name], view, sent = self._nodes[name].after(core, after)
        self._views[name] = view
        became = _became(before, view)
        leads = view.leads and (view.term, True) != (before.term, before.leads)
        crashed = event[0] in (KILL, POWER)
        self._steps.append(Step(number, name, what, label, source, became, leads, crashed, self._gathered(sent)))
        if crashed:
            self._happen(name, CRASH, what)
            self._happen(name, START, "")
        else:
            self._happen(name, NOTE, f"{what}: {became}" if became and not view.leads else what)
        if crashed or (before.role, before.term, before.leads) != (view.role, view.term, view.leads):
            self._happen(name, ROLE, LEADER if view.leads else view.role)
        self._send(name, sent)
        self._judge(name, view)

    def _judge(self, name: str, view: View) -> None:
        past = witness(self._chronicle, self._model.nodes.index(name), name, view)
        if isinstance(past, Violation):
            self.violation = past
            return
        self._chronicle = past
        for other, seen in self._views.items():
            if not matching(view, seen):
                self.violation = Violation.mismatch(name, other)
                return

    def _send(self, name: str, sent: Sent) -> None:
        self._under_way += [_Way(name, target, message, len(self._steps)) for target, message in sent]

    def _happen(self, line: str, kind: str, label: str) -> None:
        self._happenings.append(Happening(len(self._steps), line, kind, label, self._views[line].term))

    def _message(self, way: _Way, arrival: int | None) -> Message:
        model = self._model
        label, term = model.label(way.message), model.term_of(way.message)
        return Message(way.sent, way.source, way.target, arrival, label, (), term)

    def _gathered(self, sent: Sent) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The messages in words, those that say the same together."""
        found: dict[str, list[str]] = {}
        for target, message in sent:
            found.setdefault(self._model.message(message), []).append(target)
        return tuple((words, tuple(targets)) for words, targets in found.items())

    def _in_words(self, core: Core, event: Event) -> str:
        kind = event[0]
        if kind == FIRE:
            return self._model.timer(core, event[1])
        if kind in _WORDS:
            return _WORDS[kind]
        if kind == CONNECT:
            return f"is connected to {event[1]} anew"
        if kind == DISCONNECT:
            return f"takes {event[1]} for unavailable"
        if kind == PUBLISH:
            return f"is asked to publish message {event[1] + 1}"
        words = f"{self._model.message(event[2])} (from {event[1]})"
        if kind == LOSE:
            return f"never gets {words}"
        return f"gets {words}, which will come again" if kind == REPEAT else f"gets {words}"


_WORDS = {
    SYNCED: "its sync is complete",
    KILL: "is killed, and starts again",
    POWER: "loses power, and starts again with what was synced",
}
_LABELS = {SYNCED: "synced", KILL: "killed", POWER: "power-off", CONNECT: "connected", DISCONNECT: "disconnected"}


def _became(before: View, after: View) -> str:
    """What it now is, in words; nothing where that is what it was."""
    told = []
    if after.leads and (not before.leads or before.term != after.term):
        told.append(f"leads term {after.term}")
    elif (before.role, before.term) != (after.role, after.term):
        told.append(f"{after.role}, term {after.term}")
    if after.commit > before.commit:
        told.append(f"has {after.commit} committed")
    if after.log[: len(before.log)] != before.log:
        told.append("has cut its log back")
    return ", ".join(told)
