"""The plots of a report, as inline SVG: throughput, latency, who led, and the faults, on one time axis.

Colours are CSS classes of the page, so that the plots follow its dark and light.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from chaos.model.history import History
from chaos.model.op import FAIL, INFO, OK
from results import svg
from results.frame import LEFT, RIGHT, Frame, Scale
from results.text import length, moment
from results.timeline import Claim, Exit, FaultBand, Span, Timeline

BUCKETS = 300
DOTS = 500  # publishes of unknown outcome that are drawn, evenly chosen
SCOPES = 4  # whose leaders are drawn
HUES = 8  # colours of nemeses and of terms: classes h0 to h7 and t0 to t7
LANE = 22

Floats = npt.NDArray[np.float64]


def throughput(history: History, line: Timeline) -> Markup:
    """Confirmed and delivered a second, and publishes that were not confirmed."""
    scale = Scale(line)
    edges = scale.buckets(BUCKETS)
    series = (
        ("delivered", _rate(history, "consume", (OK,), edges)),
        ("confirmed", _rate(history, "publish", (OK,), edges)),
        ("unconfirmed", _rate(history, "publish", (INFO, FAIL), edges)),
    )
    top = nice(max(float(rates.max(initial=0.0)) for _, rates in series))
    frame = Frame(scale, 190, top_room=26)
    marks = [top * share for share in ((0, 0.25, 0.5, 0.75, 1) if top >= 20 else (0, 0.5, 1))]
    parts = [
        frame.grid((frame.y(value / top), f"{value:,.0f}" if top >= 5 else f"{value:g}") for value in marks),
        bands(line, frame),
        _band_labels(line, frame),
        changes(line, frame),
    ]
    for name, rates in series:
        if rates.any():
            places = zip(scale.middles(edges), rates.tolist(), strict=True)
            parts.append(_curve(f"s-{name}", [(scale.x(time), frame.y(rate / top)) for time, rate in places]))
    return frame.draw("Throughput over time", parts)


def latency(history: History, line: Timeline) -> Markup:
    """How long confirms took, median and 99th percentile, on a logarithmic scale; and publishes of unknown outcome."""
    scale = Scale(line)
    confirmed = history.rows("publish", OK)
    confirmed = confirmed[history.invocation[confirmed] >= 0]
    unknown = history.rows("publish", INFO)
    unknown = unknown[history.invocation[unknown] >= 0]
    unknown = unknown[np.linspace(0, len(unknown) - 1, min(DOTS, len(unknown))).astype(int)]
    took, waited = _took(history, confirmed), _took(history, unknown)
    both = np.concatenate([took, waited])
    if not len(both):
        return Markup("")
    low = math.floor(math.log10(max(float(both.min()), 1e4)))
    high = max(math.ceil(math.log10(max(float(both.max()), 1e4))), low + 1)
    frame = Frame(scale, 190, top_room=10)

    def y(ns: float) -> float:
        return frame.y((math.log10(max(ns, 1.0)) - low) / (high - low))

    parts = [frame.grid((y(10.0**power), length(10**power)) for power in range(low, high + 1))]
    parts += [bands(line, frame), changes(line, frame)]
    edges = scale.buckets(BUCKETS)
    bounds = np.searchsorted(history.time[confirmed], edges).tolist()
    stretches: list[list[tuple[float, float, float]]] = [[]]
    for time, (first, after) in zip(scale.middles(edges), pairwise(bounds), strict=True):
        if first < after:
            median, slow = np.quantile(took[first:after], [0.5, 0.99]).tolist()
            stretches[-1].append((scale.x(time), y(median), y(slow)))
        elif stretches[-1]:
            stretches.append([])  # a gap in the line where nothing was confirmed
    for stretch in filter(None, stretches):
        medians, slows = [(x, median) for x, median, _ in stretch], [(x, slow) for x, _, slow in stretch]
        parts.append(svg.element("polygon", class_="s-area", points=svg.points([*slows, *reversed(medians)])))
        parts += [_curve("s-p99", slows), _curve("s-p50", medians)]
    for row, wait in zip(unknown.tolist(), waited.tolist(), strict=True):
        why = history.error[row] or "no reason given"
        said = f"message {int(history.value[row])}: unknown after {length(int(wait))}: {why}"
        x = scale.x(int(history.time[row]))
        parts.append(svg.element("circle", svg.element("title", said), class_="s-dot", cx=x, cy=y(wait), r=2.2))
    return frame.draw("Latency of confirms over time", parts)


def leaders(line: Timeline) -> Markup:
    """A lane a node, for each of the first few scopes: where it held itself leader, by term; exits as crosses."""
    if not line.claims:
        return Markup("")
    scale = Scale(line)
    scopes, nodes = line.scopes[:SCOPES], _claimants(line)
    frame = Frame(scale, len(scopes) * (20 + LANE * len(nodes)))
    parts = [bands(line, frame)]
    top = 0
    for scope in scopes:
        parts.append(svg.text(LEFT, top + 14, f"leader of {scope}", "lane-title"))
        top += 20
        for node in nodes:
            parts.append(svg.text(LEFT - 8, top + 15, clip(node), "label"))
            parts.append(svg.horizontal(top + 11, LEFT, RIGHT, "lane"))
            parts += [_claim(scale, claim, top) for claim in line.claims if (claim.scope, claim.node) == (scope, node)]
            parts += [_cross(scale, exit_, top) for exit_ in line.exits if exit_.node == node]
            top += LANE
    return frame.draw("Who held itself leader", parts)


def faults(line: Timeline) -> Markup:
    """The faults, each a bar, packed into as few lanes a nemesis as they need."""
    if not line.faults:
        return Markup("")
    scale = Scale(line)
    lanes: list[tuple[str, list[FaultBand]]] = []
    for nemesis in fault_hues(line):
        rows: list[list[FaultBand]] = []
        for fault in line.faults:
            if fault.nemesis == nemesis:
                free = next((row for row in rows if scale.x(row[-1].end) + 2 <= scale.x(fault.begin)), None)
                if free is None:
                    rows.append(free := [])
                free.append(fault)
        lanes += [(nemesis if number == 0 else "", row) for number, row in enumerate(rows)]
    frame = Frame(scale, 26 * len(lanes) + 4)
    hues = fault_hues(line)
    parts = []
    for number, (name, row) in enumerate(lanes):
        y = number * 26 + 4
        parts.append(svg.text(LEFT - 8, y + 14, clip(name), "label"))
        for fault in row:
            style = f"h{hues[fault.nemesis]}" + (" missed" if fault.bit is False else "")
            mark = {True: "✓", False: "✗", None: ""}[fault.bit]
            labels = (f"{mark} {fault.kind or fault.nemesis}: {fault.whom}", f"{mark} {fault.whom}", mark)
            parts.append(bar(scale, fault, y, 20, style, tell(fault), *labels))
    return frame.draw("Faults over time", parts)


def fault_hues(line: Timeline) -> dict[str, int]:
    """Which of the colours a nemesis has."""
    names = dict.fromkeys(fault.nemesis for fault in line.faults)
    return {name: number % HUES for number, name in enumerate(names)}


def tell(fault: FaultBand) -> str:
    """A fault in a sentence, for a tooltip."""
    bit = {True: "it bit", False: "it did not bite", None: "whether it bit cannot be told"}[fault.bit]
    return f"{fault.id} ({fault.label}), {_when(fault)}: {fault.problem or bit}"


def bands(line: Timeline, frame: Frame) -> Markup:
    """Faults behind a plot."""
    hues, scale = fault_hues(line), frame.scale
    return svg.group(
        svg.element(
            "rect",
            svg.element("title", tell(fault)),
            class_=f"band h{hues[fault.nemesis]}",
            x=scale.x(fault.begin),
            y=0,
            width=scale.width(fault, 1),
            height=frame.height,
        )
        for fault in line.faults
    )


def _band_labels(line: Timeline, frame: Frame) -> Markup:
    """What the bands are, where that fits into the band, in two rows."""
    hues, scale = fault_hues(line), frame.scale
    parts = []
    free = [-math.inf, -math.inf]
    for fault in line.faults:
        x, width = scale.x(fault.begin), scale.width(fault, 1)
        words = _fit((fault.label, fault.whom, fault.id), width - 6)
        row = next((row for row, taken in enumerate(free) if taken <= x), None)
        if words and row is not None:
            free[row] = x + width
            parts.append(svg.text(x + 4, 11 + 12 * row, words, f"band-label h{hues[fault.nemesis]}"))
    return svg.group(parts)


def changes(line: Timeline, frame: Frame) -> Markup:
    """Leader changes as dashed lines, with a broad unseen one around each that shows what it is."""
    told: dict[float, list[str]] = {}
    for change in line.changes:
        if change.before is not None:
            term = "" if change.term is None else f" in term {change.term}"
            said = f"{moment(change.time)}: {change.node} leads {change.scope}{term}"
            told.setdefault(frame.scale.x(change.time), []).append(said)
    return svg.group(
        svg.element(
            "g",
            svg.element("title", "\n".join(changes)),
            svg.vertical(x, 0, frame.height, "seen"),
            svg.vertical(x, 0, frame.height, "hit"),
            class_="change",
        )
        for x, changes in told.items()
    )


def _claim(scale: Scale, claim: Claim, top: int) -> Markup:
    term = "" if claim.term is None else f" in term {claim.term}"
    said = f"{claim.node} held itself leader of {claim.scope}{term}, {_when(claim)}"
    label = "" if claim.term is None else str(claim.term)
    return bar(scale, claim, top + 4, 14, f"t{(claim.term or 0) % HUES}", said, label)


def _cross(scale: Scale, exit_: Exit, top: int) -> Markup:
    how = exit_.reason or ("a fault ended it" if exit_.asked else "by itself")
    title = svg.element("title", f"{exit_.node} ended at {moment(exit_.time)}: {how}")
    return svg.element("path", title, class_="exit", d=f"M{scale.x(exit_.time) - 4:g} {top + 7}l8 8m0 -8l-8 8")


def bar(scale: Scale, span: Span, y: float, height: float, style: str, title: str, *labels: str) -> Markup:
    x, width = scale.x(span.begin), scale.width(span, 2)
    words = _fit(labels, width - 6)
    box = svg.element("rect", x=x, y=y, width=width, height=height, rx=3)
    inside = svg.element("text", words, x=x + 4, y=y + height / 2 + 4) if words else Markup("")
    return svg.element("g", svg.element("title", title), box, inside, class_=f"bar {style}")


def _curve(style: str, places: Sequence[tuple[float, float]]) -> Markup:
    if len(places) == 1:
        x, y = places[0]
        return svg.element("circle", class_=style, cx=x, cy=y, r=1.6)
    return svg.element("polyline", class_=style, points=svg.points(places))


def _rate(history: History, f: str, types: tuple[int, ...], edges: Floats) -> Floats:
    rows = history.rows(f)
    rows = rows[np.isin(history.type[rows], types)]
    if f == "consume":
        rows = rows[history.value[rows] >= 0]  # an empty answer to a poll delivers nothing
    counts, _ = np.histogram(history.time[rows], edges)
    return np.asarray(counts / (np.diff(edges) / 1e9), dtype=np.float64)


def _took(history: History, rows: npt.NDArray[np.intp]) -> Floats:
    return np.asarray(history.time[rows] - history.time[history.invocation[rows]], dtype=np.float64)


def _claimants(line: Timeline) -> list[str]:
    named = dict.fromkeys([*line.nodes, *(claim.node for claim in line.claims)])
    return [node for node in named if node != "clients"]


def _when(span: Span) -> str:
    return f"{moment(span.begin)} to {moment(span.end)} ({length(span.end - span.begin)})"


def nice(value: float) -> float:
    """The next round number."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if factor * power >= value)


def _fit(choices: Iterable[str], width: float) -> str:
    """The first of the texts that has room, at 6.6 px a letter; nothing where none has."""
    return next((choice for choice in choices if choice and len(choice.strip()) * 6.6 <= width), "")


def clip(name: str, letters: int = 9) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"
