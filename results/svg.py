"""SVG elements as text, everything in them escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape


def element(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """An element. `class_` is its class; other underscores become hyphens; plain text children are escaped."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    inside = Markup("").join(escape(child) for child in children)
    return Markup("<{}{}>{}</{}>").format(name, written, inside, name)


def group(parts: Iterable[Markup]) -> Markup:
    """Elements after one another."""
    return Markup("").join(parts)


def text(x: float, y: float, words: str, style: str) -> Markup:
    """Words at a point."""
    return element("text", words, class_=style, x=x, y=y)


def horizontal(y: float, left: float, right: float, style: str) -> Markup:
    """A line from left to right."""
    return element("line", class_=style, x1=left, x2=right, y1=y, y2=y)


def vertical(x: float, top: float, bottom: float, style: str) -> Markup:
    """A line from top to bottom."""
    return element("line", class_=style, x1=x, x2=x, y1=top, y2=bottom)


def points(places: Iterable[tuple[float, float]]) -> str:
    """Places as polygons and polylines take them."""
    return " ".join(f"{x:g},{y:g}" for x, y in places)
