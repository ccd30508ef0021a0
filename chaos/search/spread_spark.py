"""Work spread over Spark's tasks, its results in order: what `spread` does over the cores of one machine.

Items go out in *rounds*: a job of one task a core, each task with a few items, so many that a task takes some seconds.
Two rounds are under way at any time, so that no core waits for the slowest task of one. A round's results come back
when it is done.
"""

from __future__ import annotations

import pickle
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

import pyarrow as pa

from chaos.model.errors import SplitbrainError
from chaos.search.explore import Spread, lost
from results.spark.session import Session, Where, opened, unfit
from results.spark.tasks import cores, run

Item = TypeVar("Item", int, str)
Done = TypeVar("Done")

ROUNDS = 2  # under way at a time
SECONDS = 2.0  # that a task should take: much longer than Spark needs to hand it out
MOST = 64  # items of a task
MADE = pa.schema([("place", pa.int64()), ("made", pa.binary())])


def spread(
    work: Callable[[Item], Done],
    items: Iterable[Item],
    *,
    spark: Session,
    tasks: int | None = None,
    lost: Callable[[Item, str], Done] | None = None,
) -> Generator[tuple[Item, Done], None, None]:
    """Each item with what `work` makes of it, in order. Close the iterator to stop early: what is under way is ended.

    `work` must be found by import where executors run, its results be small and such that they can be pickled. tasks:
    how many at a time; as many as there are cores. A round that fails is done again an item at a time, so that one item
    which takes its worker with it does not spoil the others; of that one, what `lost` makes of it and the reason.
    Raises what Spark does where there is no `lost`, or Spark itself has failed; and SplitbrainError where executors
    lack what all items need.
    """
    at_once = tasks or cores(spark)
    rounds = _Rounds(spark, work)
    left, waiting, each = iter(items), deque[tuple[list[Item], Future[tuple[list[Done], float]]]](), 1
    try:
        while True:
            while len(waiting) < ROUNDS and (chosen := list(islice(left, at_once * each))):
                waiting.append((chosen, rounds.begin(chosen, at_once)))
            if not waiting:
                return
            chosen, future = waiting.popleft()
            try:
                made, seconds = future.result()
            except Exception as error:
                if (lacking := unfit(str(error))) is not None:
                    raise SplitbrainError(lacking) from None
                made, seconds = list(_apart(rounds, chosen, lost, error)), SECONDS
            each = pace(each, len(chosen) / at_once, seconds)
            yield from zip(chosen, made, strict=True)
    finally:
        rounds.end()


@contextmanager
def engine(where: Where, tasks: int | None) -> Iterator[Spread]:
    """Spark as explorations take it. Raises as `opened` does."""
    interrupted = signal.getsignal(signal.SIGINT)
    with opened(where) as session:
        spark = session()
        # PySpark's own would talk to Spark amid whatever is being said to it just then
        signal.signal(signal.SIGINT, interrupted)
        yield partial(spread, spark=spark, tasks=tasks, lost=lost)


def pace(each: int, ran: float, seconds: float) -> int:
    """How many items a task is to have, if one took so long with `ran`: no more than twice as many as before."""
    fitting = int(SECONDS * max(ran, 1) / max(seconds, 1e-3))
    return max(1, min(fitting, 2 * each, MOST))


def _apart(
    rounds: _Rounds[Item, Done], items: Sequence[Item], lost: Callable[[Item, str], Done] | None, error: Exception
) -> Iterator[Done]:
    if lost is None or not rounds.alive():
        raise error
    for item, future in [(item, rounds.begin([item], 1)) for item in items]:
        try:
            yield future.result()[0][0]
        except Exception as alone:
            if not rounds.alive():
                raise
            yield lost(item, _why(alone))


class _Rounds(Generic[Item, Done]):
    """Jobs, each in a thread of its own. The session is nobody else's meanwhile."""

    def __init__(self, session: Session, work: Callable[[Item], Done]) -> None:
        self._session = session
        self._work = partial(_make, work)
        self._threads = ThreadPoolExecutor(ROUNDS)
        self._begun: list[Future[tuple[list[Done], float]]] = []

    def begin(self, items: Sequence[Item], tasks: int) -> Future[tuple[list[Done], float]]:
        """A round of these items in at most so many tasks: their results in order, and the seconds it took."""
        self._begun = [future for future in self._begun if not future.done()]
        self._begun.append(self._threads.submit(self._run, list(enumerate(items)), tasks))
        return self._begun[-1]

    def alive(self) -> bool:
        """Whether Spark still does anything at all."""
        try:
            return bool(self._session.range(0, 1, 1, 1).count() == 1)
        except Exception:
            return False

    def end(self) -> None:
        """End what is under way, and come to nothing with it."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        left = {future for future in self._begun if not future.cancelled()}  # what never began is not waited for
        while left:  # one that was only just being handed over is ended the next time
            with suppress(Exception):
                self._session.interruptAll()
            left = wait(left, timeout=1.0).not_done

    def _run(self, pieces: list[tuple[int, Item]], tasks: int) -> tuple[list[Done], float]:
        begun = time.monotonic()
        made = run(self._session, [pieces[number::tasks] for number in range(tasks)], self._work, MADE).toArrow()
        found = dict(zip(made["place"].to_pylist(), made["made"].to_pylist(), strict=True))
        return [pickle.loads(found[place]) for place, _ in pieces], time.monotonic() - begun


def _make(work: Callable[[Any], Any], piece: tuple[int, Any]) -> Iterator[pa.RecordBatch]:
    """One item, where an executor runs."""
    place, item = piece
    yield pa.RecordBatch.from_arrays([pa.array([place]), pa.array([pickle.dumps(work(item))])], schema=MADE)


def _why(error: Exception) -> str:
    """The line that matters of what Spark says in hundreds."""
    lines = [line.strip() for line in str(error).splitlines() if "Error" in line or "Exception" in line]
    return (lines or [type(error).__name__])[-1][:300]
