"""What is seen of a suite while it goes on: a live table on a terminal, lines elsewhere. On stderr."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaos.cli.display import Display
from chaos.expectation import Expectation
from chaos.model.verdict import Verdict
from results.suite_judged import shown
from results.suite_runs import Line
from results.text import plural, printable

EVERY = 10.0  # seconds between lines where there is no terminal
DONE, EXPECTED, FAILED, UNKNOWN, RETRIED = "done", "expected", "failed", "unknown", "retried"


class SuiteProgress(Display):
    """Counts what came of each cell's runs. `planned`: how many runs each is to have, of those that are run here."""

    def __init__(self, planned: Counter[str], console: Console | None = None) -> None:
        self._planned = planned
        self._seen: dict[str, Counter[str]] = {cell: Counter() for cell in planned}
        self._fresh = 0
        super().__init__(self.table, every=EVERY, a_second=4, console=console)

    @contextmanager
    def aside(self, what: str) -> Iterator[None]:
        """Meanwhile the terminal belongs to a run on real nodes, which shows itself."""
        with suppress(OSError):
            if self.live is not None:
                self.live.stop()
        self.say(f"{what}  ({self.line()})")
        try:
            yield
        finally:
            if self.live is not None:
                with suppress(OSError):
                    self.live.start()

    def ran(self, line: Line, expect: Expectation, *, final: bool, fresh: bool = True) -> None:
        """An attempt ended; final: no other follows. fresh: it was run now, not read from what was done before."""
        seen = self._seen[line.cell]
        if not final:
            seen[RETRIED] += 1
            return
        self._fresh += fresh
        seen[DONE] += 1
        if not expect.judge([shown(line)]).missed:
            seen[EXPECTED] += 1
        else:
            seen[UNKNOWN if line.verdict == Verdict.UNKNOWN else FAILED] += 1
        if self.due():
            self.say(self.line())

    def line(self) -> str:
        """Where it stands: "12 of 30 runs, 11 as expected, 1 unknown, 24 a minute, 45 s left"."""
        seen, total = sum(self._seen.values(), Counter[str]()), self._planned.total()
        parts = [f"{seen[DONE]:,} of {plural(total, 'run')}", f"{seen[EXPECTED]:,} as expected"]
        parts += [f"{seen[what]:,} {what}" for what in (FAILED, UNKNOWN, RETRIED) if seen[what]]
        seconds = time.monotonic() - self.begun
        if self._fresh and seconds > 1:
            left = (total - seen[DONE]) * seconds / self._fresh
            parts += [f"{60 * self._fresh / seconds:,.0f} a minute", f"{_time(left)} left"]
        return ", ".join(parts)

    def table(self) -> Table:
        """The cells that are not done, or not as expected, as many as fit; below them, all together."""
        table = Table(box=None, pad_edge=False, show_header=True, header_style="bright_black")
        table.add_column("cell", overflow="ellipsis", no_wrap=True)
        for name in (DONE, EXPECTED, FAILED, UNKNOWN):
            table.add_column(name, justify="right")
        shown = [
            cell
            for cell, seen in self._seen.items()
            if 0 < seen[DONE] < self._planned[cell] or seen[FAILED] or seen[UNKNOWN]
        ]
        for cell in shown[-max(3, self.console.height - 6) :]:
            seen = self._seen[cell]
            numbers = [Text(f"{seen[DONE]}/{self._planned[cell]}"), Text(str(seen[EXPECTED]), "green")]
            numbers += [
                Text(str(seen[what] or ""), colour) for what, colour in ((FAILED, "bold red"), (UNKNOWN, "yellow"))
            ]
            table.add_row(Text(printable(cell)), *numbers)
        table.caption, table.caption_justify = self.line(), "left"
        return table


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
