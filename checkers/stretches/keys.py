"""A long history of many objects, some of them at a time: each is judged by itself, so they need not be in memory at
once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chaos.model.history import NONE, Columns, History, Ints
from chaos.model.op import INVOKE
from checkers.stretches.read import Read, whole


class _Objects:
    """Which object each row of clients is about, as a number, by first appearance; -1 for all other rows."""

    def __init__(self) -> None:
        self.many = 0
        self._numbers: dict[str | None, int] = {}
        self._open, self._of = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)

    def of(self, some: History) -> Ints:
        """Of the next rows. A completion is about what its invocation is about."""
        client = some.process >= 0
        words = (*some.key.words, None)
        for code in dict.fromkeys(some.key.codes[client & (some.op == NONE)].tolist()):
            self._numbers.setdefault(words[code], len(self._numbers))
        self.many = len(self._numbers)
        number = np.array([self._numbers.get(word, -1) for word in words], dtype=np.int64)[some.key.codes]
        begun = client & (some.type == INVOKE)
        waiting, of = np.append(self._open, some.index[begun]), np.append(self._of, number[begun])
        ends = np.flatnonzero(client & (some.op != NONE))
        at = np.searchsorted(waiting, some.op[ends])
        known = np.append(waiting, NONE)[at] == some.op[ends]
        number[ends[known]] = of[at[known]]
        left = np.ones(len(waiting), dtype=np.bool_)
        left[at[known]] = False
        self._open, self._of = waiting[left], of[left]
        return np.where(client, number, -1)


def shares(read: Read, size: int) -> Iterator[History]:
    """All rows of clients about some objects, then of the next ones: of as many as have `size` rows together, or of
    one. A history that has no more is whole."""
    objects = _Objects()
    rows = np.zeros(0, dtype=np.int64)
    total = 0
    for some in read():
        total += len(some)
        number = objects.of(some)
        more = np.bincount(number[number >= 0], minlength=objects.many)
        rows = np.append(rows, np.zeros(objects.many - len(rows), dtype=np.int64)) + more
    if total <= size or len(rows) < 2:
        yield whole(read)
        return
    share, filled = [0], int(rows[0])
    for many in rows[1:].tolist():
        new = filled + many > size
        share.append(share[-1] + new)
        filled = many if new else filled + many
    for one in range(share[-1] + 1):
        objects, kept = _Objects(), Columns()
        for some in read():
            of = objects.of(some)
            kept.join(some.select((of >= 0) & (np.array([*share, -1])[of] == one)))
        yield kept.history()
