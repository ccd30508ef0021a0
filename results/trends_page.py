"""The page of trends: one HTML file that needs nothing else, a row of small plots for each scenario and broker.

As in a run's report Jinja escapes everything, and the page's own content policy forbids scripts and requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import jinja2
from markupsafe import Markup

from chaos.model.verdict import Verdict, merge
from results import small
from results.text import brief, count, length, plural, share
from results.trends import Night, Times, Trend, Trends
from results.versions import short

_GLYPH = {Verdict.VALID: "✓", Verdict.INVALID: "✗", Verdict.UNKNOWN: "?", Verdict.NOT_APPLICABLE: "–"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A trend, how it stands, its plots (title, what it shows, plot), and how many runs were left out, by reason."""

    trend: Trend
    state: Verdict
    plots: list[tuple[str, str, Markup]]
    left_out: list[tuple[str, int]]


def draw(trends: Trends) -> str:
    """The page."""
    nights = [night.day for trend in trends.trends for night in trend.nights]
    days = small.Days.of(nights) if nights else None
    return _template().render(
        shown=[Shown(trend, state(trend), plots(trend, days) if days else [], _why(trend)) for trend in trends.trends],
        since=f"{trends.since:%Y-%m-%d}",
        runs=sum(trend.total.runs for trend in trends.trends if trend.total is not None),
        troubled=sum(trend.trouble is not None for trend in trends.trends),
        verdict=merge(state(trend) for trend in trends.trends),
        rejected=trends.rejected,
        glyph=_GLYPH,
    )


def state(trend: Trend) -> Verdict:
    """How it stands: as its newest night."""
    return trend.nights[-1].worst if trend.nights else Verdict.NOT_APPLICABLE


def _why(trend: Trend) -> list[tuple[str, int]]:
    return Counter(one.why for one in trend.left_out).most_common()


def plots(trend: Trend, days: small.Days) -> list[tuple[str, str, Markup]]:
    """Its plots: title, what is drawn, and the plot; without those of which no night has a value."""
    nights = trend.nights
    rate = small.plot("Valid runs", [_rate(night) for night in nights], days, "s-rate", said=_percent, top=1.0)
    lost = _counts("Lost messages", nights, days, lambda night: night.lost, bad=True)
    duplicated = _counts("Duplicated messages", nights, days, lambda night: night.duplicated)
    recovery = _lengths("Recovery", nights, days, lambda night: night.recovery)
    failover = _lengths("Fail-over", nights, days, lambda night: night.failover)
    outage = _lengths("Outage", nights, days, lambda night: night.outage)
    found = [
        ("Valid runs", "with the 95 % interval", rate),
        ("Lost", "messages a night", lost),
        ("Duplicated", "messages a night", duplicated),
        ("Recovery", "median; fainter: the slowest run", recovery),
        ("Fail-over", "median; fainter: the slowest run", failover),
        ("Outage", "median; fainter: the longest", outage),
    ]
    return [entry for entry in found if entry[2]]


def _rate(night: Night) -> small.Point:
    low, high = night.interval
    others = [f"{number} {word}" for number, word in ((night.invalid, "invalid"), (night.unknown, "unknown")) if number]
    told = (
        f"{night.day}: {share(night.rate)} of {plural(night.runs, 'run')} valid ({100 * low:.0f} to {100 * high:.0f} %)"
        + "".join(f", {other}" for other in others)
    )
    return small.Point(night.day, night.rate, told, low, high, night.worst is not Verdict.VALID)


def _counts(
    title: str, nights: tuple[Night, ...], days: small.Days, of: Callable[[Night], int | None], *, bad: bool = False
) -> Markup:
    points = []
    for night in nights:
        number = of(night)
        told = f"{night.day}: {'not counted' if number is None else count(number)}"
        points.append(small.Point(night.day, number, told, bad=bad and bool(number)))
    return small.plot(title, points, days, "s-count", said=_whole)


def _lengths(title: str, nights: tuple[Night, ...], days: small.Days, of: Callable[[Night], Times | None]) -> Markup:
    points = []
    for night in nights:
        times = of(night)
        if times is None:
            points.append(small.Point(night.day, None, ""))
            continue
        told = f"{night.day}: {length(times.median)} in {plural(times.runs, 'run')}, at worst {length(times.worst)}"
        points.append(small.Point(night.day, times.median / 1e9, told, high=times.worst / 1e9))
    return small.plot(title, points, days, "s-time", said=_seconds)


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def _seconds(value: float) -> str:
    return length(round(value * 1e9)) if value else "0"


def _whole(value: float) -> str:
    return brief(round(value)) if value == round(value) else ""


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("results"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(grouped=count, share=share, duration=length, short=short)
    return environment.get_template("trends.html.j2")
