"""The rules of a gate: pure functions from a policy and the evidence to findings, each a sentence with its numbers.

A rule is *open*, *shut*, or *undecided*: what it would be judged by is not there, and nothing that is there speaks
against it. Cells that a quarantine excuses must have run like all others; what came out of them shuts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from math import inf
from statistics import median

from chaos.model.settings import format_duration
from chaos.model.verdict import Verdict
from chaos.quarantine import Quarantine
from results.gate.evidence import Evidence, Ran
from results.gate.policy import CELL, PASS, Baseline, Control, Policy, Wanted
from results.gate.statistics import fisher, least_fisher, least_mann_whitney, mann_whitney
from results.suite_runs import Cell
from results.text import plural

NAMED = 3  # cells or runs that a finding names; the others it counts
TIMES = ("outage", "recovery", "failover")


class Status(StrEnum):
    OPEN = "open"
    SHUT = "shut"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says. `rule`: its name, "outage survives-*"; `says`: why, with the numbers."""

    rule: str
    status: Status
    says: str


def judge(policy: Policy, found: Evidence, now: datetime, baseline: Evidence | None = None) -> list[Finding]:
    """Every rule of the policy, and those that every gate has. `baseline`: the evidence of the policy's baseline."""
    findings = [*_suite(policy, found), _complete(found), _tables(found), _rejected(policy, found)]
    findings += [_expected(found, now), _unknown(policy, found, now), *_quarantined(policy, found, now)]
    findings += [*_age(policy, found, now), *_commit(policy, found)]
    for wanted in policy.scenarios:
        findings += _wanted(wanted, found, now)
    findings += [_control(control, found) for control in policy.controls]
    if policy.baseline is not None:
        assert baseline is not None
        findings += _baseline(policy.baseline, found, baseline, now)
    return findings


def conclude(findings: Sequence[Finding]) -> Status:
    """Shut if a rule is, else undecided if one is, else open. Without any rule nothing opens."""
    statuses = {finding.status for finding in findings} or {Status.SHUT}
    return next(status for status in (Status.SHUT, Status.UNDECIDED, Status.OPEN) if status in statuses)


# ----------------------------------------------------------------------------------------------- what every gate asks


def _suite(policy: Policy, found: Evidence) -> Iterator[Finding]:
    if policy.suite is not None:
        name = found.run.plan.suite
        yield _finding(
            "suite", name == policy.suite, f"{found.run.id} is a run of {name!r}", f"not of {policy.suite!r}"
        )


def _complete(found: Evidence) -> Finding:
    planned = sum(1 for _ in found.run.plan.planned())
    bad = []
    if not planned:
        bad.append("nothing was planned")
    if found.run.absent:
        bad.append(f"parts {', '.join(map(str, found.run.absent))} of {found.run.plan.shard[1]} are not here")
    if found.missing:
        names = [f"{cell} seed {seed}" for cell, seed, _ in found.missing]
        bad.append(f"{len(found.missing):,} of {plural(planned, 'run')} were never made: {_some(names)}")
    if found.lost:
        names = [
            f"{line.cell} seed {line.seed} ({line.why or 'not kept: run the suite with --keep all'})"
            for line in found.lost
        ]
        bad.append(f"{plural(len(found.lost), 'run')} not kept, so nothing shows them: {_some(names)}")
    return _finding("complete", not bad, f"all of {plural(planned, 'run')} made and kept", "; ".join(bad), instead=True)


def _tables(found: Evidence) -> Finding:
    if found.unread:
        many = f"{plural(len(found.unread), 'run')} not in the tables as they ended: `splitbrain ingest` first"
        return Finding("tables", Status.UNDECIDED, f"{many} ({_some(list(found.unread))})")
    return Finding("tables", Status.OPEN, f"{plural(len(found.runs), 'run')} read from the tables")


def _rejected(policy: Policy, found: Evidence) -> Finding:
    number = len(found.rejected)
    names = [f"{run}: {reason}" for run, reason in sorted(found.rejected.items())]
    return _finding(
        "rejected",
        number <= policy.rejected,
        f"{number:,} rejected, at most {policy.rejected:,}",
        f": {_some(names)}" if names else "",
    )


def _expected(found: Evidence, now: datetime) -> Finding:
    cells = [cell for cell in found.cells if not found.excused(cell, now.date())]
    bad = []
    for cell in cells:
        judgement = found.judge(cell)
        if not judgement.met:
            bad.append(f"{cell.cell}: {cell.expected}, and it is {judgement.observed}")
    good = f"{len(cells) - len(bad)} of {plural(len(cells), 'cell')} as expected"
    return _finding("expected", not bad, good, f": {_some(bad)}")


