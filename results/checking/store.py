"""Every run of a store judged in process: some processes that judge, and what they say in the order of the runs."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor

from chaos.model.errors import BadInput
from results.checking.apart import Apart, Judged, Limits
from results.tables.survey import survey


def runs_of(store: str) -> list[str]:
    """The directories of a store that may be runs, by name, but for those that are going on. Raises BadInput for what
    is no store, or holds none."""
    found = survey(store)
    if not found:
        raise BadInput(f"{store}: there are no runs: of what was explored here, no histories were kept (--keep all)")
    return [one.name for one in found if not one.going_on]


def check_store(store: str, runs: Sequence[str], jobs: int, limits: Limits) -> Generator[Judged, None, None]:
    """What the checkers of each run say, in the order given. Close the iterator to stop early: what is under way is
    ended."""
    mine = threading.local()
    all_: list[Apart] = []

    def begin() -> None:
        mine.apart = Apart(limits)
        all_.append(mine.apart)

    def judge(run: str) -> Judged:
        apart: Apart = mine.apart
        return apart.judge(store, run)

    pool = ThreadPoolExecutor(min(jobs, max(len(runs), 1)), initializer=begin)
    try:
        yield from pool.map(judge, runs)
    finally:
        for apart in all_:
            apart.end()
        pool.shutdown(cancel_futures=True)
        for apart in all_:
            apart.close()
