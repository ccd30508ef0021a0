"""What the checkers with Jepsen's semantics share: ops of clients on small objects, whose values may be of any kind.

Each object is judged by itself: the ops of one key, as Jepsen's `independent` checker does.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from chaos.model.errors import BadHistory
from chaos.model.history import History, Mask
from chaos.model.op import OK
from chaos.model.verdict import Result
from checkers.base import Part, Parted, Split, added
from checkers.columns import Rows, said

TOLD = 1000  # elements that a result lists; of more it has the first, and the number


class ObjectChecker(Parted):
    """A checker of one object. `fs`: the operations on it. `others`: operations that only another object has; where
    there are any, this checker is not applicable."""

    split = Split.KEY
    fs: ClassVar[tuple[str, ...]]
    others: ClassVar[tuple[str, ...]] = ()

    def pieces(self, history: History, options: Mapping[str, Any]) -> list[tuple[int, Part]]:
        return super().pieces(history.select(_of_clients(history, (*self.fs, *self.others))), options)

    def part(self, history: History, options: Mapping[str, Any]) -> Part:
        ops = history.select(_of_clients(history, self.fs))
        facts: dict[str, Any] = {"key": ops.key[0] if len(ops) else None, "other": None, "result": None, "broken": None}
        other = np.flatnonzero(_of_clients(history, self.others))
        if len(other):
            facts["other"] = int(history.index[other[0]]), history.f[int(other[0])]
        elif len(ops):
            try:
                facts["result"] = self.judge(ops, options)
            except BadHistory as error:  # of an object that the checker is for, if no other has operations of another
                facts["broken"] = error
        result = facts["result"]
        return Part(result.counts if result else {}, result.anomalies if result else (), facts)

    def merge(self, parts: Sequence[Part], options: Mapping[str, Any]) -> Result:
        others = [part.facts["other"] for part in parts if part.facts["other"]]
        if others:
            nothing = self.judge(History.from_ops([]), options)
            return replace(nothing, reason=f"of an object with the operation {min(others)[1]}")
        for part in parts:
            if part.facts["broken"]:
                raise part.facts["broken"]
        some = [part for part in parts if part.facts["result"]]
        if not some:
            return self.judge(History.from_ops([]), options)
        worst = max(some, key=lambda part: part.facts["result"].verdict.rank)
        result: Result = worst.facts["result"]
        if len(some) == 1:
            return result
        counts, anomalies = added([_named(part) for part in some])
        return replace(result, reason=f"{worst.facts['key']}: {result.reason}", counts=counts, anomalies=anomalies)

    @abstractmethod
    def judge(self, ops: History, options: Mapping[str, Any]) -> Result:
        """Judge the ops of one object: of `fs` only, and of clients."""


def _named(part: Part) -> Part:
    """With the key in front of what is told."""
    key = part.facts["key"]
    return replace(part, anomalies=tuple(replace(one, message=f"{key}: {one.message}") for one in part.anomalies))


class Json(NamedTuple):
    """A value that is neither a whole number nor text, as one that can be looked up."""

    text: str


Element = int | str | Json


def element(value: Any) -> Element:
    """A value as one that can be looked up."""
    return value if type(value) is int or type(value) is str else Json(json.dumps(value, sort_keys=True))


def plain(one: Element) -> Any:
    """The value itself."""
    return json.loads(one.text) if isinstance(one, Json) else one


def elements(history: History, rows: Rows) -> list[Element]:
    """The values in these rows."""
    return [element(value) for value in said(history, rows)]


def in_order(found: Iterable[Element]) -> list[Element]:
    """Whole numbers first, by size, then the others by their text."""
    return sorted(found, key=lambda one: (0, one, "") if isinstance(one, int) else (1, 0, str(one)))


def told(found: Iterable[Element]) -> list[Any]:
    """The first of them in order, for a result."""
    return [plain(one) for one in in_order(found)[:TOLD]]


def read_answers(ops: History, kind: type) -> tuple[Rows, list[Any]] | None:
    """Rows of the reads that returned and what they answered; None where all that answered something answered with
    another kind of value. Raises BadHistory where some did."""
    rows = ops.rows("read", OK)
    answers = said(ops, rows)
    strange = [place for place, answer in enumerate(answers) if answer is not None and type(answer) is not kind]
    if strange and not any(type(answer) is kind for answer in answers):
        return None
    if strange:
        what = {list: "elements", int: "a whole number"}[kind]
        raise BadHistory(f"history: op {int(ops.index[rows[strange[0]]])}: a read that does not answer with {what}")
    return rows, answers


def _of_clients(history: History, fs: tuple[str, ...]) -> Mask:
    known = np.array([word in fs for word in history.f.words] + [False], dtype=np.bool_)
    return np.asarray(known[history.f.codes] & (history.process >= 0))
