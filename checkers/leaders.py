"""Was there one leader at a time?

From each node's own beliefs: samples (`leader` rows: true at some moment between asked and answered) and, in a
simulation, exact events (`belief` rows: true from then until that node's next one, or until its process ends).

A node *held* leadership over an interval if exact beliefs say so, or if two samples, one after the other and of one
life of its process, both say leader in the same term: from the first one's answer to the second one's question. Who
loses leadership in a term never wins it back in that term, so it held all the while. Where there are no terms, a broker
may tell *reigns*, which are as good for that: two samples of one reign are of a node that led in between. Reigns of
different nodes have nothing to do with each other.

Two nodes that lead in one term break election safety (Ongaro and Ousterhout 2014, figure 3), as does a term that goes
backwards within one life of a process. Claims of different terms may overlap, since a deposed leader does not know it
yet; but then its term can commit nothing new, so no publish that is both invoked and confirmed within the overlap is
its own. A client of a node that does not lead is served through the one that does; so a publish is laid to a node's
account only if that node held leadership itself the whole time, and only then do confirms through two nodes show two
leaders at work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np

from chaos.model.history import NONE, History, Ints
from chaos.model.op import INFO, REMOVED
from chaos.model.settings import Setting, boolean
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.base import Checker, Split, first
from checkers.columns import Rows, indices, publishes

LEADER = "leader"
EXITED = "exited"  # stands for the end of its process among a node's beliefs
KINDS = ("two-leaders", "term-backwards", "dual-confirm", "succession")


@dataclass(frozen=True, slots=True)
class View:
    """What a node held to be true at some moment in [asked, answered] (ns); if exact, from then until it says else."""

    row: int
    key: str
    node: str
    role: str
    term: int | None
    life: int | None
    asked: int
    answered: int
    exact: bool
    reign: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A node said that it leads, from `start` to `end` (ns), in the rows from `row` to `last`.

    sure: it surely led all the while. A claim seen in one sample only has no length.
    """

    key: str
    node: str
    term: int | None
    start: int
    end: int
    row: int
    last: int
    sure: bool


def _names(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) and word for word in words):
        raise ValueError(f'{value!r} is not nodes, such as "n1,n2"')
    return tuple(word.strip() for word in words)


class Leaders(Checker):
    """Two leaders in one term, terms going backwards, confirms through two leaders at once, others than were to follow.

    Counts: `views`, `terms`, `claims`, `changes` of leader; `overlaps` of claims in different terms (no fault; the
    longest is metric `longest_overlap`, ns); `restarts-backwards`, where a new life of a node began with a lower term
    (reported only). Metrics: `longest_vacancy` (ns) between one leader and the next; `claims`: a list of {key, node,
    term, start, end}, times in ns.
    """

    name = "leaders"
    settings = (
        Setting(
            "succession",
            _names,
            (),
            'who is to lead each queue, one after the other, such as "n1,n2"; not set: whoever',
        ),
        Setting(
            "dual_confirm",
            boolean,
            True,
            "confirms through two leaders of different terms at once break a promise; if not, they are counted only",
        ),
    )
    split = Split.RUN

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        seen = views(history)
        held = claims(history, seen)
        overlaps = list(_overlaps(held))
        backwards, restarts = _backwards(history, seen)
        succession = options["succession"]
        dual = list(_dual_confirms(history, overlaps))
        anomalies = [*_two_leaders(history, seen), *backwards, *(dual if options["dual_confirm"] else ())]
        anomalies += _unforeseen(history, held, succession)
        lengths = [end - start for one, other, start, end in overlaps if one.term != other.term]
        terms = {(view.key, view.term) for view in seen if view.role == LEADER and view.term is not None}
        counts = {
            "views": len(seen),
            "terms": len(terms),
            "claims": len(held),
            "changes": _changes(held),
            "overlaps": len(lengths),
            "restarts-backwards": restarts,
            **{kind: sum(anomaly.kind == kind for anomaly in anomalies) for kind in KINDS},
            "dual-confirm": len(dual),
        }
        metrics = {
            "claims": [{"key": c.key, "node": c.node, "term": c.term, "start": c.start, "end": c.end} for c in held],
            "longest_overlap": max(lengths, default=0),
            "longest_vacancy": _longest_vacancy(held),
        }
        if anomalies:
            kinds = dict.fromkeys(anomaly.kind for anomaly in anomalies)
            reason = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS if kind in kinds)
            return Result(self.name, Verdict.INVALID, reason, counts, first(anomalies), metrics)
        if succession and held:
            return Result(self.name, Verdict.VALID, f"led in turn: {', '.join(succession)}", counts, (), metrics)
        if not terms:
            return Result(self.name, Verdict.NOT_APPLICABLE, "no terms to compare", counts, (), metrics)
        reason = "one leader in the only term" if len(terms) == 1 else f"one leader in each of {len(terms):,} terms"
        return Result(self.name, Verdict.VALID, reason, counts, (), metrics)


