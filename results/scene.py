"""What of a trace a space-time diagram shows: which lines, messages and happenings, and what is said beside them.

A run has thousands of messages. Shown are those that carry the message whose journey it is, and of the others those
that are not commonplace: heartbeats, and what is said very often meanwhile, are left out, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.model.history import History
from chaos.model.schedule import CUT, Action, whom
from chaos.model.trace import (
    CRASH,
    HEARTBEAT,
    LEADER,
    NOTE,
    PAUSE,
    RESUME,
    ROLE,
    SERVES,
    Cut,
    Happening,
    Message,
    Trace,
)
from chaos.model.verdict import Anomaly
from results.journey import journey, message_of, row_of
from results.text import plural
from results.timeline import Timeline

COMMON = 12  # of messages with the same label that carry nothing of the journey: more are left out, all of them
MOST = 160  # messages drawn beside those of the journey
ROOM = 20_000_000  # ns before and after what is shown
LATELY = 10 * 10**9  # ns before the first message in which a fault may have to do with it
AWAY = ("starting", "paused", "out", "down")  # roles of a replica that serves nobody

GOOD, BAD, FAULT, LEADS, PLAIN = "good", "bad", "fault", "leader", "plain"


@dataclass(frozen=True, slots=True)
class Focus:
    """What a diagram is about: ids of queue's messages, in which queue, and the time (ns) from and to which to look."""

    ids: tuple[int, ...] = ()
    queue: str = ""
    begin: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Saying:
    """Something said beside the picture. line: whom it is about; empty where it is about all."""

    time: int
    text: str
    tone: str = PLAIN
    line: str = ""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A line in one state for a while. state: up, down, still (paused), or away: it runs and serves nobody."""

    begin: int
    end: int
    state: str
    leads: bool = False
    term: int | None = None


@dataclass(frozen=True)
class Scene:
    """All that is drawn. `journey` and `others` are messages; `left_out` counts by label those that are not drawn."""

    begin: int
    end: int
    lines: tuple[str, ...]
    stretches: dict[str, tuple[Stretch, ...]]
    journey: tuple[Message, ...]
    others: tuple[Message, ...]
    cuts: tuple[Cut, ...]
    sayings: tuple[Saying, ...]
    left_out: dict[str, int]


def scene(trace: Trace, focus: Focus, sayings: Iterable[Saying] = ()) -> Scene:
    """Choose what to show of a trace. `sayings`: more to be said, such as why a message is lost."""
    told = tuple(sayings)
    begin, end = _window(trace, focus, told)
    within = [message for message in trace.messages if begin <= message.time <= end]
    journey = tuple(message for message in within if set(message.carries) & set(focus.ids))
    others, left_out = _uncommon([message for message in within if message not in journey])
    cuts = tuple(cut for cut in _joined(trace.cuts) if cut.begin < end and (cut.end is None or cut.end > begin))
    lines = _lines(trace, journey, cuts)
    shown = tuple(message for message in others if {message.source, message.target} <= set(lines))
    left_out.update(message.label or "other" for message in others if message not in shown)
    happenings = [one for one in trace.happenings if focus.queue in ("", one.scope) or not one.scope]
    said = [
        *_of_cuts([cut for cut in cuts if cut.begin >= begin], end),
        *_of_journey(journey),
        *_of_happenings([one for one in happenings if one.time <= end and one.line in lines], begin),
        *(saying for saying in told if begin <= saying.time <= end),
    ]
    return Scene(
        begin,
        end,
        lines,
        {line: _stretches([one for one in happenings if one.line == line], begin, end) for line in lines},
        journey,
        shown,
        cuts,
        tuple(sorted(said, key=lambda saying: saying.time)),
        dict(sorted(left_out.items())),
    )


def of_anomaly(history: History, line: Timeline, anomaly: Anomaly) -> tuple[Focus, list[Saying]]:
    """What to look at to see how an anomaly came about, and what to say of it."""
    rows = [row for op in anomaly.ops if (row := row_of(history, op)) is not None]
    ops = [history[row] for row in rows]
    queue = next((op.key for op in ops if op.key), None) or ""
    times = [op.time for op in ops]
    message = message_of(history, anomaly.ops) if anomaly.kind == "lost" else None
    if message is not None:
        bad = [step for step in journey(history, line, message) if step.tone == BAD]
        return Focus((message,), queue, min(times), max(times)), [Saying(step.time, step.text, BAD) for step in bad]
    ids = dict.fromkeys(op.value for op in ops[:MOST] if op.value is not None and op.f in ("publish", "consume", "ack"))
    said = [Saying(max(times), anomaly.message, BAD)] if times else []
    return Focus(tuple(list(ids)[:3]), queue, min(times, default=None), max(times, default=None)), said


def _window(trace: Trace, focus: Focus, told: Sequence[Saying]) -> tuple[int, int]:
    """From the first message, or what hurt the cluster lately or still does, to the last thing that is to be told."""
    times = [message.time for message in trace.messages if set(message.carries) & set(focus.ids)]
    times += [time for time in (focus.begin, focus.end) if time is not None]
    if not times:
        everything = [message.time for message in trace.messages] + [one.time for one in trace.happenings]
        return min(everything, default=0), max(everything, default=0)
    first, last = min(times), max([*times, *(saying.time for saying in told)])
    before = [cut.begin for cut in trace.cuts if cut.end is None or cut.end >= first - LATELY]
    before += [one.time for one in trace.happenings if one.kind in (CRASH, PAUSE) and one.time >= first - LATELY]
    return min([first, *(time for time in before if time <= first)]) - ROOM, last + ROOM


def _uncommon(messages: list[Message]) -> tuple[list[Message], Counter[str]]:
    counts = Counter(message.label for message in messages)
    kept = [
        message
        for message in messages
        if message.label != HEARTBEAT and counts[message.label] <= COMMON and not message.carries
    ][:MOST]
    left = counts - Counter(message.label for message in kept)
    return kept, Counter({label or "other": number for label, number in left.items()})


def _lines(trace: Trace, journey: Sequence[Message], cuts: Sequence[Cut]) -> tuple[str, ...]:
    """The nodes, each with those of its clients that the journey touches: the first node's to its left, so that what
    they say to it crosses nobody's line."""
    touched = {line: None for message in journey for line in (message.source, message.target)}
    nodes = [line for line in trace.lines if not line.startswith("client") and ("/" not in line or line in touched)]
    nodes = _side_by_side(nodes, cuts)
    clients: dict[str, list[str]] = {}
    for message in journey:
        for line, other in ((message.source, message.target), (message.target, message.source)):
            if line.startswith("client") and other in nodes and not any(line in some for some in clients.values()):
                clients.setdefault(other, []).append(line)
    lines: list[str] = []
    for number, node in enumerate(nodes):
        own = clients.get(node, [])
        lines += [*own, node] if number == 0 and len(nodes) > 1 else [node, *own]
    return tuple(lines)


