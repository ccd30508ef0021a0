"""The ways in which a scenario can be made smaller, each giving candidates, the boldest first.

The scenario lists its faults one by one. A reduction changes what it is named after, and makes nothing else larger, so
that taking them in turns comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations, product
from typing import Any

from chaos.model import registry
from chaos.model.schedule import SHAPES, Fault
from chaos.scenario import Scenario
from nemesis.partition import APART, APART_EXACTLY, FLAPPING, ONE_NODE
from nemesis.targets import ROLES

Reduction = Callable[[Scenario], Iterator[Scenario]]

SECOND = 1_000_000_000
_STEPS = (60 * SECOND, 10 * SECOND, SECOND, SECOND // 2, SECOND // 10, SECOND // 100, SECOND // 1000)
_SHARES = (0, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8)
_TENTHS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
_ROUND = (1, 2, 5)
_RATES = (1.0, 0.5, 2.0)
_WEAKER = (1 / 8, 1 / 2)  # of what a fault does to packets
_LEAST = {"delay": SECOND // 1000, "jitter": SECOND // 1000, "rate": 10**7}  # of rate, the most; of the others 0.001
_QUICK = 200  # messages up to which a run takes so little time that many may be tried
_NUMBERS = ("producers", "consumers", "queues", "keys", "streams", "groups")  # of a workload: how many there are


def one_fault(case: Scenario) -> Iterator[Scenario]:
    """One fault in place of several, on any node, and as long as it takes."""
    if len(case.faults) < 2:
        return
    for fault in case.faults:
        nodes = [fault.target] if len(_named(fault)) > 1 else list(case.cluster.names())
        longest = case.workload.time_ns - fault.at
        for duration in dict.fromkeys(min(fault.duration * times, longest) for times in (1, 2, 4)):
            if duration > 0:
                changed = replace(fault, duration=duration, trigger=None, line=None, after=0, draw=0)
                for kind, node in product(_kinds(fault), nodes):
                    yield replace(case, faults=(replace(changed, kind=kind, target=node),))


def less_often(case: Scenario) -> Iterator[Scenario]:
    """A lower rate, among round numbers."""
    yield from _rates(case, _ROUND)


def fewer_nodes(case: Scenario) -> Iterator[Scenario]:
    """Fewer nodes, as long as those that faults name are there."""
    named = [int(node[1:]) for fault in case.faults for node in _named(fault)]
    for count in range(max([1, *named]), case.cluster.nodes):
        yield replace(case, cluster=replace(case.cluster, nodes=count))


def fewer_clients(case: Scenario) -> Iterator[Scenario]:
    """Fewer producers, consumers and queues. Clients go to nodes by their numbers and share the rate, so the faults'
    nodes may change places meanwhile, and the rate may change."""
    options = case.workload.options
    names = [name for name in _NUMBERS if isinstance(options.get(name), int)]
    now = tuple(options[name] for name in names)
    nodes = case.cluster.names()
    few = float(options.get("rate", 0)) * case.workload.time_ns / SECOND <= _QUICK
    orders = list(permutations(nodes)) if few and len(nodes) <= 3 and any(map(_named, case.faults)) else [nodes]
    for chosen in sorted(product(*(_fewer(number) for number in now)), key=lambda some: (sum(some), some)):
        if sum(chosen) >= sum(now):
            return
        for times in _RATES if few and "rate" in options else _RATES[:1]:
            told: dict[str, Any] = dict(zip(names, chosen, strict=True))
            if times != 1.0:
                told["rate"] = round(options["rate"] * times, 6)
            if (changed := _told(case, told)) is not None:
                yield from (_renamed(changed, dict(zip(nodes, order, strict=True))) for order in orders)


def shorter(case: Scenario) -> Iterator[Scenario]:
    """Less time to work; faults that would begin later go too, but for the last of them."""
    for time in below(case.workload.time_ns, SECOND // 10):
        faults = tuple(fault for fault in case.faults if fault.trigger is not None or fault.at < time)
        if faults or not case.faults:
            yield replace(case, faults=faults, workload=replace(case.workload, time_ns=time))


def briefer(case: Scenario) -> Iterator[Scenario]:
    """A fault that is in force for less time."""
    for number, fault in enumerate(case.faults):
        within = case.workload.time_ns - fault.at if fault.trigger is None else fault.duration  # the end undoes it
        for duration in sorted(
            {*below(fault.duration, SECOND // 1000), min(within, fault.duration)} - {fault.duration}
        ):
            yield _with(case, number, replace(fault, duration=duration))


def sooner(case: Scenario) -> Iterator[Scenario]:
    """All faults earlier, or one of them, or the work over sooner by as much."""
    first = min((fault.at for fault in case.faults if fault.trigger is None), default=0)
    for at in below(first, 0):
        earlier = replace(case, faults=tuple(_earlier(fault, first - at) for fault in case.faults))
        time = case.workload.time_ns - (first - at)
        yield replace(earlier, workload=replace(case.workload, time_ns=time))
        yield earlier
    for number, fault in enumerate(case.faults):
        for at in below(fault.at, 0):
            yield _with(case, number, replace(fault, at=at))


def simpler(case: Scenario) -> Iterator[Scenario]:
    """A fault of one node where it is of several, or of a named one where it is of a role; a plain cut."""
    for number, fault in enumerate(case.faults):
        if fault.trigger is not None:
            yield _with(case, number, replace(fault, trigger=None, line=None, at=fault.after + fault.at, after=0))
        if fault.nemesis == "partition":
            yield from (_with(case, number, plainer) for plainer in _plainer(fault))
            if len(_named(fault)) == 1 and fault.kind in (*APART_EXACTLY, APART):
                continue
        elif len(_named(fault)) == 1:
            continue
        for node in case.cluster.names():
            yield from (_with(case, number, replace(fault, kind=kind, target=node, draw=0)) for kind in _kinds(fault))


def weaker(case: Scenario) -> Iterator[Scenario]:
    """Faults that do less to packets: not to clients' too, one thing fewer, or less of it: fewer lost, corrupt, doubled
    or ahead, less late, more let through."""
    for number, fault in enumerate(case.faults):
        if fault.nemesis not in ("packets", "loss"):
            continue
        args = dict(fault.args)
        if args.get("clients"):
            yield _with(case, number, replace(fault, args={**args, "clients": False}))
        done = [name for name in (*SHAPES, "probability") if args.get(name)]
        for name in done:
            left = {key: value for key, value in args.items() if key != name}
            if len(done) > 1 and not (name == "delay" and {"jitter", "reorder"} & set(done)):
                yield _with(case, number, replace(fault, args=left))
            for share in _WEAKER:
                if (less := _less(name, args[name], share)) is not None:
                    keeps = {"jitter": min(args["jitter"], less)} if name == "delay" and args.get("jitter") else {}
                    yield _with(case, number, replace(fault, args={**args, name: less, **keeps}))


def _less(name: str, value: float, share: float) -> float | None:
    """Less of it; None where it is little enough."""
    if name == "rate":
        return int(value / share) if value / share <= _LEAST[name] else None
    least = _LEAST.get(name, 0.001)
    if value * share < least:
        return None
    return int(value * share) if name in _LEAST else round(value * share, 4)


def _kinds(fault: Fault) -> list[str]:
    """What it may be instead when it is of one named node: a plain cut, where it is a cut."""
    if fault.nemesis != "partition":
        return [fault.kind]
    return [ONE_NODE, fault.kind] if fault.kind in (APART, FLAPPING) else [ONE_NODE]


def _plainer(fault: Fault) -> Iterator[Fault]:
    """A cut without what it does besides: not of clients too, and for good."""
    needless = {"clients"} if fault.kind == FLAPPING else {"clients", "period"}
    plain = {key: value for key, value in fault.args.items() if value and key not in needless}
    if plain != dict(fault.args):
        yield replace(fault, args=plain)
    if fault.kind == FLAPPING:
        yield replace(fault, kind=ONE_NODE, args={key: value for key, value in plain.items() if key != "period"})


def fewer_messages(case: Scenario) -> Iterator[Scenario]:
    """Rates and times side by side, for when messages are few and it matters where each of them falls."""
    times = [case.workload.time_ns, *(time for time in reversed(below(case.workload.time_ns, SECOND)))]
    for slower in _rates(case, _TENTHS):
        for time in times:
            if all(fault.trigger is not None or fault.at < time for fault in case.faults):
                yield replace(slower, workload=replace(slower.workload, time_ns=time))


def below(value: int, least: int) -> list[int]:
    """Shorter times (ns), shortest first: shares of it, and round ones near it."""
    shares = [least + int((value - least) * share) for share in _SHARES]
    tidy = [time // _step(time) * _step(time) for time in shares] + [value // step * step for step in _STEPS]
    return sorted({time for time in tidy if least <= time < value})


def _step(time: int) -> int:
    """To what a time is rounded: about a tenth of it."""
    return next((step for step in _STEPS if step * 10 <= time), 1)


def _rates(case: Scenario, digits: tuple[float, ...]) -> Iterator[Scenario]:
    rate = case.workload.options.get("rate")
    if isinstance(rate, int | float):
        for power in range(-1, 6):
            for digit in digits:
                value = round(digit * 10.0**power, 6)
                if value < rate and (slower := _told(case, {"rate": value})) is not None:
                    yield slower


def _fewer(number: int) -> list[int]:
    return sorted({1, 2, number // 2, number - 1, number} & set(range(1, number + 1)))


def _told(case: Scenario, values: Mapping[str, Any]) -> Scenario | None:
    """With other options of the workload; None where it does not take them."""
    settings = {one.name: one for one in registry.find(registry.WORKLOADS, case.workload.name).settings}
    try:
        options = {name: settings[name].convert(value) for name, value in values.items()}
    except ValueError:
        return None
    return replace(case, workload=replace(case.workload, options={**case.workload.options, **options}))


def _named(fault: Fault) -> list[str]:
    return [] if fault.target in ROLES else fault.target.split("+")


def _renamed(case: Scenario, names: Mapping[str, str]) -> Scenario:
    def renamed(fault: Fault) -> Fault:
        return (
            replace(fault, target="+".join(sorted(names[node] for node in _named(fault)))) if _named(fault) else fault
        )

    return replace(case, faults=tuple(renamed(fault) for fault in case.faults))


def _earlier(fault: Fault, by: int) -> Fault:
    return fault if fault.trigger is not None else replace(fault, at=fault.at - by)


def _with(case: Scenario, number: int, fault: Fault) -> Scenario:
    return replace(case, faults=(*case.faults[:number], fault, *case.faults[number + 1 :]))
