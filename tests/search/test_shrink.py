"""Shrinking: the search on made-up predicates, and the loss under autoheal on real (simulated) runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.model.errors import BadInput
from chaos.model.schedule import Fault
from chaos.scenario import Scenario, loads, plan
from chaos.search import shrink as shrinking
from chaos.search.pin import pinned
from chaos.search.reproduction import brief, described, reproduction
from chaos.search.shrink import Attempt, Shrunk, Smallest, attempt, explicit, shrink
from chaos.search.trial import trial

S = 1_000_000_000
LOST = "messages.lost"

AUTOHEAL = """\
schema = 1
name = "autoheal"
seed = {seed}

[cluster]
broker = "rabbitmq-mirrored"
settings = {{ cluster_partition_handling = "autoheal" }}

[workload]
name = "queue"
rate = {rate}
time = "{time}"
consumers = 1
consume = "polling"

[[nemesis]]
name = "partition"
kinds = ["one"]
for = "{length}"
every = "{every}"
start = "2s"
quiet = "0s"
"""
SMALL = AUTOHEAL.format(seed=1, rate=5, time="30s", length="12s", every="14s")


def made_up(shows: Callable[[Scenario], bool], monkeypatch: pytest.MonkeyPatch) -> list[Scenario]:
    """Runs are not run, but shown to a predicate; what was asked, in order."""
    asked: list[Scenario] = []

    def fake(wanted: Attempt) -> int | None:
        asked.append(wanted.case)
        options = wanted.case.workload.options
        return round(options["rate"] * wanted.case.workload.time_ns / S) if shows(wanted.case) else None

    monkeypatch.setattr(shrinking, "attempt", fake)
    return asked


def listed(count: int = 6) -> Smallest:
    case = loads(AUTOHEAL.format(seed=1, rate=100, time="60s", length="2s", every="3s"))
    faults = tuple(
        Fault(f"kill-{n}", "kill", "kill", 3 * n * S + 123, 2 * S + 456, f"n{n % 3 + 1}") for n in range(count)
    )
    return Smallest(replace(case, nemeses=(), faults=faults), 6000)


def test_only_what_is_needed_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def shows(case: Scenario) -> bool:
        of_n2 = [fault for fault in case.faults if fault.target == "n2" and fault.duration >= S]
        return bool(of_n2) and case.workload.options["rate"] >= 2 and case.workload.time_ns >= 5 * S

    made_up(shows, monkeypatch)
    shrunk = shrink(listed(), LOST, jobs=1, budget=60)
    assert shrunk.stopped == ""
    (fault,) = shrunk.after.case.faults
    assert (fault.target, fault.at, fault.duration) == ("n2", 0, S)
    cluster, workload = shrunk.after.case.cluster, shrunk.after.case.workload
    assert (cluster.nodes, workload.time_ns) == (2, 5 * S)
    assert [workload.options[name] for name in ("rate", "producers", "consumers")] == [2, 1, 1]
    assert shrunk.after.published == 10


def test_two_faults_that_are_both_needed_are_both_left(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up(lambda case: {"kill-2", "kill-5"} <= {fault.id for fault in case.faults}, monkeypatch)
    assert [fault.id for fault in shrink(listed(), LOST, jobs=1, budget=60).after.case.faults] == ["kill-2", "kill-5"]


def test_nothing_is_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made_up(lambda case: len(case.faults) >= 2 and case.cluster.nodes >= 2, monkeypatch)
    shrunk = shrink(listed(), LOST, jobs=1, budget=60)
    assert len(asked) == len({repr(case) for case in asked}) == shrunk.after.tried


def test_when_the_budget_is_spent_the_smallest_so_far_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made_up(lambda case: True, monkeypatch)
    now = iter(range(1000))
    monkeypatch.setattr("chaos.search.shrink.time.monotonic", lambda: next(now))
    shrunk = shrink(listed(), LOST, jobs=1, budget=3)
    assert (shrunk.stopped, len(asked)) == ("the budget is spent", 3)
    assert shrunk.after.case == asked[-1]


def test_ctrl_c_gives_the_smallest_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up(lambda case: True, monkeypatch)
    steps: list[Smallest] = []

    def told(smallest: Smallest) -> None:
        steps.append(smallest)
        if smallest.tried == 5:
            raise KeyboardInterrupt

    shrunk = shrink(listed(), LOST, jobs=1, budget=60, told=told)
    assert shrunk.stopped == "interrupted"
    assert shrunk.after == steps[-1]


def test_faults_are_pinned_to_whom_they_hurt_and_when() -> None:
    case = loads(SMALL)
    schedule = plan(case)
    faults = pinned(schedule, trial(case).outcome.history)
    assert [(fault.id, fault.kind, fault.at, fault.duration, fault.trigger, fault.draw) for fault in faults] == [
        (fault.id, "one", fault.at, 12 * S, None, 0) for fault in schedule.faults
    ]
    assert all(fault.target in ("n1", "n2", "n3") for fault in faults)
    again = trial(replace(case, nemeses=(), faults=faults))
    assert again.outcome.history.rows("publish").tolist() == trial(case).outcome.history.rows("publish").tolist()


def test_a_role_that_waits_for_a_trigger_is_pinned_to_when_it_came() -> None:
    text = SMALL.replace('kinds = ["one"]', 'kinds = ["leader"]\ntrigger = "leader-change"').replace('"14s"', '"5s"')
    case = loads(text.replace('for = "12s"', 'for = "3s"') + '\n[[nemesis]]\nname = "kill"\nstart = "4s"\n')
    done = trial(case)
    faults = pinned(plan(case), done.outcome.history)
    cuts = [fault for fault in faults if fault.nemesis == "partition"]
    assert cuts
    assert all(fault.trigger is None and fault.at >= 2 * S and fault.target in ("n1", "n2", "n3") for fault in cuts)


def test_a_run_that_does_not_show_it_is_refused() -> None:
    case = loads(SMALL.replace("autoheal", "pause_minority"))
    with pytest.raises(BadInput, match=r"run again, this scenario does not show messages\.lost: "):
        explicit(case, plan(case), LOST)


@pytest.fixture(scope="module")
def shrunk() -> Shrunk:
    case = loads(SMALL)
    return shrink(explicit(case, plan(case), LOST), LOST, jobs=1, budget=120)


def test_the_loss_under_autoheal_is_one_cut_and_a_few_messages(shrunk: Shrunk) -> None:
    assert shrunk.stopped == ""
    case = shrunk.after.case
    assert [fault.nemesis for fault in case.faults] == ["partition"]
    assert case.cluster.nodes <= 3
    assert shrunk.after.published <= 5
    assert attempt(Attempt(case, LOST)) == shrunk.after.published


def test_any_number_of_jobs_comes_to_the_same(shrunk: Shrunk) -> None:
    assert shrink(shrunk.before, LOST, jobs=2, budget=120).after == shrunk.after


def test_what_is_written_is_what_was_found(shrunk: Shrunk) -> None:
    made = reproduction(shrunk, LOST, "a-run")
    case = loads(made.toml, "repro.toml")
    assert loads(case.dumps()) == case
    assert LOST in made.trial.anomalies
    assert made.toml.startswith(f"# messages.lost: {made.anomaly.message}.\n# Shrunk from a-run: {described(case)}, ")
    for short in ("prefetch", "latency", "[checkers", "[expect]", "draw", "args", "[cluster.settings]\nlat"):
        assert short not in made.toml
    assert "the way of message" in made.picture


def test_a_brief_scenario_is_the_same_scenario() -> None:
    for text in (SMALL, listed().case.dumps(), SMALL + '\n[checkers.availability]\nrecovery = "20s"\n'):
        case = loads(text)
        short = brief(case)
        assert loads(short) == case
        assert len(short) < len(case.dumps()) / 2
    assert 'recovery = "20s"' in short


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_loss_under_autoheal_in_full_size(seed: int) -> None:
    case = loads(AUTOHEAL.format(seed=seed, rate=100, time="60s", length="20s", every="60s"))
    shrunk = shrink(explicit(case, plan(case), LOST), LOST, jobs=2, budget=120)
    assert len(shrunk.after.case.faults) == 1
    assert shrunk.after.case.cluster.nodes <= 3
    assert shrunk.after.published <= 5
