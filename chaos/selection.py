"""Which cells of a suite are wanted, in words: `broker=rabbitmq* nemesis!=kill row=jepsen*`."""

from __future__ import annotations

import shlex
from dataclasses import replace
from fnmatch import fnmatchcase

from chaos.model.errors import BadInput, did_you_mean
from chaos.suite import Case, Row, Suite

KEYS = ("row", "label", "broker", "version", "nemesis", "workload", "on")


def select(suite: Suite, expression: str) -> Suite:
    """The cells for which every term holds; rows without any are gone.

    A term is KEY=PATTERN or KEY!=PATTERN, where a pattern may hold * and ?; or a word that is in the cell's id. Raises
    BadInput for an expression that is none, or that selects nothing.
    """
    try:
        terms = [_term(term) for term in shlex.split(expression)]
    except ValueError as error:
        raise BadInput(f"--filter: {expression!r}: {error}") from None
    if not terms:
        raise BadInput(f"--filter: it is empty; write {KEYS[0]}=PATTERN, or one of {', '.join(KEYS[1:])}")
    rows = []
    for row in suite.rows:
        cases = tuple(case for case in row.cases if all(_holds(term, row, case) for term in terms))
        if cases:
            rows.append(replace(row, cases=cases))
    if not rows:
        raise BadInput(f"--filter: no cell of {suite.name!r} is {expression!r}; `--dry-run` lists them")
    return Suite(suite.name, tuple(rows))


def _term(term: str) -> tuple[str, bool, str]:
    """Key ("" for a bare word), whether it is to match, and the pattern."""
    key, equals, pattern = term.partition("=")
    wanted = not key.endswith("!")
    key = key.removesuffix("!")
    if not equals:
        return "", True, term
    if key not in KEYS:
        raise BadInput(f"--filter: unknown key {key!r} in {term!r}; {did_you_mean(key, KEYS)}")
    return key, wanted, pattern


def _holds(term: tuple[str, bool, str], row: Row, case: Case) -> bool:
    key, wanted, pattern = term
    if not key:
        return pattern in case.cell
    cluster = case.scenario.cluster
    words: dict[str, tuple[str, ...]] = {
        "row": (row.name,),
        "label": (case.label, *case.label.split(", ")),
        "broker": (cluster.broker, f"{cluster.broker}@{cluster.version}"),
        "version": (cluster.version or "",),
        "nemesis": tuple(part.name for part in case.scenario.nemeses),
        "workload": (case.scenario.workload.name,),
        "on": (cluster.on,),
    }
    return any(fnmatchcase(word, pattern) for word in words[key]) == wanted
