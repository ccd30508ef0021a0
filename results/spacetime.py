"""A space-time diagram: time goes down, a line a node and client, messages as arrows, what happened in words beside.

Lamport's picture (1978), as engineers draw it today. Time is stretched where much happens and drawn together where
nothing does, so that a message's way of a millisecond can be followed in a run of a minute; the times are written.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from itertools import pairwise

from markupsafe import Markup

from chaos.model.trace import HEARTBEAT, Message
from results import svg
from results.scene import BAD, FAULT, GOOD, LEADS, Scene, Stretch, counted
from results.text import moment

WIDTH = 1080
HUES = 8  # colours of terms: classes t0 to t7
_LEFT, _TOP, _FOOT = 92, 46, 54
_LINE = 15  # height of a line of words
_LETTER = 6.5  # width of a letter, px
_LEAST = 100_000  # ns that are one step of time
_MARKS = {GOOD: "✓", BAD: "✗", FAULT: "⚡", LEADS: "★"}


class Layout:
    """Where lines and times are; `when`: a time as it is written."""

    def __init__(self, scene: Scene, when: Callable[[int], str] = moment) -> None:
        self.when = when
        count = len(scene.lines)
        gap = min(120.0, max(52.0, 470.0 / max(count - 1, 1)))
        self.columns = {line: round(_LEFT + 36 + gap * number, 1) for number, line in enumerate(scene.lines)}
        self.words = round(max(self.columns.values(), default=_LEFT) + 56, 1)
        self.begin = scene.begin
        self._times, self._places = self._stretched(scene)
        last = -math.inf
        for saying in scene.sayings:
            last = max(self.y(saying.time), last + _LINE)
        self.bottom = round(max(self._places[-1], last) + 14, 1)

    def y(self, time: int) -> float:
        """Where a time is; between two that matter, in proportion."""
        number = bisect_right(self._times, time) - 1
        if number < 0:
            return self._places[0]
        if number >= len(self._times) - 1:
            return self._places[-1]
        begin, end = self._times[number : number + 2]
        share = (time - begin) / (end - begin)
        return round(self._places[number] + share * (self._places[number + 1] - self._places[number]), 1)

    @staticmethod
    def _stretched(scene: Scene) -> tuple[list[int], list[float]]:
        """Each time that matters with its place: a step for each tenfold of the time since the one before, and room
        for what is said."""
        said: dict[int, int] = {}
        for saying in scene.sayings:
            said[saying.time] = said.get(saying.time, 0) + 1
        drawn = [*scene.journey, *scene.others]
        times = {scene.begin, scene.end, *said, *(message.time for message in drawn)}
        times |= {message.arrival for message in drawn if message.arrival is not None and message.arrival <= scene.end}
        times |= {time for line in scene.lines for stretch in scene.stretches[line] for time in (stretch.begin,)}
        ordered = sorted(times)
        places, room = [float(_TOP)], float(_TOP + _LINE * said.get(ordered[0], 0))
        for before, time in pairwise(ordered):
            place = places[-1] + 3 + 6 * math.log10(1 + (time - before) / _LEAST)
            if said.get(time):
                place = max(place, room)
                room = place + _LINE * said[time]
            places.append(round(place, 1))
        return ordered, places


def spacetime(scene: Scene, title: str = "What was said between whom", when: Callable[[int], str] = moment) -> Markup:
    """The diagram as inline SVG; its colours are CSS classes of the page. `when`: how a time is written."""
    if not scene.lines:
        return Markup("")
    layout = Layout(scene, when)
    parts = [
        _defs(),
        *_walls(scene, layout),
        *_times(scene, layout),
        *(_lifeline(scene, layout, line) for line in scene.lines),
        *(_arrow(layout, message, scene.end, "other") for message in scene.others),
        *(_arrow(layout, message, scene.end, "way") for message in scene.journey),
        *_words(scene, layout),
        _legend(scene, layout),
    ]
    box = f"0 0 {WIDTH} {layout.bottom + _FOOT:g}"
    return svg.element("svg", *parts, class_="spacetime", viewBox=box, role="img", aria_label=title)


def standalone(drawn: Markup) -> str:
    """The diagram as a file of its own, with its colours in it."""
    page = files("results").joinpath("templates")
    colours = page.joinpath("report.css").read_text(encoding="utf-8").partition("* {")[0]
    own = page.joinpath("spacetime.css").read_text(encoding="utf-8")
    style = f"<style>{colours}{own}svg {{ background: var(--card) }}\n</style>"
    head, close, rest = str(drawn).partition(">")
    return head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1) + close + style + rest + "\n"


def _defs() -> Markup:
    tip = svg.element("path", d="M0 0L8 4L0 8z")
    marks = (
        svg.element("marker", tip, id=f"tip-{name}", class_=f"tip {name}", viewBox="0 0 8 8", refX=7.5, refY=4,
                    markerWidth=size, markerHeight=size, orient="auto")
        for name, size in (("way", 5.5), ("other", 6))
    )  # fmt: skip
    hatch = svg.element("path", d="M-2 2L2 -2M0 8L8 0M6 10L10 6")
    return svg.element(
        "defs",
        *marks,
        svg.element("pattern", hatch, id="hatch", class_="hatch", width=8, height=8, patternUnits="userSpaceOnUse"),
    )


def _walls(scene: Scene, layout: Layout) -> list[Markup]:
    """A wall between two neighbouring nodes for as long as nothing passes between them."""
    nodes = [line for line in scene.lines if not line.startswith("client") and "/" not in line]
    lines = list(scene.lines)
    walls = []
    for one, other in pairwise(nodes):
        beside = lines[lines.index(other) - 1]  # a client of the first may stand between
        left, right = layout.columns[beside] + 14, layout.columns[other] - 14
        for begin, end in _spans(scene, one, other):
            top, bottom = layout.y(begin), layout.y(end)
            place = {"x": left, "y": top, "width": max(right - left, 4), "height": max(round(bottom - top, 1), 2)}
            said = f"nothing passes between {one} and {other}, {layout.when(begin)} to {layout.when(end)}"
            walls.append(
                svg.element(
                    "g",
                    svg.element("title", said),
                    svg.element("rect", class_="wall", **place),
                    svg.element("rect", class_="wall-hatch", fill="url(#hatch)", **place),
                    class_="cut",
                )
            )
    return walls


def _spans(scene: Scene, one: str, other: str) -> list[tuple[int, int]]:
    """When the two were cut from each other, either way, as far as it is shown."""
    spans = sorted(
        (max(cut.begin, scene.begin), scene.end if cut.end is None else min(cut.end, scene.end))
        for cut in scene.cuts
        if {cut.source, cut.target} == {one, other}
    )
    joined: list[tuple[int, int]] = []
    for begin, end in spans:
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def _times(scene: Scene, layout: Layout) -> list[Markup]:
    """When it was, on the left, wherever there is room for it and it is another time than above."""
    parts, last = [], -math.inf
    said = {saying.time for saying in scene.sayings}
    for time in sorted(said | {message.time for message in scene.journey}):
        y = layout.y(time)
        if y - last >= _LINE:
            parts += [
                svg.text(_LEFT - 8, y + 4, layout.when(time), "label"),
                svg.horizontal(y, _LEFT, layout.words - 12, "grid"),
            ]
            last = y
    return parts


def _lifeline(scene: Scene, layout: Layout, line: str) -> Markup:
    x = layout.columns[line]
    client = line.startswith("client")
    parts = [
        svg.element("rect", class_="head client" if client else "head", x=x - 30, y=6, width=60, height=22, rx=6),
        svg.text(x, 21, line if len(line) <= 10 else line[:9] + "…", "head-name"),
    ]
    for stretch in scene.stretches[line]:
        parts += _state(stretch, x, layout)
    return svg.element("g", *parts)


def _state(stretch: Stretch, x: float, layout: Layout) -> list[Markup]:
    top, bottom = layout.y(stretch.begin), layout.y(stretch.end)
    if stretch.begin == layout.begin:
        top = 28.0
    style = f"life {stretch.state}"
    parts = [svg.vertical(x, top, bottom, style)]
    if stretch.leads and stretch.state != "down":
        term = "" if stretch.term is None else f" in term {stretch.term}"
        title = svg.element("title", f"leads{term}, {layout.when(stretch.begin)} to {layout.when(stretch.end)}")
        bar = svg.element("rect", x=x - 5, y=top, width=10, height=max(round(bottom - top, 1), 3), rx=3)
        parts.append(svg.element("g", title, bar, class_=f"leads t{(stretch.term or 0) % HUES}"))
        if stretch.term is not None and bottom - top > 16:
            parts.append(svg.text(x + 9, top + 12, f"term {stretch.term}", f"term t{stretch.term % HUES}"))
    if stretch.state == "down":
        parts.append(svg.element("path", class_="exit", d=f"M{x - 5:g} {top - 5:g}l10 10m0 -10l-10 10"))
    return parts


def _arrow(layout: Layout, message: Message, end: int, style: str) -> Markup:
    """From the line of its source to that of its target; where it never arrived, to a cross on the way."""
    source, target = layout.columns[message.source], layout.columns[message.target]
    y1 = layout.y(message.time)
    lost = message.arrival is None
    way = 1 if target > source else -1
    x2 = source + way * min(abs(target - source) / 2, 60) if lost else target - way * 6
    x1 = source + way * 6
    y2 = y1 + 8 if message.arrival is None else layout.y(min(message.arrival, end))
    ids = f" of {', '.join(map(str, message.carries))}" if message.carries else ""
    term = f", term {message.term}" if message.term is not None else ""
    when = "never arrived" if message.arrival is None else f"arrived {layout.when(message.arrival)}"
    who = f"{message.label or 'message'}{ids}, {message.source} to {message.target}{term}"
    said = f"{who}: sent {layout.when(message.time)}, "
    parts = [
        svg.element("title", said + when),
        svg.element("line", x1=x1, y1=y1, x2=x2, y2=y2, **({} if lost else {"marker_end": f"url(#tip-{style})"})),
    ]
    if lost:
        parts.append(svg.element("path", class_="miss", d=f"M{x2 - 4:g} {y2 - 4:g}l8 8m0 -8l-8 8"))
    if message.label and message.label != HEARTBEAT:
        share = min(0.5, 40 / max(abs(x2 - x1), 1))  # near its source, so that answers do not lie upon questions
        place = round(x1 + share * (x2 - x1), 1), round(y1 + share * (y2 - y1) - 4, 1)
        parts.append(svg.text(*place, message.label, "arrow-name"))
    return svg.element("g", *parts, class_=f"arrow {style}{' lost' if lost else ''}")


def _words(scene: Scene, layout: Layout) -> list[Markup]:
    """What happened, on the right, at its time or as soon below it as there is room."""
    most = int((WIDTH - layout.words - 22) / _LETTER)
    parts, last = [], -math.inf
    for saying in scene.sayings:
        y = max(layout.y(saying.time), last + _LINE)
        last = y
        words = saying.text if len(saying.text) <= most else saying.text[: most - 1] + "…"
        mark = svg.text(layout.words, y + 4, _MARKS.get(saying.tone, "·"), f"mark {saying.tone}")
        text = svg.element(
            "text", svg.element("title", f"{layout.when(saying.time)}: {saying.text}"), words,
            class_=f"said {saying.tone}", x=layout.words + 16, y=y + 4,
        )  # fmt: skip
        parts.append(mark + text)
    return parts


def _legend(scene: Scene, layout: Layout) -> Markup:
    y = round(layout.bottom + 20, 1)
    x = 14.0
    parts: list[Markup] = []
    ids = sorted({id_ for message in scene.journey for id_ in message.carries})
    what = f"the way of message {', '.join(map(str, ids))}" if len(ids) <= 3 else "the way of these messages"
    for kind, words in _keys(scene, what):
        parts += [_key(kind, x, y), svg.text(x + 30, y + 4, words, "key-name")]
        x += 46 + len(words) * _LETTER
    if scene.left_out:
        words = f"not drawn: {counted(scene.left_out)}"
        most = int((WIDTH - 28) / _LETTER)
        parts.append(svg.text(14, y + 24, words if len(words) <= most else words[: most - 1] + "…", "key-name"))
    return svg.element("g", *parts, class_="keys")


def _keys(scene: Scene, what: str) -> Iterable[tuple[str, str]]:
    if scene.journey:
        yield "way", what
    yield "other", "other messages"
    if any(message.arrival is None for message in (*scene.journey, *scene.others)):
        yield "lost", "one that never arrives"
    if scene.cuts:
        yield "cut", "nothing passes"
    states: Sequence[Stretch] = [stretch for line in scene.lines for stretch in scene.stretches[line]]
    if any(stretch.leads for stretch in states):
        yield "leads", "leads"
    for state, words in (("down", "down"), ("still", "stands still"), ("away", "serves nobody")):
        if any(stretch.state == state for stretch in states):
            yield state, words


def _key(kind: str, x: float, y: float) -> Markup:
    if kind in ("way", "other", "lost"):
        style = {"lost": "other lost"}.get(kind, kind)
        tip = {} if kind == "lost" else {"marker_end": f"url(#tip-{kind})"}
        line = svg.element("line", x1=x, y1=y, x2=x + 24, y2=y, **tip)
        cross = svg.element("path", class_="miss", d=f"M{x + 20:g} {y - 4:g}l8 8m0 -8l-8 8") if kind == "lost" else ""
        return svg.element("g", line, cross, class_=f"arrow {style}")
    if kind == "cut":
        place = {"x": x, "y": round(y - 7, 1), "width": 24, "height": 14}
        return svg.element("rect", class_="wall", **place) + svg.element(
            "rect", class_="wall-hatch", fill="url(#hatch)", **place
        )
    if kind == "leads":
        box = svg.element("rect", x=x + 4, y=round(y - 5, 1), width=16, height=10, rx=3)
        return svg.element("g", box, class_="leads t0")
    return svg.horizontal(y, x, x + 24, f"life {kind}")
