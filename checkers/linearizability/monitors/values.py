"""Which writer each reader got its value from: a join on (object, value), by table where values are close together."""

from __future__ import annotations

import numpy as np

from chaos.model.history import Ints
from checkers.linearizability.monitors.ranks import Ranks, Rows, narrow

ROOM = 4  # table entries a value, at the most; else values are sorted first


def join(values: Ints, wanted: Ints, key: Rows | None = None, wanted_key: Rows | None = None) -> tuple[Ranks, int]:
    """For each wanted value of an object its place in `values`, -1 if it is nowhere (and the last place if several);
    and a place in `values` where a value stands that stands earlier too, -1 if there is none.
    """
    if len(values) == 0:
        return np.full(len(wanted), -1, dtype=np.intp), -1
    low, high = int(values.min()), int(values.max())
    span, many = high - low + 1, 1 if key is None else int(key.max()) + 1
    room = ROOM * (len(values) + len(wanted)) + 64
    if span * many > room:
        both = np.concatenate((values, wanted))
        values, wanted = _numbered(both, len(values))
        low, span = 0, int(values.max()) + 1
        if key is not None and wanted_key is not None and span * many > room:
            span = len(both)
            values, wanted = _numbered(np.concatenate((values + key * span, wanted + wanted_key * span)), len(values))
            span, many, key, wanted_key = int(values.max()) + 1, 1, None, None
    if low:
        values = values - low
    own = values if key is None else values + key * span
    table: Ranks = np.full(span * many, -1, dtype=narrow(len(values)))
    table[own] = np.arange(len(values), dtype=table.dtype)
    twice = -1
    if np.count_nonzero(table >= 0) < len(values):
        last = table[own]
        twice = int(last[np.argmax(last != np.arange(len(values)))])
    outside = (wanted < low) | (wanted > low + span - 1)
    if wanted_key is not None:
        outside |= wanted_key >= many
    everyone = not outside.any()
    inside = slice(None) if everyone else np.flatnonzero(~outside)
    place = wanted[inside] - low if low else wanted[inside]
    found = table.take(place if wanted_key is None else place + wanted_key[inside] * span)
    if everyone:
        return found, twice
    at = np.full(len(wanted), -1, dtype=np.intp)
    at[inside] = found
    return at, twice


def _numbered(both: Ints, first: int) -> tuple[Ints, Ints]:
    """Numbers from 0 on instead of values, the same for the same: of the first so many, and of the others."""
    number = np.unique(both, return_inverse=True)[1]
    return number[:first], number[first:]


def numbers(values: Ints, key: Rows | None = None) -> tuple[Rows, int]:
    """A number from 0 on for each (object, value), the same for the same; and how many numbers there are, unused ones
    too."""
    if len(values) == 0:
        return values, 0
    low, many = int(values.min()), 1 if key is None else int(key.max()) + 1
    span = int(values.max()) - low + 1
    if span * many > ROOM * len(values) + 64:
        values = np.unique(values, return_inverse=True)[1]
        low, span = 0, int(values.max()) + 1
        if key is not None and span * many > ROOM * len(values) + 64:
            values, many, key = np.unique(values + key * span, return_inverse=True)[1], 1, None
            span = int(values.max()) + 1
    own = values - low if key is None else values - low + key * span
    return own, span * many
