"""Transactions out of a history: Jepsen's micro-operations on logs.

The value of a `send`, `poll` or `txn` is a list of micro-operations:

    ["send", log, value]                 invoked; and returned, where nobody knows the offset
    ["send", log, [offset, value]]       returned
    ["poll"]                             invoked
    ["poll", {log: [[offset, value], ...], ...}]

and that of an `assign` or a `subscribe` a list of logs. As all that is no whole number, it is in `detail.value` of our
histories. A transaction during which logs were taken from its consumer, or given to it, says so in
`detail["rebalance-log"]`, a list of {"keys": [log, ...]}.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from chaos.model.errors import BadHistory
from chaos.model.history import History
from chaos.model.op import INFO, INVOKE, OK, OpType
from checkers.columns import Rows, said
from checkers.objects import Element, element

SEND, POLL = "send", "poll"
TRANSACTIONS = (SEND, POLL, "txn")
ASSIGNMENTS = ("assign", "subscribe")

Pair = tuple[int | None, Element]  # an offset, where it is known, and the value there
Pairs = Mapping[str, list[Pair]]  # by log


@dataclass(frozen=True)
class Transaction:
    """An operation of a client. index: of the op that completes it; of its invocation, if none does, and then it is
    INFO. begun, time: of its invocation and completion, ns. steps: its micro-operations. sends, polls: their values, in
    order. keys: the logs of an `assign` or `subscribe`. rebalanced: logs that came or went meanwhile."""

    index: int
    process: int
    type: OpType
    f: str
    begun: int
    time: int
    asked: int  # rows of the invocation and of the completion
    row: int
    steps: tuple[tuple[str, Pairs], ...] = ()
    sends: Pairs = field(default_factory=dict)
    polls: Pairs = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    rebalanced: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.type is OK

    @property
    def assigns(self) -> bool:
        return self.f in ASSIGNMENTS


def transactions(history: History) -> list[Transaction]:
    """What clients did to logs, in the order in which it ended; what never ended comes last. Empty where no operation
    has micro-operations on logs. Raises BadHistory, naming the op, for what is none."""
    if not _on_logs(history):
        return []
    mine = _of_clients(history, (*TRANSACTIONS, *ASSIGNMENTS))
    ends = mine[history.type[mine] != INVOKE]
    asked = mine[history.type[mine] == INVOKE]
    open_ = asked[history.completion[asked] < 0]
    found = []
    for row, value in zip([*ends.tolist(), *open_.tolist()], said(history, np.concatenate([ends, open_])), strict=True):
        start = int(history.invocation[row])
        if value is None and start >= 0:
            (value,) = said(history, np.array([start]))
        try:
            found.append(_transaction(history, row, start if start >= 0 else row, value))
        except _Odd as odd:
            raise BadHistory(f"history: op {int(history.index[row])} ({history.f[row]}): {odd}") from None
    return found


class _Odd(Exception):
    """What is wrong with a value."""


def _on_logs(history: History) -> bool:
    """Whether the first operation that may be one on logs is one."""
    for row in _of_clients(history, TRANSACTIONS).tolist():
        (value,) = said(history, np.array([row]))
        if value:
            return isinstance(value, list) and isinstance(value[0], list) and value[0][:1] in ([SEND], [POLL])
    return False


def _of_clients(history: History, fs: tuple[str, ...]) -> Rows:
    known = np.array([word in fs for word in history.f.words] + [False], dtype=np.bool_)
    return np.flatnonzero(known[history.f.codes] & (history.process >= 0))


def _transaction(history: History, row: int, start: int, value: Any) -> Transaction:
    f = history.f[row] or ""
    type_ = OpType(int(history.type[row]))
    times = (int(history.time[start]), int(history.time[row]))
    base = Transaction(
        int(history.index[row]), int(history.process[row]), INFO if type_ is INVOKE else type_, f, *times, start, row
    )
    if not isinstance(value, list | None):
        raise _Odd("its value is no list")
    if f in ASSIGNMENTS:
        return replace(base, keys=tuple(map(_log, value or [])))
    steps = tuple(map(_step, value or []))
    sends: dict[str, list[Pair]] = defaultdict(list)
    polls: dict[str, list[Pair]] = defaultdict(list)
    for kind, pairs in steps:
        for key, some in pairs.items():
            (sends if kind == SEND else polls)[key].extend(some)
    moved: tuple[str, ...] = ()
    if "rebalance-log" in (history.detail_text[row] or ""):
        said_ = history.detail(row).get("rebalance-log") or []
        moved = tuple(_log(key) for event in said_ for key in event.get("keys") or [])
    return replace(base, steps=steps, sends=dict(sends), polls=dict(polls), rebalanced=moved)


def _step(step: Any) -> tuple[str, Pairs]:
    match step:
        case ["send", key, [offset, value]]:
            return SEND, {_log(key): [(_offset(offset), element(value))]}
        case ["send", key, value] if not isinstance(value, list):
            return SEND, {_log(key): [(None, element(value))]}
        case ["poll"] | ["poll", None]:
            return POLL, {}
        case ["poll", dict() as polled]:
            return POLL, {_log(key): [_pair(pair) for pair in pairs or []] for key, pairs in polled.items()}
    raise _Odd(
        f"{step!r} is no micro-operation: [send log value], [send log [offset value]] or [poll {{...}}] was meant"
    )


def _pair(pair: Any) -> Pair:
    if not isinstance(pair, list) or len(pair) != 2:
        raise _Odd(f"{pair!r} is polled: [offset value] was meant")
    return _offset(pair[0]), element(pair[1])


def _offset(offset: Any) -> int | None:
    if offset is not None and (type(offset) is not int or offset < 0):
        raise _Odd(f"{offset!r} is no offset")
    return offset


def _log(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key)
