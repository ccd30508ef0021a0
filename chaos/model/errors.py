"""Errors that a person is meant to read, and the exit codes of the command.

Exit codes are Jepsen's: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 internal error; and 130 for an
interrupt before there was a verdict.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_VALID = 0
EXIT_INVALID = 1
EXIT_UNKNOWN = 2
EXIT_INTERRUPTED = 130
EXIT_BAD_INPUT = 254
EXIT_ERROR = 255


class SplitbrainError(Exception):
    """Something went wrong that the person at the keyboard can understand: its text is one clear line (exit 255).

    `tail` holds lines of evidence that are printed below it, such as the end of a node's log.
    """

    exit_code = EXIT_ERROR

    def __init__(self, message: str, *, tail: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.tail = tuple(tail)


class BadInput(SplitbrainError):
    """An argument, a scenario or a file that cannot be used: what, where, what was meant, what to do (exit 254)."""

    exit_code = EXIT_BAD_INPUT


class BadHistory(BadInput):
    """A history that breaks the rules of histories, or a file of one that cannot be read; says where."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A clause for the end of an error: the nearest known word, or all of them where none is near.

    A word that several begin with means any of those.
    """
    names = sorted(known)
    begun = [name for name in names if len(word) >= 3 and name.casefold().startswith(word.casefold())]
    if len(begun) > 1:
        return f"did you mean {' or '.join(map(repr, begun))}?"
    if (near := nearest(word, names)) is not None:
        return f"did you mean {near!r}?"
    return f"known: {', '.join(names)}" if names else "there are none"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant: one spelt much the same, else one that begins so or has it in it."""
    names = sorted(known)
    folded = word.casefold()
    near = difflib.get_close_matches(folded, names, n=1, cutoff=0.6)
    within = [name for name in names if len(folded) >= 3 and folded in name.casefold()]
    return next(iter(near or sorted(within, key=lambda name: not name.casefold().startswith(folded))), None)
