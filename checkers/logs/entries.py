"""The same judgement for our own histories of logs, as columns: a `publish` is an append, a `consume` hands out one
entry with its `detail.offset`, a `seek` begins a reading (`chaos.model.op`). `append` and `read` are understood too.

Kinds of anomalies are those of `checkers.logs`. What is known here and not there: appends are pipelined, so that a
process's order is that of its invocations; a seek says where a reading is to begin; and our drain reads every
replica from its first entry to its last, so that what must be there and is not handed out is lost, whoever has read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.model.errors import BadHistory
from chaos.model.history import NONE, History, Ints, Mask
from chaos.model.op import CONTROLLER, CORRUPT, FAIL, FOREIGN, INFO, INVOKE, OK
from chaos.model.verdict import Anomaly
from checkers.columns import NEVER, Rows, indices

APPENDS = ("publish", "append")
READS = ("consume", "read")
SEEK = "seek"
TOLD = 1000  # anomalies made of a kind; of more there is the number
_OFFSET = '{"offset":'


@dataclass(frozen=True)
class Log:
    """One log, all columns in history order.

    Appends: `ids`, `asked` (row of the invocation), `ended` (row of the completion, NEVER where there is none),
    `outcome`, `told` (the offset that the confirm names, NONE). Reads: `row`, `value` (NONE for what is not ours),
    `offset`. Rows of `seeks`. `drain`: (row of the invocation, row of the end, whether complete), or None.
    """

    key: str
    history: History
    ids: Ints
    asked: Rows
    ended: Ints
    outcome: npt.NDArray[np.int8]
    told: Ints
    row: Rows
    value: Ints
    offset: Ints
    seeks: Rows
    drain: tuple[int, int, bool] | None

    @cached_property
    def known(self) -> Ints:
        """Every offset at which an entry is known to be or to have been, in order: indices are places in it."""
        return np.unique(np.concatenate([self.offset, self.told[self.told != NONE]]))

    @cached_property
    def seen(self) -> tuple[Ints, Ints, Rows]:
        """Each (offset, value) that was read or confirmed, by offset and value, with the first row that shows it."""
        confirmed = self.told != NONE
        offset = np.concatenate([self.offset, self.told[confirmed]])
        value = np.concatenate([self.value, self.ids[confirmed]])
        row = np.concatenate([self.row, self.ended[confirmed]])
        ours = value != NONE
        offset, value, row = offset[ours], value[ours], row[ours]
        order = np.lexsort((row, value, offset))
        offset, value, row = offset[order], value[order], row[order]
        first = np.ones(len(offset), dtype=np.bool_)
        first[1:] = (offset[1:] != offset[:-1]) | (value[1:] != value[:-1])
        return offset[first], value[first], row[first]

    @cached_property
    def first_read(self) -> Ints:
        """For each append, the row of its first read; NEVER where there is none."""
        found = np.full(len(self.ids), NEVER, dtype=np.int64)
        at = self.find(self.value)
        np.minimum.at(found, at[at >= 0], self.row[at >= 0])
        return found

    @property
    def confirmed(self) -> Mask:
        return np.asarray(self.outcome == OK)

    @property
    def unseen(self) -> Rows:
        """Appends (their places) that were confirmed and never read."""
        return np.flatnonzero(self.confirmed & (self.first_read == NEVER))

    def find(self, values: Ints) -> Rows:
        """For each value the place of its append, -1 where there is none."""
        if not len(self.ids):
            return np.full(len(values), -1, dtype=np.intp)
        order = np.argsort(self.ids, kind="stable")
        at = np.minimum(np.searchsorted(self.ids[order], values), len(order) - 1)
        return np.where(self.ids[order][at] == values, order[at], -1)

    def ops(self, *rows: int) -> tuple[int, ...]:
        return indices(self.history, *(row for row in rows if row != NEVER))


def our_logs(history: History) -> list[Log]:
    """The logs of a history, by the order in which they come; empty where nobody seeks in one. Raises BadHistory for a
    read without an offset, or two appends with one id."""
    seeks = _of_clients(history, (SEEK,))
    if not len(seeks):
        return []
    asked = _of_clients(history, APPENDS)
    asked = asked[history.type[asked] == INVOKE]
    ended = history.completion[asked]
    outcome = np.where(ended >= 0, history.type[ended], np.int8(INFO)).astype(np.int8)
    told = np.full(len(asked), NONE, dtype=np.int64)
    told[outcome == OK] = _offsets(history, ended[outcome == OK])
    reads = _of_clients(history, READS)
    reads = reads[history.type[reads] == OK]
    offsets = _offsets(history, reads)
    reads, offsets = reads[offsets != NONE], offsets[offsets != NONE]
    whole = ~history.error.is_(CORRUPT)[reads] & ~history.error.is_(FOREIGN)[reads]
    values = np.where(whole, history.value[reads], NONE)
    seeks = seeks[history.type[seeks] == OK]
    found = []
    codes = np.concatenate([history.key.codes[seeks], history.key.codes[reads], history.key.codes[asked]])
    _, first = np.unique(codes, return_index=True)
    for code in codes[np.sort(first)].tolist():
        mine, read = history.key.codes[asked] == code, history.key.codes[reads] == code
        ids = history.value[asked[mine]]
        if len(np.unique(ids)) < len(ids) or NONE in ids:
            raise BadHistory(f"history: {history.key.words[code]}: an append without an id, or two with the same")
        found.append(
            Log(
                history.key.words[code], history, ids, asked[mine],
                np.where(ended[mine] >= 0, ended[mine], NEVER), outcome[mine], told[mine],
                reads[read], values[read], offsets[read], seeks[history.key.codes[seeks] == code],
                _drain(history, code),
            )
        )  # fmt: skip
    return found


def in_log(log: Log) -> Iterator[tuple[str, int, list[Anomaly]]]:
    """Of each kind how many there are, and the first of them."""
    yield _lost(log)
    yield _unseen(log)
    yield _unexpected(log)
    yield _inconsistent(log)
    yield _duplicates(log)
    yield _aborted(log)
    yield from _positions(log)
    yield _sends(log)


def _lost(log: Log) -> tuple[str, int, list[Anomaly]]:
    """What was confirmed, or read by anybody, and is not handed out by a replica that was read from end to end."""
    final = _final(log)
    found: list[Anomaly] = []
    missing: dict[int, dict[str, None]] = {}
    if final is not None:
        upto = min((int(np.max(offsets)) for _, offsets, _ in final), default=-1)
        places = np.full(len(log.ids), NONE, dtype=np.int64)
        at = log.find(log.seen[1])
        places[at[at >= 0]] = log.seen[0][at >= 0]
        sure = log.confirmed | ((places != NONE) & (places <= upto))
        for node, _, values in final:
            for place in np.flatnonzero(sure & ~np.isin(log.ids, values)).tolist():
                missing.setdefault(place, {})[node] = None
        everywhere = len(final)
        for place in sorted(missing)[:TOLD]:
            id_, nodes = int(log.ids[place]), list(missing[place])
            where = "" if len(nodes) == everywhere else f" as {' and '.join(nodes)} has it"
            read = int(log.first_read[place])
            was = f"read at offset {int(places[place])}" if read != NEVER else "confirmed"
            said = {"key": log.key, "value": id_, "nodes": nodes}
            why = f"{id_} was {was}, and {log.key}, read from its beginning to its end, does not hold it{where}"
            found.append(Anomaly("lost-write", why, log.ops(int(log.asked[place]), int(log.ended[place]), read), said))
    return "lost-write", len(missing), found


def _final(log: Log) -> list[tuple[str, Ints, Ints]] | None:
    """What each node handed out while the log was drained: offsets and values. None where it was not, or not whole."""
    if log.drain is None or not log.drain[2]:
        return None
    begun, ended, _ = log.drain
    within = (log.row > begun) & (log.row < ended)
    nodes = log.history.node.codes[log.row]
    codes = np.unique(nodes[within]).tolist()
    return [
        (log.history.node.words[code], log.offset[within & (nodes == code)], log.value[within & (nodes == code)])
        for code in codes
    ]


def _unseen(log: Log) -> tuple[str, int, list[Anomaly]]:
    found = [
        Anomaly(
            "unseen",
            f"{int(log.ids[place])} was confirmed by {log.key}, and never read",
            log.ops(int(log.asked[place]), int(log.ended[place])),
            {"key": log.key, "value": int(log.ids[place])},
        )
        for place in log.unseen[:TOLD].tolist()
    ]
    return "unseen", len(log.unseen), found


def _unexpected(log: Log) -> tuple[str, int, list[Anomaly]]:
    """Read, and never appended there: of nobody, of another log, or damaged."""
    odd = np.flatnonzero((log.value == NONE) | (log.find(log.value) < 0))
    found = []
    for read in odd[:TOLD].tolist():
        row = int(log.row[read])
        value = None if log.value[read] == NONE else int(log.value[read])
        error = log.history.error[row]
        what = f"a message that is {error}" if error else f"{value}, which nobody appended there,"
        said = {"key": log.key, "offset": int(log.offset[read]), "value": value}
        why = f"{log.key} holds {what} at offset {int(log.offset[read])}"
        found.append(Anomaly("unexpected", why, log.ops(row), said))
    return "unexpected", len(odd), found


def _inconsistent(log: Log) -> tuple[str, int, list[Anomaly]]:
    offset, value, row = log.seen
    again = np.unique(offset[1:][offset[1:] == offset[:-1]])
    found = []
    for one in again[:TOLD].tolist():
        at = slice(np.searchsorted(offset, one, "left"), np.searchsorted(offset, one, "right"))
        values = value[at].tolist()
        said = {"key": log.key, "offset": one, "index": int(np.searchsorted(log.known, one)), "values": values}
        why = f"{log.key} holds {' and '.join(map(str, values[:5]))} at offset {one}"
        found.append(Anomaly("inconsistent-offsets", why, log.ops(*row[at].tolist()), said))
    return "inconsistent-offsets", len(again), found


def _duplicates(log: Log) -> tuple[str, int, list[Anomaly]]:
    offset, value, row = log.seen
    order = np.lexsort((offset, value))
    offset, value, row = offset[order], value[order], row[order]
    again = np.unique(value[1:][value[1:] == value[:-1]])
    found = []
    for one in again[:TOLD].tolist():
        at = slice(np.searchsorted(value, one, "left"), np.searchsorted(value, one, "right"))
        offsets = offset[at].tolist()
        said = {"key": log.key, "value": one, "count": len(offsets), "offsets": offsets}
        why = f"{log.key} holds {one} at offsets {', '.join(map(str, offsets[:5]))}"
        found.append(Anomaly("duplicate", why, log.ops(*row[at].tolist()), said))
    return "duplicate", len(again), found


def _aborted(log: Log) -> tuple[str, int, list[Anomaly]]:
    there = np.flatnonzero((log.outcome == FAIL) & (log.first_read != NEVER))
    found = []
    for place in there[:TOLD].tolist():
        id_ = int(log.ids[place])
        why = f"{id_} is read from {log.key}, and its append failed"
        ops = log.ops(int(log.ended[place]), int(log.first_read[place]))
        found.append(Anomaly("G1a", why, ops, {"key": log.key, "value": id_}))
    return "G1a", len(there), found


@dataclass(frozen=True)
class Ways:
    """What readers did, process by process, each in order. `row`: of a read, or of the invocation of a seek. `goes_on`:
    the offset behind what was read, or that was asked for; -1 where nobody knows. `since`: the row from which on the
    process was to go on there. `last`: whether it is the last of its process."""

    row: Rows
    process: npt.NDArray[np.int32]
    read: Mask
    goes_on: Ints
    since: Rows
    last: Mask


def ways(log: Log) -> Ways:
    """The readers' ways through a log."""
    # a seek counts from its invocation: what it brings may come before its own completion
    begun = log.history.invocation[log.seeks]
    row = np.concatenate([log.row, np.where(begun >= 0, begun, log.seeks)])
    starts = np.array([_start(log.history, row) for row in log.seeks.tolist()], dtype=np.int64)
    goes_on = np.concatenate([log.offset + 1, starts])
    read = np.arange(len(row)) < len(log.row)
    order = np.lexsort((row, log.history.process[row]))
    row, goes_on, read = row[order], goes_on[order], read[order]
    process = log.history.process[row]
    here = np.arange(len(row))
    other = np.ones(len(row), dtype=np.bool_)
    other[1:] = process[1:] != process[:-1]
    moved = other.copy()
    moved[1:] |= goes_on[1:] != goes_on[:-1]
    since = row[np.maximum.accumulate(np.where(moved, here, 0))]
    return Ways(row, process, read, goes_on, since, np.append(other[1:], True)[: len(row)])


