"""Histories written for others to read: Jepsen's EDN, JSON lines and CSV. What is written reads back the same."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from chaos.formats import edn
from chaos.formats.cells import REBALANCED, compact, is_pair
from chaos.formats.syntax import is_bare
from chaos.model.history import NONE, History
from chaos.model.op import INFO, INVOKE, PROCESS_NAMES, OpType

_TYPES = [str(type_) for type_ in OpType]
_LINES = 4096  # written at once
_CSV = (
    "index", "time", "process", "type", "f", "key", "value", "node", "error", "op", "channel", "redelivered", "term",
    "incarnation", "detail",
)  # fmt: skip


def write_jsonl(history: History, path: Path) -> None:
    """A JSON object a line."""
    _write(path, (compact(op) for op in ops(history)))


def write_edn(history: History, path: Path) -> None:
    """A map a line, as Jepsen's history.edn has it: types, fs and the nemesis are keywords."""
    _write(path, map(_edn, ops(history)))


def write_csv(history: History, path: Path) -> None:
    """A line an op below a line with all columns' names."""

    def lines() -> Iterator[str]:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="")
        writer.writerow(_CSV)
        yield text.getvalue()
        for op in ops(history, keys=Keys.FIELD, says_op=True, columns_only=True):
            text.seek(0)
            text.truncate()
            writer.writerow([_csv(name, op.get(name)) for name in _CSV])
            yield text.getvalue()

    _write(path, lines())


class Keys:
    """How ops say their keys."""

    NONE, FIELD, PAIR = range(3)


def ops(
    history: History, keys: int | None = None, says_op: bool | None = None, *, columns_only: bool = False
) -> Iterator[dict[str, Any]]:
    """The rows as Jepsen's ops, in its order of fields; fields that say nothing are left out.

    Where every client's op has a key, values are [key value] (Jepsen's independent keys); otherwise keys are a field.
    Completions belong to their process's last invocation; where they do not, `op` says their invocation's index.
    columns_only: what has no column of its own stays in the detail.
    """
    if keys is None:
        keys = _keys(history)
    if says_op is None:
        says_op = not _by_process(history)
    columns = [
        column.tolist()
        for column in (
            history.index, history.time, history.process, history.type, history.f.codes, history.key.codes,
            history.value, history.node.codes, history.error.codes, history.op, history.channel, history.redelivered,
            history.term, history.incarnation,
        )
    ]  # fmt: skip
    f_words, key_words, node_words, error_words = (
        column.words for column in (history.f, history.key, history.node, history.error)
    )
    for row in zip(*columns, history.detail_text, strict=True):
        index, time, process, type_, f, key, value, node, error, of, channel, again, term, incarnation, text = row
        detail = json.loads(text) if text else None
        said = None if value == NONE else value
        moved = None
        if detail and detail.get(REBALANCED) and not columns_only:
            moved = detail.pop(REBALANCED)
            detail = detail or None
        if said is None and detail is not None and detail.keys() == {"value"} and _rich(detail["value"]):
            said, detail = detail["value"], None
        if keys == Keys.PAIR and process >= 0:
            said = [_key(key_words[key]), said]
        op = {
            "process": PROCESS_NAMES.get(process, process),
            "type": _TYPES[type_],
            "f": f_words[f],
            "value": said,
            "time": time,
            "index": index,
        }
        if keys == Keys.FIELD and (process >= 0 or key >= 0):
            op["key"] = None if key < 0 else key_words[key]
        if says_op:
            op["op"] = None if of == NONE else of
        if node >= 0:
            op["node"] = node_words[node]
        if error >= 0:
            op["error"] = error_words[error]
        if channel != NONE:
            op["channel"] = channel
        if again >= 0:
            op["redelivered"] = bool(again)
        if term != NONE:
            op["term"] = term
        if incarnation != NONE:
            op["incarnation"] = incarnation
        if moved:
            op[REBALANCED] = moved
        if detail is not None:
            op["detail"] = detail
        yield op


