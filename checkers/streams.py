"""Do append-only logs, read by offset, keep what was sent to them, each value at one offset, and hand it out in order?

The anomalies and their rules are those of Jepsen's workload for logs like Kafka's (`jepsen.tests.kafka`), whose checker
this is. The modules of `checkers.logs` say where they do otherwise, and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from chaos.model.history import NONE, History
from chaos.model.settings import Setting, boolean, duration, format_duration, optional
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.base import Checker, first, several
from checkers.logs.cycles import cycles
from checkers.logs.entries import Log, in_log, longest_wait, most_unseen, our_logs
from checkers.logs.lag import Lag, lags
from checkers.logs.positions import polls, sends, within
from checkers.logs.transactions import Transaction, transactions
from checkers.logs.versions import duplicates, inconsistent, orders, polled
from checkers.logs.visibility import aborted, lost, precommitted, tail, unexpected, unseen, writers

KINDS = (
    "lost-write",
    "unseen",
    "unexpected",
    "inconsistent-offsets",
    "duplicate",
    "G1a",
    "precommitted-read",
    "poll-skip",
    "nonmonotonic-poll",
    "nonmonotonic-send",
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "int-send-skip",
    "int-nonmonotonic-send",
    "G0",
    "G1c",
    "G0-realtime",
    "G1c-realtime",
    "max_lag",
)
# what others send comes between, and nothing orders transactions against each other
ALWAYS_ALLOWED = ("int-send-skip", "G0", "G0-realtime")
TO_SUBSCRIBERS = ("poll-skip", "nonmonotonic-poll")  # who may be given other logs between polls
WITH_WW = ("G1c", "G1c-realtime")
_MS = 1_000_000
_LAG = ("time", "process", "key", "lag")
MISSING = ("lost-write", "unseen")  # what a history that goes on may still show


class Streams(Checker):
    """Append-only logs read by offset: lost, unseen, duplicate or inconsistent values, skips, going back, read lag.

    Jepsen's checker for logs like Kafka's. Counts: `transactions`; `logs`; values `sent`, `acknowledged` and `polled`;
    and one a kind of anomaly. Metrics: `worst_realtime_lag`, the poll that was furthest behind, in ns; `most_unseen`,
    how many values at once were acknowledged and not polled; `allowed`, kinds of anomalies that are no fault here.
    """

    name = "streams"
    settings = (
        Setting("ww_deps", boolean, False, "offsets order the transactions that sent to them; G1c is then no fault"),
        Setting("max_lag", optional(duration), None, "limit: no poll is further behind the end of its log"),
    )

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        found = our_logs(history)
        return self._of_ours(history, found, options) if found else self._of_others(history, options)

    def _of_ours(self, history: History, logs: Sequence[Log], options: Mapping[str, Any]) -> Result:
        """Histories of our own workload: `checkers.logs.entries`."""
        faults: list[Anomaly] = []
        kinds: Counter[str] = Counter()
        for log in logs:
            for kind, number, found in in_log(log):
                kinds[kind] += number
                faults += found
        waits = [wait for log in logs if (wait := longest_wait(log)) is not None]
        worst = max(waits, key=lambda wait: wait.lag, default=None)
        limit = options["max_lag"]
        if worst is not None and limit is not None and worst.lag > limit:
            kinds["max_lag"] = 1
            waited = format_duration(worst.lag // _MS * _MS)
            why = f"process {worst.process} waits {waited} for an entry that {worst.key} holds"
            ops = (int(history.index[worst.row]),)
            said = {key: asdict(worst)[key] for key in _LAG}
            faults.append(Anomaly("max_lag", f"{why}, of {format_duration(limit)} at most", ops, said))
        counts = {
            "transactions": sum(len(log.ids) + len(log.row) for log in logs),
            "logs": len(logs),
            "sent": sum(len(log.ids) for log in logs),
            "acknowledged": sum(int(log.confirmed.sum()) for log in logs),
            "polled": sum(len(set(log.value[log.value != NONE].tolist())) for log in logs),
            **{kind: kinds[kind] for kind in KINDS},
        }
        behind = {"time": 0, "lag": 0} if worst is None else {key: asdict(worst)[key] for key in _LAG}
        metrics: dict[str, Any] = {
            "worst_realtime_lag": behind,
            "most_unseen": max(most_unseen(log) for log in logs),
            "allowed": [],
        }
        told = ", ".join(f"{kinds[kind]:,} {kind}" for kind in KINDS if kinds[kind])
        if any(anomaly.kind != "unseen" for anomaly in faults):
            verdict, reason = Verdict.INVALID, told
        elif faults:  # had all been read in the end, what nobody has seen would be lost
            why = f"the history is not whole: {history.cut}" if history.cut else "nobody read all that there is"
            verdict, reason = Verdict.UNKNOWN, f"{told}, and {why}"
        elif not counts["polled"]:
            verdict, reason = Verdict.UNKNOWN, "nothing was polled"
        else:
            verdict, reason = Verdict.VALID, f"{several(counts['polled'], 'value')} polled as sent"
        return Result(self.name, verdict, reason, counts, first(faults), metrics)

    def _of_others(self, history: History, options: Mapping[str, Any]) -> Result:
        """Histories of transactions on logs, as Jepsen's are."""
        done = transactions(history)
        last, unseen_values = tail(done)
        found = [*anomalies(done, ww_deps=options["ww_deps"]), *last]
        worst = max(lags(done), key=lambda lag: lag.lag, default=None)
        found += _behind(done, worst, options["max_lag"])
        seen = polled(done)
        kinds = Counter(anomaly.kind for anomaly in found)
        kinds["unseen"] = unseen_values
        counts = {
            "transactions": sum(not one.assigns for one in done),
            "logs": len(dict.fromkeys(key for one in done for pairs in (one.sends, one.polls) for key in pairs)),
            "sent": _values(done),
            "acknowledged": _values([one for one in done if one.ok]),
            "polled": sum(map(len, seen.values())),
            **{kind: kinds[kind] for kind in KINDS},
        }
        subscribed = any(one.f == "subscribe" for one in done)
        allowed = ALWAYS_ALLOWED + TO_SUBSCRIBERS * subscribed + WITH_WW * options["ww_deps"]
        metrics = {
            "worst_realtime_lag": asdict(worst) if worst else {"time": 0, "lag": 0},
            "most_unseen": max((sum(sizes.values()) for _, sizes, _ in unseen(done)), default=0),
            "allowed": [kind for kind in KINDS if kinds[kind] and kind in allowed],
        }
        faults = [anomaly for anomaly in found if anomaly.kind not in allowed]
        told = ", ".join(f"{kinds[kind]:,} {kind}" for kind in KINDS if kinds[kind] and kind not in allowed)
        sure = history.cut is None or any(anomaly.kind not in MISSING for anomaly in faults)
        if not done:
            verdict, reason = Verdict.NOT_APPLICABLE, "no operations on logs"
        elif faults and sure:
            verdict, reason = Verdict.INVALID, told
        elif faults:
            verdict, reason = Verdict.UNKNOWN, f"{told}, and the history is not whole: {history.cut}"
        elif not counts["polled"]:
            verdict, reason = Verdict.UNKNOWN, "nothing was polled"
        else:
            verdict, reason = Verdict.VALID, f"{several(counts['polled'], 'value')} polled as sent"
        return Result(self.name, verdict, reason, counts, first(faults), metrics)


