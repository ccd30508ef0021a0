"""How far behind the end of a log is each poll of it, in time?

The lag of a poll is how long the value after the last one that its process has polled had been there, for certain,
when the poll began. That a value is there is certain when somebody has sent or polled it, or one at a higher offset.
A process polls the logs that it was assigned, from their beginning on, and those that it was seen to poll.

Not as in Jepsen, a send moves no reader, and one send of unknown offset does not hide the others of its transaction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.model.op import FAIL
from checkers.logs.transactions import Pairs, Transaction


@dataclass(frozen=True)
class Lag:
    """time: at which the poll began. lag: how long, ns."""

    time: int
    process: int
    key: str
    lag: int


def lags(transactions: Sequence[Transaction]) -> Iterator[Lag]:
    """The lag of every poll that succeeded, for each log of its process."""
    known = _known(transactions)
    at: dict[int, dict[str, int]] = defaultdict(dict)  # by process and log: the offset that was polled last
    for one in transactions:
        if not one.ok:
            continue
        if one.assigns:
            # a subscriber may get none of its logs, as others have them
            before, keys = at[one.process], one.keys if one.f == "assign" else ()
            at[one.process] = {key: before.get(key, -1) for key in keys}
        elif one.f != "send":
            mine = at[one.process]
            for key, offset in _highest(one.polls).items():
                mine[key] = max(mine.get(key, -1), offset)
            for key, offset in mine.items():
                offsets, times = known.get(key, ([], []))
                after = bisect_left(offsets, offset + 1)
                lag = max(0, one.begun - times[after]) if after < len(times) else 0
                yield Lag(one.begun, one.process, key, lag)


def _known(transactions: Sequence[Transaction]) -> dict[str, tuple[list[int], list[int]]]:
    """For each log ever higher offsets, and the times at which it was certain that they, and all below, were there."""
    known: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for one in transactions:
        if one.type is not FAIL:
            for pairs in (one.sends, one.polls):
                for key, offset in _highest(pairs).items():
                    offsets, times = known[key]
                    if offset > (offsets[-1] if offsets else -1):
                        offsets.append(offset)
                        times.append(one.time)
    return known


def _highest(pairs: Pairs) -> dict[str, int]:
    return {key: max((offset for offset, _ in some if offset is not None), default=-1) for key, some in pairs.items()}