def _positions(log: Log) -> Iterator[tuple[str, int, list[Anomaly]]]:
    """Readers that leave out what is in the log, or go back."""
    way = ways(log)
    at = np.flatnonzero(way.read[1:] & ~way.last[:-1] & (way.goes_on[:-1] >= 0)) + 1  # reads that something came before
    offset, after = way.goes_on[at] - 1, way.goes_on[at - 1]
    place, due = np.searchsorted(log.known, offset), np.searchsorted(log.known, after)
    skips = np.flatnonzero(place > due)
    found = []
    for one in skips[:TOLD].tolist():
        skipped = log.known[due[one] : place[one]].tolist()
        several = f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
        said = {"key": log.key, "delta": int(place[one] - due[one]) + 1, "skipped": skipped}
        why = f"{_moved(log, way, at[one])}, and skips {', '.join(map(str, skipped[:5]))}{several}"
        found.append(Anomaly("poll-skip", why, log.ops(*way.row[at[one] - 1 : at[one] + 1].tolist()), said))
    yield "poll-skip", len(skips), found
    back = np.flatnonzero(offset < after)
    found = []
    for one in back[:TOLD].tolist():
        said = {"key": log.key, "offset": int(offset[one]), "after": int(after[one]) - 1}
        why = f"{_moved(log, way, at[one])}, which is no later"
        found.append(Anomaly("nonmonotonic-poll", why, log.ops(*way.row[at[one] - 1 : at[one] + 1].tolist()), said))
    yield "nonmonotonic-poll", len(back), found


