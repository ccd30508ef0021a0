"""A scenario: which cluster, asked for what, hurt how, and what is expected of it. TOML, or flags, or both.

Everything is resolved when a scenario is read: names are found, every setting has its value, the faults are planned
once. So what is loaded can run, and what cannot be used is refused with its line before anything starts.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos import scenario_faults, scenario_hosts
from chaos.kernel.streams import Streams
from chaos.model import registry
from chaos.model.errors import BadInput, SplitbrainError, did_you_mean
from chaos.model.schedule import Fault, Schedule
from chaos.model.settings import (
    BadKey,
    Setting,
    Size,
    choice,
    duration,
    format_duration,
    integer,
    optional,
    resolve,
    text,
)
from chaos.scenario_text import Origin, read_file, read_toml, write_toml
from clusters.base import QUEUE
from clusters.external import EXTERNAL
from nemesis.timing import TIMES, needed, within

SCHEMA = 1
SIMULATED = "simulated"
DOCKER = "docker"
SSH = scenario_hosts.SSH
MAX_NODES = {SIMULATED: 9, DOCKER: 7, SSH: 9, EXTERNAL: 9}
EARNED = "earned"  # the checker that judges what [expect] says

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a name: letters, digits, '.', '_' and '-', at most 64, a letter or digit first"
        )
    return value


def _image(value: object) -> str:
    if not isinstance(value, str) or not value or value != "".join(value.split()):
        raise ValueError(f'{value!r} is not the name of an image, such as "my/rabbitmq:4.1"')
    return value


def _positive(value: object) -> int:
    if (ns := duration(value)) <= 0:
        raise ValueError(f'{value!r} is no time at all: write a duration above zero, such as "60s"')
    return ns


NAME = Setting("name", _name, "", "what to call the runs of this scenario")
SEED = Setting("seed", integer(low=0), 1, "the number that all random choices come from")
NODES = Setting("nodes", integer(low=1), 3, "how many nodes the cluster has")
IMAGE = Setting("image", optional(_image), None, "an image to make its containers of, which this machine's engine has")
TIME = Setting("time", _positive, "60s", "how long to work, before the faults are undone and the queues drained")
PROGRESS = Setting(
    "progress", choice("required", "forbidden", "any"), "required", "whether something must, or must not, be confirmed"
)
FAULTS = Setting("faults", choice("bite", "none", "any"), "bite", "whether each fault must bite, or none is planned")


@dataclass(frozen=True)
class ClusterPart:
    """Which broker, in which version (None where there is no choice), on what, with how many nodes, told what.
    `image`: what its containers are made of, instead of what we would build. `hosts`: what `[cluster.ssh]`, or
    `[cluster.docker]`, says, with every setting at its value; or the addresses of a broker of the user's own, with what
    `[cluster.ssh]` says of the hosts that it is on."""

    broker: str
    version: str | None
    on: str
    nodes: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    image: str | None = None
    hosts: Mapping[str, Any] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """The names of the nodes: n1, n2, ..."""
        return tuple(f"n{number}" for number in range(1, self.nodes + 1))


@dataclass(frozen=True)
class WorkloadPart:
    """Which workload, for how long (ns), told what."""

    name: str
    time_ns: int
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NemesisPart:
    """Which nemesis, told what."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A scenario with everything resolved. `checkers` are those that will judge, each with all its options; `disabled`
    those that the workload implies and the scenario has turned off. `expect` holds progress and faults. `faults` are
    those that it lists one by one, beside what the nemeses plan."""

    name: str
    seed: int
    cluster: ClusterPart
    workload: WorkloadPart
    nemeses: tuple[NemesisPart, ...]
    checkers: Mapping[str, Mapping[str, Any]]
    expect: Mapping[str, str]
    disabled: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()

    def dumps(self) -> str:
        """As TOML with every value written out, which loads back as an equal scenario."""
        cluster = self.cluster
        broker = cluster.broker if cluster.version is None else f"{cluster.broker}@{cluster.version}"
        names = _setting_names(cluster.broker, cluster.on)
        settings = {name: value for name, value in cluster.settings.items() if name in names}
        nemeses = [{"name": part.name, **_written(registry.NEMESES, part.name, part.options)} for part in self.nemeses]
        checkers: dict[str, Any] = {}
        for name, options in self.checkers.items():
            said = {key: value for key, value in options.items() if name != EARNED or key not in self.expect}
            checkers[name] = _written(registry.CHECKERS, name, said)
        checkers.update({name: {"enabled": False} for name in self.disabled})
        time = format_duration(self.workload.time_ns)
        return write_toml(
            {
                "schema": SCHEMA,
                "name": self.name,
                "seed": self.seed,
                "cluster": {
                    "broker": broker,
                    "on": cluster.on,
                    **({"image": cluster.image} if cluster.image is not None else {}),
                    "nodes": cluster.nodes,
                    "settings": _written(_group(cluster.on), cluster.broker, settings),
                    **(scenario_hosts.written(cluster.hosts) if cluster.hosts else {}),
                },
                "workload": {
                    "name": self.workload.name,
                    "time": time,
                    **_written(registry.WORKLOADS, self.workload.name, self.workload.options),
                },
                "nemesis": nemeses,
                **({"fault": [scenario_faults.written(fault) for fault in self.faults]} if self.faults else {}),
                "checkers": checkers,
                "expect": dict(self.expect),
            }
        )


def load(path: Path) -> Scenario:
    """The scenario in a TOML file. Raises BadInput with file, line and dotted key for anything that cannot be used."""
    return from_data(*read_file(path))


def loads(toml: str, where: str = "scenario") -> Scenario:
    """The scenario in a TOML text that is called `where` in errors."""
    return from_data(*read_toml(toml, where))


def from_data(data: Mapping[str, Any], origin: Origin | None = None) -> Scenario:
    """The scenario in parsed data (which is not changed). Raises BadInput placing each problem by `origin`."""
    origin = origin or Origin()
    try:
        return understand(data, origin.folder())
    except BadKey as error:
        raise BadInput(f"{origin.place(error.key)}{error}") from None


def understand(data: Mapping[str, Any], folder: Path) -> Scenario:
    """The scenario in parsed data (which is not changed); files that it names are beside `folder`. Raises BadKey for
    what cannot be used."""
    own = copy.deepcopy(dict(data))
    scenario_hosts.inline(own, folder)
    scenario = _resolve(own)
    plan(scenario)
    return scenario


def plan(scenario: Scenario) -> Schedule:
    """The faults of all nemeses and those that are listed, ordered by the earliest time that each may begin.

    Each nemesis has its own stream of randomness, keyed by its name and how many of that name came before it, so that
    its faults stay the same when another nemesis is taken out. Raises BadKey for one that cannot be planned: its
    target does not exist, or not one of its faults fits in the time.
    """
    streams = Streams(scenario.seed)
    met: Counter[str] = Counter()
    faults: list[Fault] = []
    for number, part in enumerate(scenario.nemeses):
        where = f"nemesis[{number}]"
        nemesis = registry.find(registry.NEMESES, part.name)()
        nth = met[part.name]
        met[part.name] += 1
        random = streams.stream("nemesis", part.name, nth)
        try:
            planned = nemesis.plan(part.options, scenario.cluster.names(), scenario.workload.time_ns, random)
        except BadKey as error:
            raise BadKey(f"{where}.{error.key}", error.problem) from None
        if not planned:
            time = format_duration(scenario.workload.time_ns)
            takes = f": {needed(part.options)}" if set(TIMES) <= part.options.keys() else ""
            raise BadKey(where, f"not one fault of {part.name!r} fits in {time} of work{takes}")
        if nth:
            planned = [replace(fault, id=f"{part.name}.{nth + 1}-{n}") for n, fault in enumerate(planned, 1)]
        faults += planned
    for number, fault in enumerate(scenario.faults):
        if fault.id in [other.id for other in faults]:
            raise BadKey(f"fault[{number}].id", f"another fault is called {fault.id!r}")
        faults.append(fault)
    return Schedule(tuple(sorted(faults, key=lambda fault: (fault.after + fault.at, fault.id))))


def _resolve(data: dict[str, Any]) -> Scenario:
    known = ("schema", "name", "seed", "cluster", "workload", "nemesis", "fault", "checkers", "expect")
    for key in data:
        if key not in known:
            raise BadKey(key, f"unknown key {key!r}; {did_you_mean(key, known)}")
    if data.get("schema") != SCHEMA:
        said = f"{data['schema']!r} is not one that this version reads" if "schema" in data else "missing"
        raise BadKey("schema", f"{said}; write schema = {SCHEMA}")
    cluster = _cluster(_table(data, "cluster"))
    workload, implied, tells = _workload(_table(data, "workload"), cluster)
    nemeses = tuple(_nemeses(data.get("nemesis", []), workload.time_ns))
    faults = tuple(scenario_faults.listed(data.get("fault", []), cluster.names(), workload.time_ns))
    hurt = bool(nemeses or faults)
    expect = resolve((PROGRESS, FAULTS if hurt else replace(FAULTS, default="none")), _table(data, "expect"), "expect")
    if not hurt and expect["faults"] == "bite":
        raise BadKey("expect.faults", "'bite' needs a fault, and there is no [[nemesis]]; say \"none\", or add one")
    if faults and expect["faults"] == "none":
        raise BadKey("expect.faults", '\'none\', and yet there is a [[fault]]; take it out, or say "bite" or "any"')
    if nemeses and expect["faults"] == "none":
        raise BadKey("expect.faults", '\'none\', and yet there is a [[nemesis]]; take it out, or say "bite" or "any"')
    told = {**cluster.settings, **workload.options}
    checkers, disabled = _checkers(_table(data, "checkers"), implied, tells, expect, told)
    name, seed = _convert("name", NAME, data), _convert("seed", SEED, data)
    return Scenario(name, seed, cluster, workload, nemeses, checkers, expect, disabled, faults)


def _cluster(table: dict[str, Any]) -> ClusterPart:
    where = "cluster"
    known = ("broker", "on", "image", "nodes", "settings", DOCKER, SSH, EXTERNAL)
    for key in table:
        if key not in known:
            raise BadKey(f"{where}.{key}", f"unknown key {key!r}; {did_you_mean(key, known)}")
    brokers = {*registry.names(registry.BROKERS), *registry.names(registry.SIMULATIONS)}
    if "broker" not in table:
        raise BadKey(f"{where}.broker", f"missing: which broker? known: {', '.join(sorted(brokers))}")
    broker, at, version = _convert(f"{where}.broker", Setting("broker", text, "", ""), table).partition("@")
    if broker not in brokers:
        raise BadKey(f"{where}.broker", f"no {broker!r} among the brokers; {did_you_mean(broker, brokers)}")
    places = tuple(_places(broker))
    image = _convert(f"{where}.image", IMAGE, table)
    hinted = [DOCKER] * (image is not None) + [place for place in (DOCKER, EXTERNAL, SSH) if place in table]
    usual = next((place for place in hinted if place in places), places[0])
    on = _convert(f"{where}.on", Setting("on", _place_of(broker, places), usual, ""), table)
    if image is not None and DOCKER in table:
        raise BadKey(f"{where}.image", "these containers are there already: take the image out")
    if image is not None and on != DOCKER:
        problem = f"containers are made of an image, and this cluster is {_on(on)}"
        raise BadKey(f"{where}.image", f"{problem}; {_instead(broker, places)}")
    hosts = scenario_hosts.understand(table, on)
    number = scenario_hosts.number(hosts)
    nodes = _convert(
        f"{where}.nodes",
        replace(NODES, convert=integer(low=1, high=MAX_NODES[on]), default=number or NODES.default),
        table,
    )
    if number and nodes != number:
        there = f"{number} {'addresses' if on == EXTERNAL else 'hosts'}"
        raise BadKey(f"{where}.nodes", f"{nodes}, and there are {there}: each is a node, so take it out")
    cls = registry.find(_group(on), broker)
    versions: tuple[str, ...] = getattr(cls, "versions", ())
    if at and version not in versions:
        problem = f"no version {version!r} of {broker!r} {_on(on)}"
        raise BadKey(f"{where}.broker", f"{problem}; {did_you_mean(version, versions)}")
    if not at:
        version = versions[0] if versions else ""
    given = _table(table, "settings", where)
    for name in given:
        if name not in _setting_names(broker, on):
            if on == EXTERNAL and name in _setting_names(broker, DOCKER):
                problem = f"{name!r} is for whoever starts the broker, and this one is your own; take it out"
                raise BadKey(f"{where}.settings.{name}", problem)
            for other in places:
                if other != on and name in _setting_names(broker, other):
                    problem = f"{name!r} is a setting of {broker!r} {_on(other)} only; this cluster is {_on(on)}"
                    raise BadKey(f"{where}.settings.{name}", f"{problem}, so take it out")
    settings = resolve(cls.settings, given, f"{where}.settings")
    return ClusterPart(broker, version or None, on, nodes, settings, image, hosts)


def _instead(broker: str, places: tuple[str, ...]) -> str:
    return f'write on = "{DOCKER}", or leave it out' if DOCKER in places else f"{broker!r} cannot be {_on(DOCKER)}"


def _places(broker: str) -> Iterator[str]:
    """Where a broker can be: simulated, and on which kinds of host."""
    if broker in registry.names(registry.SIMULATIONS):
        yield SIMULATED
    if broker in registry.names(registry.BROKERS):
        yield DOCKER
        with suppress(SplitbrainError):  # one that cannot be loaded here
            found = registry.find(registry.BROKERS, broker)
            if hasattr(found, "bare"):
                yield SSH
            if hasattr(found, "product"):
                yield EXTERNAL


def _place_of(broker: str, places: tuple[str, ...]) -> Callable[[object], str]:
    def convert(value: object) -> str:
        if value in MAX_NODES and value not in places:
            raise ValueError(f"{broker!r} cannot be {_on(str(value))}; write {places[0]!r}")
        return choice(*places)(value)

    return convert


def _on(place: str) -> str:
    return place if place == SIMULATED else f"on {place}"


def _group(on: str) -> str:
    return registry.SIMULATIONS if on == SIMULATED else registry.BROKERS


def _setting_names(broker: str, on: str) -> set[str]:
    try:
        found = registry.find(_group(on), broker)
        return {setting.name for setting in found.settings if on != EXTERNAL or setting.name in found.asked}
    except SplitbrainError:  # one that cannot be loaded here has no settings to speak of
        return set()


def _workload(table: dict[str, Any], cluster: ClusterPart) -> tuple[WorkloadPart, tuple[str, ...], Any]:
    """The workload, the checkers that it implies, and what it tells of their settings."""
    name, cls = _named(table, "workload", registry.WORKLOADS)
    broker, here = registry.find(_group(cluster.on), cluster.broker), f"{cluster.broker!r} {_on(cluster.on)}"
    serves = getattr(broker, "serves", (QUEUE,))  # one that does not say is asked as a queue
    if not _can_ask(cls, serves):
        workloads = registry.names(registry.WORKLOADS)
        fit = [other for other in workloads if _can_ask(registry.find(registry.WORKLOADS, other), serves)]
        problem = f"{name!r} asks a broker as a {' or a '.join(cls.needs)}, and {here} is not one"
        raise BadKey("workload.name", f"{problem}; what can ask it: {', '.join(fit) or 'no workload'}")
    options = resolve((TIME, *cls.settings), table, "workload")
    part = WorkloadPart(name, options.pop("time"), options)
    try:
        asked = cls.asks(options, cluster.names())
    except BadKey as error:
        raise BadKey(f"workload.{error.key}", error.problem) from None
    for setting, feature in asked.items():
        if feature not in getattr(broker, "features", ()):
            raise BadKey(f"workload.{setting}", f"this takes {feature}, which {here} does not have")
    return part, cls.implied(options), getattr(cls, "tells", {})


def _can_ask(workload: Any, serves: Sequence[str]) -> bool:
    return any(kind in serves for kind in workload.needs)


def _nemeses(parts: object, span: int) -> Iterator[NemesisPart]:
    if not isinstance(parts, list):
        raise BadKey("nemesis", "each nemesis is a table of its own; write [[nemesis]], with two brackets")
    for number, part in enumerate(parts):
        where = f"nemesis[{number}]"
        if not isinstance(part, dict):
            raise BadKey(where, f"{part!r} is not a table; write [[nemesis]] and below it name = {part!r}")
        name, cls = _named(part, where, registry.NEMESES)
        yield NemesisPart(name, resolve(within(cls.settings, span), part, where))


def _checkers(
    tables: dict[str, Any], implied: Iterable[str], tells: Any, expect: Mapping[str, str], told: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    asked = list(dict.fromkeys((*implied, EARNED, *tables)))
    checkers: dict[str, dict[str, Any]] = {}
    disabled = []
    for name in asked:
        where = f"checkers.{name}"
        cls = _find(registry.CHECKERS, name, where)
        given = _table(tables, name, "checkers")
        enabled = given.pop("enabled", True)
        if not isinstance(enabled, bool):
            raise BadKey(f"{where}.enabled", f"{enabled!r} is neither true nor false")
        if name == EARNED:
            for key in expect:
                if key in given:
                    raise BadKey(f"{where}.{key}", f"say it under [expect]: {key} = {given[key]!r}")
            given.update({setting.name: expect[setting.name] for setting in cls.settings if setting.name in expect})
        followed = {s.name: told[s.follows] for s in cls.settings if s.follows in told and s.name not in given}
        options = resolve(cls.settings, {**followed, **tells.get(name, {}), **given}, where)
        if enabled:
            checkers[name] = options
        else:
            disabled.append(name)
    return checkers, tuple(disabled)


def _named(table: dict[str, Any], where: str, group: str) -> tuple[str, Any]:
    """The name in a table, which is taken out of it, and the class of that name."""
    if "name" not in table:
        raise BadKey(f"{where}.name", f"missing: known: {', '.join(registry.names(group))}")
    name = table.pop("name")
    return str(name), _find(group, str(name), f"{where}.name")


def _find(group: str, name: str, key: str) -> Any:
    try:
        return registry.find(group, name)
    except BadInput as error:
        raise BadKey(key, str(error)) from None


def _table(data: dict[str, Any], name: str, where: str = "") -> dict[str, Any]:
    table = data.get(name, {})
    key = f"{where}.{name}" if where else name
    if not isinstance(table, dict):
        raise BadKey(key, f"{table!r} is not a table; write [{key}] and its keys below it")
    return table


def _convert(key: str, setting: Setting, table: Mapping[str, Any]) -> Any:
    if setting.name not in table and setting.default == "":
        raise BadKey(key, "missing")
    try:
        return setting.convert(table.get(setting.name, setting.default))
    except ValueError as error:
        raise BadKey(key, str(error)) from None


def _written(group: str, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a thing's settings as a person would write them: durations with their unit, absent ones left out."""
    settings = {setting.name: setting for setting in registry.find(group, name).settings}
    return {key: _as_duration(settings[key], value) for key, value in values.items() if value is not None}


def _as_duration(setting: Setting, value: Any) -> Any:
    if isinstance(value, Size):
        return value.written
    if isinstance(value, int) and not isinstance(value, bool):
        words = format_duration(value)
        try:
            return words if setting.convert(words) == value else value
        except ValueError:  # a plain number: only a duration takes a unit
            return value
    return value
