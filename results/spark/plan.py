"""Which files of the tables are read, kept and written: worked out from the runs' sizes, before any op is read.

Rows are written a file a *slot*: many runs of one day and scenario that are small, or a part of one that is large. So
files are few, and no task has to hold or sort more than a slot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa

from results.spark.reading import FACTS
from results.tables.manifest import File
from results.tables.schema import PARTITIONS

SLOT = 1_000_000  # rows of a history that go into one file of ops, at most
MESSAGES = 4_000_000  # rows of a history whose messages go into one file
SMALL = 8_000_000  # bytes: a file below that is written anew, with what comes new of its day and scenario
LARGE = 1 << 62

_int = pa.int64()
# The runs that are read, with where their rows go. n: a number instead of the name. base, first, chunk: see
# `reading.invocations`. message_base, message_pieces: the same for messages, by id.
PLANNED = pa.schema(
    [
        ("n", pa.int32()),
        ("store", pa.string()),
        *((name, _int) for name in ("base", "chunk", "message_base", "message_pieces", "slot")),
        *FACTS,
    ]
)

Place = tuple[str, str]  # day, scenario


@dataclass(frozen=True)
class Planned:
    """`runs`: rows of PLANNED. `slots`: how many there are, of ops and of messages. `places`: the slot that each day
    and scenario begins with, in ops, messages, and the small tables."""

    runs: list[dict[str, Any]]
    slots: Mapping[str, int]
    places: Mapping[str, Mapping[Place, int]]


def plan(facts: Sequence[Mapping[str, Any]], store: str) -> Planned:
    """Slots for runs that can be read."""
    runs = []
    ops, messages = _Slots(SLOT), _Slots(MESSAGES)
    places: dict[Place, int] = {}
    for n, fact in enumerate(sorted(facts, key=lambda fact: (fact["day"], fact["scenario"], fact["run"]))):
        place = (fact["day"], fact["scenario"])
        base, pieces = ops.take(place, fact["rows"])
        message_base, message_pieces = messages.take(place, fact["rows"])
        span = max(fact["last"] - fact["first"] + 1, 1)
        chunk = -(-span // pieces) if pieces > 1 else LARGE
        slot = places.setdefault(place, len(places))
        row = {"n": n, "store": store, "base": base, "chunk": chunk, "slot": slot}
        runs.append(row | {"message_base": message_base, "message_pieces": message_pieces, **fact})
    slots = {"ops": ops.number, "messages": messages.number, "small": len(places)}
    return Planned(runs, slots, {"ops": ops.places, "messages": messages.places, "small": places})


class _Slots:
    """Fills slots with runs of one day and scenario; a large run has slots for itself."""

    def __init__(self, rows: int) -> None:
        self.number = 0
        self.places: dict[Place, int] = {}
        self._rows = rows
        self._filled: dict[Place, tuple[int, int]] = {}

    def take(self, place: Place, rows: int) -> tuple[int, int]:
        """The first slot of a run, and how many it has."""
        slot, filled = self._filled.get(place, (-1, self._rows))
        if filled + rows <= self._rows:
            self._filled[place] = (slot, filled + rows)
            return slot, 1
        pieces = max(-(-rows // self._rows), 1)
        first = self.number
        self.number += pieces
        self.places.setdefault(place, first)
        if pieces == 1:
            self._filled[place] = (first, rows)
        return first, pieces


@dataclass(frozen=True)
class Kept:
    """What becomes of the files of a table: those that stay as they are; and those that are written anew, each with the
    slot that its rows go to."""

    stay: list[File] = field(default_factory=list)
    anew: list[tuple[File, int]] = field(default_factory=list)


def keep(files: Iterable[File], gone: Collection[tuple[str, Place]], places: Mapping[Place, int], slots: int) -> Kept:
    """Of the files of a table so far: those with rows of runs that are gone, and small ones where new rows come, are
    written anew; the others stay. `gone`: names of runs, with the day and scenario that they were of. `slots`: how many
    are taken: others come after them."""
    kept = Kept()
    more = count(slots)
    fresh: dict[Place, int] = defaultdict(lambda: next(more))
    for file in files:
        place = (file.day, file.scenario)
        holds = any(where == place and file.may_hold(run) for run, where in gone)
        joins = place in places and file.size < SMALL
        if not holds and not joins:
            kept.stay.append(file)
        elif file.size < SMALL:
            kept.anew.append((file, places[place] if place in places else fresh[place]))
        else:
            kept.anew.append((file, next(more)))
    return kept


def table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """As Arrow."""
    return pa.Table.from_pylist([{name: row.get(name) for name in PLANNED.names} for row in rows], PLANNED)


assert PARTITIONS == ("day", "scenario")
