"""What of a failing history may be taken away without making it fail for another reason than it did.

An operation alone, as a rule, may not: without the write, the reads of its value are wrong. Operations that make sense
only together are a *unit*: if a history is linearizable, it still is without some of its units, for what is left of its
order is an order. So when a part fails that is made by taking units away, the whole fails for the same reason.

- registers: all of one value, or of values that a cas leads from one to the other. The value before them is then held
  a little longer. (A refused cas says what was *not* held; while there is one, all must stay.)
- queues and bags: all of one value. Nobody knows which values unknown takes took, so these must stay.
- locks: a process's acquire and the release that follows it, unless a try was refused that these may explain.
- sets: all of one element, unless somebody read all members.
- logs: all of one value, appended once, whose offset is known; those at later offsets move up (`closed`). Unknown
  appends that nobody saw stay, for they may fill a hole.
- What only looks (a read, a refused try) can always go, operation by operation.

Of other objects nothing else can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F
from checkers.linearizability.monitors.ranks import objects
from checkers.linearizability.monitors.values import numbers

Labels = npt.NDArray[np.int64]  # by row: those of one label go together; KEPT: must stay
KEPT = -1

LOOKS: Mapping[str, tuple[F, ...]] = {
    "register": (F.READ,),
    "cas-register": (F.READ, F.CAS_REFUSED),
    "key-value": (F.READ,),
    "mutex": (F.TRY,),
    "reentrant-lock": (F.TRY,),
    "fenced-lock": (F.TRY,),
    "set": (F.CONTAINS, F.READ),
    "counter": (F.READ,),
    "log": (F.FETCH,),
    "subset-register": (F.READ, F.FETCH),
}


def looks(calls: Calls, model: str) -> Labels:
    """A label for each operation that only looks."""
    only = np.isin(calls.f, [int(f) for f in LOOKS.get(model, ())])
    return np.where(only, np.arange(len(calls)), KEPT)


def units(calls: Calls, model: str) -> Labels:
    """The units of a model's operations."""
    return _UNITS.get(model, looks)(calls, model)


def closed(calls: Calls, gone: Calls) -> Calls:
    """What is left of a log, with offsets as if what is gone had never been there."""
    known, offset = _offsets(gone)
    for key in np.unique(gone.key[known]):
        holes = np.unique(offset[known & (gone.key == key)])
        calls = _moved(calls, int(key), partial(_above, holes))
    return calls


def _above(holes: Labels, offsets: Labels) -> Labels:
    return offsets - np.searchsorted(holes, offsets)


def _among(there: Labels, offsets: Labels) -> Labels:
    return np.searchsorted(there, offsets).astype(np.int64)


def _moved(calls: Calls, key: int, to: Callable[[Labels], Labels]) -> Calls:
    """With other offsets, for one object."""
    arg, out = calls.arg.copy(), calls.out.copy()
    for f, column in ((F.FETCH, arg), (F.APPEND, out)):
        rows = np.flatnonzero((calls.f == f) & (calls.key == key) & (column != NONE))
        column[rows] = to(column[rows])
    return replace(calls, arg=arg, out=out)


def _offsets(calls: Calls) -> tuple[npt.NDArray[np.bool_], Labels]:
    """Whose offset is known, and the offset: of appends, and of fetches that saw a value."""
    append = (calls.f == F.APPEND) & (calls.out != NONE)
    fetch = (calls.f == F.FETCH) & (calls.out != NONE) & (calls.ret != NEVER)
    return append | fetch, np.where(append, calls.out, calls.arg)


def _labels(calls: Calls, value: Labels, of: npt.NDArray[np.bool_]) -> Labels:
    """The same label for the same value of an object, a label of its own for rows that are not `of` any."""
    label = np.arange(len(calls), dtype=np.int64)
    rows = np.flatnonzero(of)
    number, many = numbers(value[rows], objects(calls.key)[rows])
    first = np.full(many, len(calls), dtype=np.int64)
    np.minimum.at(first, number, rows)
    label[rows] = first[number]
    return label


def _registers(calls: Calls, model: str) -> Labels:
    if (calls.f == F.CAS_REFUSED).any():
        return looks(calls, model)
    if model == "key-value" and ((calls.f == F.APPEND) | ((calls.f == F.READ) & (calls.out == NONE))).any():
        return looks(calls, model)  # (an empty text was there at first, or was written)
    held = np.where(calls.f == F.WRITE, calls.arg, calls.out)
    unknown = (calls.f == F.READ) & (calls.ret == NEVER)
    swaps = np.flatnonzero(calls.f == F.CAS)
    if not len(swaps):
        return _labels(calls, held, ~unknown)
    both = calls.select(np.concatenate((np.arange(len(calls)), swaps)))
    label = _labels(both, np.concatenate((held, calls.arg[swaps])), np.append(~unknown, np.ones(len(swaps), np.bool_)))
    return _joined(label[: len(calls)], label[swaps], label[len(calls) :])


