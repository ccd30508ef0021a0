"""A gate opens on a good night; and for each rule there is a night on which that rule alone shuts it, or leaves it
undecided. Each rule is guarded: broken in the source, one of these nights comes out otherwise."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest

from chaos.expectation import Expectation
from chaos.model.verdict import Verdict
from results.gate import rules
from results.gate.evidence import Evidence
from results.gate.policy import Policy
from results.gate.rules import Finding, Status, conclude
from tests.results.gate.night import FINE, NOW, POLICY, SEEDS, Change, Night, S, cell, drop, gate, rename, write

THREE, FIVE, LOSES = "steady [nodes=3]", "steady [nodes=5]", "loses"
SHUT, UNDECIDED = Status.SHUT, Status.UNDECIDED


def run(key: str, value: Any, name: str = THREE, *seeds: int) -> Change:
    """Another value in the table `runs`."""

    def change(night: Night) -> None:
        for seed in seeds or (2,):
            night.runs[name, seed][key] = value

    return change


def verdicts(*told: tuple[str, int, str]) -> Change:
    def change(night: Night) -> None:
        for name, seed, verdict in told:
            night.verdict(name, seed, verdict, *(["duplicated"] if verdict == "invalid" else []))

    return change


def all_outages(ns: int, *names: str) -> Change:
    def change(night: Night) -> None:
        for (name, seed), row in night.runs.items():
            if not names or name in names:
                row["outage"] = ns + seed

    return change


def quarantine(until: str) -> Change:
    def change(night: Night) -> None:
        told = {"owner": "ann", "until": until, "why": "a bug"}
        night.cells[1] = replace(night.cells[1], quarantine=told)

    return change


def both(*changes: Change) -> Change:
    def change(night: Night) -> None:
        for one in changes:
            one(night)

    return change


def no_line(night: Night) -> None:
    del night.lines[FIVE, 3]


def not_kept(night: Night) -> None:
    night.lines[FIVE, 3] = replace(night.lines[FIVE, 3], run=None)


def not_read(night: Night) -> None:
    del night.runs[FIVE, 3]


def rejected(night: Night) -> None:
    night.rejected.append((THREE, 6))


def kill_bit_nowhere(night: Night) -> None:
    for seed in SEEDS:
        night.bit[FIVE, seed].remove("kill")


def faults_went_by(night: Night) -> None:
    for seed in SEEDS[1:]:
        night.bit[FIVE, seed].clear()


def no_cells(night: Night) -> None:
    night.cells.clear()
    night.lines.clear()


def odd(night: Night) -> None:
    night.cells.append(cell("odd", "", Expectation(Verdict.UNKNOWN, (), 1.0)))
    for seed in SEEDS:
        night.ran(night.cells[-1], seed)
        night.verdict("odd", seed, "unknown")


def doubtful_control(night: Night) -> None:
    for seed in SEEDS[:4]:
        night.verdict(LOSES, seed, "unknown", "lost")


def half(night: Night) -> None:
    night.shard = (1, 2)


def another_suite(night: Night) -> None:
    night.suite = "weekly"


def few(night: Night) -> None:
    for name in (THREE, FIVE, LOSES):
        drop(night, name, *SEEDS[1:])


WITHOUT = POLICY.partition("[baseline]")[0]
RULES: dict[str, tuple[Change | None, str, Status, str]] = {
    # what is wrong: how, the rule that says so, with what, and a part of why
    "a run of another suite": (another_suite, "suite", SHUT, "night is a run of 'weekly', not of 'nightly'"),
    "a seed was never run": (no_line, "complete", SHUT, "1 of 18 runs were never made: steady [nodes=5] seed 3"),
    "a run was not kept": (not_kept, "complete", SHUT, "1 run not kept, so nothing shows them: steady [nodes=5] "),
    "a part is not here": (half, "complete", SHUT, "parts 2 of 2 are not here"),
    "a run is not in the tables": (not_read, "tables", UNDECIDED, "1 run not in the tables as they ended: `split"),
    "a run was read while it ran": (run("status", "running"), "tables", UNDECIDED, "1 run not in the tables as they"),
    "a run cannot be read": (rejected, "rejected", SHUT, "1 rejected, at most 0: 20261121-night-steady[nodes=3]-s6"),
    "a cell is not as expected": (
        verdicts((THREE, 1, "invalid"), (THREE, 2, "invalid")), "expected", SHUT,
        "2 of 3 cells as expected: steady [nodes=3]: valid in 80% of the seeds, and it is 4 of 6",
    ),
    "too many unknown": (
        verdicts((THREE, 1, "unknown"), (FIVE, 1, "unknown")), "unknown", SHUT,
        "2 of 18 runs unknown (11.1%), at most 10.0%: steady [nodes=3] seed 1 (2026",
    ),
    "a run that failed before a verdict is unknown too": (
        both(run("verdict", None), run("verdict", None, FIVE)), "unknown", SHUT, "2 of 18 runs unknown",
    ),
    "too many in quarantine": (
        quarantine("2026-11-21"), "quarantined", SHUT, "1 cell excused, at most 0: steady [nodes=5] in",
    ),
    "an old run": (
        run("created", NOW - timedelta(hours=40)), "age", SHUT, "s2, is 40.0h old, at most 36h",
    ),
    "another commit": (
        run("commit", "9" * 40), "commit", SHUT, "17 of 18 runs with 3ba4bb8; others with 99",
    ),
    "a working copy of that commit": (run("commit", "3ba4bb8c2a+changes"), "commit", SHUT, "17 of 18 runs"),
    "no commit": (run("commit", None), "commit", SHUT, "others with none"),
    "a scenario that did not run": (
        lambda night: rename(night, "steady", "other"), "scenario steady", SHUT, "no cell of night is called",
    ),
    "too few seeds": (
        lambda night: drop(night, THREE, 1, 2), "seeds steady", SHUT, "at least 5: steady [nodes=3] has 4",
    ),
    "another version": (
        run("version", "4.1.0"), "broker steady", SHUT, "and on rabbitmq-quorum@4.1.0, not on rabbitmq-quorum@4.0",
    ),
    "a version that begins alike": (run("version", "4.01"), "broker steady", SHUT, "and on rabbitmq-quorum@4.01"),
    "no version": (run("version", None), "broker steady", SHUT, "ran on rabbitmq-quorum@4.0.5; and on rabbitmq"),
    "another broker": (run("broker", "lavinmq"), "broker steady", SHUT, "and on lavinmq@4.0.5"),
    "only simulated": (run("on", "simulated"), "on steady", SHUT, "ran on docker, simulated, not only on docker"),
    "too little was confirmed under faults": (
        run("confirmed_under_faults", 999), "confirmed_under_faults steady", SHUT, "999 at worst of 12 runs, at least",
    ),
    "a fault that bit nowhere": (
        kill_bit_nowhere, "faults steady", SHUT, "to bite in each of 2 cells: kill bit in no run of steady [nodes=5]",
    ),
    "too long an outage": (
        run("outage", 12 * S + 1_000_000), "outage steady", SHUT, "12.001s at worst of 12 runs, at most 12s; 1",
    ),
    "nothing was confirmed at all": (run("outage", None), "outage steady", SHUT, "seed 2 (20261121-night"),
    "too long a recovery": (run("recovery", 21 * S), "recovery steady", SHUT, "21s at worst of 12 runs, at most 20s"),
    "a recovery that nobody can tell": (
        run("recovery", None), "recovery steady", UNDECIDED, "8s at worst of 12 runs, at most 20s; 1 run wi",
    ),
    "too many duplicates": (run("duplicated", 11), "duplicated steady", SHUT, "11 at worst of 12 runs, at most 10"),
    "duplicates that nobody counted": (run("duplicated", None), "duplicated steady", UNDECIDED, "1 run without it"),
    "a control that passed": (
        verdicts(*((LOSES, seed, "valid") for seed in SEEDS[:4])), "control loses", SHUT, "at least 3: loses: 2",
    ),
    "a control that failed for another reason": (
        verdicts(*((LOSES, seed, "invalid") for seed in SEEDS[:4])), "control loses", SHUT, "at least 3: loses: 2",
    ),
    "a control that did not run": (
        lambda night: rename(night, "loses", "other"), "control loses", SHUT, "no cell of night is called so",
    ),
    "fewer pass than before": (
        verdicts((THREE, 1, "invalid"), (FIVE, 1, "invalid"), *((LOSES, seed, "valid") for seed in (1, 2, 3))),
        "pass than before", SHUT, "3 cells: 13 of 18 did as expected, 18 of 18 before; p = 0.023, at most 0.050",
    ),
    "longer outages than before": (
        all_outages(11 * S), "outage than before", SHUT, "median 11s in 18 runs, 5s in 18 before; p = 0.000, at most",
    ),
}  # fmt: skip
FINE_NIGHTS: dict[str, Change | None] = {
    "a good night": None,
    "one seed of six failed": verdicts((THREE, 1, "invalid")),
    "one of 18 unknown": verdicts((THREE, 1, "unknown")),
    "one run had faults that went by": faults_went_by,
    "without faults there is nothing to recover from": both(run("recovery", None), run("faults", 0)),
    "shorter outages than before": all_outages(1 * S),
    "what came out is what the tables have": lambda night: night.lines.update(
        {key: replace(line, verdict="invalid") for key, line in night.lines.items()}
    ),
    "an old run is just young enough": run("created", NOW - timedelta(hours=36)),
}
OTHERS: dict[str, tuple[Change | None, Change | None, str, dict[str, Status]]] = {
    # what, the night and the one before, the policy, and what is not open
    "nothing was planned": (
        no_cells, None, WITHOUT.replace('age = "36h"\ncommit = "3ba4bb8"\n', ""),
        {"complete": SHUT, "scenario steady": SHUT, "control loses": SHUT},
    ),
    "a quarantine excuses": (
        both(
            quarantine("2026-11-21"), verdicts(*((FIVE, seed, "invalid") for seed in SEEDS)),
            run("outage", 90 * S, FIVE),
        ), None, POLICY.replace("quarantined = 0\n", ""), {},
    ),
    "until its last day": (
        both(quarantine("2026-11-20"), verdicts((FIVE, 1, "invalid"), (FIVE, 2, "invalid"))), None, POLICY,
        {"expected": SHUT},
    ),
    "in a quarantine it has to run all the same": (
        both(quarantine("2026-11-21"), no_line, run("version", "3.13", FIVE)), None,
        POLICY.replace("quarantined = 0\n", ""), {"complete": SHUT, "broker steady": SHUT},
    ),
    "so few that nothing can be told": (
        few, few, POLICY.replace("seeds = 5", "seeds = 1").replace("seeds = 3", "seeds = 1") + "alpha = 0.01",
        {"pass than before": UNDECIDED, "outage than before": UNDECIDED},
    ),
    "nothing in common": (
        both(lambda night: rename(night, "steady", "a"), lambda night: rename(night, "loses", "b")), None,
        POLICY.replace('"steady"', '"a"').replace('"loses"', '"b"'), {"baseline before": UNDECIDED},
    ),
    "a baseline that is not in the tables": (None, not_read, POLICY, {"baseline before": UNDECIDED}),
    "a baseline with a part missing": (None, half, POLICY, {"baseline before": UNDECIDED}),
    "a cell alone is slower": (
        all_outages(11 * S, THREE), None, POLICY.replace('"outage"]', '"outage"]\nper = "cell"\nalpha = 0.1'),
        {"outage than before": SHUT},
    ),
    "nothing was confirmed anywhere": (
        both(*(run("outage", None, name, *SEEDS) for name in (THREE, FIVE, LOSES))), None, POLICY,
        {"outage steady": SHUT, "outage than before": SHUT},
    ),
    "unknown was expected": (odd, None, POLICY, {}),
    "a control that nobody knows of": (
        doubtful_control, None,
        POLICY.replace("10%", "50%"), {"control loses": SHUT},
    ),
}  # fmt: skip


@cache
def made(case: str) -> tuple[Policy, Evidence, Evidence]:
    """A case's store, read once."""
    text, before = POLICY, None
    if case in OTHERS:
        change, before, text, _ = OTHERS[case]
    else:
        change = RULES[case][0] if case in RULES else FINE_NIGHTS[case]
    with TemporaryDirectory() as folder:
        write(Path(folder), change, before)
        return gate(Path(folder), text)