def anomalies(done: Sequence[Transaction], *, ww_deps: bool = False) -> list[Anomaly]:
    """All that is odd about these transactions, also what is allowed; but for what is unseen. The detail of each has
    Jepsen's fields, with the indices of ops where those have ops."""
    seen, sent = polled(done), writers(done)
    order = orders(done, seen)
    return [
        *lost(done, order, seen, sent),
        *unexpected(done, sent),
        *inconsistent(order),
        *duplicates(order),
        *aborted(done, sent),
        *precommitted(done),
        *polls(done, order),
        *sends(done, order),
        *within(done, order),
        *cycles(done, order, sent, ww_deps),
    ]


def _behind(done: Sequence[Transaction], worst: Lag | None, limit: int | None) -> list[Anomaly]:
    if worst is None or limit is None or worst.lag <= limit:
        return []
    poll = next(one for one in done if one.process == worst.process and one.begun == worst.time and one.ok)
    why = f"a poll of process {worst.process} is {format_duration(worst.lag)} behind the end of {worst.key}"
    return [Anomaly("max_lag", f"{why}, of {format_duration(limit)} at most", (poll.index,), asdict(worst))]


def _values(done: Sequence[Transaction]) -> int:
    return len({(key, value) for one in done for key, pairs in one.sends.items() for _, value in pairs})