def _joined(label: Labels, one: Labels, other: Labels) -> Labels:
    """Labels made the same, pair by pair."""
    leads: dict[int, int] = {}

    def root(of: int) -> int:
        while of in leads:
            leads[of] = of = leads.get(leads[of], leads[of])
        return of

    for first, second in zip(one.tolist(), other.tolist(), strict=True):
        a, b = root(first), root(second)
        if a != b:
            leads[max(a, b)] = min(a, b)
    to = np.arange(int(max(label.max(), other.max())) + 1, dtype=np.int64)
    for old in sorted(leads):
        to[old] = root(old)
    return to[label]


def _queue(calls: Calls, model: str) -> Labels:
    value = np.where(calls.f == F.PUT, calls.arg, calls.out)
    label = _labels(calls, value, value != NONE)
    return np.where((calls.f == F.TAKE) & (calls.ret == NEVER), KEPT, label)


def _lock(calls: Calls, model: str) -> Labels:
    label = looks(calls, model)
    rows = np.flatnonzero(calls.f != F.TRY)
    if not len(rows):
        return label
    rows = rows[np.lexsort((calls.call[rows], calls.process[rows], calls.key[rows]))]
    key, process, acquires = calls.key[rows], calls.process[rows], calls.f[rows] == F.ACQUIRE
    same = np.append(False, (key[1:] == key[:-1]) & (process[1:] == process[:-1]))
    depth = np.cumsum(np.where(acquires, 1, -1))
    depth -= np.append(0, depth[:-1])[np.maximum.accumulate(np.where(same, 0, np.arange(len(rows))))]
    if (same[1:] & (calls.ret[rows][:-1] > calls.call[rows][1:])).any() or (depth < 0).any():
        return label  # one overlaps, or follows one of unknown outcome, or releases what another acquired
    # Acquires and releases of a process take turns at each depth.
    turns = np.lexsort((np.arange(len(rows)), np.where(acquires, depth, depth + 1), process, key))
    rows, acquires = rows[turns], acquires[turns]
    paired = acquires & np.append(~acquires[1:], False)
    acquire, release = rows[acquires], np.where(paired, np.append(rows[1:], -1), -1)[acquires]
    until = np.where(release >= 0, calls.ret[release], NEVER)
    refused = (calls.f == F.TRY) & (calls.ret != NEVER)
    latest = np.maximum.accumulate(np.concatenate(([-1], np.where(refused, calls.ret, -1))))
    free = latest[np.searchsorted(calls.call, until, side="right")] < calls.call[acquire]  # of such tries
    label[acquire[free]] = acquire[free]
    both = free & (release >= 0)
    label[release[both]] = acquire[both]
    return label


def _set(calls: Calls, model: str) -> Labels:
    if (calls.f == F.READ).any():
        return looks(calls, model)
    return _labels(calls, calls.arg, calls.arg != NONE)


def _log(calls: Calls, model: str) -> Labels:
    known, _ = _offsets(calls)
    append = calls.f == F.APPEND
    value = np.where(append, calls.arg, calls.out)
    label = _labels(calls, value, append | known)
    placed = np.zeros(len(calls), dtype=np.bool_)
    placed[label[known]] = True
    once = np.bincount(label[append], minlength=len(calls)) <= 1
    return np.where((append & ~placed[label]) | ~once[label], KEPT, label)


_UNITS: Mapping[str, Callable[[Calls, str], Labels]] = {
    "register": _registers,
    "cas-register": _registers,
    "key-value": _registers,
    "mutex": _lock,
    "reentrant-lock": _lock,
    "fenced-lock": _lock,
    "fifo-queue": _queue,
    "bag": _queue,
    "set": _set,
    "log": _log,
}


def excused(calls: Calls, model: str) -> Calls | None:
    """As if operations of unknown outcome explained all that such ones can: queues with more unknown takes, from the
    start, than there are values; logs without unknown appends that nobody saw, and with their holes closed. If it fails
    still, those that it has have nothing to do with why. None where nothing of the kind is known of the model."""
    if model == "log":
        calls = calls.select(np.flatnonzero(_log(calls, model) != KEPT))
        known, offset = _offsets(calls)
        for key in np.unique(calls.key):
            there = np.unique(offset[known & (calls.key == key)])
            calls = _moved(calls, int(key), partial(_among, there))
        return calls
    return _spare_takes(calls) if model in ("fifo-queue", "bag") else None


def _spare_takes(calls: Calls) -> Calls:
    keys, of = np.unique(calls.key, return_inverse=True)
    many = int(np.bincount(of, calls.f == F.PUT).max(initial=0)) + 1
    rows = len(keys) * many
    new = np.full(rows, -1)

    def column(more: Labels, there: Labels) -> Labels:
        return np.concatenate((more, there))

    return Calls(
        f=np.concatenate((np.full(rows, F.TAKE, dtype=np.int8), calls.f)),
        arg=column(np.full(rows, NONE), calls.arg),
        out=column(np.full(rows, NONE), calls.out),
        call=column(int(calls.call.min(initial=0)) - rows + np.arange(rows), calls.call),
        ret=column(np.full(rows, NEVER), calls.ret),
        key=column(np.repeat(keys, many), calls.key),
        process=column(int(calls.process.max(initial=0)) + 1 + np.arange(rows), calls.process),
        channel=column(new, calls.channel),
        op=column(new, calls.op),
        end=column(new, calls.end),
    )