def _unknown(policy: Policy, found: Evidence, now: datetime) -> Finding:
    runs = [
        one
        for cell in found.cells
        if not found.excused(cell, now.date()) and found.expectation(cell).verdict is not Verdict.UNKNOWN
        for one in found.ran[cell.cell]
    ]
    bad = [one for one in runs if one.verdict is Verdict.UNKNOWN]
    share = len(bad) / len(runs) if runs else 0.0
    says = f"{len(bad):,} of {plural(len(runs), 'run')} unknown ({share:.1%}), at most {policy.unknown:.1%}"
    return _finding("unknown", share <= policy.unknown, says, f": {_some(list(map(_which, bad)))}")


def _quarantined(policy: Policy, found: Evidence, now: datetime) -> Iterator[Finding]:
    excused = [cell for cell in found.cells if found.excused(cell, now.date())]
    if not excused and policy.quarantined is None:
        return
    names = [f"{c.cell} {Quarantine.from_json(c.quarantine).says(now.date())}" for c in excused if c.quarantine]
    most = "" if policy.quarantined is None else f", at most {policy.quarantined}"
    good = policy.quarantined is None or len(excused) <= policy.quarantined
    says = f"{plural(len(excused), 'cell')} excused{most}{': ' if names else ''}{_some(names)}"
    yield Finding("quarantined", Status.OPEN if good else Status.SHUT, says)


# ------------------------------------------------------------------------------------------------ what a policy asks


def _age(policy: Policy, found: Evidence, now: datetime) -> Iterator[Finding]:
    if policy.age is None:
        return
    if not found.runs:
        yield Finding("age", Status.UNDECIDED, "there are no runs to be old")
        return
    oldest = min(found.runs, key=lambda one: one.created)
    age = now - oldest.created
    says = f"the oldest run, {oldest.line.run}, is {_hours(age)} old, at most {format_duration(policy.age)}"
    yield _finding("age", age <= timedelta(microseconds=policy.age / 1000), says, "")


def _commit(policy: Policy, found: Evidence) -> Iterator[Finding]:
    if policy.commit is None:
        return
    if not found.runs:
        yield Finding("commit", Status.UNDECIDED, "there are no runs of any commit")
        return
    # a commit "+changes" is of a working copy in which files differ: nobody can have it again
    bad = [one for one in found.runs if not (one.commit or "").startswith(policy.commit) or "+" in (one.commit or "")]
    others = sorted({one.commit or "none" for one in bad})
    good = f"{len(found.runs) - len(bad):,} of {plural(len(found.runs), 'run')} with {policy.commit}"
    yield _finding("commit", not bad, good, f"; others with {_some(others)}")


def _wanted(wanted: Wanted, found: Evidence, now: datetime) -> Iterator[Finding]:
    cells = _matching(wanted.cell, found)
    if not cells:
        yield Finding(f"scenario {wanted.cell}", Status.SHUT, f"no cell of {found.run.id} is called so: it did not run")
        return
    every = [one for cell in cells for one in found.ran[cell.cell]]
    judged = [one for c in cells if not found.excused(c, now.date()) for one in found.ran[c.cell]]
    yield from _ran_on(wanted, cells, every, found)
    least = wanted.confirmed_under_faults
    if least is not None:
        yield _limit(wanted, "confirmed_under_faults", judged, lambda value: value >= least, f"at least {least:,}", min)
    if wanted.faults:
        yield _faults(wanted, [c for c in cells if not found.excused(c, now.date())], found)
    for measure in ("outage", "recovery", "duplicated"):
        most = getattr(wanted, measure)
        if most is not None:
            told = f"at most {format_duration(most) if measure in TIMES else f'{most:,}'}"
            yield _limit(wanted, measure, judged, lambda value, most=most: value <= most, told, max)  # type: ignore[misc]


