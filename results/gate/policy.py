"""What has to be shown before a gate opens. TOML, checked as scenarios are. docs/gate.md tells each key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from chaos.model.errors import BadInput, did_you_mean
from chaos.model.settings import BadKey, choice, duration, integer
from chaos.scenario_text import read_file

SCHEMA = 1
PASS = "pass"
MEASURES = (PASS, "outage", "recovery", "failover", "duplicated")
SUITE, CELL = "suite", "cell"


@dataclass(frozen=True)
class Wanted:
    """Cells that must have run. cell: an id or a pattern; every cell that it matches is held to the rest.

    broker: name[@version]; on: simulated, docker, ssh. seeds: how many each has. In each of its runs:
    confirmed_under_faults at least; outage and recovery (ns) and duplicated at most. faults: of these nemeses or kinds
    of fault, each has bitten in each cell. None, or nothing: not asked.
    """

    cell: str
    broker: str | None = None
    on: str | None = None
    seeds: int | None = None
    confirmed_under_faults: int | None = None
    faults: tuple[str, ...] = ()
    outage: int | None = None
    recovery: int | None = None
    duplicated: int | None = None


@dataclass(frozen=True)
class Control:
    """Cells that must have failed: in each, at least so many seeds are invalid by that anomaly, "checker.kind"."""

    cell: str
    anomaly: str
    seeds: int = 1


@dataclass(frozen=True)
class Baseline:
    """The earlier suite's run that this one may not be worse than: in which `measures`, taken over the whole suite or
    `per` cell (which share `alpha`), and how seldom (`alpha`) chance alone may shut the gate."""

    suite_run: str
    alpha: float = 0.05
    measures: tuple[str, ...] = (PASS,)
    per: str = SUITE


@dataclass(frozen=True)
class Policy:
    """A policy as it was read. age: ns. commit: of Splitbrain, its beginning. unknown: a share of the runs. rejected
    and quarantined: how many runs, and cells, at most; None for any number."""

    scenarios: tuple[Wanted, ...]
    controls: tuple[Control, ...] = ()
    suite: str | None = None
    age: int | None = None
    commit: str | None = None
    unknown: float = 0.0
    rejected: int = 0
    quarantined: int | None = None
    baseline: Baseline | None = None


def load(path: Path) -> Policy:
    """The policy in a TOML file. Raises BadInput with file, line and key for anything that cannot be used."""
    data, origin = read_file(path)
    data.pop("name", None)  # what a file is called says nothing
    try:
        return understand(data)
    except BadKey as error:
        raise BadInput(f"{origin.place(error.key)}{error}") from None


def understand(data: Mapping[str, Any]) -> Policy:
    """A policy in parsed data. Raises BadKey."""
    if data.get("schema") != SCHEMA:
        raise BadKey("schema", f"write schema = {SCHEMA}")
    told = {key: value for key, value in data.items() if key != "schema"}
    values = _values(told, _TOP, "")
    if not values.get("scenario"):
        raise BadKey("scenario", "it asks for nothing: which scenarios must have run? write [[scenario]] with a cell")
    return Policy(
        scenarios=tuple(
            Wanted(**_named(table, _WANTED, f"scenario[{place}]")) for place, table in enumerate(values.pop("scenario"))
        ),
        controls=tuple(
            Control(**_named(table, _CONTROL, f"control[{place}]", "anomaly"))
            for place, table in enumerate(values.pop("control", ()))
        ),
        baseline=None if "baseline" not in values else _baseline(values.pop("baseline")),
        **values,
    )


def _baseline(table: Mapping[str, Any]) -> Baseline:
    values = _values(table, _BASELINE, "baseline")
    if "suite_run" not in values:
        raise BadKey("baseline.suite_run", "missing: which earlier run of the suite? `splitbrain list suite-runs`")
    return Baseline(**values)


def _named(
    table: Mapping[str, Any], keys: Mapping[str, Callable[[object], Any]], where: str, *more: str
) -> dict[str, Any]:
    values = _values(table, keys, where)
    write = {"cell": 'cell = "ROW [LABEL]", or a pattern', "anomaly": 'anomaly = "messages.lost", or another'}
    for key in ("cell", *more):
        if key not in values:
            raise BadKey(f"{where}.{key}", f"missing: write {write[key]}")
    return values


def _values(table: Mapping[str, Any], keys: Mapping[str, Callable[[object], Any]], where: str) -> dict[str, Any]:
    values = {}
    for key, value in table.items():
        path = f"{where}.{key}" if where else key
        if key not in keys:
            raise BadKey(path, f"unknown rule {key!r}; {did_you_mean(key, keys)}")
        try:
            values[key] = keys[key](value)
        except ValueError as error:
            raise BadKey(path, str(error)) from None
    return values


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not text")
    return value


def _commit(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{7,40}", value):
        raise ValueError(f"{value!r} is not a commit: seven or more of its hexadecimal digits")
    return value


def _time(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError(f'{value!r} is not a duration: write a number with a unit, such as "250ms", "10s" or "36h"')
    if (ns := duration(value)) < 0:
        raise ValueError(f"{value!r} is below zero")
    return ns


def _share(value: object) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)%", value) if isinstance(value, str) else None
    if found is None or float(found[1]) > 100:
        raise ValueError(f'{value!r} is not a share, such as "5%"')
    return float(found[1]) / 100


def _alpha(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 0.5:
        raise ValueError(f"{value!r} is not a level of significance above 0 and below 0.5, such as 0.05")
    return float(value)


def _words(value: object) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
        raise ValueError(f'{value!r} is not a list of names, such as ["partition", "kill"]')
    return tuple(words)


def _measures(value: object) -> tuple[str, ...]:
    return tuple(choice(*MEASURES)(word) for word in _words(value))


def _anomaly(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z-]+\.[A-Za-z_-]+", value):
        raise ValueError(f"{value!r} is not checker.kind, such as messages.lost")
    return value


def _tables(what: str) -> Callable[[object], list[dict[str, Any]]]:
    def convert(value: object) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise ValueError(f"each is a table of its own; write [[{what}]]")
        return value

    return convert


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a table; write [baseline]")
    return value


_count = integer(0)
_TOP: Mapping[str, Callable[[object], Any]] = {
    "suite": _text, "age": _time, "commit": _commit, "unknown": _share, "rejected": _count, "quarantined": _count,
    "scenario": _tables("scenario"), "control": _tables("control"), "baseline": _table,
}  # fmt: skip
_WANTED: Mapping[str, Callable[[object], Any]] = {
    "cell": _text, "broker": _text, "on": choice("simulated", "docker", "ssh", "external"), "seeds": integer(1),
    "confirmed_under_faults": integer(1), "faults": _words, "outage": _time, "recovery": _time, "duplicated": _count,
}  # fmt: skip
_CONTROL: Mapping[str, Callable[[object], Any]] = {"cell": _text, "anomaly": _anomaly, "seeds": integer(1)}
_BASELINE: Mapping[str, Callable[[object], Any]] = {
    "suite_run": _text, "alpha": _alpha, "measures": _measures, "per": choice(SUITE, CELL),
}  # fmt: skip
assert {field.name for field in fields(Wanted)} == set(_WANTED)
