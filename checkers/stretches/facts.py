"""What must be known of a whole history before it can be judged in stretches: one pass over its rows, in order.

That takes a byte a message, and what is open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from chaos.model.history import NONE, History, Ints, Mask
from chaos.model.op import CONTROLLER, CORRUPT, FAIL, FOREIGN, INVOKE, OK
from checkers.columns import coded, deliveries
from checkers.lanes import Lane, lanes_of

CLIENTS = ("publish", "consume", "ack", "open", "close")
LARGEST = 1 << 62  # values from here on stand for others
EMPTY = ("empty", "exhausted")  # errors by which others record an empty answer
MANY = 200  # deliveries of one message, of which there may be more


class Tally:
    """How often each of some numbers came, MANY at the most; a byte for each, if they lie close together."""

    _BITS = 12
    _FEW = 1 << 12  # blocks that are there to be had

    def __init__(self) -> None:
        self._blocks: dict[int, npt.NDArray[np.uint8]] = {}
        self._came = 0

    @property
    def sparse(self) -> bool:
        """Whether the numbers lie so far apart that it takes more room than they do."""
        return len(self._blocks) > self._FEW and len(self._blocks) << self._BITS > 64 * self._came

    def add(self, numbers: Ints) -> None:
        """Each of these once more."""
        self._came += len(numbers)
        some, times = np.unique(numbers, return_counts=True)
        for block, mine in self._by_block(some):
            counts = self._blocks.setdefault(block, np.zeros(1 << self._BITS, dtype=np.uint8))
            at = some[mine] & ((1 << self._BITS) - 1)
            counts[at] = np.minimum(counts[at].astype(np.int64) + times[mine], MANY)

    def of(self, numbers: Ints) -> Ints:
        """How often each of these came."""
        some, place = np.unique(numbers, return_inverse=True)
        found = np.zeros(len(some), dtype=np.int64)
        for block, mine in self._by_block(some):
            if block in self._blocks:
                found[mine] = self._blocks[block][some[mine] & ((1 << self._BITS) - 1)]
        return found[place.reshape(-1)]

    def _by_block(self, some: Ints) -> list[tuple[int, slice]]:
        block = some >> self._BITS
        starts = np.flatnonzero(np.append(True, np.diff(block) > 0)[: len(block)]).tolist()
        return [(int(block[at]), slice(at, end)) for at, end in pairwise([*starts, len(some)])]


@dataclass
class Facts:
    """Of a history of published and consumed messages.

    plain: whether it is one, of messages that are whole numbers, not too far apart, each published once, all rows as we
    record them; of any other nothing else may be asked. rows: how many. delivered: by queue, how often each message was
    delivered intact. published: messages. open: invocations that never ended (indices, ascending). polled: lanes that
    were told that there is nothing. marked: whether any delivery says if it is a repeat. drained: by queue, the index
    at which it was last seen to be empty after a drain of ours. operations: by queue, publishes and credits that did
    not fail.
    """

    plain: bool = True
    rows: int = 0
    delivered: dict[str | None, Tally] = field(default_factory=dict)
    published: Tally = field(default_factory=Tally)
    open: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    polled: frozenset[Lane] = frozenset()
    marked: bool = False
    drained: dict[str | None, int] = field(default_factory=dict)
    operations: dict[str | None, int] = field(default_factory=dict)

    def take(self, some: History) -> None:
        """The next rows."""
        self.rows += len(some)
        if not self.plain:
            return
        client, consumed = some.process >= 0, some.f.is_("consume")
        published, known = some.f.is_("publish"), np.isin(some.f.codes, _codes(some.f.words, CLIENTS))
        done = consumed & (some.type == OK)
        said = np.array([text is not None for text in some.detail_text], dtype=np.bool_)
        named = some.error.codes >= 0
        strange = [
            client & ~known,
            ~client & known,
            published & (some.type == INVOKE) & ((some.value == NONE) | (some.value >= LARGEST)),
            done & ((some.op == NONE) | (some.value >= LARGEST) | ((some.value == NONE) & said & ~named)),
            done & named & ~np.isin(some.error.codes, _codes(some.error.words, (CORRUPT, FOREIGN))),
            consumed & (some.type == FAIL) & named & np.isin(some.error.codes, _codes(some.error.words, EMPTY)),
        ]
        self.plain = not np.logical_or.reduce(strange).any()
        asked = (published | consumed) & (some.type == INVOKE)
        failed = (published | consumed) & (some.type == FAIL)
        for code, number in zip(*np.unique(some.key.codes[asked], return_counts=True), strict=True):
            self._count(some, int(code), int(number))
        for code, number in zip(*np.unique(some.key.codes[failed], return_counts=True), strict=True):
            self._count(some, int(code), -int(number))
        self._messages(some, published, done)
        self.plain &= not any(tally.sparse for tally in (self.published, *self.delivered.values()))
        self._open(some, asked)
        ours = some.rows("drain", OK)
        for row in ours[some.process[ours] == CONTROLLER].tolist():
            self.drained[some.key[row]] = int(some.index[row])

    def _count(self, some: History, code: int, number: int) -> None:
        key = some.key.words[code] if code >= 0 else None
        self.operations[key] = self.operations.get(key, 0) + number

    def _messages(self, some: History, published: Mask, done: Mask) -> None:
        new = some.value[published & (some.type == INVOKE)]
        again = len(np.unique(new)) < len(new) or bool((self.published.of(new) > 0).any())
        self.plain &= not again
        self.published.add(new)
        took = deliveries(some)
        self.marked |= bool((some.redelivered >= 0).any())
        for code in np.unique(some.key.codes[took]).tolist():
            key = some.key.words[code] if code >= 0 else None
            mine = took[some.key.codes[took] == code]
            self.delivered.setdefault(key, Tally()).add(some.value[mine])
        nothing = np.flatnonzero(done & (some.value == NONE) & (some.error.codes < 0))
        lane = coded(some.process[nothing], some.channel[nothing], some.key.codes[nothing])
        self.polled |= frozenset(lanes_of(some, nothing[np.unique(lane, return_index=True)[1]]))

    def _open(self, some: History, asked: Mask) -> None:
        waiting = np.append(self.open, some.index[asked])
        self.open = waiting[~np.isin(waiting, some.op[some.op != NONE])]


def _codes(words: tuple[str, ...], among: tuple[str, ...]) -> list[int]:
    return [code for code, word in enumerate(words) if word in among]
