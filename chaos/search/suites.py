"""Runs a suite: every scenario of every row with every seed, and then what was expected of each row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.controller import Interrupted
from chaos.expectation import Expectation, Judgement, Seen, measured, seen
from chaos.model.errors import SplitbrainError
from chaos.model.verdict import Verdict
from chaos.scenario import SIMULATED, Scenario
from chaos.search.keep import keep
from chaos.search.spread import spread
from chaos.search.trial import trial
from chaos.suite import Case, Row, Suite
from results.store import Store

EVERY, UNEXPECTED, NOTHING = "all", "unexpected", "none"  # which runs are kept


@dataclass(frozen=True)
class Work:
    """One seed of one case. `kept`: where the run is kept, if it is, and which ones are."""

    row: int
    case: int
    scenario: Scenario
    versus: Scenario | None
    expect: Expectation
    kept: tuple[Path, str]


@dataclass(frozen=True)
class Done:
    """What a case came to."""

    row: Row
    case: Case
    judgement: Judgement
    seen: tuple[Seen, ...]


def work(suite: Suite, store: Path, kept: str) -> Iterator[Work]:
    """All there is to run, in order."""
    for number, row in enumerate(suite.rows):
        for place, case in enumerate(row.cases):
            for seed in row.seeds:
                versus = None if case.versus is None else replace(case.versus, seed=seed)
                yield Work(number, place, replace(case.scenario, seed=seed), versus, row.expect, (store, kept))


def look(work: Work) -> tuple[Seen, str | None]:
    """Run one simulated seed: what it showed, and the id under which it is kept. A run that fails shows nothing.

    Raises KeyboardInterrupt when it was interrupted.
    """
    try:
        return _look(work)
    except Interrupted:
        raise KeyboardInterrupt from None
    except SplitbrainError as error:
        return Seen(work.scenario.seed, Verdict.UNKNOWN, why=str(error)), None


def _look(work: Work) -> tuple[Seen, str | None]:
    done = trial(work.scenario)
    if done.outcome.interrupted:
        raise KeyboardInterrupt
    measure = work.expect.measure
    found = seen(work.scenario.seed, done.results, measure)
    if work.versus is not None and measure is not None:
        found = replace(found, versus=measured(trial(work.versus).results, measure))
    store, kept = work.kept
    wanted = kept == EVERY or (kept == UNEXPECTED and work.expect.judge([found]).missed)
    return found, keep(Store(store), done).id if wanted else None


def conduct(
    suite: Suite,
    *,
    store: Path,
    kept: str,
    jobs: int,
    really: Callable[[Scenario], tuple[Seen, str | None]],
    ran: Callable[[Work, Seen, str | None], None],
) -> Iterator[Done]:
    """Each case when its seeds are done, in the suite's order. `ran` hears of each run.

    Simulated ones run on `jobs` cores; the others, on real machines, one after the other by `really`.
    """
    every = list(work(suite, store, kept))
    simulated = spread(look, [one for one in every if one.scenario.cluster.on == SIMULATED], jobs)
    found: dict[tuple[int, int], list[Seen]] = defaultdict(list)
    for one in every:
        if one.scenario.cluster.on == SIMULATED:
            _, (what, run) = next(simulated)
        else:
            what, run = really(one.scenario)
        ran(one, what, run)
        of_case = found[one.row, one.case]
        of_case.append(what)
        row = suite.rows[one.row]
        if len(of_case) == len(row.seeds):
            yield Done(row, row.cases[one.case], row.expect.judge(of_case), tuple(of_case))