def judged(case: str, judge: Callable[..., list[Finding]] = rules.judge) -> list[Finding]:
    policy, found, before = made(case)
    return judge(policy, found, NOW, before if policy.baseline is not None else None)


def not_open(findings: list[Finding]) -> dict[str, Status]:
    return {one.rule: one.status for one in findings if one.status is not Status.OPEN}


@pytest.mark.parametrize("case", FINE_NIGHTS)
def test_a_gate_opens(case: str) -> None:
    findings = judged(case)
    assert not_open(findings) == {}
    assert conclude(findings) is Status.OPEN
    assert len(findings) == 20


@pytest.mark.parametrize("case", RULES)
def test_one_rule_alone_keeps_it_from_opening(case: str) -> None:
    _, rule, status, says = RULES[case]
    findings = judged(case)
    assert not_open(findings) == {rule: status}
    assert conclude(findings) is status
    (told,) = (one.says for one in findings if one.rule == rule)
    assert says in told
    assert "\n" not in told


@pytest.mark.parametrize("case", OTHERS)
def test_several_things_at_once(case: str) -> None:
    assert not_open(judged(case)) == OTHERS[case][3]


def test_without_rules_nothing_opens_and_the_worst_counts() -> None:
    one = {status: Finding("r", status, "") for status in Status}
    assert conclude([]) is Status.SHUT
    assert conclude([one[Status.OPEN], one[UNDECIDED]]) is UNDECIDED
    assert conclude([one[UNDECIDED], one[SHUT], one[Status.OPEN]]) is SHUT
    assert FINE.at_least == 0.8


