"""What a history says of faults, leadership and phases, as intervals on the run's clock (ns)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chaos.model.history import NONE, History
from chaos.model.op import FAIL, INFO, INVOKE, OK
from chaos.model.schedule import Action, whom


@dataclass(frozen=True, slots=True)
class Span:
    """An interval. `end` is the end of the history where nothing ended it."""

    begin: int
    end: int

    def holds(self, time: int) -> bool:
        return self.begin <= time < self.end


@dataclass(frozen=True, slots=True)
class FaultBand(Span):
    """A fault, from when it was in force on its first node until it was undone on its last.

    role: what it was aimed at; whom: whom that turned out to be. bit: whether it had an effect, None where nothing
    could tell. problem: why it could not be injected, or undone.
    """

    id: str = ""
    nemesis: str = ""
    kind: str = ""
    role: str = ""
    whom: str = ""
    bit: bool | None = None
    evidence: str = ""
    problem: str = ""
    undone: bool = False

    @property
    def label(self) -> str:
        """What it does to whom, in a few words: "partition leader: n2"."""
        what = f"{self.nemesis} {self.kind}" if self.kind and self.kind != self.nemesis else self.nemesis or self.id
        return f"{what}: {self.whom}" if self.whom else what


@dataclass(frozen=True, slots=True)
class Claim(Span):
    """A node held itself leader of `scope`. A sampled claim reaches from the first answer that said so to the last."""

    scope: str = ""
    node: str = ""
    term: int | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Phase(Span):
    """A phase of the run."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """Leadership of `scope` passed to `node`, from `before` (None at the first)."""

    time: int
    scope: str
    node: str
    term: int | None
    before: str | None


@dataclass(frozen=True, slots=True)
class Exit:
    """A broker process ended; `asked` when one of our faults did it."""

    time: int
    node: str
    reason: str
    asked: bool


@dataclass(frozen=True)
class Timeline:
    """All of it, ordered by time. `begin` is when the first client was opened: before, there is only provisioning."""

    begin: int
    end: int
    nodes: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    faults: tuple[FaultBand, ...] = ()
    claims: tuple[Claim, ...] = ()
    changes: tuple[Change, ...] = ()
    exits: tuple[Exit, ...] = ()
    scopes: tuple[str, ...] = field(default=())

    def in_force(self, time: int) -> list[FaultBand]:
        """The faults in force at a time."""
        return [fault for fault in self.faults if fault.holds(time)]

    def leaders(self, scope: str, time: int) -> list[Claim]:
        """Who held itself leader of a scope at a time."""
        return [claim for claim in self.claims if claim.scope == scope and claim.begin <= time <= claim.end]


def timeline(history: History) -> Timeline:
    """Read the intervals off a history. What a row does not say is left out, never guessed."""
    end = int(history.time[-1]) if len(history) else 0
    phases = _phases(history, end)
    claims = _claims(history, end)
    opened = [phase.begin for phase in phases if phase.name not in ("provision",)]
    words = [word for word in history.node.words if word]
    return Timeline(
        begin=opened[0] if opened else int(history.time[0]) if len(history) else 0,
        end=end,
        nodes=tuple(sorted(set(words), key=lambda name: (len(name), name))),
        phases=tuple(phases),
        faults=tuple(_faults(history, end)),
        claims=tuple(claims),
        changes=tuple(_changes(claims)),
        exits=tuple(_exits(history)),
        scopes=tuple(sorted({claim.scope for claim in claims})),
    )


def _phases(history: History, end: int) -> list[Phase]:
    rows = history.rows("phase")
    starts = [int(history.time[row]) for row in rows]
    names = [str(history.detail(row).get("name", "?")) for row in rows]
    ends = [*starts, end][1:]
    return [Phase(begin, after, name) for begin, after, name in zip(starts, ends, names, strict=True)]


def _faults(history: History, end: int) -> list[FaultBand]:
    undone: dict[str, int] = {}
    for row in history.rows("undo", OK, FAIL, INFO):
        undone.setdefault(history.key[row] or "", row)
    spans = []
    for row in history.rows("inject", INVOKE):
        fault = history.key[row] or ""
        answer = int(history.completion[row])
        plan, done = history.detail(row), history.detail(answer) if answer >= 0 else {}
        said: Mapping[str, Any] = {**plan, **done}
        begin, finish = int(history.time[answer if answer >= 0 else row]), end
        problem = "no answer to its injection" if answer < 0 else ""
        if answer >= 0 and history.type[answer] != OK:
            problem, finish = history.error[answer] or "it could not be injected", begin
        begin = min(_times(said.get("in_force")), default=begin)
        bit, evidence, last = None, str(said.get("evidence") or ""), undone.get(fault)
        if last is not None:
            undo = history.detail(last)
            finish = max(_times(undo.get("times")), default=int(history.time[last]))
            bit = undo.get("bit") if isinstance(undo.get("bit"), bool) else None
            evidence = "; ".join(filter(None, (evidence, str(undo.get("evidence") or ""))))
            if history.type[last] != OK:
                problem = history.error[last] or "it could not be undone"
        spans.append(
            FaultBand(
                begin,
                max(begin, finish),
                id=fault,
                nemesis=str(said.get("nemesis") or fault.rpartition("-")[0]),
                kind=str(said.get("kind") or ""),
                role=str(said.get("target") or ""),
                whom=whom(Action.from_json(action) for action in said.get("actions") or ()),
                bit=bit,
                evidence=evidence,
                problem=problem,
                undone=last is not None,
            )
        )
    return sorted(spans, key=lambda span: span.begin)


def _times(times: object) -> list[int]:
    return [int(time) for time in times.values() if isinstance(time, int)] if isinstance(times, Mapping) else []


def _claims(history: History, end: int) -> list[Claim]:
    """Beliefs hold until the node's next one or its exit; samples join up while they say the same."""
    open_: dict[tuple[str, str], Claim] = {}
    done: list[Claim] = []
    views = np.concatenate([history.rows("belief"), history.rows("leader", OK, INFO), history.rows("exit")])
    for row in np.sort(views).tolist():
        f, node, time = history.f[row], history.node[row] or "?", int(history.time[row])
        if f == "exit":
            for place in [place for place in open_ if place[1] == node]:
                done.append(_closed(open_.pop(place), time))
            continue
        detail = history.detail(row)
        scope, exact = history.key[row] or "", f == "belief"
        term = None if history.term[row] == NONE else int(history.term[row])
        at = time if exact else int(detail.get("answered", time))
        before = open_.get((scope, node))
        if detail.get("role") == "leader":
            if before is not None and before.term == term:
                open_[scope, node] = Claim(before.begin, at, scope, node, term, exact)
                continue
            open_[scope, node] = Claim(at, at, scope, node, term, exact)
        else:
            open_.pop((scope, node), None)
        if before is not None:
            done.append(_closed(before, at))
    done.extend(_closed(claim, end) for claim in open_.values())
    return sorted(done, key=lambda claim: (claim.begin, claim.scope, claim.node))


def _closed(claim: Claim, time: int) -> Claim:
    """An exact claim held until now; of a sampled one it is only known until its last answer."""
    end = max(claim.begin, time) if claim.exact else claim.end
    return Claim(claim.begin, end, claim.scope, claim.node, claim.term, claim.exact)


def _changes(claims: Sequence[Claim]) -> list[Change]:
    """In each scope, the claims of a newer term (or where there are no terms, of another node) than all before."""
    last: dict[str, Claim] = {}
    changes = []
    for claim in claims:
        before = last.get(claim.scope)
        if before is not None:
            newer = claim.term > before.term if claim.term is not None and before.term is not None else None
            if newer is False or (newer is None and claim.node == before.node):
                continue
        last[claim.scope] = claim
        changes.append(Change(claim.begin, claim.scope, claim.node, claim.term, before.node if before else None))
    return changes


def _exits(history: History) -> list[Exit]:
    return [
        Exit(
            int(history.time[row]),
            history.node[row] or "?",
            history.error[row] or "",
            bool(history.detail(row).get("asked")),
        )
        for row in history.rows("exit").tolist()
    ]
