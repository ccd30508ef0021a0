"""Is there an order of the operations, as they overlapped, in which one correct object would have given these answers?

After Herlihy and Wing, 1990. Who decides, a monitor or Porcupine, is the planner's choice; what a queue is allowed
beyond handing out each message once is told by `delivery`, see `checkers.linearizability.deliveries`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from chaos.model.history import History, Mask
from chaos.model.op import CONTROLLER, OK
from chaos.model.settings import Setting, boolean, choice, duration, integer, optional, size, text
from chaos.model.verdict import ANOMALIES_KEPT, WINDOW, Anomaly, Result, Verdict
from checkers import stretches
from checkers.base import Streamed, first
from checkers.columns import acked, granted, indices, publishes
from checkers.columns import deliveries as delivered
from checkers.lanes import NOTHING, Before, not_before
from checkers.linearizability import deliveries, planner
from checkers.linearizability.calls import NEVER, Calls, F
from checkers.linearizability.counterexample import Counterexample, explain
from checkers.linearizability.from_history import OPERATIONS, calls_of
from checkers.linearizability.verdict import Decision, Refused
from checkers.messages import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE
from checkers.stretches import Facts, Read, Rule, Stretch, Stretches, facts_of

AS_RECORDED = "as-recorded"
QUEUES = ("fifo-queue", "bag")
AGAIN = "redelivered-after-ack"
SHARE = 8_000_000  # rows of other objects than queues that are judged at once
SMALL = 60  # operations of a window that somebody may look at; of a larger one those that show it are enough
SECOND = 10**9
VERDICTS = {True: Verdict.VALID, False: Verdict.INVALID, None: Verdict.UNKNOWN}


class Linearizable(Streamed):
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
        if len(history) > (stretches.LONG if options["model"] in QUEUES else SHARE):
            return self.stream(stretches.pieces_of(history), options)
        return self._alone(history, options)

    def _alone(self, history: History, options: Mapping[str, Any]) -> Result:
        promise = _promise(bool((history.redelivered >= 0).any()), options)
        try:
            found = _judge(Stretch(history), promise, _drains(history), options)
        except Refused as why:
            return Result(self.name, Verdict.UNKNOWN, str(why))
        return self._result(found, options)

    def stream(self, read: Read, options: Mapping[str, Any]) -> Result:
        if options["model"] not in QUEUES:
            return self._of_objects(read, options)
        facts = facts_of(read)
        promise = _promise(facts.marked, options)
        rule = _rule(facts, promise, options)
        parts = Stretches(read, facts, rule)
        judged: list[_Judged] = []
        for one in parts:
            if one.alone:
                return self._alone(one.history, options)
            found = _judge(one, promise, facts.drained, options, decided=parts.anywhere)
            if one.early:  # what comes of single messages is found again
                if found.shown is None:
                    continue
                found = replace(found, again=0, odd=())
            judged.append(found)
            parts.anywhere = parts.anywhere or found.shown is not None
        counted = [many for many in facts.operations.values() if many]
        each = f"each of {len(judged):,} stretches has such an order"
        return self._result(_joined(judged, sum(counted), len(counted), each), options)

    def _of_objects(self, read: Read, options: Mapping[str, Any]) -> Result:
        """Of objects other than queues, some at a time; but of registers that are read and written together."""
        if options["model"] == "multi-register":
            return self._alone(stretches.whole(read), options)
        found = [_judge(Stretch(share), EXACTLY_ONCE, {}, options) for share in stretches.shares(read, SHARE)]
        if len(found) == 1:
            return self._result(found[0], options)
        operations, objects = sum(one.operations for one in found), sum(one.objects for one in found)
        each = f"those on each of {len(found):,} groups of objects have such an order"
        return self._result(_joined(found, operations, objects, each), options)

    def _result(self, found: _Judged, options: Mapping[str, Any]) -> Result:
        counts = {"operations": found.operations, "objects": found.objects, AGAIN: found.again}
        if found.decision is None:
            return Result(self.name, Verdict.NOT_APPLICABLE, f"no operation of a {options['model']}", counts)
        odd = [one for one in (*found.odd, found.strange, found.shown) if one is not None]
        verdict = Verdict.INVALID if odd else VERDICTS[found.decision.valid]
        reason = f"{found.decision.reason} ({found.decision.engine})"
        if odd:
            reason = f"no order explains these {found.operations:,} operations: {odd[-1].kind}"
        return Result(self.name, verdict, reason, counts, first(odd), {"engine": found.decision.engine})


@dataclass(frozen=True)
class _Judged:
    """What came of a history, or of a stretch of it. operations, of so many objects. odd: messages that came again
    after their ack, the first of so many (`again`). strange: one that was new after it had been delivered. shown: why
    there is no order. decision: None where nobody asked for one."""

    operations: int
    objects: int
    again: int = 0
    odd: tuple[Anomaly, ...] = ()
    strange: Anomaly | None = None
    shown: Anomaly | None = None
    decision: Decision | None = None


def _judge(
    stretch: Stretch, promise: str, drained: Mapping[str | None, int], options: Mapping[str, Any], decided: bool = False
) -> _Judged:
    """Judge a stretch. decided: that the history has no order is known already. Raises Refused as `calls_of` does."""
    history, model = stretch.history, options["model"]
    found = calls_of(history, model, initial=_value(options["initial"]), refused_cas=options["refused_cas"])
    calls = found.calls
    judged = _Judged(len(calls), len(np.unique(calls.key)))
    if not len(calls):
        return judged
    if promise == AT_LEAST_ONCE:
        odd, again = _redelivered_after_ack(history)
        judged = replace(judged, odd=tuple(odd), again=again)
        if decided:
            return judged
        calls = _not_before(history, calls, stretch.before)
        marked = _at_ends(history, calls, history.redelivered != 0)  # or may be, where nobody says
        if (strange := deliveries.unmarked(calls, marked)) is not None:
            shown = Counterexample(strange.sentence, strange.rule, strange.rows, calls.select(np.array(strange.rows)))
            judged = replace(judged, strange=_anomaly(calls, shown, planner.MONITOR))
        calls = deliveries.at_least_once(
            calls, marked, _drained(history, calls, {} if options["delivery_limit"] else drained)
        )
    elif promise == AT_MOST_ONCE:
        calls = deliveries.at_most_once(calls)
    if decided:
        return judged
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
        again_ = partial(decide, engine=planner.MONITOR) if decision.engine == planner.MONITOR else decide
        shown = explain(calls, decision, again_, model, found.values)
        judged = replace(judged, shown=_anomaly(calls, shown, decision.engine))
    return replace(judged, decision=decision)


def _joined(parts: Sequence[_Judged], operations: int, objects: int, each: str) -> _Judged:
    """What came of a history of so many operations, on so many objects, of which these are stretches, or some of the
    objects: the first that has no order stands for all. each: what is said where all have one."""
    decisions = [part.decision for part in parts if part.decision is not None]
    decision = next((one for one in decisions if one.valid is not True), None)
    if decision is None and decisions:
        decision = replace(decisions[0], reason=f"of {operations:,} operations {each}")
    return _Judged(
        operations,
        objects,
        sum(part.again for part in parts),
        first(one for part in parts for one in part.odd),
        next((part.strange for part in parts if part.strange is not None), None),
        next((part.shown for part in parts if part.shown is not None), None),
        decision,
    )


def _rule(facts: Facts, promise: str, options: Mapping[str, Any]) -> Rule:
    """Which messages that nobody saw are not to be left out."""
    ordered = options["model"] == "fifo-queue"
    if promise == EXACTLY_ONCE:
        return Rule(ordered, otherwise=stretches.ALWAYS)
    return Rule(ordered, facts.drained if promise == AT_LEAST_ONCE and not options["delivery_limit"] else {})


def _promise(marked: bool, options: Mapping[str, Any]) -> str:
    """What the queue is judged by. marked: whether any delivery says if it is a repeat."""
    if options["model"] not in QUEUES:
        return EXACTLY_ONCE
    told: str = options["delivery"]
    if told != AS_RECORDED:
        return told
    return AT_LEAST_ONCE if marked else EXACTLY_ONCE


def _not_before(history: History, calls: Calls, before: Before = NOTHING) -> Calls:
    """The same with each delivery called as early as its message may have been taken, whatever was taken back."""
    row = np.searchsorted(history.index, np.maximum(calls.end, 0))
    seen = np.flatnonzero((calls.f == F.TAKE) & (calls.end >= 0) & (row < len(history)))
    soonest = not_before(history, row[seen], before)
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


def _drains(history: History) -> dict[str | None, int]:
    """By queue the index at which it was last seen to be empty, after a drain of ours."""
    rows = history.rows("drain", OK)
    rows = rows[history.process[rows] == CONTROLLER]
    return {history.key[row]: int(history.index[row]) for row in rows.tolist()}


def _drained(history: History, calls: Calls, drains: Mapping[str | None, int]) -> Mask:
    """Puts that returned before their queue was seen to be empty. None, where the broker may drop messages instead."""
    done = np.array([drains.get(word, -1) for word in (*history.key.words, None)], dtype=np.int64)
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
