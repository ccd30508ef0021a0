"""Was every confirmed message delivered, and nothing else?

After Jepsen's queue checker (`total-queue`), with the outcomes that a broker's own promises need. Judged by message
id, each message by itself.

A publish is confirmed (ok), failed (certainly not enqueued) or unknown. *Lost*: confirmed, and never delivered from its
queue although that queue was then drained completely. Without a complete drain, or in a history that was cut, a
confirmed message that was not seen is only *missing*, and the verdict at best unknown.

Limits of what can be said. A broker that drops messages after so many deliveries (RabbitMQ's `x-delivery-limit`) may
drop one whose every delivery went down with its consumer's connection; tell `delivery_limit`, and a message that enough
connections could have had is missing instead of lost. Expiry, maximum lengths and dead-lettering are not modelled: a
workload that uses them must not ask this checker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chaos.model.history import History, Ints, Mask
from chaos.model.op import CORRUPT, FAIL, FOREIGN, INFO, OK
from chaos.model.settings import Setting, choice, integer
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers.base import Part, Parted, Split, added, first
from checkers.columns import NEVER, Publishes, Rows, acked, coded, deliveries, earliest, granted, indices, publishes

AT_LEAST_ONCE, EXACTLY_ONCE, AT_MOST_ONCE = "at-least-once", "exactly-once", "at-most-once"
ALLOWED = {AT_LEAST_ONCE: {"duplicated"}, EXACTLY_ONCE: set[str](), AT_MOST_ONCE: {"lost"}}
KINDS = (
    "lost",
    "duplicated",
    "unexpected",
    "undead",
    "corrupted",
    "foreign",
    "misrouted",
    "redelivered-after-ack",
)


class Messages(Parted):
    """Lost, duplicated, unexpected, undead, recovered, corrupted, foreign, misrouted, redelivered after a known ack.

    unexpected: delivered, and never published in this run. undead: delivered although its publish failed. recovered:
    delivered after a publish of unknown outcome (no fault). misrouted: delivered from another queue than it was
    published to; that is no delivery from its own queue. redelivered-after-ack: delivered again on a credit that was
    granted after its ack was known to have taken effect; on an older credit it may have been on its way already.
    Metric `most_deliveries`: how often the message was delivered that was delivered most often.
    """

    name = "messages"
    settings = (
        Setting(
            "delivery",
            choice(AT_LEAST_ONCE, EXACTLY_ONCE, AT_MOST_ONCE),
            AT_LEAST_ONCE,
            "what is promised: at least once allows duplicates, at most once allows losses, exactly once neither",
            follows="delivery",
        ),
        Setting(
            "delivery_limit",
            integer(0),
            0,
            "the broker drops a message after so many deliveries without an ack; 0 = never",
            follows="delivery_limit",
        ),
    )
    split = Split.MESSAGE

    def part(self, history: History, options: Mapping[str, Any]) -> Part:
        published = publishes(history)
        took = deliveries(history)
        at = published.find(history.value[took])
        stray = _stray(history, took) | ((at >= 0) & (history.key.codes[took] != published.home(at)))
        ours = (at >= 0) & ~stray
        mine, of = took[ours], at[ours]
        times = np.bincount(of, minlength=len(published))

        drained = _drained(history)
        confirmed = published.confirmed
        unseen = confirmed & (times == 0)
        # a confirm that came after the drain was seen to be complete is no part of what was drained
        whole = unseen & (published.end < drained[published.key]) & (history.cut is None)
        limit = options["delivery_limit"]
        dropped = whole & _may_be_dropped(history, published, limit) if limit else np.zeros_like(whole)
        lost = whole & ~dropped
        acked_at = acked(history, published)
        again = granted(history, mine) > acked_at[of]
        errors = {kind: history.rows("consume", OK) for kind in (CORRUPT, FOREIGN)}
        errors = {kind: rows[history.error.is_(kind)[rows]] for kind, rows in errors.items()}

        found: dict[str, Rows] = {
            "lost": np.flatnonzero(lost),
            "duplicated": np.flatnonzero(times > 1),
            "unexpected": took[(at < 0) & ~stray],
            "undead": mine[published.outcome[of] == FAIL],
            "corrupted": errors[CORRUPT],
            "foreign": errors[FOREIGN],
            "misrouted": took[stray],
            "redelivered-after-ack": mine[again],
        }
        counts = {
            "attempts": len(published),
            "confirmed": int(confirmed.sum()),
            "failed": int((published.outcome == FAIL).sum()),
            "unknown": int((published.outcome == INFO).sum()),
            "delivered": int((times > 0).sum()),
            "deliveries": len(took),
            "acked": int((acked_at < NEVER).sum()),
            "recovered": int(((published.outcome == INFO) & (times > 0)).sum()),
            "missing": int((unseen & ~lost).sum()),
            **{kind: len(rows) for kind, rows in found.items()},
        }
        allowed = ALLOWED[options["delivery"]]
        tell = _Tell(history, published, drained, acked_at)
        anomalies = first(
            anomaly for kind in KINDS if kind not in allowed for anomaly in tell.first_of(kind, found[kind])
        )
        facts = {
            "most_deliveries": int(times.max(initial=0)),
            "cut": history.cut,
            "undrained": _undrained(history, published, drained),
            "dropped": bool(dropped.any()),
        }
        return Part(counts, anomalies, facts)

    def merge(self, parts: Sequence[Part], options: Mapping[str, Any]) -> Result:
        counts, anomalies = added(parts)
        faults = [kind for kind in KINDS if counts[kind] and kind not in ALLOWED[options["delivery"]]]
        verdict, reason = _judge(counts, faults, [part.facts for part in parts])
        most = max(part.facts["most_deliveries"] for part in parts)
        return Result(self.name, verdict, reason, counts, anomalies, {"most_deliveries": most})


def _judge(counts: Mapping[str, int], faults: Sequence[str], facts: Sequence[Mapping[str, Any]]) -> tuple[Verdict, str]:
    if faults:
        several = ", ".join(f"{counts[kind]:,} {kind}" for kind in faults)
        return Verdict.INVALID, f"{several} ({counts['confirmed']:,} confirmed of {counts['attempts']:,} published)"
    if not counts["attempts"] and not counts["deliveries"]:
        return Verdict.NOT_APPLICABLE, "nothing was published"
    missing = f"; {counts['missing']:,} of {counts['confirmed']:,} confirmed messages were not seen"
    cut = facts[0]["cut"]
    if cut is not None:
        return Verdict.UNKNOWN, f"the history is cut ({cut}){missing}"
    undrained: dict[str, str] = {}
    for each in facts:
        undrained |= each["undrained"]
    if undrained:
        queues = sorted(undrained)
        return Verdict.UNKNOWN, f"no complete drain of {', '.join(queues)}{undrained[queues[0]]}{missing}"
    if any(each["dropped"] for each in facts):
        return Verdict.UNKNOWN, f"the delivery limit may have dropped messages{missing}"
    if counts["missing"]:
        return Verdict.UNKNOWN, f"some were confirmed only after the drain{missing}"
    return Verdict.VALID, f"none lost of {counts['confirmed']:,} confirmed"


def _stray(history: History, took: Rows) -> Mask:
    """Which deliveries say in their payload that they were published to another queue."""
    stray = np.zeros(len(took), dtype=np.bool_)
    for place, row in enumerate(took.tolist()):
        if history.detail_text[row]:
            stray[place] = history.detail(row).get("queue", history.key[row]) != history.key[row]
    return stray


def _drained(history: History) -> Ints:
    """For each queue (by code; last, none) the row at which its drain was complete, -1 where it never was."""
    drained = np.full(len(history.key.words) + 1, -1, dtype=np.int64)
    rows = history.rows("drain", OK)
    drained[history.key.codes[rows]] = rows
    drained[-1] = -1
    return drained


def _undrained(history: History, published: Publishes, drained: Ints) -> dict[str, str]:
    """The queues that were published to and never drained completely, each with why not."""
    codes = [code for code in np.unique(published.key).tolist() if code >= 0 and drained[code] < 0]
    return {history.key.words[code]: _why_not(history, history.key.words[code]) for code in codes}


def _why_not(history: History, queue: str) -> str:
    rows = history.rows("drain", INFO)
    errors = [history.error[row] for row in rows[history.key.is_(queue)[rows]].tolist()]
    return f" ({errors[-1]})" if errors and errors[-1] else ""


def _may_be_dropped(history: History, published: Publishes, limit: int) -> Mask:
    """Which messages `limit` connections of consumers could have had: as many were there after the publish began."""
    rows = history.rows("consume")
    connection = coded(history.key.codes[rows], history.process[rows], history.channel[rows])
    _, from_end = np.unique(connection[::-1], return_index=True)
    last = rows[::-1][from_end]  # of each connection
    may = np.zeros(len(published), dtype=np.bool_)
    for code in np.unique(published.key):
        ends = np.sort(last[history.key.codes[last] == code])
        of_queue = published.key == code
        may[of_queue] = len(ends) - np.searchsorted(ends, published.row[of_queue]) >= limit
    return may


class _Tell:
    """Puts one finding into words and names its ops."""

    def __init__(self, history: History, published: Publishes, drained: Ints, acked_at: Ints) -> None:
        self._history = history
        self._published = published
        self._drained = drained
        self._acked_at = acked_at

    def first_of(self, kind: str, rows: Rows) -> list[Anomaly]:
        """The first of them, in the order of their ops, whichever others there are."""
        published = self._published
        if kind == "lost":
            told = earliest(ANOMALIES_KEPT, published.row[rows])
        elif kind == "duplicated":
            told = earliest(ANOMALIES_KEPT, np.minimum(published.row, self._first_taken())[rows])
        elif kind in ("undead", "misrouted", "redelivered-after-ack"):
            at = published.find(self._history.value[rows])
            known = np.append(published.row, -1)[at], np.append(published.end, -1)[at]
            if kind == "redelivered-after-ack":
                known = known[0], np.append(self._acked_at, -1)[at]
                told = earliest(ANOMALIES_KEPT, *known, granted(self._history, rows), rows)
            else:
                told = earliest(ANOMALIES_KEPT, *known, rows)
        else:
            told = earliest(ANOMALIES_KEPT, rows)
        return [self._anomaly(kind, row) for row in rows[told].tolist()]

    def _first_taken(self) -> Rows:
        """For each publish, the row of its first delivery from its own queue; NEVER where there is none."""
        history, published = self._history, self._published
        took = deliveries(history)
        at = published.find(history.value[took])
        mine = (at >= 0) & (published.home(at) == history.key.codes[took])
        found = np.full(len(published), NEVER, dtype=np.int64)
        np.minimum.at(found, at[mine], took[mine])
        return found

    def _anomaly(self, kind: str, row: int) -> Anomaly:
        if kind in ("lost", "duplicated"):
            return self._of_message(kind, row)
        history, published = self._history, self._published
        queue, value = history.key[row], int(history.value[row])
        at = int(published.find(np.array([value]))[0])
        begun, end = (int(published.row[at]), int(published.end[at])) if at >= 0 else (-1, -1)
        ops = [begun, end, row]
        match kind:
            case "unexpected":
                said = f"message {value} was delivered from {queue}, and nobody published it in this run"
            case "undead":
                why = history.error[end] or "fail"
                said = f"message {value} was delivered from {queue} although its publish had failed ({why})"
            case "misrouted":
                home = history.detail(row).get("queue") or history.key.words[published.key[at]]
                said = f"message {value} was published to {home} and delivered from {queue}"
            case "redelivered-after-ack":
                ops = [begun, int(self._acked_at[at]), int(granted(history, np.array([row]))[0]), row]
                said = f"message {value} was delivered from {queue} again after its ack had taken effect"
            case _:
                ops = [row]
                what = history.detail(row).get("what")
                problem = "did not match its checksum" if kind == "corrupted" else "is not one of this run"
                said = f"a message delivered from {queue} {problem}{f' ({what})' if what else ''}"
        return Anomaly(kind, said, indices(history, *ops))

    def _of_message(self, kind: str, at: int) -> Anomaly:
        history, published = self._history, self._published
        value, queue = int(published.id[at]), history.key[int(published.row[at])]
        begun, end = int(published.row[at]), int(published.end[at])
        if kind == "lost":
            drain = int(self._drained[published.key[at]])
            said = f"message {value} was confirmed and never delivered, though {queue} was drained completely"
            return Anomaly(kind, said, indices(history, begun, end, drain))
        took = deliveries(history)
        took = took[(history.value[took] == value) & (history.key.codes[took] == published.key[at])]
        said = f"message {value} was delivered from {queue} {len(took)} times"
        return Anomaly(kind, said, indices(history, begun, *took.tolist()))
