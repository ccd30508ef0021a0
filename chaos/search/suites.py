"""Runs a suite: every scenario of every row with every seed, and then what was expected of each row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.controller import Interrupted
from chaos.expectation import Judgement, Seen, measured, seen
from chaos.model.errors import SplitbrainError
from chaos.model.verdict import Verdict
from chaos.scenario import SIMULATED
from chaos.search.keep import keep
from chaos.search.spread import spread
from chaos.search.suite_plan import Work, works
from chaos.search.trial import trial
from chaos.suite import Case, Row, Suite
from results.store import PartOf, Store
from results.suite_judged import shown
from results.suite_runs import Key, Line, Plan

EVERY, UNEXPECTED, NOTHING = "all", "unexpected", "none"  # which runs are kept


@dataclass(frozen=True)
class Tried:
    """An attempt: what it showed, and the id under which its run is kept."""

    attempt: int
    seen: Seen
    run: str | None


@dataclass(frozen=True)
class Done:
    """What a case came to. `seen` and `lines` go together; `retried`: the seeds that took more than one attempt."""

    row: Row
    case: Case
    judgement: Judgement
    lines: tuple[Line, ...]

    @property
    def retried(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.attempt > 1)


def line(work: Work, tried: Tried) -> Line:
    """An attempt as it is recorded."""
    what = tried.seen
    return Line(
        *work.key,
        attempt=tried.attempt,
        run=tried.run,
        verdict=str(what.verdict),
        anomalies=what.anomalies,
        why=what.why,
        measured=what.measured,
        versus=what.versus,
    )


def attempts(work: Work, once: Callable[[Work, int], tuple[Seen, str | None]]) -> Iterator[Tried]:
    """Run it, and again while it shows nothing although something was expected, as often as it may be."""
    for attempt in range(1, work.retries + 2):
        what, run = once(work, attempt)
        tried = Tried(attempt, what, run)
        yield tried
        if not again(work, tried):
            return


def again(work: Work, tried: Tried) -> bool:
    """Whether it is tried once more: only where nothing is known of it, though something was expected. What is known to
    be invalid stays so."""
    doubt = tried.seen.verdict is Verdict.UNKNOWN and bool(work.expect.judge([tried.seen]).missed)
    return doubt and tried.attempt <= work.retries


def look(work: Work) -> tuple[Tried, ...]:
    """Run one simulated seed: what it showed. A run that fails shows nothing.

    Raises KeyboardInterrupt when it was interrupted.
    """
    return tuple(attempts(work, _look))


def _look(work: Work, attempt: int) -> tuple[Seen, str | None]:
    try:
        done = trial(work.scenario)
        if done.outcome.interrupted:
            raise KeyboardInterrupt
        measure = work.expect.measure
        found = seen(work.seed, done.results, measure)
        if work.versus is not None and measure is not None:
            found = replace(found, versus=measured(trial(work.versus).results, measure))
        store, kept = work.keep
        if kept == EVERY or (kept == UNEXPECTED and work.expect.judge([found]).missed):
            return found, keep(Store(store), done, part_of_suite(work, attempt)).id
        return found, None
    except Interrupted:
        raise KeyboardInterrupt from None
    except SplitbrainError as error:
        return Seen(work.seed, Verdict.UNKNOWN, why=str(error)), None


def part_of_suite(work: Work, attempt: int) -> PartOf | None:
    """What the run of an attempt is a part of."""
    return None if work.part_of is None else replace(work.part_of, attempt=attempt)


def conduct(
    suite: Suite,
    plan: Plan,
    *,
    store: Path,
    jobs: int,
    really: Callable[[Work, int], tuple[Seen, str | None]],
    ran: Callable[[Work, Tried, bool], None],
    before: Mapping[Key, Line] | None = None,
) -> Iterator[Done]:
    """Each case when its seeds are done, in the suite's order. `ran` hears of each attempt as it ends, and
    whether it was the last. What was done `before` is not done again.

    Simulated ones run on `jobs` cores; the others, on real machines, one after the other by `really`.
    """
    before = before or {}
    every = list(works(suite, plan, store))
    left = [work for work in every if work.key not in before]
    simulated = spread(look, [work for work in left if work.scenario.cluster.on == SIMULATED], jobs)
    wanted = Counter((work.row, work.case) for work in every)
    planned = {cell.cell: len(cell.seeds) * plan.repeat for cell in plan.cells}
    found: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for work in every:
        if work.key in before:
            last = before[work.key]
        elif work.scenario.cluster.on == SIMULATED:
            for tried in next(simulated)[1]:
                last = line(work, tried)
                ran(work, tried, not again(work, tried))
        else:
            for tried in attempts(work, really):
                last = line(work, tried)
                ran(work, tried, not again(work, tried))
        of_case = found[work.row, work.case]
        of_case.append(last)
        if len(of_case) == wanted[work.row, work.case]:
            row = suite.rows[work.row]
            judgement = row.expect.judge([shown(one) for one in of_case], planned[work.key[0]], plan.repeat)
            yield Done(row, row.cases[work.case], judgement, tuple(of_case))
