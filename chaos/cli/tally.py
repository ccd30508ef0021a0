"""What is seen while many seeds are run: how many are done, how fast, and what they found. On stderr."""

from __future__ import annotations

import time
from contextlib import suppress

from chaos.cli.display import LiveLine
from chaos.search.explore import Exploration
from results.text import plural, printable

EVERY = 10.0  # seconds between lines where there is no terminal


class Tally(LiveLine):
    """A live line on a terminal; elsewhere a line every ten seconds, and one for each new failure."""

    def __init__(self, total: int) -> None:
        super().__init__(f"0 of {total:,} seeds", every=EVERY)
        self._total = total
        self._fresh = 0

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.begun

    @property
    def rate(self) -> float:
        """Seeds that were run here, a minute."""
        return 60 * self._fresh / max(self.seconds, 1e-9)

    def seed(self, so_far: Exploration, *, fresh: bool) -> None:
        """One more is done; fresh: it was run now, not read from what was done before."""
        self._fresh += fresh
        unknown = len(so_far.unknowns)
        self.update(
            f"{so_far.seeds:,} of {self._total:,} seeds  {self.rate:,.0f} a minute  "
            f"{plural(len(so_far.found), 'failure')}  {unknown:,} unknown"
        )

    def line(self, text: str) -> None:
        """Something to tell at once."""
        if self.live is not None:
            with suppress(OSError):
                self.console.print(printable(text), markup=False, highlight=False)
        else:
            self.say(text)