def _moved(log: Log, way: Ways, at: int) -> str:
    """A read, told by what its process did before it."""
    before, offset = int(way.goes_on[at - 1]), int(way.goes_on[at]) - 1
    stood = f"was at offset {before - 1}" if way.read[at - 1] else f"asked for offset {before}"
    return f"process {int(way.process[at])} {stood} of {log.key}, and is handed offset {offset}"


def _sends(log: Log) -> tuple[str, int, list[Anomaly]]:
    """Processes whose later append lies before an earlier one. Values that have two places are no matter of order."""
    offset, value, _ = log.seen
    _, first, count = np.unique(value, return_index=True, return_counts=True)
    once = first[count == 1]
    at = log.find(value[once])
    once, at = once[at >= 0], at[at >= 0]
    asked, places = log.asked[at], offset[once]
    process = log.history.process[asked]
    order = np.lexsort((asked, process))
    asked, places, process, at = asked[order], places[order], process[order], at[order]
    back = np.flatnonzero((process[1:] == process[:-1]) & (places[1:] < places[:-1]))
    found = []
    for one in back[:TOLD].tolist():
        before, after = int(log.ids[at[one]]), int(log.ids[at[one + 1]])
        said = {"key": log.key, "values": [before, after], "offsets": [int(places[one]), int(places[one + 1])]}
        why = (
            f"process {int(process[one])} appended {before} to {log.key} and then {after}, which lies before it: "
            f"offsets {int(places[one])} and {int(places[one + 1])}"
        )
        found.append(Anomaly("nonmonotonic-send", why, log.ops(int(asked[one]), int(asked[one + 1])), said))
    return "nonmonotonic-send", len(back), found


