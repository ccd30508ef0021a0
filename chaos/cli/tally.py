"""What is seen while many seeds are run: how many are done, how fast, and what they found. On stderr."""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from chaos.search.explore import Exploration
from results.text import plural, printable

EVERY = 10.0  # seconds between lines where there is no terminal


class Tally:
    """A live line on a terminal; elsewhere a line every ten seconds, and one for each new failure."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True)
        self._total = total
        self._begun = self._told = time.monotonic()
        self._fresh = 0
        self._spinner = Spinner("dots", text=f"0 of {total:,} seeds")
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(self._spinner, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._begun

    @property
    def rate(self) -> float:
        """Seeds that were run here, a minute."""
        return 60 * self._fresh / max(self.seconds, 1e-9)

    def seed(self, so_far: Exploration, *, fresh: bool) -> None:
        """One more is done; fresh: it was run now, not read from what was done before."""
        self._fresh += fresh
        unknown = len(so_far.unknowns)
        text = (
            f"{so_far.seeds:,} of {self._total:,} seeds  {self.rate:,.0f} a minute  "
            f"{plural(len(so_far.found), 'failure')}  {unknown:,} unknown"
        )
        if self._live is not None:
            self._spinner.update(text=text)
        elif time.monotonic() - self._told >= EVERY:
            self._told = time.monotonic()
            self._say(text)

    def line(self, text: str) -> None:
        """Something to tell at once."""
        if self._live is not None:
            with suppress(OSError):
                self._live.console.print(printable(text), markup=False, highlight=False)
        else:
            self._say(text)

    def _say(self, text: str) -> None:
        with suppress(OSError):  # that nobody reads it is no reason to stop
            click.echo(printable(text), err=True)