def _side_by_side(nodes: Sequence[str], cuts: Sequence[Cut]) -> list[str]:
    """Nodes that the first cut leaves together stand together, the most of them first."""
    first = min((cut.begin for cut in cuts), default=0)
    apart = {(cut.source, cut.target) for cut in cuts if cut.begin == first}
    sides: list[list[str]] = []
    for node in nodes:
        side = next((side for side in sides if not any({(node, one), (one, node)} & apart for one in side)), None)
        if side is None:
            sides.append(side := [])
        side.append(node)
    return [node for side in sorted(sides, key=len, reverse=True) for node in side]


def _stretches(happenings: Iterable[Happening], begin: int, end: int) -> tuple[Stretch, ...]:
    """The states that a line went through, as far as they are within the window."""
    found: list[Stretch] = []
    state, leads, since = "up", False, -1
    term: int | None = None

    def close(time: int) -> None:
        if time > since and time > begin and since < end:
            found.append(Stretch(max(since, begin), min(time, end), state, leads, term))

    for one in happenings:
        now = (state, leads, term)
        if one.kind == ROLE and state != "down":
            now = ("away" if one.label in AWAY else "up"), one.label == LEADER, one.term
        elif one.kind in (CRASH, PAUSE):
            now = ("down", False, None) if one.kind == CRASH else ("still", leads, term)
        elif one.kind in (SERVES, RESUME):
            now = "up", leads, term
        elif one.kind == "start":
            now = "away", False, None
        if now != (state, leads, term):
            close(one.time)
            (state, leads, term), since = now, one.time
    close(max(end, since + 1))
    return tuple(found)