@dataclass(frozen=True)
class Wait:
    """An entry that a reader was waiting for, and that was there for certain: since when, ns, and for how long. `row`:
    of what it was handed in the end, or of its end where it never was."""

    time: int
    process: int
    key: str
    lag: int
    row: int


def longest_wait(log: Log) -> Wait | None:
    """The longest that an entry which was surely there kept a reader waiting that had taken all before it.

    That an entry is there is certain when its append was confirmed, or somebody has read it, or one behind it. A reader
    waits from the moment at which it asked, or was handed the entry before. One that is not handed the next until its
    connection ends waited until then.
    """
    way = ways(log)
    until = np.append(way.row[1:], -1)[: len(way.row)]
    until[~np.append(way.read[1:], False)[: len(way.row)]] = -1  # it asked again: `since` counts on
    until[way.last] = _ends(log, way.process[way.last])
    place = np.searchsorted(log.known, way.goes_on)
    waited = np.flatnonzero((way.goes_on >= 0) & (place < len(log.known)) & (until >= 0))
    if not len(waited):
        return None
    time = log.history.time
    begun = np.maximum(_since(log)[place[waited]], time[way.since[waited]])
    lag = np.maximum(time[until[waited]] - begun, 0)
    most = int(np.argmax(lag))
    return Wait(int(begun[most]), int(way.process[waited[most]]), log.key, int(lag[most]), int(until[waited[most]]))


