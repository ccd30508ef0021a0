"""The plots of a report, as inline SVG: throughput, latency, who led, and the faults, above one another on one time axis.

Colours are CSS classes of the page, so that the plots follow its dark and light. Every text goes through escaping.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from chaos.model.history import History
from chaos.model.op import FAIL, INFO, OK
from results.text import length, moment
from results.timeline import FaultSpan, Span, Timeline

WIDTH, LEFT, RIGHT = 1080, 62, 14
BUCKETS = 200
DOTS = 500
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
SCOPES = 4  # whose leaders are drawn
HUES = 8  # of fault families and of terms: classes h0 to h7 and t0 to t7

Floats = npt.NDArray[np.float64]


class Scale:
    """Time (ns) to x, in the frame that all plots share."""

    def __init__(self, line: Timeline) -> None:
        self.begin = line.begin
        self.end = max(line.end, line.begin + 1_000_000)

    def x(self, time: float) -> float:
        share = (time - self.begin) / (self.end - self.begin)
        return round(LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)

    def ticks(self) -> list[int]:
        step = _step((self.end - self.begin) / 1e9 / 9)
        first = math.ceil(self.begin / 1e9 / step)
        last = math.floor(self.end / 1e9 / step)
        return [round(number * step * 1e9) for number in range(first, last + 1)]


def throughput(history: History, line: Timeline) -> Markup:
    """Confirmed and delivered a second, and publishes of unknown or no effect."""
    scale = Scale(line)
    step = _step((scale.end - scale.begin) / 1e9 / BUCKETS) * 1e9
    edges = np.arange(scale.begin, scale.end + step, step)
    series = [
        ("delivered", _rate(history, "consume", (OK,), edges)),
        ("confirmed", _rate(history, "publish", (OK,), edges)),
        ("unconfirmed", _rate(history, "publish", (INFO, FAIL), edges)),
    ]
    top = _nice(max((float(rates.max(initial=0.0)) for _, rates in series), default=0.0))
    frame = Frame(scale, 190, top_room=26)
    middles = np.minimum(edges[:-1] + step / 2, scale.end)

    def y(rate: float) -> float:
        return frame.y(rate / top)

    parts = [frame.grid([(value, f"{value:,.0f}" if top >= 5 else f"{value:g}") for value in _marks(top)], y)]
    parts += [_bands(line, scale, frame, labels=True), _changes(line, scale, frame)]
    for name, rates in series:
        if rates.any():
            parts.append(_line(f"s-{name}", [(scale.x(t), y(r)) for t, r in zip(middles, rates, strict=True)]))
    return frame.svg("Throughput over time", parts)


def latency(history: History, line: Timeline) -> Markup:
    """How long confirms took: median and 99th percentile a bucket, on a logarithmic scale, and publishes never answered."""
    scale = Scale(line)
    ends = history.rows("publish", OK)
    ends = ends[history.invocation[ends] >= 0]
    unknown = history.rows("publish", INFO)
    unknown = unknown[history.invocation[unknown] >= 0]
    took = _took(history, ends)
    shown = unknown[np.linspace(0, len(unknown) - 1, min(DOTS, len(unknown))).astype(int)]
    waited = _took(history, shown)
    all_ = np.concatenate([took, waited])
    if not len(all_):
        return Markup("")
    low = math.floor(math.log10(max(float(all_.min()), 1e4)))
    high = max(math.ceil(math.log10(max(float(all_.max()), 1e4))), low + 1)
    frame = Frame(scale, 190, top_room=10)

    def y(ns: float) -> float:
        return frame.y((math.log10(max(ns, 1.0)) - low) / (high - low))

    parts = [frame.grid([(10.0**power, length(10**power)) for power in range(low, high + 1)], y)]
    parts += [_bands(line, scale, frame), _changes(line, scale, frame)]
    step = _step((scale.end - scale.begin) / 1e9 / BUCKETS) * 1e9
    when = history.time[ends]
    bounds = np.searchsorted(when, np.arange(scale.begin, scale.end + step, step))
    runs: list[list[tuple[float, float, float]]] = [[]]
    for number, (first, after) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        if first == after:
            if runs[-1]:
                runs.append([])  # a gap in the line where nothing was confirmed
            continue
        p50, p99 = np.quantile(took[first:after], [0.5, 0.99])
        runs[-1].append((scale.x(scale.begin + (number + 0.5) * step), y(float(p50)), y(float(p99))))
    for run in filter(None, runs):
        area = [(x, p99) for x, _, p99 in run] + [(x, p50) for x, p50, _ in reversed(run)]
        parts.append(Markup('<polygon class="s-area" points="{}"/>').format(_points(area)))
        parts.append(_line("s-p99", [(x, p99) for x, _, p99 in run]))
        parts.append(_line("s-p50", [(x, p50) for x, p50, _ in run]))
    for row, wait in zip(shown.tolist(), waited.tolist(), strict=True):
        parts.append(
            Markup('<circle class="s-dot" cx="{}" cy="{}" r="2.2"><title>{}</title></circle>').format(
                scale.x(int(history.time[row])),
                y(wait),
                f"message {int(history.value[row])}: unknown after {length(int(wait))}"
                + (f" ({history.error[row]})" if history.error[row] else ""),
            )
        )
    return frame.svg("Latency of confirms over time", parts)


def leaders(line: Timeline, scopes: int = SCOPES) -> Markup:
    """A lane a node, for each of the first few scopes: where it held itself leader, coloured by term; exits as crosses."""
    if not line.claims:
        return Markup("")
    scale = Scale(line)
    rows = [(scope, node) for scope in line.scopes[:scopes] for node in _claimants(line)]
    frame = Frame(scale, 22 * len(rows) + 20 * len(line.scopes[:scopes]), top_room=0)
    parts = [_bands(line, scale, frame)]
    at = 0.0
    for scope in line.scopes[:scopes]:
        parts.append(Markup('<text class="lane-title" x="{}" y="{}">{}</text>').format(LEFT, at + 14, f"leader of {scope}"))
        at += 20
        for node in _claimants(line):
            parts.append(Markup('<text class="label" x="{}" y="{}">{}</text>').format(LEFT - 8, at + 15, _clip(node, 8)))
            parts.append(Markup('<line class="lane" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, WIDTH - RIGHT, at + 11, at + 11))
            for claim in line.claims:
                if (claim.scope, claim.node) == (scope, node):
                    term = "" if claim.term is None else f"{claim.term}"
                    said = f"{node} held itself leader of {scope}{f' in term {term}' if term else ''}, {_when(claim)}"
                    parts.append(_bar(scale, claim, at + 4, 14, f"t{(claim.term or 0) % HUES}", said, term))
            for exit_ in line.exits:
                if exit_.node == node:
                    parts.append(_cross(scale.x(exit_.time), at + 11, f"{node} ended at {moment(exit_.time)}: {exit_.reason or ('killed' if exit_.asked else 'by itself')}"))
            at += 22
    return frame.svg("Who held itself leader", parts)


def faults(line: Timeline) -> Markup:
    """The faults, each a bar, packed into as few lanes a nemesis as they need."""
    if not line.faults:
        return Markup("")
    scale = Scale(line)
    lanes: list[tuple[str, list[FaultSpan]]] = []
    for nemesis in dict.fromkeys(fault.nemesis for fault in line.faults):
        rows: list[list[FaultSpan]] = []
        for fault in line.faults:
            if fault.nemesis == nemesis:
                free = next((row for row in rows if scale.x(row[-1].end) + 2 <= scale.x(fault.begin)), None)
                if free is None:
                    rows.append(free := [])
                free.append(fault)
        lanes += [(nemesis if number == 0 else "", row) for number, row in enumerate(rows)]
    frame = Frame(scale, 26 * len(lanes) + 4, top_room=0)
    hues = fault_hues(line)
    parts = []
    for number, (name, row) in enumerate(lanes):
        y = number * 26 + 4
        parts.append(Markup('<text class="label" x="{}" y="{}">{}</text>').format(LEFT - 8, y + 14, _clip(name, 9)))
        for fault in row:
            style = f"h{hues[fault.nemesis]}" + (" missed" if fault.bit is False else "")
            mark = {True: "✓ ", False: "✗ ", None: ""}[fault.bit]
            label = f"{mark}{fault.kind or fault.nemesis}" + (f" → {'+'.join(fault.nodes)}" if fault.nodes else "")
            parts.append(_bar(scale, fault, y, 20, style, tell(fault), label))
    return frame.svg("Faults over time", parts)


def fault_hues(line: Timeline) -> dict[str, int]:
    """Which of the colours a nemesis has."""
    names = dict.fromkeys(fault.nemesis for fault in line.faults)
    return {name: number % HUES for number, name in enumerate(names)}


def tell(fault: FaultSpan) -> str:
    """A fault in a sentence, for a tooltip."""
    bit = {True: "it bit", False: "it did not bite", None: "whether it bit cannot be told"}[fault.bit]
    return f"{fault.id} ({fault.label}), {_when(fault)}: {fault.problem or bit}"


class Frame:
    """One plot: a box `height` tall in the shared frame, with the time axis below it."""

    def __init__(self, scale: Scale, height: int, top_room: int) -> None:
        self.scale, self.height, self.top_room = scale, height, top_room

    def y(self, share: float) -> float:
        """0 is the bottom of the box, 1 the top of what is drawn."""
        return round(self.height - min(max(share, 0.0), 1.0) * (self.height - self.top_room), 1)

    def grid(self, marks: Iterable[tuple[float, str]], y: Callable[[float], float]) -> Markup:
        return Markup("").join(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text class="label" x="{}" y="{}">{}</text>').format(
                LEFT, WIDTH - RIGHT, y(value), y(value), LEFT - 8, y(value) + 4, text
            )
            for value, text in marks
        )

    def svg(self, title: str, parts: Sequence[Markup]) -> Markup:
        axis = [
            Markup('<line class="tick" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/><text class="time" x="{0}" y="{3}">{4}</text>').format(
                self.scale.x(time), self.height, self.height + 4, self.height + 17, f"{time / 1e9:g} s"
            )
            for time in self.scale.ticks()
        ]
        base = Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, WIDTH - RIGHT, self.height, self.height)
        return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>').format(
            WIDTH, self.height + 22, title, Markup("").join(parts), base, Markup("").join(axis)
        )


def _bands(line: Timeline, scale: Scale, frame: Frame, *, labels: bool = False) -> Markup:
    """Faults behind a plot; their labels go where they fit into the band, in two rows."""
    hues = fault_hues(line)
    parts = []
    taken = [-math.inf, -math.inf]
    for fault in line.faults:
        x, right = scale.x(fault.begin), scale.x(fault.end)
        parts.append(
            Markup('<rect class="band h{}" x="{}" y="0" width="{}" height="{}"><title>{}</title></rect>').format(
                hues[fault.nemesis], x, max(round(right - x, 1), 1), frame.height, tell(fault)
            )
        )
        if not labels:
            continue
        for row, free in enumerate(taken):
            text = _fit(fault.label, fault.id, right - x - 6)
            if text and x >= free:
                taken[row] = right
                parts.append(Markup('<text class="band-label h{}" x="{}" y="{}">{}</text>').format(hues[fault.nemesis], x + 4, 11 + 12 * row, text))
                break
    return Markup("").join(parts)


def _changes(line: Timeline, scale: Scale, frame: Frame) -> Markup:
    return Markup("").join(
        Markup('<g class="change"><line x1="{0}" x2="{0}" y1="0" y2="{1}"/><line class="hit" x1="{0}" x2="{0}" y1="0" y2="{1}"/><title>{2}</title></g>').format(
            scale.x(change.time),
            frame.height,
            f"{moment(change.time)}: {change.node} leads {change.scope}"
            + ("" if change.term is None else f" in term {change.term}"),
        )
        for change in line.changes
        if change.before is not None
    )


def _bar(scale: Scale, span: Span, y: float, height: float, style: str, title: str, label: str) -> Markup:
    x = scale.x(span.begin)
    width = max(round(scale.x(span.end) - x, 1), 2)
    text = _fit(label, "", width - 6)
    return Markup('<g class="bar {}"><title>{}</title><rect x="{}" y="{}" width="{}" height="{}" rx="3"/>{}</g>').format(
        style, title, x, y, width, height,
        Markup('<text x="{}" y="{}">{}</text>').format(x + 4, y + height / 2 + 4, text) if text else "",
    )  # fmt: skip


def _cross(x: float, y: float, title: str) -> Markup:
    return Markup('<path class="exit" d="M{} {}l8 8m0 -8l-8 8"><title>{}</title></path>').format(x - 4, y - 4, title)


def _line(style: str, points: Sequence[tuple[float, float]]) -> Markup:
    if len(points) == 1:
        return Markup('<circle class="{} single" cx="{}" cy="{}" r="1.6"/>').format(style, *points[0])
    return Markup('<polyline class="{}" points="{}"/>').format(style, _points(points))


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)


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


def _step(seconds: float) -> float:
    return next((step for step in _STEPS if step >= seconds), _STEPS[-1] * math.ceil(seconds / _STEPS[-1]))


def _nice(value: float) -> float:
    """The next 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if factor * power >= value)


def _marks(top: float) -> list[float]:
    return [top * share for share in (0, 0.25, 0.5, 0.75, 1)] if top >= 20 else [0, top / 2, top]


def _fit(text: str, shorter: str, width: float) -> str:
    """The text, or the shorter one, or nothing, by what has room; 6.1 px a letter at 11 px."""
    return next((choice for choice in (text, shorter) if choice and len(choice) * 6.1 <= width), "")


def _clip(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"