def _ran_on(wanted: Wanted, cells: Sequence[Cell], runs: Sequence[Ran], found: Evidence) -> Iterator[Finding]:
    counts = {cell.cell: len({one.line.seed for one in found.ran[cell.cell]}) for cell in cells}
    least = wanted.seeds or 1
    bad = [f"{name} has {number}" for name, number in counts.items() if number < least]
    few = f"{min(counts.values())} to {max(counts.values())} seeds in each of {plural(len(cells), 'cell')}"
    yield _finding(f"seeds {wanted.cell}", not bad, f"{few}, at least {least}", f": {_some(bad)}")
    if wanted.broker is not None:
        name, _, version = wanted.broker.partition("@")
        others = sorted({_broker(one) for one in runs if one.broker != name or not _is_version(one.version, version)})
        here = sorted({_broker(one) for one in runs} - set(others))
        ran = f"ran on {', '.join(here) or 'nothing of that'}"
        yield _finding(
            f"broker {wanted.cell}", bool(runs) and not others, ran, f"; and on {_some(others)}, not on {wanted.broker}"
        )
    if wanted.on is not None:
        places = sorted({one.on for one in runs})
        yield _finding(
            f"on {wanted.cell}",
            places == [wanted.on],
            f"ran on {', '.join(places) or 'nothing'}",
            f", not only on {wanted.on}",
        )


def _limit(
    wanted: Wanted,
    measure: str,
    runs: Sequence[Ran],
    holds: Callable[[int], bool],
    told: str,
    worst: Callable[[list[int]], int],
) -> Finding:
    rule = f"{measure} {wanted.cell}"
    values = [(one, getattr(one, measure)) for one in runs]
    if measure == "recovery":  # where nothing was hurt, there is nothing to recover from
        values = [(one, value) for one, value in values if one.faults]
    beyond = [(one, value) for one, value in values if value is not None and not holds(value)]
    unmeasured = [one for one, value in values if value is None]
    if measure == "outage":  # nothing was confirmed: an outage from beginning to end
        beyond += [(one, None) for one in unmeasured]
        unmeasured = []
    known = [value for _, value in values if value is not None]
    says = f"{_value(measure, worst(known)) if known else 'none'} at worst of {plural(len(values), 'run')}, {told}"
    if beyond:
        names = [f"{_which(one)} {_value(measure, value)}" for one, value in beyond]
        return Finding(rule, Status.SHUT, f"{says}; {plural(len(beyond), 'run')} beyond: {_some(names)}")
    if unmeasured or not values:
        names = [_which(one) for one in unmeasured]
        why = f"; {plural(len(unmeasured), 'run')} without it: {_some(names)}" if names else ": there is no run to tell"
        return Finding(rule, Status.UNDECIDED, f"{says}{why}")
    return Finding(rule, Status.OPEN, says)


def _faults(wanted: Wanted, cells: Sequence[Cell], found: Evidence) -> Finding:
    bad = []
    for cell in cells:
        bit = frozenset[str]().union(*(one.bit for one in found.ran[cell.cell]))
        bad += [f"{fault} bit in no run of {cell.cell}" for fault in wanted.faults if fault not in bit]
    says = f"{' and '.join(wanted.faults)}, to bite in each of {plural(len(cells), 'cell')}"
    return _finding(f"faults {wanted.cell}", not bad, says, f": {_some(bad)}")


def _control(control: Control, found: Evidence) -> Finding:
    rule = f"control {control.cell}"
    cells = _matching(control.cell, found)
    if not cells:
        return Finding(rule, Status.SHUT, f"no cell of {found.run.id} is called so: it did not run")
    failed = {
        cell.cell: len({
            one.line.seed
            for one in found.ran[cell.cell]
            if one.verdict is Verdict.INVALID and control.anomaly in one.seen.anomalies
        })
        for cell in cells
    }  # fmt: skip
    bad = [f"{name}: {number}" for name, number in failed.items() if number < control.seeds]
    says = f"{control.anomaly} in {min(failed.values())} seeds or more, at least {control.seeds}"
    return _finding(rule, not bad, says, f": {_some(bad)}; what must fail did not, so passes show nothing")


# ---------------------------------------------------------------------------------------------------- than before


def _baseline(baseline: Baseline, found: Evidence, before: Evidence, now: datetime) -> Iterator[Finding]:
    rule = f"baseline {before.run.id}"
    if before.unread or before.missing or before.run.absent:
        why = f"{plural(len(before.unread), 'run')} not in the tables, {len(before.missing):,} never made"
        yield Finding(rule, Status.UNDECIDED, f"it is not whole: {why}; `splitbrain ingest` first, or name another")
    old = {cell.cell for cell in before.cells}
    cells = [cell for cell in found.cells if cell.cell in old and not found.excused(cell, now.date())]
    if not cells:
        yield Finding(rule, Status.UNDECIDED, "the two have no cell in common: there is nothing to compare")
        return
    groups = [[cell] for cell in cells] if baseline.per == CELL else [cells]
    for measure in baseline.measures:
        alpha = baseline.alpha / len(groups)
        results = [_compare(measure, group, alpha, found, before) for group in groups]
        told = sorted(results, key=lambda one: [Status.SHUT, Status.UNDECIDED, Status.OPEN].index(one[0]))
        worst = told[0][0]
        more = f"; likewise {sum(one[0] is worst for one in told) - 1} other cells" if len(told) > 1 else ""
        yield Finding(f"{measure} than {before.run.id}", worst, told[0][1] + more)


