"""Operations of unknown outcome, dealt out to what they must explain before a deadline."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from checkers.linearizability.monitors.ranks import Line, Ranks


def missed(line: Line, calls: Ranks, deadlines: Ranks) -> npt.NDArray[np.bool_]:
    """Which deadlines are not met if, object by object, the j-th one is served by the j-th call. Both are sorted.

    If any way of dealing out the calls, each once and before the deadline it serves, meets all deadlines, this one does
    (Hall: the first j deadlines need j calls before the j-th).
    """
    start = line.start(deadlines)
    nth = np.arange(len(deadlines)) - np.searchsorted(start, start)
    at = np.searchsorted(calls, start) + nth
    served = np.append(calls, line.size)[np.minimum(at, len(calls))]
    return np.asarray(served > deadlines)
