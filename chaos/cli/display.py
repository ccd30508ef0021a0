"""What is seen while something goes on: drawn on a terminal, a line now and then elsewhere. On stderr."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import click
from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner

from results.text import printable


class Display:
    """Draws on a terminal while it is entered. `every`: seconds between lines where there is none."""

    def __init__(
        self, drawn: Callable[[], RenderableType], *, every: float, a_second: int = 8, console: Console | None = None
    ) -> None:
        self.begun = self._told = time.monotonic()
        self.console = console or Console(stderr=True)
        self.live: Live | None = None
        self._every = every
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self.live = Live(get_renderable=drawn, console=self.console, refresh_per_second=a_second, transient=True)

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self.live is not None:
            with suppress(OSError):
                self.live.stop()

    def due(self) -> bool:
        """Whether it is time for another line, which is then said: never on a terminal."""
        if self.live is not None or time.monotonic() - self._told < self._every:
            return False
        self._told = time.monotonic()
        return True

    def say(self, text: str) -> None:
        """A line."""
        with suppress(OSError):  # that nobody reads it is no reason to stop
            click.echo(printable(text), err=True)


class LiveLine(Display):
    """One line that changes, behind a spinner."""

    def __init__(self, text: str, *, every: float) -> None:
        spinner = Spinner("dots", text=text)
        super().__init__(lambda: spinner, every=every)
        self._spinner = spinner

    def update(self, text: str) -> None:
        """What it says from now on."""
        if self.live is not None:
            self._spinner.update(text=text)
        elif self.due():
            self.say(text)
