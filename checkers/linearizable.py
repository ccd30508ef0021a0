"""Is there an order of the operations, as they overlapped, in which one correct object would have given these answers?

After Herlihy and Wing, 1990. Who decides, a monitor or Porcupine, is the planner's choice; what a queue is allowed
beyond handing out each message once is told by `delivery`, see `checkers.linearizability.deliveries`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from chaos.model.history import History, Mask
from chaos.model.op import CONTROLLER, OK
from chaos.model.settings import Setting, boolean, choice, duration, integer, optional, size, text
from chaos.model.verdict import ANOMALIES_KEPT, WINDOW, Anomaly, Result, Verdict
from checkers.base import Checker, first
from checkers.columns import acked, granted, indices, not_before, publishes
from checkers.columns import deliveries as delivered
from checkers.linearizability import deliveries, planner
from checkers.linearizability.calls import NEVER, Calls, F
from checkers.linearizability.counterexample import Counterexample, explain
from checkers.linearizability.from_history import OPERATIONS, calls_of
from checkers.linearizability.verdict import Refused
from checkers.messages import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE

AS_RECORDED = "as-recorded"
QUEUES = ("fifo-queue", "bag")
AGAIN = "redelivered-after-ack"
SMALL = 60  # operations of a window that somebody may look at; of a larger one those that show it are enough
SECOND = 10**9
VERDICTS = {True: Verdict.VALID, False: Verdict.INVALID, None: Verdict.UNKNOWN}


class Linearizable(Checker):
    """One order of all operations, as one correct queue, register, lock, set or log would have answered them.

    Counts: `operations` judged, of so many `objects`; `redelivered-after-ack` of a queue that delivers at least once.
    """

    name = "linearizable"
    settings = (
        Setting("model", choice(*OPERATIONS), "fifo-queue", "what object the operations were on"),
        Setting(
            "engine", choice(*planner.ENGINES), planner.AUTO, "who decides: a monitor where one can, else a search"
        ),
        Setting("timeout", duration, "60s", "how long a search may take"),
        Setting("memory", size, "2GiB", "how much memory a search may take"),
        Setting(
            "delivery",
            choice(AS_RECORDED, AT_LEAST_ONCE, EXACTLY_ONCE, AT_MOST_ONCE),
            AS_RECORDED,
            "what a queue promises; as recorded: at least once if deliveries say whether they are repeats",
            follows="delivery",
        ),
        Setting(
            "delivery_limit",
            integer(0),
            0,
            "the broker drops a message after so many deliveries without an ack; 0 = never",
            follows="delivery_limit",
        ),
        Setting("initial", optional(text), None, "what a register or a counter holds at first, as JSON"),
        Setting(
            "refused_cas", boolean, False, "a cas that failed without an error found another value: not just nothing"
        ),
    )

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        model = options["model"]
        try:
            found = calls_of(history, model, initial=_value(options["initial"]), refused_cas=options["refused_cas"])
        except Refused as why:
            return Result(self.name, Verdict.UNKNOWN, str(why))
        calls = found.calls
        counts = {"operations": len(calls), "objects": len(np.unique(calls.key)), AGAIN: 0}
        if not len(calls):
            return Result(self.name, Verdict.NOT_APPLICABLE, f"no operation of a {model}", counts)
        odd: list[Anomaly] = []
        promise = _promise(history, options["delivery"]) if model in QUEUES else EXACTLY_ONCE
        if promise == AT_LEAST_ONCE:
            odd, counts[AGAIN] = _redelivered_after_ack(history)
            calls = _not_before(history, calls)
            marked = _at_ends(history, calls, history.redelivered != 0)  # or may be, where nobody says
            if (strange := deliveries.unmarked(calls, marked)) is not None:
                shown = Counterexample(
                    strange.sentence, strange.rule, strange.rows, calls.select(np.array(strange.rows))
                )
                odd.append(_anomaly(calls, shown, planner.MONITOR))
            calls = deliveries.at_least_once(calls, marked, _drained(history, calls, options["delivery_limit"]))
        elif promise == AT_MOST_ONCE:
            calls = deliveries.at_most_once(calls)
        decide = partial(
            planner.decide,
            model=model,
            search_as=found.search_as,
            engine=options["engine"],
            timeout=options["timeout"] / SECOND,
            memory=options["memory"],
        )
        decision = decide(calls)
        if decision.valid is False:
            # a part that the monitor does not take may keep a search busy for all its time and memory
            again = partial(decide, engine=planner.MONITOR) if decision.engine == planner.MONITOR else decide
            odd.append(_anomaly(calls, explain(calls, decision, again, model, found.values), decision.engine))
        verdict = Verdict.INVALID if odd else VERDICTS[decision.valid]
        reason = f"{decision.reason} ({decision.engine})"
        if odd:
            reason = f"no order explains these {len(found.calls):,} operations: {odd[-1].kind}"
        return Result(self.name, verdict, reason, counts, first(odd), {"engine": decision.engine})


def _promise(history: History, told: str) -> str:
    """What the queue is judged by."""
    if told != AS_RECORDED:
        return told
    return AT_LEAST_ONCE if bool((history.redelivered >= 0).any()) else EXACTLY_ONCE


def _not_before(history: History, calls: Calls) -> Calls:
    """The same with each delivery called as early as its message may have been taken, whatever was taken back."""
    row = np.searchsorted(history.index, np.maximum(calls.end, 0))
    seen = np.flatnonzero((calls.f == F.TAKE) & (calls.end >= 0) & (row < len(history)))
    soonest = not_before(history, row[seen])
    earlier = soonest < calls.call[seen]
    if not earlier.any():
        return calls
    moved = seen[earlier]
    # ranks must differ: those from one credit on follow it in the order of their deliveries, which is their channel's
    wide, known = len(history) + 1, calls.ret != NEVER
    call, ret = calls.call * wide, calls.ret[known] * wide
    call[moved] = soonest[earlier] * wide + 1 + row[moved]
    ranks = np.unique(np.concatenate([call, ret]))
    rets = calls.ret.copy()
    rets[known] = np.searchsorted(ranks, ret)
    order = np.argsort(call)
    return replace(calls, call=np.searchsorted(ranks, call), ret=rets).select(order)


def _at_ends(history: History, calls: Calls, column: Mask) -> Mask:
    """A column of the history at the completion of each operation; False where there is none."""
    row = np.searchsorted(history.index, np.maximum(calls.end, 0))
    return (calls.end >= 0) & column[np.minimum(row, len(history) - 1)]


def _drained(history: History, calls: Calls, limit: int) -> Mask:
    """Puts that returned before their queue was seen to be empty. None, where the broker may drop messages instead."""
    if limit:
        return np.zeros(len(calls), dtype=np.bool_)
    done = np.full(len(history.key.words) + 1, -1, dtype=np.int64)
    rows = history.rows("drain", OK)
    rows = rows[history.process[rows] == CONTROLLER]
    done[history.key.codes[rows]] = history.index[rows]
    queue = history.key.codes[np.searchsorted(history.index, calls.op)]
    return np.asarray((calls.f == F.PUT) & (calls.end >= 0) & (calls.end < done[queue]))


def _redelivered_after_ack(history: History) -> tuple[list[Anomaly], int]:
    """Messages delivered on a credit that was granted after their ack was known to have taken effect (on an older one
    they may have been on their way already); the first of them, and how many there are."""
    published, took = publishes(history), delivered(history)
    at = published.find(history.value[took])
    took, at = took[at >= 0], at[at >= 0]
    done, credit = acked(history, published)[at], granted(history, took)
    late = np.flatnonzero((credit > done) & (published.home(at) == history.key.codes[took]))
    told = []
    for place in late[:ANOMALIES_KEPT].tolist():
        ops = indices(history, published.row[at[place]], done[place], credit[place], took[place])
        who = f"message {history.value[took[place]]} was delivered again, to process {history.process[took[place]]}"
        told.append(
            Anomaly(AGAIN, f"{who}, on a credit granted after its ack had taken effect", ops, {WINDOW: list(ops)})
        )
    return told, len(late)


def _anomaly(calls: Calls, shown: Counterexample, engine: str) -> Anomaly:
    ops = _ops(calls, shown.rows)
    small = len(shown.window) <= SMALL
    window = _ops(shown.window, range(len(shown.window))) if small else ops
    detail: dict[str, Any] = {"engine": engine, WINDOW: window}
    if shown.stuck is not None:
        detail |= {"stuck": shown.stuck, "longest": _ops(calls, shown.longest)}
    return Anomaly(shown.rule, shown.sentence, tuple(ops), detail)


def _ops(calls: Calls, rows: Iterable[int]) -> list[int]:
    """The ops of operations, by index, in the order of the history."""
    return sorted({int(op) for row in rows for op in (calls.op[row], calls.end[row]) if op >= 0})


def _value(written: str | None) -> Any:
    """What a setting says: JSON, or else a word."""
    if written is None:
        return None
    try:
        return json.loads(written)
    except ValueError:
        return written
