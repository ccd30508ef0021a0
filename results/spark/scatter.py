"""Rows of large runs on their way to the parts that they belong to, and there put together again.

A run's history is read twice, in batches: for what must be known of all its rows, which takes a few of their columns,
and to send them (`checkers.split_stream`). A row that all parts need is sent to all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.model.history import SCHEMA
from chaos.model.history_pieces import ROWS, opened, plain
from checkers.split import Places, Split
from checkers.split_stream import LOOKED_AT, Cutter, Survey
from results.checking import judge

# n: which run. cut: why its history is not whole.
SENT = pa.schema([("n", pa.int32()), ("split", pa.string()), ("part", pa.int32()), ("cut", pa.string()), *SCHEMA])
Rows = Iterator[pa.RecordBatch]
GROUP = ("n", "split", "part")
PARTS = 4000  # of one run, at most: of more keys, which else have one each, some share one


def scatter(piece: dict[str, Any]) -> Rows:
    """The rows of a run {n, store, run, parts} that checkers judge in parts, as rows of SENT."""
    wanted = judge.asked(piece["store"], piece["run"])
    splits = [split for split in (Split.MESSAGE, Split.KEY) if judge.parted(wanted, split)]
    if not splits:
        return
    fs, folder, name = judge.history_path(piece["store"], piece["run"])
    seen = Survey()
    with opened(f"{folder}/{name}", fs, LOOKED_AT) as pieces:
        for some in pieces.read():
            seen.take(some)
    cutters = []
    for split in splits:
        parts = piece["parts"] if split is Split.MESSAGE else min(seen.keys, PARTS)
        if split is Split.MESSAGE or seen.keys > 1:
            cutters.append(Cutter(split, parts, seen))
    left = seen.rows  # a stream that still grew is read as far as it was looked at
    with opened(f"{folder}/{name}", fs) as again:
        for some in again.read():
            rows = pa.Table.from_batches([plain(some.slice(0, left))])
            left -= len(rows)
            for cutter in cutters:
                for part, sent in cutter.send(rows):
                    yield from _labelled(sent, piece["n"], cutter.split, part, pieces.cut)
            if not left:
                break


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


def _labelled(rows: pa.Table, n: int, split: Split, part: Places, cut: str | None) -> Rows:
    many = len(rows)
    of_run = pa.repeat(pa.scalar(n, pa.int32()), many), pa.repeat(str(split), many)
    why = pa.repeat(pa.scalar(cut, pa.string()), many)
    yield from pa.Table.from_arrays([*of_run, pa.array(part), why, *rows.columns], schema=SENT).to_batches(ROWS)
