"""A suite: scenarios with seeds, variants, and what is expected of each. TOML, checked as scenarios are.

A row names a scenario (a file beside the suite, or one of the suite's own under [base]) and what to change in it; a
matrix makes a case of each combination of values. Everything is resolved when a suite is read.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from chaos import expectation, quarantine
from chaos.expectation import Expectation
from chaos.model.errors import BadInput, did_you_mean
from chaos.model.settings import BadKey, integer
from chaos.model.verdict import Verdict
from chaos.quarantine import Quarantine
from chaos.scenario import Scenario, understand
from chaos.scenario_text import Origin, read_file, set_key

SCHEMA = 1
KEYS = ("name", "claim", "said_by", "file", "base", "seeds", "set", "matrix", "versus", "expect", "quarantine")
_TOP = ("schema", "name", "seeds", "base", "scenario")
VALID = Expectation(Verdict.VALID)


@dataclass(frozen=True)
class Case:
    """One scenario of a row. `label`: what the matrix made of it ("cluster.nodes=5"), or nothing. `versus`: the one
    that it is compared with. `cell`: "row [label]", its id, which stays the same however the suite is ordered."""

    label: str
    scenario: Scenario
    versus: Scenario | None
    cell: str


@dataclass(frozen=True)
class Row:
    """A line of a suite. `claim`: the promise in words, and `said_by` who makes it; both may be empty."""

    name: str
    place: str
    claim: str
    said_by: str
    cases: tuple[Case, ...]
    seeds: range
    expect: Expectation
    quarantine: Quarantine | None = None


@dataclass(frozen=True)
class Suite:
    """A suite with everything resolved."""

    name: str
    rows: tuple[Row, ...]

    def only(self, names: tuple[str, ...]) -> Suite:
        """The rows of these names (all, for no names); a name may be the beginning of several. Raises BadInput."""
        for name in names:
            if not any(row.name.startswith(name) for row in self.rows):
                raise BadInput(f"no {name!r} among the rows; {did_you_mean(name, [row.name for row in self.rows])}")
        return Suite(self.name, tuple(row for row in self.rows if not names or row.name.startswith(names)))


def load(path: Path, seeds: int | None = None) -> Suite:
    """The suite in a TOML file. `seeds`: so many of each row instead of what it says.

    Raises BadInput with file, line and dotted key for anything that cannot be used.
    """
    data, origin = read_file(path)
    try:
        return _understand(data, origin, path.parent, seeds)
    except BadKey as error:
        raise BadInput(f"{origin.place(error.key)}{error}") from None


def _understand(data: dict[str, Any], origin: Origin, folder: Path, seeds: int | None) -> Suite:
    _known(data, _TOP, "")
    if data.get("schema") != SCHEMA:
        raise BadKey("schema", f"write schema = {SCHEMA}")
    tables = data.get("scenario", [])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise BadKey("scenario", "each scenario of a suite is a table of its own; write [[scenario]]")
    bases = data.get("base", {})
    if not isinstance(bases, dict) or not all(isinstance(base, dict) for base in bases.values()):
        raise BadKey("base", "write [base.NAME] and below it what a scenario says")
    usual = _seeds(data["seeds"], "seeds") if "seeds" in data else range(1, 2)
    rows: list[Row] = []
    for number, table in enumerate(tables):
        row = _row(table, f"scenario[{number}]", bases, usual, origin, folder)
        if any(other.name == row.name for other in rows):
            raise BadKey(f"scenario[{number}].name", f"two are called {row.name!r}")
        first = row.seeds.start
        rows.append(row if seeds is None else replace(row, seeds=range(first, first + seeds)))
    return Suite(str(data["name"]), tuple(rows))


def _row(
    table: dict[str, Any], where: str, bases: Mapping[str, Any], usual: range, origin: Origin, folder: Path
) -> Row:
    _known(table, KEYS, where)
    data, source = _scenario(table, where, bases, origin, folder)
    name = table.get("name", data.get("name"))
    if not isinstance(name, str):
        raise BadKey(
            f"{where}.name", "missing: what is this row to be called?" if name is None else f"{name!r} is no name"
        )
    data["name"] = name
    for key in ("claim", "said_by"):
        if not isinstance(table.get(key, ""), str):
            raise BadKey(f"{where}.{key}", f"{table[key]!r} is not text")
    compared = "versus" in table
    expect = VALID
    if "expect" in table:
        expect = expectation.understand(_table(table, "expect", where), f"{where}.expect", compared)
    elif compared:
        raise BadKey(f"{where}.versus", "nothing is compared: write `expect = { measure = ..., ratio = [...] }`")
    elif "claim" in table:
        raise BadKey(where, 'a claim without a quantifier: write `expect = { valid = true, at_least = "all" }`')
    place = origin.place(where).removesuffix(": ")
    changes = _changes(table, "set", where)
    cases = []
    for label, values in _labelled(list(_combinations(table, where))):
        scenario = _case(data, source, {**changes, **values}, place)
        other = None
        if compared:
            other = _case(data, source, {**changes, **values, **_changes(table, "versus", where)}, place)
        for checker in (anomaly.partition(".")[0] for anomaly in (*expect.anomalies, expect.measure or "")):
            if checker and checker not in scenario.checkers:
                raise BadKey(
                    f"{where}.expect", f"{checker!r} does not judge this; {did_you_mean(checker, scenario.checkers)}"
                )
        cases.append(Case(label, scenario, other, f"{name} [{label}]" if label else name))
    seeds = _seeds(table["seeds"], f"{where}.seeds") if "seeds" in table else usual
    if isinstance(expect.at_least, int) and expect.at_least > len(seeds):
        raise BadKey(f"{where}.expect", f"at least {expect.at_least} of {len(seeds)} seeds can never be")
    excused = None
    if "quarantine" in table:
        excused = quarantine.understand(_table(table, "quarantine", where), f"{where}.quarantine")
    return Row(name, place, table.get("claim", ""), table.get("said_by", ""), tuple(cases), seeds, expect, excused)


def _scenario(
    table: dict[str, Any], where: str, bases: Mapping[str, Any], origin: Origin, folder: Path
) -> tuple[dict[str, Any], Origin]:
    """What a row begins with: a file's scenario, or one of the suite's own."""
    if ("file" in table) == ("base" in table):
        raise BadKey(where, 'which scenario? write file = "NAME.toml", or base = "NAME" of [base.NAME]; one of the two')
    if "file" in table:
        try:
            return read_file(folder / str(table["file"]))
        except BadInput as error:
            raise BadKey(f"{where}.file", str(error)) from None
    base = table["base"]
    if base not in bases:
        raise BadKey(f"{where}.base", f"there is no [base.{base}]; {did_you_mean(str(base), bases)}")
    prefix = f"base.{base}."
    lines = {key.removeprefix(prefix): line for key, line in origin.lines.items() if key.startswith(prefix)}
    return {"schema": SCHEMA, **copy.deepcopy(bases[base])}, Origin(origin.file, lines)


def _case(data: dict[str, Any], source: Origin, changes: Mapping[str, Any], place: str) -> Scenario:
    data, origin = copy.deepcopy(data), Origin(source.file, source.lines)
    for key, value in changes.items():
        set_key(data, origin, key, copy.deepcopy(value), f"{place}: set")
    try:
        return understand(data, origin.folder())
    except BadKey as error:
        at = origin.place(error.key)
        raise BadInput(f"{at if at.startswith(place) else f'{place}: {at}'}{error}") from None


def _changes(table: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    """What is set, by dotted key; tables within are keys within keys."""
    return dict(_dotted(_table(table, key, where)))


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _combinations(table: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    matrix = _changes(table, "matrix", where)
    for key, values in matrix.items():
        if not isinstance(values, list) or not values:
            raise BadKey(f"{where}.matrix", f"{key}: {values!r} is not a list of values")
    for values in product(*matrix.values()):
        yield dict(zip(matrix, values, strict=True))


def _labelled(combinations: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each with words for it, whatever the order of keys and values in the file; where words do not tell some apart
    (two nemeses of one name, say), those have a digest of their values besides."""
    words = [", ".join(f"{key}={_word(values[key])}" for key in sorted(values)) for values in combinations]
    times = Counter(words)
    for label, values in zip(words, combinations, strict=True):
        if times[label] > 1:
            whole = json.dumps(values, sort_keys=True, default=str)
            label += f" ~{hashlib.blake2b(whole.encode(), digest_size=4).hexdigest()}"
        yield label, values


def _word(value: Any) -> str:
    """A value of a matrix in few letters: tables by their names, several of anything joined by "+"."""
    if isinstance(value, list):
        return "+".join(_word(one) for one in value) or "none"
    return str(value.get("name", value)) if isinstance(value, dict) else str(value)


def _seeds(told: object, where: str) -> range:
    """`{ from = 1, count = 10 }`, or a count."""
    table = {"count": told} if isinstance(told, int) and not isinstance(told, bool) else told
    if not isinstance(table, dict):
        raise BadKey(where, f"{told!r}: write seeds = {{ from = 1, count = 10 }}")
    _known(table, ("from", "count"), where)
    try:
        first, count = integer(0)(table.get("from", 1)), integer(1, 1_000_000)(table.get("count"))
    except ValueError as error:
        raise BadKey(where, f"{error}: write seeds = {{ from = 1, count = 10 }}") from None
    return range(first, first + count)


def _table(table: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise BadKey(f"{where}.{key}", f"{found!r} is not a table; write {key} = {{ ... }}")
    return found


def _known(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            path = f"{where}.{key}" if where else key
            raise BadKey(path, f"unknown key {key!r}; {did_you_mean(key, known)}")
