"""Ordered channels whose operations overlap, for objects other than queues: most monitors expect none."""

from __future__ import annotations

import numpy as np

from checkers.linearizability.calls import Calls
from checkers.linearizability.monitors.ranks import Line, Rows, grouped, objects, refuse


def overlapping(calls: Calls, line: Line, rows: Rows) -> tuple[Rows, Rows]:
    """Of the rows those in channels of which some begin while others run: an object's and a channel's together, in the
    order of their calls; and a number for each such channel."""
    rows = rows[calls.channel[rows] >= 0]
    if len(rows) == 0:
        return rows, rows
    rows = rows[grouped(objects(calls.channel[rows]))]
    other = np.append(False, calls.channel[rows][1:] != calls.channel[rows][:-1])
    if line.key is not None:
        rows = rows[grouped(line.key[rows])]
        other = np.append(False, calls.channel[rows][1:] != calls.channel[rows][:-1])
        other[1:] |= line.key[rows][1:] != line.key[rows][:-1]
    of = np.cumsum(other)
    runs = np.zeros(int(of[-1]) + 1, dtype=np.bool_)  # where any two overlap, two neighbours do
    runs[of[1:][~other[1:] & (line.ret[rows][:-1] > line.call[rows][1:])]] = True
    return rows[runs[of]], of[runs[of]]


def take_turns(calls: Calls, line: Line, rows: Rows) -> None:
    """Raises Refused if some of the rows are of one channel and overlap."""
    late, _ = overlapping(calls, line, rows)
    if len(late):
        refuse(calls, int(late[0]), "is in an ordered channel of operations that overlap")
