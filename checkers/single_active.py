"""Was one consumer of each queue served at a time?

RabbitMQ's single active consumer: one of a queue's consumers is served, the others stand by, until it is cancelled or
its connection ends (https://www.rabbitmq.com/docs/consumers#single-active-consumer). A broker that cannot reach the
node of a consumer takes it for gone as well, so under faults two may each have been right about it; judged is what
happens when none is in force, and none was for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chaos.model.history import History
from chaos.model.settings import Setting, duration
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.base import Checker, Split, first, several
from checkers.columns import deliveries, indices
from checkers.faults import faults, merged, touches


class SingleActive(Checker):
    """A consumer that was served while another, served before it, was still there, and no fault to excuse it.

    Counts: `deliveries` that came while there was quiet; `consumers` that had one of them; `changes` of who is served;
    `two-active`, those for no reason.
    """

    name = "single-active"
    settings = (
        Setting("settle", duration, "15s", "how long after a fault the broker may still take a consumer for gone"),
    )
    split = Split.RUN

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        took = deliveries(history)
        took = took[history.redelivered[took] <= 0]  # one that comes again may have been on its way for long
        spans = faults(history)
        loud = merged((span.asked, span.end + options["settle"]) for span in spans)
        served: dict[int, tuple[int, int]] = {}  # by queue: the last quiet delivery, and how many faults had begun
        closed = {_channel(history, row): row for row in reversed(history.rows("close").tolist())}
        begun = np.asarray([span.asked for span in spans], dtype=np.int64)
        times = history.time[took]
        consumers: dict[tuple[int, int], None] = {}
        found = []
        quiet = changes = 0
        for row, noisy, after in zip(
            took.tolist(),
            touches(loud, times, times).tolist(),
            np.searchsorted(np.sort(begun), times).tolist(),
            strict=True,
        ):
            if noisy:
                continue
            quiet += 1
            queue, channel = int(history.key.codes[row]), _channel(history, row)
            consumers[channel] = None
            before, since = served.get(queue, (row, after))
            served[queue] = row, after
            if since != after or _channel(history, before) == channel:
                continue
            changes += 1
            if closed.get(_channel(history, before), row) >= row:
                said = (
                    f"{history.key[row]} was consumed by process {channel[0]} while process "
                    f"{_channel(history, before)[0]}, which it had served before, was still there"
                )
                found.append(Anomaly("two-active", said, indices(history, before, row)))
        counts = {"deliveries": quiet, "consumers": len(consumers), "changes": changes, "two-active": len(found)}
        if found:
            reason = f"{several(len(found), 'time')} another consumer was served while the active one was there"
            return Result(self.name, Verdict.INVALID, reason, counts, first(found))
        if not quiet:
            return Result(self.name, Verdict.NOT_APPLICABLE, "nothing was delivered but amid faults", counts)
        reason = f"{several(quiet, 'message')} to one consumer of a queue at a time"
        return Result(self.name, Verdict.VALID, reason, counts)


def _channel(history: History, row: int) -> tuple[int, int]:
    return int(history.process[row]), int(history.channel[row])
