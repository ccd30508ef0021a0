"""Small plots of something from night to night, all of one size and on one axis of days, so that many can be compared.

A plot is a line through the nights; a band or a second, fainter line may go with it. Where a night has no value the
line has a gap. Each night is a place to point at, which tells what it was. Colours are classes of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby

from markupsafe import Markup

from results import svg
from results.plots import nice
from results.text import plural

WIDTH, HEIGHT, LEFT, TOP = 350, 128, 52, 8
RIGHT, BOTTOM = WIDTH - 16, HEIGHT - 20
LABELS = 4  # days that are named, at most


@dataclass(frozen=True, slots=True)
class Point:
    """A night: its value, None for none; low and high: the band, or the fainter line at `high`; `bad`: drawn so."""

    day: str
    value: float | None
    told: str
    low: float | None = None
    high: float | None = None
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Days:
    """The axis: from one day to another."""

    first: date
    last: date

    @staticmethod
    def of(days: Sequence[str]) -> Days:
        """From the first of them to the last."""
        found = sorted(map(date.fromisoformat, days))
        return Days(found[0], found[-1])

    def x(self, day: str) -> float:
        """Where a day is; in the middle where there is only one."""
        span = (self.last - self.first).days
        part = (date.fromisoformat(day) - self.first).days / span if span else 0.5
        return round(LEFT + 8 + part * (RIGHT - LEFT - 24), 1)

    def ticks(self) -> list[date]:
        """A few days, evenly chosen, the first and last among them where there are more."""
        span = (self.last - self.first).days
        steps = max(min(span, LABELS - 1), 1)
        numbers = dict.fromkeys(round(span * number / steps) for number in range(steps + 1))
        return [date.fromordinal(self.first.toordinal() + number) for number in numbers]


def plot(
    title: str,
    points: Sequence[Point],
    days: Days,
    style: str,
    *,
    said: Callable[[float], str],
    top: float | None = None,
) -> Markup:
    """One plot; empty where no night has a value. `top`: the value at the upper edge, else the next round one."""
    known = [point for point in points if point.value is not None]
    if not known:
        return Markup("")
    highest = max(max(point.value or 0.0, point.high or 0.0) for point in known)
    upper = top if top is not None else nice(highest)

    def y(value: float) -> float:
        return round(BOTTOM - min(max(value / upper, 0.0), 1.0) * (BOTTOM - TOP), 1)

    parts = [
        svg.horizontal(y(mark), LEFT, RIGHT, "grid") + svg.text(LEFT - 6, y(mark) + 4, said(mark), "label")
        for mark in (0, upper / 2, upper)
    ]
    for there, stretch in groupby(points, key=lambda point: point.value is not None):
        if there:
            parts += _stretch(list(stretch), days, y, style)
    parts += [_dot(point, days, y, style) for point in known]
    parts.append(svg.horizontal(BOTTOM, LEFT, RIGHT, "axis"))
    for tick in days.ticks():
        x = days.x(tick.isoformat())
        parts += [svg.vertical(x, BOTTOM, BOTTOM + 4, "tick"), svg.text(x, BOTTOM + 16, f"{tick:%-d %b}", "time")]
    newest = known[-1]
    words = f"{title}, {plural(len(known), 'night')}; the newest, {newest.told}"
    return svg.element("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=words)


def _stretch(points: list[Point], days: Days, y: Callable[[float], float], style: str) -> list[Markup]:
    """Nights one after the other: what goes with the line, and the line."""
    parts = []
    lows = [(days.x(point.day), y(point.low)) for point in points if point.low is not None]
    highs = [(days.x(point.day), y(point.high)) for point in points if point.high is not None]
    if lows and highs:
        if len(points) == 1:  # a night by itself has no area: a bar
            (x, low), (_, high) = lows[0], highs[0]
            parts.append(svg.vertical(x, high, low, f"whisker {style}"))
        else:
            parts.append(svg.element("polygon", class_=f"band {style}", points=svg.points([*highs, *reversed(lows)])))
    elif highs and len(highs) > 1:
        parts.append(svg.element("polyline", class_=f"worst {style}", points=svg.points(highs)))
    line = [(days.x(point.day), y(point.value)) for point in points if point.value is not None]
    if len(line) > 1:
        parts.append(svg.element("polyline", class_=style, points=svg.points(line)))
    return parts


def _dot(point: Point, days: Days, y: Callable[[float], float], style: str) -> Markup:
    x, height = days.x(point.day), y(point.value or 0.0)
    look, size = ("bad", 3.2) if point.bad else (style, 2.4)
    seen = svg.element("circle", class_=f"dot {look}", cx=x, cy=height, r=size)
    hit = svg.element("circle", class_="hit", cx=x, cy=height, r=9)
    return svg.element("g", svg.element("title", point.told), seen, hit, class_="night")
