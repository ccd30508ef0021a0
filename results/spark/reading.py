"""What executors do: look into the directories of runs, read histories and tables. In batches, never a whole one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from chaos.model.errors import BadHistory, BadInput, SplitbrainError
from chaos.model.history import SCHEMA
from chaos.model.history_pieces import ROWS, opened, plain
from chaos.model.history_rules import Rules
from results.tables.manifest import filesystem
from results.tables.record import describe
from results.tables.schema import TABLES
from results.tables.survey import FILES, HISTORIES

_text, _int = pa.string(), pa.int64()

# What is known of a run before its ops are read. `reason`: why it is rejected. `history`: its file; `groups`: how many
# parts that has; `rows`, `first`, `last`: how many ops, and their first and last index; `begun`, `ended`: their times.
FACTS = pa.schema(
    [
        pa.field(name, type_)
        for name, type_ in {
            **dict.fromkeys(("run", "path", "fingerprint", "reason", "day", "scenario", "suite_run", "cell"), _text),
            "attempt": pa.int32(),
            "seed": _int,
            **dict.fromkeys(("broker", "version", "on"), _text),
            "created": pa.timestamp("us", tz="UTC"),
            **dict.fromkeys(("status", "problem", "cut", "splitbrain", "commit", "python", "digest", "history"), _text),
            **dict.fromkeys(("groups", "rows", "first", "last", "begun", "ended", "limit"), _int),
            "asked": pa.bool_(),
        }.items()
    ]
)

ROW = pa.schema([("n", pa.int32()), ("slot", pa.int32()), *SCHEMA])


def examine(piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Facts of one run {store, run, path, fingerprint, files}: its small files, and its history held to the rules."""
    row = {"run": piece["run"], "path": piece["path"], "fingerprint": piece["fingerprint"]}
    try:
        row |= _facts(piece)
    except (BadInput, BadHistory) as error:
        row["reason"] = str(error)
    yield pa.RecordBatch.from_pylist([row], FACTS)


def _facts(piece: dict[str, Any]) -> dict[str, Any]:
    if not piece["files"]:
        raise BadInput("an empty directory: nothing of a run is in it")
    fs, root = filesystem(piece["store"])
    path = f"{root}/{piece['run']}"
    small = {}
    for name in FILES:
        if name in piece["files"] and name not in HISTORIES:
            try:
                with fs.open_input_stream(f"{path}/{name}") as file:
                    small[name] = file.read()
            except OSError as error:
                raise BadInput(f"{name}: cannot be read: {error}") from None
    found = describe(small)
    history = next((name for name in HISTORIES if name in piece["files"]), None)
    if history is None:
        why = f" ({found['problem']})" if found["problem"] else ""
        raise BadInput(f"the run has no history: it ended before anything was recorded{why}")
    rules = Rules()
    try:
        with opened(f"{path}/{history}", fs) as pieces:
            for some in pieces.read():
                rules.take(plain(some))
    except BadHistory as error:
        raise BadHistory(f"{history}: {error}") from None
    counted = {name: getattr(rules, name) for name in ("rows", "first", "last", "begun", "ended")}
    return found | counted | {"history": history, "groups": pieces.groups, "cut": pieces.cut}


def invocations(piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Rows of a history that begin an op or stand alone. {store, run, n, history, group, groups, rows, base, first,
    chunk}: groups from `group` to before `groups` (all, for None); its ops go to slots from `base` on, `chunk` indices
    from `first` on to each."""
    for batch in _history(piece):
        yield from _slotted(batch.filter(pc.is_null(batch["op"])), "index", piece)


def completions(piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Rows of a history that end an op."""
    for batch in _history(piece):
        yield from _slotted(batch.filter(pc.is_valid(batch["op"])), "op", piece)


def _history(piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    fs, root = filesystem(piece["store"])
    try:
        with opened(f"{root}/{piece['run']}/{piece['history']}", fs) as pieces:
            left = piece["rows"]  # a stream that still grew is read as far as it was looked at
            for some in pieces.read(piece["group"], piece["groups"]):
                yield plain(some.slice(0, left))
                left -= some.num_rows
                if left <= 0:
                    break
    except BadHistory as error:
        raise SplitbrainError(f"{piece['run']}: changed while it was read ({error}): run it again") from None


def _slotted(batch: pa.RecordBatch, by: str, piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    if not batch.num_rows:
        return
    index = batch[by].to_numpy(zero_copy_only=False)
    slot = (piece["base"] + (index - piece["first"]) // piece["chunk"]).astype(np.int32)
    n = pa.array(np.full(batch.num_rows, piece["n"], dtype=np.int32))
    yield pa.RecordBatch.from_arrays([n, pa.array(slot), *batch.columns], schema=ROW)


def rows_of_table(piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Rows of one file of a table {tables, table, path, columns, slot, f, but}: those columns and the slot; only of
    these operations, where `f` names some, and not of those that `but` names. A file of an older schema has nothing
    in columns that are newer."""
    fs, root = filesystem(piece["tables"])
    schema = TABLES[piece["table"]]
    wanted = pa.schema([*(schema.field(name) for name in piece["columns"]), ("slot", pa.int32())])
    chosen = ds.field("f").isin(piece["f"]) if piece["f"] else None
    if piece["but"]:
        chosen = ~ds.field("f").isin(piece["but"])
    data = ds.dataset([f"{root}/{piece['path']}"], schema=schema, format="parquet", filesystem=fs, partitioning=None)
    for batch in data.to_batches(piece["columns"], filter=chosen, batch_size=ROWS, batch_readahead=1):
        if batch.num_rows:
            slot = pa.array(np.full(batch.num_rows, piece["slot"], dtype=np.int32))
            yield pa.RecordBatch.from_arrays([*batch.columns, slot], schema=wanted)
