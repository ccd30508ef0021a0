"""A history that is read piece by piece, and need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from chaos.model.history import Columns, History

PIECE = 1 << 16  # rows

Read = Callable[[], Iterator[History]]  # the rows of a history, some at a time, from the first one on at each call


def pieces_of(history: History) -> Read:
    """A history that is in memory."""

    def read() -> Iterator[History]:
        for start in range(0, len(history), PIECE):
            yield history.take(np.arange(start, min(start + PIECE, len(history))))

    return read


def whole(read: Read) -> History:
    """All of a history."""
    columns, cut = Columns(), None
    for some in read():
        columns.join(some)
        cut = some.cut
    return columns.history(cut)