MUTATIONS = [
    ("name == policy.suite", "True"),
    ("if found.run.absent:", "if False:"),
    ("if found.missing:", "if False:"),
    ("if found.lost:", "if False:"),
    ("if not planned:", "if False:"),
    ("if found.unread:", "if False:"),
    ("number <= policy.rejected", "True"),
    ("if not judgement.met:", "if False:"),
    ("share <= policy.unknown", "True"),
    ("share <= policy.unknown", "share < policy.unknown / 2"),
    ("found.expectation(cell).verdict is not Verdict.UNKNOWN", "True"),
    ("len(excused) <= policy.quarantined", "True"),
    ("min(found.runs, key", "max(found.runs, key"),
    ("age <= timedelta(", "age < timedelta("),
    ("startswith(policy.commit)", "startswith('')"),
    (' or "+" in (one.commit or "")', ""),
    ("if number < least]", "if False]"),
    ("one.broker != name or ", ""),
    (" or not _is_version(one.version, version)", ""),
    ('startswith(f"{wanted}.")', "startswith(wanted)"),
    ("places == [wanted.on]", "wanted.on in places"),
    ("value >= least", "True"),
    ("value <= most", "True"),
    ("value <= most", "value < most"),
    ("if one.faults]", "if True]"),
    ('if measure == "outage":  # nothing', 'if measure == "":  # nothing'),
    ("if beyond:", "if False:"),
    ("if unmeasured or not values:", "if not values:"),
    ("if fault not in bit]", "if False]"),
    ("one.verdict is Verdict.INVALID and control", "control"),
    (" and control.anomaly in one.seen.anomalies", ""),
    ("if number < control.seeds]", "if False]"),
    ("before.unread or before.missing", "before.missing"),
    (" or before.run.absent", ""),
    ("if cell.cell in old and not found.excused(cell, now.date())]", "if cell.cell in old]"),
    ("if least > alpha:", "if False:"),
    ("Status.SHUT if p <= alpha else Status.OPEN", "Status.OPEN"),
    ("for each in (ours, theirs))", "for each in (theirs, ours))"),
    ("mann_whitney(mine, others), least", "mann_whitney(others, mine), least"),
    ("[inf if value is None", "[0 if value is None"),
    ("baseline.alpha / len(groups)", "baseline.alpha * 9"),
]


def mutated(old: str, new: str) -> Callable[..., list[Finding]]:
    source = inspect.getsource(rules)
    assert old in source, f"{old!r} is not there any more"
    module = ModuleType("results.gate.rules")
    exec(compile(source.replace(old, new, 1), rules.__file__, "exec"), module.__dict__)
    return module.judge


def told_apart(judge: Callable[..., list[Finding]]) -> Iterator[bool]:
    for case in (*FINE_NIGHTS, *RULES, *OTHERS):
        expected = [(one.rule, str(one.status)) for one in judged(case)]
        yield [(one.rule, str(one.status)) for one in judged(case, judge)] != expected


@pytest.mark.parametrize(("old", "new"), MUTATIONS)
def test_each_rule_is_guarded(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "results.gate.rules", rules)
    assert any(told_apart(mutated(old, new)))