def views(history: History) -> list[View]:
    """Every answer about leadership, in the order in which the answers were true."""
    found = []
    for row in np.concatenate([history.rows("leader", INFO), history.rows("belief", INFO)]).tolist():
        said = history.detail(row)
        if "role" not in said:
            continue  # nobody answered
        time, term, life = (int(column[row]) for column in (history.time, history.term, history.incarnation))
        found.append(
            View(
                row=row,
                key=history.key[row] or "",
                node=history.node[row] or "",
                role=said["role"],
                term=None if term == NONE else term,
                life=None if life == NONE else life,
                asked=said.get("asked", time),
                answered=said.get("answered", time),
                exact=history.f[row] == "belief",
                reign=said.get("reign"),
            )
        )
    return sorted(found, key=lambda view: (view.answered, view.row))


def claims(history: History, seen: Sequence[View]) -> list[Claim]:
    """When each node said that it leads, ordered by start."""
    last = int(history.time[-1]) if len(history) else 0
    exits: dict[str, list[View]] = defaultdict(list)
    for row in history.rows("exit").tolist():
        node, time = history.node[row] or "", int(history.time[row])
        exits[node].append(View(row, "", node, EXITED, None, None, time, time, exact=True))
    found = []
    for exact in (False, True):
        for of_node in _grouped([view for view in seen if view.exact is exact], lambda view: (view.key, view.node)):
            if exact:
                of_node = sorted([*of_node, *exits[of_node[0].node]], key=lambda view: (view.answered, view.row))
            for run, after in _runs(of_node):
                begun, end = run[0], max(run[0].answered, run[-1].asked)
                if exact:
                    end = last if after is None else after.answered
                sure = exact or begun.term is not None or begun.reign is not None
                found.append(
                    Claim(begun.key, begun.node, begun.term, begun.answered, end, begun.row, run[-1].row, sure)
                )
    return sorted(found, key=lambda claim: (claim.start, claim.row))


T = TypeVar("T")


def _grouped(seen: Sequence[T], key: Callable[[T], object]) -> list[list[T]]:
    groups: dict[object, list[T]] = defaultdict(list)
    for view in seen:
        groups[key(view)].append(view)
    return list(groups.values())


def _runs(seen: Sequence[View]) -> Iterator[tuple[list[View], View | None]]:
    """Each longest run of views that say leader in one term or reign of one life, with the view that came after it."""
    run: list[View] = []
    for view in seen:
        if run and (view.role, view.term, view.life, view.reign) != (LEADER, run[0].term, run[0].life, run[0].reign):
            yield run, view
            run = []
        if view.role == LEADER:
            run.append(view)
    if run:
        yield run, None


def _two_leaders(history: History, seen: Sequence[View]) -> Iterator[Anomaly]:
    leading = [view for view in seen if view.role == LEADER and view.term is not None]
    for of_term in _grouped(leading, lambda view: (view.key, view.term)):
        nodes = {view.node: view.row for view in reversed(of_term)}
        if len(nodes) > 1:
            said = f"{' and '.join(sorted(nodes))} both led {of_term[0].key} in term {of_term[0].term}"
            yield Anomaly("two-leaders", said, indices(history, *nodes.values()), {"term": of_term[0].term})


def _backwards(history: History, seen: Sequence[View]) -> tuple[list[Anomaly], int]:
    """Terms going backwards within a life; and how many lives began with a lower term than the one before. A replica
    that was taken away, and another put in its place, begins anew."""
    found, restarts = [], 0
    for of_node in _grouped(seen, lambda view: (view.key, view.node)):
        removals = list(accumulate(view.role == REMOVED for view in of_node))
        told = zip(of_node, removals, strict=True)
        replicas = [(view, number) for view, number in told if view.term is not None and view.role != REMOVED]
        for (before, _), (view, _) in pairwise(replicas):
            restarts += view.life != before.life and (view.term or 0) < (before.term or 0)
        living = [one for one in replicas if one[0].life is not None]
        for of_life in _grouped(living, lambda one: (one[0].life, one[1])):
            found += list(_steps_back(history, [view for view, _ in of_life]))
    return found, restarts


