"""Rows of large runs on their way to the parts that they belong to, and there put together again.

A run's history is read twice, in batches: for where its rows go, which takes a few of their columns, and to send them
there. A row that all parts need is sent to all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.model.history import SCHEMA, Columns, History
from chaos.model.history_pieces import opened
from chaos.model.op import INFO
from checkers.split import EVERYWHERE, Split, keys, places, witnesses
from results.checking import judge

# n: which run. cut: why its history is not whole.
SENT = pa.schema([("n", pa.int32()), ("split", pa.string()), ("part", pa.int32()), ("cut", pa.string()), *SCHEMA])
Rows = Iterator[pa.RecordBatch]
GROUP = ("n", "split", "part")
LOOKED_AT = ("index", "time", "process", "type", "f", "key", "value", "op", "channel")


class Route:
    """Where the rows of a run go, cut one way."""

    def __init__(self, run: History, split: Split, parts: int) -> None:
        self.split = split
        self.parts = parts
        self.place = places(run, split, parts)
        self.witness = np.zeros(len(run), dtype=np.bool_)
        if split is Split.MESSAGE:
            self.witness[witnesses(run)] = True

    def send(self, table: pa.Table, at: int) -> Iterator[tuple[int, pa.Table]]:
        """The rows of a table, the first of which is row `at` of the run: each part's."""
        place, witness = self.place[at : at + len(table)], self.witness[at : at + len(table)]
        for part in range(self.parts):
            mine = (place == part) | (place == EVERYWHERE)
            if mine.any():
                yield part, table.filter(pa.array(mine))
            strange = witness & (place != part)
            if strange.any():
                yield part, _testified(table.filter(pa.array(strange)))


def scatter(piece: dict[str, Any]) -> Rows:
    """The rows of a run {n, store, run, parts} that checkers judge in parts, as rows of SENT."""
    wanted = judge.asked(piece["store"], piece["run"])
    fs, folder, name = judge.history_path(piece["store"], piece["run"])
    light = Columns(LOOKED_AT)
    with opened(f"{folder}/{name}", fs, LOOKED_AT) as pieces:
        for table in pieces.read():
            light.add(table)
    run = light.history()
    routes = []
    if judge.parted(wanted, Split.MESSAGE):
        routes.append(Route(run, Split.MESSAGE, piece["parts"]))
    if judge.parted(wanted, Split.KEY) and (many := keys(run)) > 1:
        routes.append(Route(run, Split.KEY, min(many, piece["parts"])))
    del run
    if not routes:
        return
    at = 0
    with opened(f"{folder}/{name}", fs) as again:
        for table in again.read():
            for route in routes:
                for part, rows in route.send(table, at):
                    yield from _labelled(rows, piece["n"], route.split, part, pieces.cut)
            at += len(table)


def gather(sent: Rows) -> Iterator[tuple[tuple[int, Split, int], str | None, Rows]]:
    """Sorted rows of SENT, part by part: which it is, why its history is not whole, and its rows, to be taken
    before the next part is."""
    for (n, split, part), parcels in groupby(_slices(sent), key=itemgetter(0)):
        first = next(parcels)[1]
        yield (n, Split(split), part), first["cut"][0].as_py(), _rows(first, parcels)  # noqa: B031


def _rows(first: pa.RecordBatch, more: Iterator[tuple[Any, pa.RecordBatch]]) -> Rows:
    yield first.select(SCHEMA.names)
    for _, batch in more:
        yield batch.select(SCHEMA.names)


def _slices(sent: Rows) -> Iterator[tuple[tuple[int, str, int], pa.RecordBatch]]:
    for batch in sent:
        if not batch.num_rows:
            continue
        columns = [batch[name].dictionary_encode() for name in GROUP]
        codes = [column.indices.to_numpy(zero_copy_only=False) for column in columns]
        new = np.logical_or.reduce([code[1:] != code[:-1] for code in codes])
        starts: npt.NDArray[np.intp] = np.append(0, np.flatnonzero(new) + 1)
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), batch.num_rows], strict=True):
            group = tuple(batch[name][start].as_py() for name in GROUP)
            yield group, batch.slice(start, end - start)


def _labelled(rows: pa.Table, n: int, split: Split, part: int, cut: str | None) -> Rows:
    many = len(rows)
    labels = [pa.repeat(value, many) for value in (pa.scalar(n, pa.int32()), str(split), pa.scalar(part, pa.int32()))]
    labels.append(pa.repeat(pa.scalar(cut, pa.string()), many))
    plain = rows.select(SCHEMA.names).cast(SCHEMA)
    yield from pa.Table.from_arrays([*labels, *plain.columns], schema=SENT).combine_chunks().to_batches()


def _testified(rows: pa.Table) -> pa.Table:
    """As `checkers.split.testify` has them."""
    for name in ("value", "op", "error", "detail", "redelivered"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, pa.nulls(len(rows), SCHEMA.field(name).type))
    at = rows.schema.get_field_index("type")
    return rows.set_column(at, "type", pa.repeat(pa.scalar(int(INFO), pa.int8()), len(rows)))
