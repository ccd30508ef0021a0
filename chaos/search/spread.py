"""Work spread over the cores, its results in order: what is printed does not depend on how many cores there are."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as completed
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import TypeVar

Item = TypeVar("Item")
Done = TypeVar("Done")

AHEAD = 4  # items a core that may wait for an earlier one
# What nearly all work needs is imported once, by the process that the others are forked from: a second of each of them.
# (pyarrow imports pandas with its first array.)
PRELOADED = ["chaos.search.trial", "pandas"]
TAKEN = 2  # of them, not finished: one under way, and the next at hand


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(work: Callable[[Item], Done], items: Iterable[Item], jobs: int) -> Generator[tuple[Item, Done], None, None]:
    """Each item with what `work` (a function of a module, since other processes run it) makes of it, in order.

    With one job it is done here. Close the iterator to stop early: what is under way is ended. An exception of `work`
    comes out in its item's turn.
    """
    if jobs <= 1:
        for item in items:
            yield item, work(item)
        return
    with crew(jobs) as pool:
        yield from again(work, items, jobs, pool)


def again(
    work: Callable[[Item], Done], items: Iterable[Item], jobs: int, pool: ProcessPoolExecutor
) -> Generator[tuple[Item, Done], None, None]:
    """As `spread`, by a crew that goes on to other work afterwards: what is under way when it is closed is finished,
    and comes to nothing."""
    # What a core has taken on cannot be called off, so no more is handed out than that: the pool's own thread dies of
    # futures that were cancelled when its processes are ended.
    waiting: deque[tuple[Item, Future[Done]]] = deque()
    left = iter(items)
    while True:
        unfinished = [future for _, future in waiting if not future.done()]
        free = min(jobs * AHEAD - len(waiting), jobs * TAKEN - len(unfinished))
        fresh = [(item, pool.submit(work, item)) for item in islice(left, free)]
        waiting += fresh
        if not waiting:
            return
        item, future = waiting[0]
        if future.done():
            waiting.popleft()
            yield item, future.result()
        else:
            completed([*unfinished, *(future for _, future in fresh)], return_when=FIRST_COMPLETED)


@contextmanager
def crew(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes for `again`. They are ended where they are when something goes wrong, and in the end."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)
    try:
        yield pool
    except BaseException:
        # nobody waits for what was under way
        for process in list((pool._processes or {}).values()):
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Ctrl-C is for whoever started this; and when that is gone, by whatever, so is this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
