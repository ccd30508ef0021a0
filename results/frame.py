"""The frame that all plots of a report share, so that they line up: time to x, and a box with its time axis below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from results import svg
from results.timeline import Span, Timeline

WIDTH, LEFT = 1080, 62
RIGHT = WIDTH - 14
TICKS = 9
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


class Scale:
    """Time (ns) to x."""

    def __init__(self, line: Timeline) -> None:
        self.begin = line.begin
        self.end = max(line.end, line.begin + 1_000_000)

    def x(self, time: float) -> float:
        """Where a time is; at the edge for those outside."""
        share = (time - self.begin) / (self.end - self.begin)
        return round(LEFT + min(max(share, 0.0), 1.0) * (RIGHT - LEFT), 1)

    def width(self, span: Span, least: float) -> float:
        """How wide an interval is, so that it can be seen."""
        return max(round(self.x(span.end) - self.x(span.begin), 1), least)

    def buckets(self, most: int) -> npt.NDArray[np.float64]:
        """The edges of equal buckets of a round length, at most about so many."""
        step = _step((self.end - self.begin) / 1e9 / most) * 1e9
        return np.arange(self.begin, self.end + step, step)

    def middles(self, edges: npt.NDArray[np.float64]) -> list[float]:
        """The middle of each bucket."""
        return [float(middle) for middle in np.minimum((edges[:-1] + edges[1:]) / 2, self.end)]

    def ticks(self) -> list[int]:
        """Round times for the axis."""
        step = _step((self.end - self.begin) / 1e9 / TICKS)
        first, last = math.ceil(self.begin / 1e9 / step), math.floor(self.end / 1e9 / step)
        return [round(number * step * 1e9) for number in range(first, last + 1)]


class Frame:
    """One plot: a box `height` tall, of which `top_room` is kept free for labels."""

    def __init__(self, scale: Scale, height: int, top_room: int = 0) -> None:
        self.scale, self.height, self.top_room = scale, height, top_room

    def y(self, share: float) -> float:
        """0 is the bottom of the box, 1 the top of what is drawn."""
        return round(self.height - min(max(share, 0.0), 1.0) * (self.height - self.top_room), 1)

    def grid(self, marks: Iterable[tuple[float, str]]) -> Markup:
        """Lines across, at heights, with their labels."""
        return svg.group(
            svg.horizontal(y, LEFT, RIGHT, "grid") + svg.text(LEFT - 8, y + 4, words, "label") for y, words in marks
        )

    def draw(self, title: str, parts: Sequence[Markup]) -> Markup:
        """The plot with its axis."""
        bottom = self.height
        axis = [svg.horizontal(bottom, LEFT, RIGHT, "axis")]
        for time in self.scale.ticks():
            x = self.scale.x(time)
            axis += [svg.vertical(x, bottom, bottom + 4, "tick"), svg.text(x, bottom + 17, f"{time / 1e9:g} s", "time")]
        box = f"0 0 {WIDTH} {bottom + 22}"
        return svg.element("svg", *parts, *axis, viewBox=box, role="img", aria_label=title)


def _step(seconds: float) -> float:
    return next((step for step in _STEPS if step >= seconds), _STEPS[-1] * math.ceil(seconds / _STEPS[-1]))