def _compare(
    measure: str, cells: Sequence[Cell], alpha: float, found: Evidence, before: Evidence
) -> tuple[Status, str]:
    """One test, over the seeds that both have of these cells."""
    where = cells[0].cell if len(cells) == 1 else plural(len(cells), "cell")
    ours: list[tuple[Cell, Ran]] = []
    theirs: list[tuple[Cell, Ran]] = []
    for cell in cells:
        shared = {one.line.seed for one in found.ran[cell.cell]} & {one.line.seed for one in before.ran[cell.cell]}
        ours += [(cell, one) for one in found.ran[cell.cell] if one.line.seed in shared]
        theirs += [(cell, one) for one in before.ran[cell.cell] if one.line.seed in shared]
    if measure == PASS:
        passed, passed_before = ((sum(_passed(found, cell, one) for cell, one in each)) for each in (ours, theirs))
        if not ours or not theirs:
            return Status.UNDECIDED, f"{where}: no seed in common"
        p, least = (
            fisher(passed, len(ours), passed_before, len(theirs)),
            least_fisher(len(ours), passed_before, len(theirs)),
        )
        says = f"{where}: {passed} of {len(ours)} did as expected, {passed_before} of {len(theirs)} before"
    else:
        mine, others = _numbers(measure, ours), _numbers(measure, theirs)
        if not mine or not others:
            return Status.UNDECIDED, f"{where}: no run has a number, in one of the two"
        p, least = mann_whitney(mine, others), least_mann_whitney(len(mine), len(others))
        middle = [_value(measure, median(each)) for each in (mine, others)]
        says = f"{where}: median {middle[0]} in {plural(len(mine), 'run')}, {middle[1]} in {len(others):,} before"
    if least > alpha:
        return (
            Status.UNDECIDED,
            f"{says}; so few that nothing would be told from chance (p at least {least:.3f} > {alpha:.3f})",
        )
    return (
        Status.SHUT if p <= alpha else Status.OPEN,
        f"{says}; p = {p:.3f}, {'at most' if p <= alpha else 'above'} {alpha:.3f}",
    )


def _passed(found: Evidence, cell: Cell, one: Ran) -> bool:
    expect = found.expectation(cell)
    return one.verdict is Verdict.VALID if expect.ratio is not None else not expect.judge([one.seen]).missed


def _numbers(measure: str, runs: Sequence[tuple[Cell, Ran]]) -> list[float]:
    """Without an outage is who confirmed nothing: that is as long as can be. Other numbers that are not there are left
    out."""
    values = [getattr(one, measure) for _, one in runs]
    if measure == "outage":
        return [inf if value is None else float(value) for value in values]
    return [float(value) for value in values if value is not None]


# --------------------------------------------------------------------------------------------------------- words


def _finding(rule: str, good: bool, says: str, more: str, *, instead: bool = False) -> Finding:
    if good:
        return Finding(rule, Status.OPEN, says)
    return Finding(rule, Status.SHUT, more if instead else f"{says}{more if more[:1] in ':;,' else f', {more}'}")


def _matching(pattern: str, found: Evidence) -> list[Cell]:
    """Cells of that id, or whose id or row the pattern matches; brackets in it are those of ids."""
    plain = pattern.replace("[", "[[]")
    return [cell for cell in found.cells if fnmatchcase(cell.cell, plain) or fnmatchcase(cell.row, plain)]


def _is_version(version: str | None, wanted: str) -> bool:
    return not wanted or version == wanted or (version or "").startswith(f"{wanted}.")


def _broker(one: Ran) -> str:
    return f"{one.broker}@{one.version}" if one.version else one.broker


def _which(one: Ran) -> str:
    return f"{one.line.cell} seed {one.line.seed} ({one.line.run})"


def _value(measure: str, value: float | None) -> str:
    if value is None or value == inf:
        return "nothing confirmed"
    if measure in TIMES:
        return format_duration(round(value / 1e6) * 1_000_000) if value >= 1e6 else format_duration(int(value))
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _hours(age: timedelta) -> str:
    hours = age.total_seconds() / 3600
    return f"{hours:.1f}h" if hours >= 1 else f"{hours * 60:.0f}min"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return "; ".join(names[:NAMED]) + more