def _keys(history: History) -> int:
    """How keys are to be said so that they read back the same."""
    clients = history.process >= 0
    if (history.key.codes[~clients] >= 0).any():
        return Keys.FIELD
    if (history.key.codes[clients] < 0).all():
        # Values that all look like [key value] would be taken for it.
        pairs = clients.any() and not (history.value[clients] != NONE).any() and all(
            is_pair(history.detail(row).get("value")) for row in np.flatnonzero(clients).tolist()
        )  # fmt: skip
        return Keys.FIELD if pairs else Keys.NONE
    if (history.key.codes[clients] < 0).any():
        return Keys.FIELD
    plain_cas = clients & history.f.is_("cas") & (history.value != NONE)
    return Keys.FIELD if plain_cas.any() or _plain_cas(history) else Keys.PAIR


def _plain_cas(history: History) -> bool:
    """Whether a cas has a value that is neither [from to] nor none."""
    rows = np.flatnonzero(history.f.is_("cas") & (history.process >= 0) & (history.value == NONE))
    different = {history.detail_text[row] for row in rows.tolist()} - {None}
    return any(not isinstance(json.loads(text or "{}").get("value"), list | None) for text in different)


def _by_process(history: History) -> bool:
    """Whether the rule of Jepsen, each completion to its process's last invocation, finds the pairs of the history."""
    order = np.argsort(history.process, kind="stable")
    process, called = history.process[order], history.type[order] == INVOKE
    of, index, f = history.op[order], history.index[order], history.f.codes[order]
    after = np.zeros(len(order), dtype=np.bool_)  # whether the process's row before is an invocation
    after[1:] = called[:-1] & (process[1:] == process[:-1])
    last = np.roll(index, 1)
    client = process >= 0
    alike = np.roll(f, 1) == f
    expected = np.where(~called & after & (client | alike), last, NONE)
    if not np.array_equal(expected, of):
        return False
    # What that rule refuses: calls of a process that has one open, and completions of nothing.
    unpaired = ~called & (of == NONE)
    wrong = (called & after & client) | (unpaired & (client | (history.type[order] != INFO)))
    return not wrong.any()


def _rich(value: Any) -> bool:
    """Whether a value reads back into `detail`: it is no whole number of 64 bits, and not none."""
    return value is not None and (not isinstance(value, int) or isinstance(value, bool) or not NONE < value < 2**63)


def _key(text: str) -> str | int:
    return int(text) if re.fullmatch(r"-?[1-9][0-9]{0,17}|0", text) else text


def _edn(op: dict[str, Any]) -> str:
    parts = []
    for name, cell in op.items():
        word = name in ("type", "f") or (name == "process" and isinstance(cell, str))
        if name == "error" and re.fullmatch(r"[a-z][a-z0-9-]*", cell):
            word = True
        parts.append(f":{name} {edn.keyword(cell) if word else edn.dump(cell)}")
    return "{" + ", ".join(parts) + "}"


def _csv(name: str, cell: Any) -> Any:
    if cell is None:
        return ""
    if name == "redelivered":
        return str(cell).lower()
    if name in ("value", "detail"):
        whole = isinstance(cell, int) and not isinstance(cell, bool)
        bare = isinstance(cell, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_ -]*", cell) and is_bare(cell)
        return cell if whole or bare else compact(cell)
    return compact(cell) if isinstance(cell, str) and not is_bare(cell) else cell


def _write(path: Path, lines: Iterator[str]) -> None:
    aside = path.with_suffix(path.suffix + ".part")
    with aside.open("w", encoding="utf-8", newline="\n") as file:
        _in_lots(file, lines)
    aside.replace(path)


def _in_lots(file: TextIO, lines: Iterator[str]) -> None:
    lot: list[str] = []
    write: Callable[[str], Any] = file.write
    for line in lines:
        lot.append(line)
        if len(lot) == _LINES:
            write("\n".join(lot) + "\n")
            lot.clear()
    if lot:
        write("\n".join(lot) + "\n")