def _steps_back(history: History, seen: Sequence[View]) -> Iterator[Anomaly]:
    """Views of one life whose term is below that of a view that was surely true before."""
    highest: View | None = None
    place = 0
    for view in sorted(seen, key=lambda view: (view.asked, view.row)):
        while seen[place].answered < view.asked:
            if highest is None or (seen[place].term or 0) >= (highest.term or 0):
                highest = seen[place]
            place += 1
        if highest is not None and (view.term or 0) < (highest.term or 0):
            said = f"{view.node} went back from term {highest.term} to term {view.term} of {view.key} without a restart"
            yield Anomaly("term-backwards", said, indices(history, highest.row, view.row))
            highest = view  # one step back is told once


def _overlaps(held: Sequence[Claim]) -> Iterator[tuple[Claim, Claim, int, int]]:
    """Pairs of sure claims of different nodes to one key that share an interval (start, end) of some length."""
    open_: list[Claim] = []
    for claim in held:
        if not claim.sure:
            continue
        open_ = [other for other in open_ if other.end > claim.start]
        for other in open_:
            start, end = claim.start, min(claim.end, other.end)
            if other.key == claim.key and other.node != claim.node and start < end:
                yield other, claim, start, end
        open_.append(claim)


def _dual_confirms(history: History, overlaps: Sequence[tuple[Claim, Claim, int, int]]) -> Iterator[Anomaly]:
    if not overlaps:
        return
    published = publishes(history)
    confirmed = published.confirmed
    rows, ends = published.row[confirmed], published.end[confirmed]
    order = np.argsort(rows)
    rows, ends = rows[order], ends[order]

    def within(claim: Claim, start: int, end: int) -> tuple[int, int] | None:
        """The first publish through the claim's node that was invoked and confirmed inside (start, end)."""
        mine = _through(history, rows, claim)
        begun, done = history.time[rows[mine]], history.time[ends[mine]]
        low, high = np.searchsorted(begun, start, side="right"), np.searchsorted(begun, end)
        inside = np.flatnonzero(done[low:high] < end)
        return (int(rows[mine][low + inside[0]]), int(ends[mine][low + inside[0]])) if len(inside) else None

    for one, other, start, end in overlaps:
        by_one, by_other = within(one, start, end), within(other, start, end)
        if by_one and by_other:
            ids = [int(history.value[rows_[0]]) for rows_ in (by_one, by_other)]
            terms = "" if one.term is None else f" (terms {one.term} and {other.term})"
            said = (
                f"messages {ids[0]} and {ids[1]} of {one.key} were confirmed through {one.node} and {other.node} while "
                f"both held themselves leader{terms} for {(end - start) / 1e6:.1f} ms"
            )
            ops = indices(history, one.row, one.last, other.row, other.last, *by_one, *by_other)
            yield Anomaly("dual-confirm", said, ops, {"start": start, "end": end})


def _through(history: History, rows: Rows, claim: Claim) -> Ints:
    return np.flatnonzero(history.key.is_(claim.key)[rows] & history.node.is_(claim.node)[rows])


def _unforeseen(history: History, held: Sequence[Claim], succession: Sequence[str]) -> Iterator[Anomaly]:
    """For each key, the first that led and was not to, or who was to lead and never did."""
    for of_key in _grouped(held, lambda claim: claim.key) if succession else []:
        led = [claim for place, claim in enumerate(of_key) if not place or claim.node != of_key[place - 1].node]
        for place, node in enumerate(succession):
            if place == len(led):
                said = f"{node} never led {of_key[0].key}, and was to follow {succession[place - 1]}"
                yield Anomaly("succession", said, indices(history, led[-1].row))
                break
            if led[place].node != node:
                said = f"{led[place].node} led {of_key[0].key} where {node} was to lead"
                yield Anomaly("succession", said, indices(history, led[place].row))
                break


def _longest_vacancy(held: Sequence[Claim]) -> int:
    """The longest time (ns) between the end of one sure claim and the beginning of the next to the same key."""
    longest = 0
    for of_key in _grouped([claim for claim in held if claim.sure], lambda claim: claim.key):
        until = of_key[0].end
        for claim in of_key[1:]:
            longest = max(longest, claim.start - until)
            until = max(until, claim.end)
    return longest


def _changes(held: Sequence[Claim]) -> int:
    """How often leadership passed on: to another node, or to the same one in another term."""
    changes = 0
    last: dict[str, tuple[str, int | None]] = {}
    for claim in held:
        now = (claim.node, claim.term)
        before = last.get(claim.key)
        if before is not None and before[1] is not None and claim.term is not None and claim.term < before[1]:
            continue  # one that does not know yet that it was deposed
        changes += before is not None and before != now
        last[claim.key] = now
    return changes
