"""From a run with an anomaly to a run as small as can be that has the same one.

First the rate and the time, so that running it takes little; then the faults, by delta debugging; then, in turns until
nothing helps any more, the rate, whom the faults hurt, nodes, clients, times. A smaller scenario is kept when running
it shows the anomaly, of the same kind by the same checker. Faults are listed one by one and name their nodes, so that
none changes because another is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace

from chaos.controller import Interrupted
from chaos.model.errors import BadInput, SplitbrainError
from chaos.model.op import INVOKE
from chaos.model.schedule import Fault, Schedule
from chaos.scenario import Scenario
from chaos.search import reductions
from chaos.search.ddmin import ddmin
from chaos.search.pin import pinned
from chaos.search.spread import again, crew
from chaos.search.trial import Trial, trial

REDUCTIONS: tuple[tuple[str, reductions.Reduction], ...] = (
    ("faults", reductions.one_fault),
    ("rate", reductions.less_often),
    ("time", reductions.shorter),
    ("faults", reductions.simpler),
    ("faults", reductions.weaker),
    ("nodes", reductions.fewer_nodes),
    ("clients", reductions.fewer_clients),
    ("start", reductions.sooner),
    ("duration", reductions.briefer),
    ("time", reductions.shorter),
    ("messages", reductions.fewer_messages),
)
SPENT, INTERRUPTED = "the budget is spent", "interrupted"  # why it stopped
FIRST = REDUCTIONS[1:3]  # rate and time, so that all the rest takes less time
NO_MORE = {"clients": 0, "messages": 1}  # reductions of which only what publishes at least so much less is kept


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest found so far. published: messages. tried: scenarios that were run. by: what is being tried."""

    case: Scenario
    published: int
    tried: int = 0
    by: str = ""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What came of it. stopped: SPENT or INTERRUPTED, where it was before nothing helped any more; else empty."""

    before: Smallest
    after: Smallest
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A scenario to run, and what it is to show."""

    case: Scenario
    anomaly: str


def attempt(wanted: Attempt) -> int | None:
    """How many messages the scenario publishes, if it shows the anomaly. Only its checker is asked."""
    checker = wanted.anomaly.partition(".")[0]
    case = replace(wanted.case, checkers={checker: wanted.case.checkers[checker]})
    try:
        done = whole(case)
    except SplitbrainError:  # such as a cluster that does not come up
        return None
    return len(done.outcome.history.rows("publish", INVOKE)) if wanted.anomaly in done.anomalies else None


def whole(case: Scenario) -> Trial:
    """A trial that Ctrl-C ends, instead of cutting it short."""
    try:
        done = trial(case)
    except Interrupted:
        raise KeyboardInterrupt from None
    if done.outcome.interrupted:
        raise KeyboardInterrupt
    return done


def explicit(scenario: Scenario, schedule: Schedule, anomaly: str) -> Smallest:
    """The scenario with its faults listed, and pinned where that changes nothing.

    Raises BadInput if it does not show the anomaly (any more).
    """
    listed = replace(scenario, nemeses=(), faults=schedule.faults)
    done = whole(listed)
    if anomaly not in done.anomalies:
        found = f"it shows {', '.join(done.anomalies)}" if done.anomalies else "nothing is wrong with it"
        raise BadInput(f"run again, this scenario does not show {anomaly}: {found}")
    as_it_came = replace(listed, faults=pinned(schedule, done.outcome.history))
    for case in (as_it_came, listed):
        published = attempt(Attempt(case, anomaly))
        if published is not None:
            return Smallest(case, published)
    raise BadInput(f"run again, this scenario does not show {anomaly}")


def shrink(
    start: Smallest, anomaly: str, *, jobs: int, budget: float, told: Callable[[Smallest], None] = lambda smallest: None
) -> Shrunk:
    """Make it as small as can be within `budget` seconds; `told` hears of each step. Ctrl-C ends it early too."""
    search = _Search(start, anomaly, jobs, time.monotonic() + budget, told)
    stopped = ""
    with nullcontext() if jobs <= 1 else crew(jobs) as search.pool:
        try:
            search.to_the_end()
        except _Spent:
            stopped = SPENT
        except KeyboardInterrupt:
            stopped = INTERRUPTED
    return Shrunk(start, search.smallest, stopped)


class _Spent(Exception):
    pass


class _Search:
    def __init__(
        self, start: Smallest, anomaly: str, jobs: int, deadline: float, told: Callable[[Smallest], None]
    ) -> None:
        self.smallest = start
        self.pool: ProcessPoolExecutor | None = None
        self._anomaly = anomaly
        self._jobs = jobs
        self._deadline = deadline
        self._told = told
        self._known: dict[str, int | None] = {}

    def to_the_end(self) -> None:
        """Until no reduction finds anything smaller."""
        for name, reduction in FIRST:
            self._reduce(name, reduction)
        self._fewer_faults()
        while True:
            before = self.smallest.case
            for name, reduction in REDUCTIONS:
                self._reduce(name, reduction)
            self._fewer_faults()
            if self.smallest.case == before:
                return

    def _reduce(self, name: str, reduction: reductions.Reduction) -> None:
        self._say(name)
        while self._first(list(reduction(self.smallest.case)), NO_MORE.get(name)) is not None:
            pass

    def _fewer_faults(self) -> None:
        self._say("faults")
        case = self.smallest.case

        def first(candidates: Sequence[Sequence[Fault]]) -> int | None:
            cases = [replace(case, faults=tuple(faults)) for faults in candidates]
            return self._first(cases)

        ddmin(case.faults, first)

    def _first(self, cases: Sequence[Scenario], less: int | None = None) -> int | None:
        """Take the first that shows the anomaly, and publishes so many messages less, if that is asked; its number."""
        for number, published in self._results(cases):
            if published is not None and (less is None or published <= self.smallest.published - less):
                self.smallest = replace(self.smallest, case=cases[number], published=published)
                self._told(self.smallest)
                return number
        return None

    def _results(self, cases: Sequence[Scenario]) -> Iterator[tuple[int, int | None]]:
        """The number of each case with what came of it, in order; what was run before is not run again."""
        numbers: dict[str, int] = {}
        for number, case in enumerate(cases):
            numbers.setdefault(repr(case), number)
        fresh = [Attempt(cases[number], self._anomaly) for key, number in numbers.items() if key not in self._known]
        if self.pool is None:
            running: Iterator[tuple[Attempt, int | None]] = ((one, attempt(one)) for one in fresh)
        else:
            running = again(attempt, fresh, self._jobs, self.pool)
        for key, number in numbers.items():
            if key not in self._known:
                if time.monotonic() > self._deadline:
                    raise _Spent
                self._known[key] = next(running)[1]
                self.smallest = replace(self.smallest, tried=self.smallest.tried + 1)
                self._told(self.smallest)
            yield number, self._known[key]

    def _say(self, by: str) -> None:
        self.smallest = replace(self.smallest, by=by)
        self._told(self.smallest)
