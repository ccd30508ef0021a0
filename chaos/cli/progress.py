"""What is seen of a run while it goes on: a live line on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

import click
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from chaos.kernel.clock import SECOND
from chaos.model.op import CHANGES, OK, OpType
from chaos.progress import Progress
from results.text import count, printable

PLAIN_EVERY = 10 * SECOND
BAR = 12  # so that all fits into 80 columns


class Shown(Progress, Protocol):
    """A progress that is on show while it is entered."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...


def progress(total: int) -> Shown:
    """The one that suits stderr. `total`: how long the run is to work, in ns."""
    console = Console(stderr=True)
    return LiveProgress(console, total) if console.is_terminal and not console.is_dumb_terminal else PlainProgress()


class _Counts:
    """What both keep: where the run is, and how much was confirmed and delivered."""

    def __init__(self) -> None:
        self.name = "start"
        self.now = 0
        self.confirmed = 0
        self.delivered = 0
        self.unknown = 0
        self.faults: dict[str, str] = {}

    def op(self, f: str, type_: OpType, now: int) -> None:
        self.now = now
        if f == "publish" or f in CHANGES:
            if type_ is OK:
                self.confirmed += 1
            elif type_ > OK:
                self.unknown += 1
        elif f == "consume" and type_ is OK:
            self.delivered += 1

    def fault(self, fault_id: str, text: str, in_force: bool, now: int) -> None:
        self.now = now
        if in_force:
            self.faults[fault_id] = text
        else:
            self.faults.pop(fault_id, None)


class PlainProgress(_Counts):
    """A line when something happens, and one every ten seconds of the run."""

    def __init__(self) -> None:
        super().__init__()
        self._due = PLAIN_EVERY

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with suppress(OSError):
            sys.stderr.flush()

    def phase(self, name: str, now: int) -> None:
        self.name, self.now = name, now
        self._write(name)

    def line(self, text: str) -> None:
        self._write(text)

    def op(self, f: str, type_: OpType, now: int) -> None:
        super().op(f, type_, now)
        if now >= self._due:
            self._due = (now // PLAIN_EVERY + 1) * PLAIN_EVERY
            self._write(f"{count(self.confirmed)} confirmed, {count(self.delivered)} delivered")

    def fault(self, fault_id: str, text: str, in_force: bool, now: int) -> None:
        super().fault(fault_id, text, in_force, now)
        self._write(f"{fault_id} in force: {text}" if in_force else f"{fault_id} undone")

    def _write(self, text: str) -> None:
        with suppress(OSError):  # that nobody reads it is no reason to stop
            click.echo(f"{self.now / SECOND:8.1f} s  {printable(text)}", err=True)


class LiveProgress(_Counts):
    """A spinner with phase, elapsed time, rates, and the faults in force, drawn by rich's own timer."""

    def __init__(self, console: Console, total: int) -> None:
        super().__init__()
        self._console = console
        self._total = total
        self._begun = time.monotonic()
        self._work_from = 0
        self._last = (0, 0, 0)  # now, confirmed, delivered, when rates were last reckoned
        self._rates = (0.0, 0.0)
        self._spinner = Spinner("dots")
        self._live = Live(self, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._live.stop()

    def phase(self, name: str, now: int) -> None:
        self.name, self.now = name, now
        if name == "work":
            self._work_from = now

    def line(self, text: str) -> None:
        with suppress(OSError):
            self._console.print(Text(printable(text), "bright_black"))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = Text.assemble((self.name, "bold"), "  ", self._elapsed())
        head.no_wrap, head.overflow = True, "ellipsis"
        if self.name != "check" and (self.confirmed or self.delivered):
            confirmed, delivered = self._reckon()
            head.append(f"  {confirmed:,.0f} confirmed/s  {delivered:,.0f} delivered/s", "cyan")
        if self.unknown:
            head.append(f"  {count(self.unknown)} unknown", "yellow")
        self._spinner.update(text=head)
        yield self._spinner
        for fault, text in list(self.faults.items()):
            yield Text.assemble("  ", ("↯ ", "bold magenta"), (fault, "magenta"), " ", printable(text))

    def _elapsed(self) -> str:
        if self.name == "work":
            worked = min(self.now - self._work_from, self._total)
            share = round(BAR * worked / self._total)
            return f"{'━' * share}{'╌' * (BAR - share)} {worked / SECOND:.1f} of {self._total / SECOND:g} s"
        if self.now == 0:
            return f"{time.monotonic() - self._begun:.1f} s"
        return f"{self.now / SECOND:.1f} s"

    def _reckon(self) -> tuple[float, float]:
        """Rates over about the last second of the run."""
        now, confirmed, delivered = self.now, self.confirmed, self.delivered
        before, confirmed_before, delivered_before = self._last
        if now - before >= SECOND:
            seconds = (now - before) / SECOND
            self._rates = ((confirmed - confirmed_before) / seconds, (delivered - delivered_before) / seconds)
            self._last = (now, confirmed, delivered)
        return self._rates
