"""The operations of a history's clients, a row each: what they asked and what came of it, before a model reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.model.errors import BadHistory, did_you_mean
from chaos.model.history import NONE, History, Ints, Mask
from chaos.model.op import FAIL, INFO, INVOKE, OK
from checkers.columns import coded, said
from checkers.linearizability.calls import NEVER, Calls, F

Rows = npt.NDArray[np.intp]

FIRST_WORD = 1 << 62
ASIDE = ("open", "close", "ack")  # what clients do besides operations


class Words:
    """Numbers for values that are none, from FIRST_WORD on. Whole numbers below it are their own."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.values: dict[int, Any] = {}

    def number(self, value: Any) -> int:
        """The number of a value; NONE for None."""
        if value is None:
            return NONE
        if whole(value) and value < FIRST_WORD:
            return int(value)
        text = json.dumps(value, sort_keys=True)
        if text not in self._numbers:
            self._numbers[text] = FIRST_WORD + len(self._numbers)
            self.values[self._numbers[text]] = value
        return self._numbers[text]


class Operations:
    """Columns, an operation a row, in the order of their calls.

    row, end: rows of the history (end: -1 without a completion). outcome: OK, FAIL or INFO. f, arg, out: as in Calls,
    for a model to fill.
    """

    def __init__(self, history: History, model: str, fs: Mapping[str, F]) -> None:
        self.history = history
        self.row = _invocations(history, model, fs)
        self.end = history.completion[self.row]
        codes = np.array([int(fs.get(word, 0)) for word in history.f.words] or [0], dtype=np.int8)
        self.f = codes[history.f.codes[self.row]]
        self.outcome = np.where(self.end >= 0, history.type[self.end], np.int8(INFO)).astype(np.int8)
        self.arg = np.full(len(self.row), NONE, dtype=np.int64)
        self.out = self.arg.copy()
        self.words = Words()

    def __len__(self) -> int:
        return len(self.row)

    @property
    def ok(self) -> Mask:
        return np.asarray(self.outcome == OK)

    @property
    def failed(self) -> Mask:
        return np.asarray(self.outcome == FAIL)

    def is_(self, *names: F) -> Mask:
        """Where an operation is one of these."""
        return np.isin(self.f, [int(name) for name in names])

    def written(self, word: str) -> Mask:
        """Where the history itself calls it so."""
        return self.history.f.is_(word)[self.row]

    def error(self, *texts: str) -> Mask:
        """Where its completion says one of these errors, or, given none, any."""
        words = self.history.error.words
        among = np.array([not texts or word.removeprefix(":") in texts for word in words] + [False], dtype=np.bool_)
        codes = self.history.error.codes[self.end]
        return among[np.where(self.end >= 0, codes, -1)]

    def keep(self, mask: Mask) -> None:
        """Drop all others."""
        if not mask.all():
            for name in ("row", "end", "f", "outcome", "arg", "out"):
                setattr(self, name, getattr(self, name)[mask])

    def said(self, at: Rows) -> list[Any]:
        """The values in rows of the history, as they are; None for row -1."""
        return said(self.history, at)

    def numbers(self, at: Rows) -> Ints:
        """The values in rows of the history, as numbers."""
        number = np.where(at >= 0, self.history.value[at], NONE)
        others = np.flatnonzero(((number == NONE) & (at >= 0)) | (number >= FIRST_WORD))
        if len(others):
            number[others] = [self.words.number(value) for value in self.said(at[others])]
        return number

    def bad(self, place: int, problem: str) -> BadHistory:
        """What to raise about an operation."""
        op = int(self.history.index[self.row[place]])
        return BadHistory(f"history: op {op} ({self.history.f[int(self.row[place])]}): {problem}")

    def first_bad(self, wrong: Mask, problem: str) -> None:
        """Raises BadHistory about the first of these, if there is any."""
        if wrong.any():
            raise self.bad(int(np.argmax(wrong)), problem)

    def calls(self, key: npt.NDArray[Any] | None = None) -> tuple[Calls, tuple[str | None, ...]]:
        """As the engines take them, and the key of each object. All that are not ok are unknown by now, but for those
        that a model learnt from: these it made ok."""
        history, row, end = self.history, self.row, self.end
        codes = history.key.codes[row] if key is None else key
        different = np.unique(codes)
        known = self.ok & (end >= 0)
        channel = history.channel[row]
        some = channel != NONE
        calls = Calls(
            f=self.f,
            arg=self.arg,
            out=np.where(known | self.is_(F.CAS), self.out, NONE),
            call=row.astype(np.int64),
            ret=np.where(known, end, NEVER),
            key=np.searchsorted(different, codes).astype(np.int64),
            process=history.process[row].astype(np.int64),
            channel=np.where(some, coded(history.process[row], channel), -1) if some.any() else np.full(len(row), -1),
            op=history.index[row],
            end=np.where(end >= 0, history.index[end], -1),
        )
        return calls, tuple(None if code < 0 else history.key.words[code] for code in different.tolist())


def whole(value: Any) -> bool:
    """Whether a value is a whole number of 64 bits (and not NONE)."""
    return type(value) is int and NONE < value < 2**63


def shown(value: Any) -> str:
    """A value in an error."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:60] + "..."


def spread(calls: Calls, place: Iterable[int], elements: Iterable[list[int]]) -> Calls:
    """The takes at these places made into one for each of their elements, one after the other in the same time: those
    of one channel take effect in the order of their calls. Ranks are changed, their order is not."""
    times = np.ones(len(calls), dtype=np.intp)
    by_place = dict(zip(place, elements, strict=True))
    for at, values in by_place.items():
        times[at] = len(values)
    rows = np.repeat(np.arange(len(calls)), times)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    room = int(times.max(initial=1)) + 1
    new = calls.select(rows)
    channel = new.channel.copy()
    out = new.out.copy()
    start = np.cumsum(times) - times
    free = int(channel.max(initial=-1)) + 1
    for at, values in by_place.items():
        mine = slice(start[at], start[at] + len(values))
        out[mine] = values
        if len(values) > 1:
            channel[mine], free = free, free + 1
    ret = np.where(new.ret == NEVER, NEVER, np.minimum(new.ret, NEVER // room) * room + nth)
    return Calls(
        new.f, new.arg, out, new.call * room + nth, ret, new.key, new.process, channel, new.op, new.end
    )  # fmt: skip


def _invocations(history: History, model: str, fs: Mapping[str, F]) -> Rows:
    """Rows of what clients asked. Raises BadHistory for an f that the model has not."""
    client = (history.process >= 0) & (history.type == INVOKE)
    # The last is for rows without an f.
    known = np.array([word in fs for word in history.f.words] + [False], dtype=np.bool_)
    aside = np.array([word in ASIDE and word not in fs for word in history.f.words] + [False], dtype=np.bool_)
    codes = history.f.codes
    strange = client & ~known[codes] & ~aside[codes]
    if strange.any():
        row = int(np.argmax(strange))
        hint = did_you_mean(str(history.f[row]), fs)
        raise BadHistory(
            f"history: op {int(history.index[row])}: {history.f[row]!r} is nothing that a {model} does; {hint}"
        )
    return np.flatnonzero(client & known[codes])
