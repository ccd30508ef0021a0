"""Judge one history with several checkers, none of which can take another down."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chaos.model.errors import BadHistory
from chaos.model.history import History
from chaos.model.registry import CHECKERS, find
from chaos.model.settings import resolve
from chaos.model.verdict import Result, Verdict, merge
from checkers.base import Checker


def check_all(
    history: History, selected: Mapping[str, Mapping[str, Any]], *, strict: bool = False
) -> dict[str, Result]:
    """What each checker named in `selected` says, with the settings given there and defaults for the rest.

    A checker that raises has the result *unknown*, with the error as its reason. Raises BadInput, before anything is
    judged, for a checker that nobody has or a setting that cannot be used; and where `strict`, for a history that
    somebody else recorded, BadHistory for one that breaks the rules.
    """
    ready: list[tuple[Checker, dict[str, Any]]] = []
    for name, options in selected.items():
        checker = find(CHECKERS, name)()
        ready.append((checker, resolve(checker.settings, options, f"checkers.{name}")))
    return {checker.name: guarded(checker, history, options, strict) for checker, options in ready}


def guarded(checker: Checker, history: History, options: Mapping[str, Any], strict: bool = False) -> Result:
    """The checker's result; *unknown* with the error, its message and where it arose, if the checker raises. Where
    `strict`, BadHistory goes through."""
    return kept(checker.name, lambda: checker.check(history, options), strict)


def kept(name: str, judge: Callable[[], Result], strict: bool = False) -> Result:
    """As `guarded`, of anything that judges for a checker of this name."""
    try:
        return judge()
    except Exception as error:
        if strict and isinstance(error, BadHistory):
            raise
        return Result(name, Verdict.UNKNOWN, failure(error))


def failure(error: Exception) -> str:
    """What is told of a checker that raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}, in {frame.name}"
    return f"the checker failed: {type(error).__name__}: {error} ({where})"


def overall(results: Iterable[Result]) -> Verdict:
    """The verdict of the run: the worst of them."""
    return merge(result.verdict for result in results)
