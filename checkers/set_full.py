"""When did each element of a set come to be there for good, and did it stay? Jepsen's `set-full`.

After `jepsen.checker/set-full`. An element is *known* when its add has returned ok, or a read that shows it has
returned, whichever comes first. It is *stable* if the last read to show it began after the last one that does not;
*lost* if a read that began when it was known, and after all those that show it, does not; else *never read*. A stable
element that a read missed which began after it was known is *stale*, for as long as that.

Where Jepsen's own code errs, this does what it means to do. It never finds an element twice in one read (it keeps the
multiplicities below 1 of them); here that is `duplicated`, and a fault. It rounds down to milliseconds before it asks
whether an element was stale; here a stale one is stale however briefly. It passes over what is read and was never
added; here that is `unexpected`, and a fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from chaos.model.history import History
from chaos.model.op import INVOKE, OK
from chaos.model.settings import Setting, boolean
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers.base import first
from checkers.columns import NEVER, granted, indices
from checkers.objects import TOLD, Element, ObjectChecker, element, elements, in_order, plain, read_answers, told

POINTS = (0, 0.5, 0.95, 0.99, 1)
WORST = 8


@dataclass
class _Added:
    """An element. add: the row of its invocation. known: the row since which it is known to be there. present: the row
    of the last invocation of a read that shows it; absent: of one that does not. NEVER and -1: no such row."""

    add: int
    known: int = NEVER
    present: int = -1
    absent: int = -1

    @property
    def stable(self) -> bool:
        return self.present > self.absent

    @property
    def lost(self) -> bool:
        return self.absent > self.present and self.absent > self.known

    @property
    def stale(self) -> bool:
        return self.stable and self.absent > self.known


@dataclass(frozen=True)
class _Read:
    begun: int  # its row, and that at which it had returned
    end: int
    seen: Mapping[Element, int]


class SetFull(ObjectChecker):
    """Jepsen's: every element that was added stays in the set, as all its reads show.

    Counts: `attempts`; `stable`; `lost`; `never-read`, of which nothing is known; `stale`; `duplicated`, elements twice
    in one read; `unexpected`, read and never added. Metrics: the elements of the last five; `worst_stale`;
    `stable_latencies` and `lost_latencies`, quantiles of the time in ns from known to stable or lost.
    """

    name = "set-full"
    settings = (
        Setting(
            "linearizable", boolean, False, "what is known to be added must be in every read that begins afterwards"
        ),
    )
    fs = ("add", "read")
    others = ("remove", "contains", "write", "cas")

    def judge(self, ops: History, options: Mapping[str, Any]) -> Result:
        reads = read_answers(ops, list)
        begun = granted(ops, ops.rows("read", OK))
        shown = [
            _Read(start, row, Counter(map(element, answer or [])))
            for start, row, answer in (zip(begun.tolist(), *reads, strict=True) if reads else ())
        ]
        added, unexpected = _timelines(ops, shown)
        ordered = in_order(added)
        doubled = Counter[Element]()
        for read in shown:
            doubled |= Counter({one: times for one, times in read.seen.items() if times > 1})
        found = {
            "lost": [one for one in ordered if added[one].lost],
            "never-read": [one for one in ordered if not added[one].lost and not added[one].stable],
            "stale": [one for one in ordered if added[one].stale],
            "duplicated": in_order(doubled),
            "unexpected": in_order(unexpected),
        }
        stable = [one for one in ordered if added[one].stable]
        counts = {"attempts": len(added), "stable": len(stable), **{kind: len(some) for kind, some in found.items()}}
        stale_for = {one: _since(ops, added[one].known, added[one].absent) for one in found["stale"]}
        metrics: dict[str, Any] = {kind: told(some) for kind, some in found.items()}
        metrics["duplicated"] = [[plain(one), doubled[one]] for one in found["duplicated"][:TOLD]]
        metrics["worst_stale"] = [
            {
                "element": plain(one),
                "latency": stale_for[one],
                "known": int(ops.index[added[one].known]),
                "last_absent": int(ops.index[added[one].absent]),
            }
            for one in sorted(stale_for, key=lambda one: -stale_for[one])[:WORST]
        ]
        metrics["stable_latencies"] = _quantiles([stale_for.get(one, 0) for one in stable])
        metrics["lost_latencies"] = _quantiles(
            [_since(ops, added[one].known, added[one].present) for one in found["lost"]]
        )
        faults = ["lost", "duplicated", "unexpected"] + ["stale"] * options["linearizable"]
        anomalies = self._anomalies(ops, added, unexpected, shown, found)
        anomalies = [anomaly for anomaly in anomalies if anomaly.kind in faults]
        if reads is None:
            verdict, reason = Verdict.NOT_APPLICABLE, "its reads do not answer with elements"
        elif not added and not shown:
            verdict, reason = Verdict.NOT_APPLICABLE, "nothing was added to a set"
        elif anomalies:
            said = ", ".join(f"{counts[kind]:,} {kind}" for kind in faults if counts[kind])
            verdict, reason = Verdict.INVALID, f"{said} of {len(added):,} added"
        elif not stable:
            verdict, reason = Verdict.UNKNOWN, f"no read shows for certain what became of {len(added):,} added"
        else:
            verdict, reason = Verdict.VALID, f"{len(stable):,} of {len(added):,} added are there to stay, none lost"
        return Result(self.name, verdict, reason, counts, first(anomalies), metrics)

    @staticmethod
    def _anomalies(
        ops: History,
        added: Mapping[Element, _Added],
        unexpected: Mapping[Element, int],
        shown: Sequence[_Read],
        found: Mapping[str, Sequence[Element]],
    ) -> list[Anomaly]:
        def of(kind: str) -> Sequence[Element]:
            return found[kind][:ANOMALIES_KEPT]

        anomalies = []
        for one in of("lost"):
            it = added[one]
            last = indices(ops, it.add, it.known, it.present, it.absent)
            when = "had been read" if it.present >= 0 else "was known to be added"
            anomalies.append(Anomaly("lost", f"{plain(one)!r} {when}, and the last read that counts misses it", last))
        for one in of("stale"):
            it = added[one]
            missed = indices(ops, it.add, it.known, it.absent)
            anomalies.append(
                Anomaly("stale", f"{plain(one)!r} was known to be added, and a later read misses it", missed)
            )
        for one in of("duplicated"):
            read = next(read for read in shown if read.seen.get(one, 0) > 1)
            anomalies.append(
                Anomaly("duplicated", f"{plain(one)!r} is more than once in a read", indices(ops, read.end))
            )
        for one in of("unexpected"):
            where = indices(ops, unexpected[one])
            anomalies.append(Anomaly("unexpected", f"{plain(one)!r} is in a read, and no add had begun", where))
        return anomalies


def _timelines(ops: History, reads: Sequence[_Read]) -> tuple[dict[Element, _Added], dict[Element, int]]:
    """What became of each element, and the reads (by row) that first show what was not added."""
    added: dict[Element, _Added] = {}
    rows = ops.rows("add", INVOKE)
    for one, row in zip(elements(ops, rows), rows.tolist(), strict=True):
        it = added.setdefault(one, _Added(row))
        end = int(ops.completion[row])
        if end >= 0 and ops.type[end] == OK:
            it.known = min(it.known, end)
    unexpected: dict[Element, int] = {}
    for read in reads:
        for one in read.seen:
            if one not in added or added[one].add > read.end:
                unexpected.setdefault(one, read.end)
            else:
                it = added[one]
                it.known = min(it.known, read.end)
                it.present = max(it.present, read.begun)
    latest = sorted(reads, key=lambda read: -read.begun)
    # no read from here on returned after this row, so that those cannot have missed what was added later
    ends = list(accumulate((read.end for read in reversed(latest)), max))[::-1]
    for one, it in added.items():
        for read, last in zip(latest, ends, strict=True):
            if last < it.add:
                break
            if read.end > it.add and one not in read.seen:
                it.absent = read.begun
                break
    return added, unexpected


def _since(ops: History, known: int, row: int) -> int:
    """How long after an element was known that was which ended with this row, in ns; Jepsen takes the next moment."""
    return max(0, int(ops.time[row] + 1 - ops.time[known])) if row >= 0 else 0


def _quantiles(latencies: Sequence[int]) -> dict[str, int]:
    ordered = sorted(latencies)
    return {str(point): ordered[min(len(ordered) - 1, int(len(ordered) * point))] for point in POINTS if ordered}
