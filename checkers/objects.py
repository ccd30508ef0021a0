"""What the checkers with Jepsen's semantics share: ops of clients on small objects, whose values may be of any kind.

Each object is judged by itself: the ops of one key, as Jepsen's `independent` checker does.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from chaos.model.errors import BadHistory
from chaos.model.history import History, Mask
from chaos.model.op import OK
from chaos.model.verdict import Result
from checkers.base import Checker, Split
from checkers.columns import Rows, said

TOLD = 1000  # elements that a result lists; of more it has the first, and the number


class ObjectChecker(Checker):
    """A checker of one object. `fs`: the operations on it. `others`: operations that only another object has; where
    there are any, this checker is not applicable."""

    split = Split.KEY
    fs: ClassVar[tuple[str, ...]]
    others: ClassVar[tuple[str, ...]] = ()

    def check(self, history: History, options: Mapping[str, Any]) -> Result:
        ops = history.select(_of_clients(history, self.fs))
        other = np.flatnonzero(_of_clients(history, self.others))
        if len(other):
            nothing = self.judge(ops.select(np.zeros(len(ops), dtype=np.bool_)), options)
            return replace(nothing, reason=f"of an object with the operation {history.f[int(other[0])]}")
        keys = np.unique(ops.key.codes).tolist()
        if len(keys) < 2:
            return self.judge(ops, options)
        return self.merge([self._of_key(ops.select(ops.key.codes == key), options) for key in keys])

    def _of_key(self, ops: History, options: Mapping[str, Any]) -> Result:
        result, key = self.judge(ops, options), ops.key[0]
        anomalies = tuple(replace(anomaly, message=f"{key}: {anomaly.message}") for anomaly in result.anomalies)
        return replace(result, reason=f"{key}: {result.reason}", anomalies=anomalies)

    @abstractmethod
    def judge(self, ops: History, options: Mapping[str, Any]) -> Result:
        """Judge the ops of one object: of `fs` only, and of clients."""


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
