"""When faults come, for all nemeses there are."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model import registry
from chaos.model.schedule import VERBS, Fault, Schedule
from chaos.model.settings import BadKey, format_duration, resolve
from nemesis.base import Nemesis, View
from nemesis.clock import Clock
from nemesis.disk import Damage, DiskFull, DiskReadOnly, DiskSlow
from nemesis.packets import Loss
from nemesis.partition import Partition
from nemesis.process import CrashLoop, Kill, NodeStop, Pause, PowerOff, Restart, Wipe
from nemesis.starve import Starve
from nemesis.timing import MINUTE, Chosen, deck, needed, series, timing, within

S = 1_000_000_000
NEMESES: list[type[Nemesis]] = [
    Partition,
    Kill,
    Pause,
    Restart,
    CrashLoop,
    NodeStop,
    PowerOff,
    Wipe,
    DiskFull,
    DiskReadOnly,
    DiskSlow,
    Starve,
    Damage,
    Clock,
    Loss,
]
nemeses = pytest.mark.parametrize("nemesis", NEMESES, ids=lambda nemesis: nemesis.name)


def planned(span: int, seed: int = 1, **options: object) -> list[Fault]:
    values = resolve(timing(every="20s", for_="8s"), {name.rstrip("_"): value for name, value in options.items()}, "x")
    return series("kill", values, span, Random(seed), lambda _: Chosen("kill", "one", {}))


def test_without_jitter_faults_come_by_the_clock() -> None:
    draws = [Random(1), Random(1)]
    expected = []
    for number, at in ((1, 5), (2, 25), (3, 45)):
        draws[0].randint(0, 0)
        expected.append(Fault(f"kill-{number}", "kill", "kill", at * S, 8 * S, "one", draw=draws[0].getrandbits(32)))
    assert planned(60 * S, jitter="0s") == expected


def test_the_last_fault_is_over_before_the_quiet_end() -> None:
    assert [fault.at // S for fault in planned(58 * S, jitter="0s")] == [5, 25, 45]
    assert [fault.at // S for fault in planned(58 * S - 1, jitter="0s")] == [5, 25]
    assert [fault.at for fault in planned(58 * S, jitter="10s")][-1] == 45 * S
    assert planned(18 * S - 1) == []


def test_a_trigger_is_waited_for_from_the_faults_time_on() -> None:
    faults = planned(60 * S, jitter="0s", trigger="leader-change", delay="10s")
    assert [(fault.trigger, fault.after // S, fault.at) for fault in faults] == [
        ("leader-change", 5, 10 * S),
        ("leader-change", 25, 10 * S),
    ]


def test_a_log_line_is_said_with_its_trigger_and_only_with_it() -> None:
    faults = planned(60 * S, trigger="log-line", line="leads term [2-9]")
    assert {(fault.trigger, fault.line) for fault in faults} == {("log-line", "leads term [2-9]")}
    assert Schedule.loads(Schedule(tuple(faults)).dumps()).faults == tuple(faults)
    wrong: list[dict[str, Any]] = [{"trigger": "log-line"}, {"line": "x"}, {"trigger": "sync-end", "line": "x"}]
    for options in wrong:
        with pytest.raises(BadKey, match="with trigger = 'log-line', and only with that"):
            planned(60 * S, **options)
    with pytest.raises(BadKey, match=r"x.line: '\(' is not a regular expression"):
        planned(60 * S, trigger="log-line", line="(")


@given(
    span=st.integers(0, 300 * S),
    every=st.integers(S // 10, 60 * S),
    for_=st.integers(S // 1000, 60 * S),
    start=st.integers(0, 60 * S),
    jitter=st.integers(0, 60 * S),
    quiet=st.integers(0, 60 * S),
    seed=st.integers(0, 2**64),
)
def test_every_fault_lies_within_its_bounds(
    span: int, every: int, for_: int, start: int, jitter: int, quiet: int, seed: int
) -> None:
    options = {"every": every, "for_": for_, "start": start, "jitter": jitter, "quiet": quiet}
    faults = planned(span, seed, **options)
    assert faults == planned(span, seed, **options)
    assert bool(faults) == (start + for_ + quiet <= span)
    for number, fault in enumerate(faults):
        earliest = start + number * every
        assert earliest <= fault.at <= earliest + jitter
        assert fault.at + fault.duration <= span - quiet
        assert fault.id == f"kill-{number + 1}"
    assert start + len(faults) * every + for_ + quiet > span


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("every", "99ms", "x.every: '99ms' is too short: at least 100ms"),
        ("for", "0s", "x.for: '0s' is too short: at least 1ms"),
        ("start", "-1s", "x.start: '-1s' is too short: at least 0s"),
        ("trigger", "leader", "x.trigger: 'leader' is not one of them: did you mean 'leader-change'?"),
    ],
)
def test_times_that_cannot_be(name: str, value: str, problem: str) -> None:
    with pytest.raises(BadKey) as caught:
        resolve(timing(every="20s", for_="8s"), {name: value}, "x")
    assert str(caught.value) == problem


@given(st.lists(st.integers(), min_size=1, max_size=5, unique=True), st.integers(0, 100), st.integers(0, 30))
def test_a_deck_deals_all_before_any_comes_again(items: list[int], seed: int, count: int) -> None:
    dealing = deck(items, Random(seed))
    dealt = Counter(next(dealing) for _ in range(count))
    assert all(count // len(items) <= dealt[item] <= -(-count // len(items)) for item in items)


def options_of(nemesis: type[Nemesis], **given: object) -> dict[str, Any]:
    return resolve(nemesis.settings, given, "nemesis[0]")


@nemeses
def test_a_minute_with_defaults_is_a_sensible_series(nemesis: type[Nemesis]) -> None:
    nodes = ("n1", "n2", "n3")
    options = options_of(nemesis)
    for seed in range(20):
        faults = nemesis().plan(options, nodes, 60 * S, Random(seed))
        assert 2 <= len(faults) <= 3
        assert len({(fault.kind, fault.target) for fault in faults}) >= 2
        for fault in faults:
            for action in nemesis().resolve(fault, View(nodes, "n2")):
                assert action.verb in VERBS
                assert action.verb in nemesis().verbs(options)
                assert action.verb in nemesis().verbs(fault.args)  # as the controller asks


@nemeses
def test_defaults_are_for_a_minute_of_work_or_more(nemesis: type[Nemesis]) -> None:
    assert within(nemesis.settings, MINUTE) == within(nemesis.settings, 100 * MINUTE) == tuple(nemesis.settings)
    shorter = resolve(within(nemesis.settings, 30 * S), {}, "x")
    whole = options_of(nemesis)
    assert {
        name: value * 2 for name, value in shorter.items() if name in ("every", "for", "start", "jitter", "quiet")
    } == {name: value for name, value in whole.items() if name in ("every", "for", "start", "jitter", "quiet")}
    assert {name for name in whole if whole[name] != shorter[name]} == {"every", "for", "start", "jitter", "quiet"}


@given(nemesis=st.sampled_from(NEMESES), span=st.integers(S, MINUTE), seed=st.integers(0, 2**32))
def test_short_work_meets_a_fault_too(nemesis: type[Nemesis], span: int, seed: int) -> None:
    options = resolve(within(nemesis.settings, span), {}, "x")
    faults = nemesis().plan(options, ("n1", "n2", "n3"), span, Random(seed))
    assert 1 <= len(faults) <= 4
    assert all(fault.at + fault.duration + options["quiet"] <= span for fault in faults)


def test_what_is_told_does_not_shrink() -> None:
    options = resolve(within(timing(every="20s", for_="8s"), 10 * S), {"for": "8s", "quiet": "0s"}, "x")
    assert {name: format_duration(options[name]) for name in ("every", "for", "start", "jitter", "quiet")} == {
        "every": "3.3s", "for": "8s", "start": "830ms", "jitter": "500ms", "quiet": "0s",
    }  # fmt: skip
    assert needed(options) == "start 830ms + for 8s + quiet 0s = 8.83s"
    assert (
        needed(options | {"trigger": "leader-change", "delay": S})
        == "start 830ms + delay 1s + for 8s + quiet 0s = 9.83s"
    )


@nemeses
def test_plans_survive_their_own_text_and_resolve_to_the_same(nemesis: type[Nemesis]) -> None:
    nodes = ("n1", "n2", "n3", "n4", "n5")
    schedule = Schedule(tuple(nemesis().plan(options_of(nemesis, every="1s"), nodes, 60 * S, Random(3))))
    again = Schedule.loads(schedule.dumps())
    assert again == schedule
    assert len({fault.id for fault in schedule.faults}) == len(schedule.faults) > 30
    view = View(nodes, "n4")
    assert [nemesis().resolve(fault, view) for fault in again.faults] == [
        nemesis().resolve(fault, view) for fault in schedule.faults
    ]


@nemeses
def test_a_name_is_that_of_the_entry_point(nemesis: type[Nemesis]) -> None:
    assert registry.find(registry.NEMESES, nemesis.name) is nemesis