def _joined(cuts: Sequence[Cut]) -> list[Cut]:
    """Cuts of several services between the same two at the same time are one."""
    return list(dict.fromkeys(cuts))


def _of_cuts(cuts: Sequence[Cut], end: int) -> list[Saying]:
    """When who was parted from whom."""
    begun: dict[int, list[list[str]]] = {}
    over: dict[int, None] = {}
    for cut in cuts:
        begun.setdefault(cut.begin, []).append([cut.source, cut.target])
        if cut.end is not None and cut.end <= end:
            over[cut.end] = None
    said = [
        Saying(time, f"the network is cut: {whom([Action(CUT, (), {'links': links})])}", FAULT)
        for time, links in begun.items()
    ]
    return said + [Saying(time, "the cut is over", FAULT) for time in over]


def _of_happenings(happenings: Iterable[Happening], begin: int) -> list[Saying]:
    """What is new from `begin` on; who leads already is known from what was before."""
    said: list[Saying] = []
    led: dict[str, str] = {}
    for one in happenings:
        who = one.line
        if one.kind == ROLE:
            term = "" if one.term is None else f" in term {one.term}"
            leads = f"{who} leads{term}" if one.label == LEADER else ""
            if leads != led.get(who, ""):
                said.append(Saying(one.time, leads or f"{who} leads no longer: {one.label}", LEADS, who))
            led[who] = leads
        elif one.kind == NOTE:
            tone = BAD if "discard" in one.label or "los" in one.label.split() else PLAIN
            said.append(Saying(one.time, f"{who}: {one.label}", tone, who))
        elif one.kind in (CRASH, PAUSE, RESUME, SERVES):
            words = {CRASH: f"{who} {one.label or 'crashes'}", PAUSE: f"{who} stands still", RESUME: f"{who} goes on"}
            said.append(Saying(one.time, words.get(one.kind, f"{who} serves"), FAULT, who))
    return [saying for saying in said if saying.time >= begin]


def _of_journey(journey: Sequence[Message]) -> list[Saying]:
    """What clients and broker say to each other of the message."""
    words = {
        "publish": ("{client} publishes message {ids} through {node}", PLAIN),
        "confirm": ("{node} confirms it: it promises to keep it", GOOD),
        "deliver": ("{node} delivers it to {client}", GOOD),
        "acked": ("the ack of {client} has taken effect", GOOD),
    }
    said = []
    for message in journey:
        client = next((line for line in (message.source, message.target) if line.startswith("client")), None)
        if client is not None and message.label in words:
            text, tone = words[message.label]
            node = message.target if message.source == client else message.source
            ids = ", ".join(map(str, message.carries))
            time = message.time if message.source == client or message.arrival is None else message.arrival
            told = text.format(client=client, node=node, ids=ids)
            if message.arrival is None:
                told, tone = f"{told}, and that is lost on the way", FAULT
            said.append(Saying(time, told, tone, client))
    return said


def counted(left_out: dict[str, int]) -> str:
    """ "212 heartbeats, 40 appended"."""
    return ", ".join(
        plural(number, label) if label == HEARTBEAT else f"{number:,} {label}"
        for label, number in sorted(left_out.items(), key=lambda item: -item[1])
    )
