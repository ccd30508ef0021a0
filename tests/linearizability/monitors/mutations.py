"""Monitors with one rule broken on purpose: the comparison with brute force must notice each of them.

A monitor's mutants are listed next to its tests, one for each comparison of its rules:

    MUTANTS = [
        Mutant("register", "starts < ends", "starts <= ends", "register"),
        Mutant("fifo", "refuse(calls, 0", "(lambda *_: None)(calls, 0", test_a_literal_history_that_is_refused),
    ]

    @pytest.mark.parametrize("mutant", MUTANTS, ids=str)
    def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
        assert_noticed(mutant)
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from random import Random
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

from tests.linearizability.monitors.agree import CASES, agree

MONITORS = "checkers.linearizability.monitors"
HISTORIES = 30_000
BATCH = 250


class Mutant(NamedTuple):
    """module: one of MONITORS, or its full name. old: text in it that occurs once; new: what stands there instead.
    by: who must notice, a key of CASES, or a test that passes without it."""

    module: str
    old: str
    new: str
    by: str | Callable[[], None]

    def __str__(self) -> str:
        return f"{self.module}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The functions of the module made from the changed text; in place, so whoever imported them has these."""
    module = import_module(mutant.module if "." in mutant.module else f"{MONITORS}.{mutant.module}")
    source = inspect.getsource(module)
    assert source.count(mutant.old) == 1, f"{mutant.old!r} occurs {source.count(mutant.old)} times in {mutant.module}"
    with replaced(module, source.replace(mutant.old, mutant.new)):
        yield


@contextmanager
def replaced(module: ModuleType, source: str) -> Iterator[None]:
    """The functions of a module made from another text."""
    changed: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__}
    exec(compile(source, f"<another {module.__name__}>", "exec"), changed)
    mine, others = _functions(module, vars(module)), _functions(module, changed)
    assert mine.keys() == others.keys()
    kept = {name: function.__code__ for name, function in mine.items()}
    try:
        for name, function in mine.items():
            function.__code__ = others[name].__code__
        yield
    finally:
        for name, function in mine.items():
            function.__code__ = kept[name]


_LATELY: dict[str, list[int]] = {}


def all_pass(whose: str, checks: Sequence[Callable[[], None]]) -> bool:
    """Whether none of the checks fails. Those that failed of late, of the same module's mutants, are asked first: they
    are likely to notice the next one too, and then nobody else need be asked."""
    lately = _LATELY.setdefault(whose, [])
    for number in [*lately, *(number for number in range(len(checks)) if number not in lately)]:
        try:
            checks[number]()
        except (Exception, pytest.fail.Exception):
            lately[:] = [number, *(one for one in lately if one != number)]
            return False
    return True


def assert_noticed(mutant: Mutant, histories: int = HISTORIES) -> None:
    """Raises AssertionError if a mutant gives no wrong answer, and does not fail either, in so many small histories."""
    with planted(mutant):
        try:
            _try(mutant, histories)
        except (Exception, pytest.fail.Exception):
            return
    raise AssertionError(f"nobody noticed {mutant}")


def _try(mutant: Mutant, histories: int) -> None:
    if not isinstance(mutant.by, str):
        mutant.by()
        return
    rng, seen = Random(f"{mutant.by} mutants"), Counter[str]()
    for _ in range(0, histories, BATCH):
        agree(CASES[mutant.by], rng, BATCH, seen)


def _functions(module: ModuleType, names: dict[str, Any]) -> dict[str, FunctionType]:
    """Functions of a module, and of its classes, by name."""
    found: dict[str, FunctionType] = {}
    for name, thing in names.items():
        if isinstance(thing, FunctionType) and thing.__module__ == module.__name__:
            found[name] = thing
        elif isinstance(thing, type) and thing.__module__ == module.__name__:
            found |= {f"{name}.{key}": value for key, value in vars(thing).items() if isinstance(value, FunctionType)}
    return found
