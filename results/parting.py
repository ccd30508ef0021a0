"""Where two histories part: the first row in which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from chaos.model.history import History, Words

_NUMBERS = (
    "index", "time", "process", "type", "value", "op", "channel", "redelivered", "term", "incarnation",
)  # fmt: skip
_TEXTS = ("f", "key", "node", "error")


def parting(one: History, other: History) -> int | None:
    """The first row that is not the same in both, be it that one of them ends before it; None where there is none."""
    first = both = min(len(one), len(other))
    for name in _NUMBERS:
        first = _first(getattr(one, name)[:first], getattr(other, name)[:first], first)
    for name in _TEXTS:
        ours, theirs = getattr(one, name), getattr(other, name)
        first = _first(ours.codes[:first], _recoded(theirs, ours)[:first], first)
    first = _first_text(one.detail_text, other.detail_text, first)
    return None if first == both and len(one) == len(other) else first


def _first(one: npt.NDArray[np.generic], other: npt.NDArray[np.generic], otherwise: int) -> int:
    differ = one != other
    return int(np.argmax(differ)) if differ.any() else otherwise


def _recoded(words: Words, like: Words) -> npt.NDArray[np.int64]:
    """The column in the codes of another; words that the other has not get codes of their own."""
    known = {word: code for code, word in enumerate(like.words)}
    codes = [known.get(word, len(known) + place) for place, word in enumerate(words.words)]
    return np.array([*codes, -1], dtype=np.int64)[words.codes]


def _first_text(one: Sequence[str | None], other: Sequence[str | None], rows: int) -> int:
    pairs = zip(islice(one, rows), islice(other, rows), strict=True)
    return next((row for row, (ours, theirs) in enumerate(pairs) if (ours or "") != (theirs or "")), rows)
