"""One op as a file says it, made into the cells of a row.

An op comes as a mapping with the names of Jepsen's ops (process, type, f, value, time, index, error) and of the columns
of our histories (key, node, detail, op, channel, redelivered, term, incarnation). Of the rest only a rebalance log is
kept, in the detail.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from chaos.model.errors import did_you_mean
from chaos.model.history import NONE
from chaos.model.op import PROCESS_NAMES, OpType

WHOLE = ("index", "time", "process", "type", "value", "op", "channel", "redelivered", "term", "incarnation")
TEXT = ("f", "key", "node", "error", "detail")

REBALANCED = "rebalance-log"  # of a poll of logs: which of them came or went meanwhile; kept in the detail
_TYPES = {str(type_): int(type_) for type_ in OpType}
_PROCESSES = {name: number for number, name in PROCESS_NAMES.items()}
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_OPTIONAL = ("index", "time", "op", "channel", "term", "incarnation")


class Problem(Exception):
    """What is wrong with an op."""


class NotKeyed(Exception):
    """A value that is no [key value], in a file taken for one of independent keys."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a row: whole numbers in the order of WHOLE (NONE where there is none; redelivered: -1), texts in the
    order of TEXT (detail as JSON)."""

    whole: tuple[int, ...]
    text: tuple[str | None, ...]


def cells(op: Mapping[str, Any], *, keyed: bool) -> Cells:
    """The cells of an op. keyed: its value is [key value]. Raises Problem, and NotKeyed."""
    if not isinstance(op, Mapping):
        raise Problem(f"{_short(op)} is no op: a map with process, type, f and value was meant")
    process = _process(op)
    f = op.get("f")
    if not isinstance(f, str) or f == "":
        raise Problem("it has no f, which says what is done" if f is None else f"f {_short(f)} is not a name")
    value, key, detail = op.get("value"), op.get("key"), op.get("detail")
    if keyed and process >= 0:
        if not is_pair(value):
            raise NotKeyed
        key, value = value[0], value[1]
    if detail is not None and not isinstance(detail, Mapping):
        raise Problem(f"detail {_short(detail)} is no map")
    if value is None:
        value = NONE
    elif not _is_whole(value):
        value, detail = NONE, {"value": value, **(detail or {})}
    if op.get(REBALANCED):
        detail = {**(detail or {}), REBALANCED: op[REBALANCED]}
    redelivered = op.get("redelivered")
    if redelivered is not None and not isinstance(redelivered, bool):
        raise Problem(f"redelivered {_short(redelivered)} is neither true nor false")
    index, time, of, channel, term, incarnation = [
        NONE if (number := op.get(name)) is None else number if _is_whole(number) else _not_whole(name, number)
        for name in _OPTIONAL
    ]
    return Cells(
        (index, time, process, _type(op), value, of, channel, -1 if redelivered is None else int(redelivered), term,
         incarnation),
        (
            _name(f[1:] if f[0] == ":" else f), _name(key), _name(op.get("node")), _name(op.get("error")),
            compact(detail) if detail else None,
        ),
    )  # fmt: skip


def is_pair(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value may be [key value], as Jepsen's independent keys have it."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str | int)


def says_keys(ops: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the values of these ops are [key value]: those of all clients are, no op has a key besides, and no cas
    has two plain values, which would be [from to]."""
    some = False
    for op in ops:
        if not isinstance(op, Mapping) or "key" in op:
            return False
        process, value = op.get("process"), op.get("value")
        if isinstance(process, int) and process >= 0:
            if not is_pair(value) or (op.get("f") == "cas" and not isinstance(value[1], list | None)):
                return False
            some = True
    return some


def compact(tree: Any) -> str:
    """JSON as histories keep it."""
    return _ENCODER.encode(tree)


def _process(op: Mapping[str, Any]) -> int:
    process = op.get("process")
    if type(process) is int and abs(process) < 2**63:
        return process
    if isinstance(process, str) and process.removeprefix(":") in _PROCESSES:
        return _PROCESSES[process.removeprefix(":")]
    if process is None:
        raise Problem("it has no process, which says who did it")
    raise Problem(f"process {_short(process)} is neither a whole number nor one of {', '.join(_PROCESSES)}")


def _type(op: Mapping[str, Any]) -> int:
    type_ = op.get("type")
    known = _TYPES.get(type_) if type(type_) is str else None
    if known is not None:
        return known
    if isinstance(type_, str) and type_.removeprefix(":") in _TYPES:
        return _TYPES[type_.removeprefix(":")]
    if type_ is None:
        raise Problem("it has no type: invoke, ok, fail or info")
    raise Problem(f"type {_short(type_)}: {did_you_mean(str(type_), _TYPES)}")


def _is_whole(value: Any) -> bool:
    return type(value) is int and NONE < value < 2**63


def _not_whole(name: str, value: Any) -> int:
    raise Problem(f"{name} {_short(value)} is not a whole number" + (" of nanoseconds" if name == "time" else ""))


def _name(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else compact(value)
    return text if text.isascii() else text.encode(errors="replace").decode()  # half a pair of surrogates is no text


def _short(value: Any) -> str:
    text = compact(value)
    return text if len(text) <= 40 else text[:40] + "..."
