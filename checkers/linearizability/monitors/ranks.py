"""The operations of all objects on one line of time: object after object, every event at a rank of its own.

With one line, an algorithm that passes over time once serves all objects at once: a running maximum of ranks does not
leak from one object into the next, since all ranks of the next are greater.

Ranks that are distinct already (rows of a history) are kept, in O(n); others are sorted. Where a return and a call tie,
the call is put first, for only what returned strictly earlier precedes. Objects are brought together by a stable radix
sort of their numbers, 16 bits at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from checkers.linearizability.calls import NEVER, Calls
from checkers.linearizability.verdict import Refused

Ranks = npt.NDArray[np.signedinteger[Any]]
Rows = npt.NDArray[np.intp]

SPARE = 8  # ranks a row, at the most, for which they are used as they are
DIGIT = 1 << 16


@dataclass(frozen=True, slots=True)
class Line:
    """call, ret: ranks in [0, size), by row of the Calls; ret is `size` where it never returned. key: objects from 0
    on, by row; None if there is one only. starts: the first rank of each object, and `size` at the end."""

    call: Ranks
    ret: Ranks
    size: int
    key: Rows | None
    starts: Rows

    def end(self, ranks: Ranks) -> Rows:
        """The first rank after the object that each rank belongs to."""
        return self.starts[np.searchsorted(self.starts, ranks, side="right")]

    def start(self, ranks: Ranks) -> Rows:
        """The first rank of the object that each rank belongs to."""
        return self.starts[np.searchsorted(self.starts, ranks, side="right") - 1]


def line(calls: Calls) -> Line:
    """Put them on one line. Raises Refused for operations out of order, or that return before they are called."""
    call, ret = calls.call, calls.ret
    if len(call) == 0:
        return Line(call, ret, 0, None, np.zeros(2, dtype=np.intp))
    late = call[1:] < call[:-1]
    if late.any():
        refuse(calls, int(np.argmax(late)) + 1, "is not in the order of the calls")
    early = ret < call
    if early.any():
        refuse(calls, int(np.argmax(early)), "returns before it is called")
    call, ret, size = _distinct(call, ret)
    first = calls.key[0]
    if (calls.key == first).all():
        return Line(call, ret, size, None, np.asarray([0, size]))
    key = objects(calls.key)
    at = np.zeros(size, dtype=np.int64)  # ranks that nobody has go to the first object
    at[call] = key
    back = ret < size
    at[ret[back]] = key[back]
    place = np.empty(size + 1, dtype=call.dtype)
    place[grouped(at)] = np.arange(size, dtype=call.dtype)
    place[size] = size
    starts = np.concatenate(([0], np.cumsum(np.bincount(at))))
    return Line(place[call], place[ret], size, key, starts)


def narrow(top: int) -> type[np.int32] | type[np.int64]:
    """What counts up to `top` fit into: half the memory where it can be."""
    return np.int32 if top < 2**31 else np.int64


def refuse(calls: Calls, row: int, why: str) -> NoReturn:
    """Raise Refused, naming the operation."""
    op = int(calls.op[row])
    raise Refused(f"operation {op if op >= 0 else row} {why}")


def objects(keys: npt.NDArray[np.int64]) -> Rows:
    """Numbers from 0 on in the order of the keys, few of them unused."""
    if len(keys) == 0:
        return keys
    low, high = int(keys.min()), int(keys.max())
    if high - low <= 4 * len(keys):
        return keys - low
    return np.unique(keys, return_inverse=True)[1].astype(np.intp)


def grouped(numbers: Rows) -> Rows:
    """A stable order by numbers that are small and not negative: radix sort by 16 bits at a time, O(n) a digit."""
    order = np.argsort((numbers % DIGIT).astype(np.uint16), kind="stable")
    high = numbers // DIGIT
    while len(high) and high.max() > 0:
        order = order[np.argsort((high % DIGIT).astype(np.uint16)[order], kind="stable")]
        high = high // DIGIT
    return order


def _distinct(call: Ranks, ret: Ranks) -> tuple[Ranks, Ranks, int]:
    """Calls and returns as distinct ranks, and how many ranks there are."""
    back = ret != NEVER
    everyone = bool(back.all())
    last = ret if everyone else ret[back]
    top = max(int(call[-1]), int(last.max()) if len(last) else 0) + 1
    if call[0] >= 0 and top <= SPARE * len(call):
        seen = np.zeros(top, dtype=np.bool_)
        seen[call] = True
        seen[last] = True
        if np.count_nonzero(seen) == len(call) + len(last):
            width = narrow(top)
            return call.astype(width), (ret if everyone else np.minimum(ret, top)).astype(width), top
    order = np.argsort(np.concatenate((call, last)), kind="stable")  # calls first, so they come first in a tie
    top = len(order)
    width = narrow(top)
    rank = np.empty(top, dtype=width)
    rank[order] = np.arange(top, dtype=width)
    ended = np.full(len(ret), top, dtype=width)
    ended[back] = rank[len(call) :]
    return rank[: len(call)], ended, top