def most_unseen(log: Log) -> int:
    """How many values at once were confirmed and not read by anybody."""
    confirmed = log.confirmed & (log.first_read > log.ended)
    rows = np.concatenate([log.ended[confirmed], log.first_read[confirmed]])
    steps = np.concatenate([np.ones(int(confirmed.sum())), -np.ones(int(confirmed.sum()))])
    return int(np.max(np.cumsum(steps[np.argsort(rows, kind="stable")]), initial=0))


def _since(log: Log) -> Ints:
    """For each known offset the time from which it was certain that an entry is there."""
    since = np.full(len(log.known), NEVER, dtype=np.int64)
    np.minimum.at(since, np.searchsorted(log.known, log.offset), log.history.time[log.row])
    offset, value, _ = log.seen
    at = log.find(value)
    sure = np.append(log.confirmed, False)[at]  # of place -1: no append
    np.minimum.at(since, np.searchsorted(log.known, offset[sure]), log.history.time[log.ended[at[sure]]])
    return np.minimum.accumulate(since[::-1])[::-1]


def _ends(log: Log, processes: npt.NDArray[np.int32]) -> Rows:
    """The row at which each process ends, -1 where it does not."""
    closes = log.history.rows("close")
    closes = closes[np.argsort(log.history.process[closes], kind="stable")]
    if not len(closes):
        return np.full(len(processes), -1, dtype=np.intp)
    at = np.minimum(np.searchsorted(log.history.process[closes], processes), len(closes) - 1)
    return np.where(log.history.process[closes[at]] == processes, closes[at], -1)


def _drain(history: History, code: int) -> tuple[int, int, bool] | None:
    rows = history.rows("drain")
    rows = rows[(history.key.codes[rows] == code) & (history.process[rows] == CONTROLLER) & (history.op[rows] != NONE)]
    if not len(rows):
        return None
    row = int(rows[-1])
    return int(history.invocation[row]), row, bool(history.type[row] == OK)


def _of_clients(history: History, fs: tuple[str, ...]) -> Rows:
    known = np.array([word in fs for word in history.f.words] + [False], dtype=np.bool_)
    return np.flatnonzero(known[history.f.codes] & (history.process >= 0))


def _offsets(history: History, rows: Rows) -> Ints:
    """`detail.offset` of these rows, NONE where there is none."""
    return np.array([_offset(history.detail_text[row]) for row in rows.tolist()], dtype=np.int64)


def _offset(text: str | None) -> int:
    if text is None:
        return NONE
    if text.startswith(_OFFSET) and text[len(_OFFSET) : -1].isdigit():  # and nothing else, as nearly always
        return int(text[len(_OFFSET) : -1])
    offset: Any = json.loads(text).get("offset")
    return NONE if offset is None else int(offset)


def _start(history: History, row: int) -> int:
    """The offset that a seek asks for, -1 where it is not one."""
    start = history.detail(row).get("from")
    return 0 if start == "first" else start if isinstance(start, int) else -1
