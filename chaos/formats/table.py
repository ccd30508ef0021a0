"""Rows from many lines, gathered into the columns of a history; and what only the whole can tell: order and pairs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.formats.cells import TEXT, WHOLE, Cells
from chaos.formats.shapes import Block, Rows, slot_of, split
from chaos.model.errors import BadHistory
from chaos.model.history import NONE, History, Ints, Words
from chaos.model.op import INFO, INVOKE

_OP = re.compile(r"history: op (-?\d+): (.*)", re.DOTALL)
_DETAIL = TEXT.index("detail")


class Table:
    """Columns that grow a part at a time; nothing is kept per row but its cells."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._codes: list[dict[str, int]] = [{} for _ in TEXT[:_DETAIL]]

    def part(self, lines: Rows) -> Part:
        """Room for the next rows. lines: the line of the file that each comes from."""
        part = Part(lines, self._codes)
        self._parts.append(part)
        return part

    def history(self, name: str, *, says_op: bool = False, by_time: bool = False) -> History:
        """The history. says_op: completions name their operation; otherwise each completes its process's last.
        by_time: rows are in no order but that of their times, pairs apart. Raises BadHistory, naming file and line."""
        whole = {
            column: np.concatenate([np.zeros(0, np.int64), *(part.whole[place] for part in self._parts)])
            for place, column in enumerate(WHOLE)
        }
        text = [
            np.concatenate([np.zeros(0, np.int32), *(part.text[place] for part in self._parts)])
            for place in range(_DETAIL)
        ]
        detail: list[str | None] = [cell for part in self._parts for cell in part.detail.tolist()]
        line = np.concatenate([np.zeros(0, np.int64), *(part.lines for part in self._parts)])
        self._parts = []
        order: Rows | None = None
        if by_time:
            # Each invocation is followed by its completion, if it has one. At one instant calls come before returns:
            # what touches is concurrent.
            whole["op"] = np.cumsum(whole["type"] == INVOKE)
            order = np.lexsort((whole["type"] != INVOKE, whole["time"]))
            whole = {name: column[order] for name, column in whole.items()}
            text, line = [column[order] for column in text], line[order]
            detail = [detail[row] for row in order.tolist()]

        def refuse(row: int, problem: str) -> BadHistory:
            index = whole["index"][row]
            which = f"op {int(index)}" if index != NONE else "this op"
            return BadHistory(f"{name}, line {int(line[row])}: {which}: {problem}")

        for column, what in (("process", "process"), ("channel", "channel")):
            wide = np.flatnonzero((np.abs(whole[column]) >= 2**31) & (whole[column] != NONE))
            if len(wide):
                raise refuse(int(wide[0]), f"{what} {int(whole[column][wide[0]])} does not fit 32 bits")
        _number(whole, refuse)
        _clock(whole, refuse)
        if says_op:
            _resolve(whole, refuse)
        else:
            _pair(whole, text[0], refuse)
        f, key, node, error = (
            Words(codes, tuple(words)) for codes, words in zip(text, self._codes, strict=True)
        )  # fmt: skip
        history = History(
            index=whole["index"], time=whole["time"], process=whole["process"].astype(np.int32),
            type=whole["type"].astype(np.int8), f=f, key=key, value=whole["value"], node=node, error=error,
            detail_text=detail, op=whole["op"], channel=whole["channel"],
            redelivered=whole["redelivered"].astype(np.int8), term=whole["term"], incarnation=whole["incarnation"],
        )  # fmt: skip
        try:
            return history.validate()
        except BadHistory as error_:
            found = _OP.fullmatch(str(error_))
            if found is None:
                raise BadHistory(f"{name}: {error_}") from error_
            row = int(np.flatnonzero(whole["index"] == int(found[1]))[-1])
            raise refuse(row, found[2]) from error_


class Part:
    """Some rows in columns."""

    def __init__(self, lines: Rows, codes: Sequence[dict[str, int]]) -> None:
        self.lines = lines
        self.whole = np.empty((len(WHOLE), len(lines)), dtype=np.int64)
        self.text = np.empty((_DETAIL, len(lines)), dtype=np.int32)
        self.detail: npt.NDArray[Any] = np.full(len(lines), None, dtype=object)
        self._codes = codes

    def put(self, rows: Rows | int, cells: Cells) -> None:
        """The same cells in each of these rows."""
        for column, number in enumerate(cells.whole):
            self.whole[column, rows] = number
        for column, text in enumerate(cells.text[:_DETAIL]):
            self.text[column, rows] = self._code(column, text)
        if cells.text[_DETAIL] is not None:
            self.detail[rows] = cells.text[_DETAIL]

    def fill(self, rows: Rows, cells: Cells, block: Block, lines: Rows) -> None:
        """Cells with marks in these rows, each with the numbers of its line of the block."""
        first = block.first[lines]
        for column, number in enumerate(cells.whole):
            slot = slot_of(number)
            if slot is None:
                self.whole[column, rows] = number
            elif slot >= 0:
                self.whole[column, rows] = block.numbers[first + slot]
            else:
                self.whole[column, rows] = -block.numbers[first + ~slot]
        for column, text in enumerate(cells.text):
            around, slots = split(text) if text else ([], [])
            if slots:
                numbers = [block.numbers[first + slot] for slot in slots]
                texts, place = _filled(around, numbers)
                if column == _DETAIL:
                    self.detail[rows] = np.array(texts, dtype=object)[place]
                else:
                    self.text[column, rows] = np.array([self._code(column, text) for text in texts], np.int32)[place]
            elif column < _DETAIL:
                self.text[column, rows] = self._code(column, text)
            elif text is not None:
                self.detail[rows] = text

    def _code(self, column: int, text: str | None) -> int:
        codes = self._codes[column]
        return -1 if text is None else codes.setdefault(text, len(codes))


def _filled(around: list[str], numbers: list[Ints]) -> tuple[list[str], Rows]:
    """The different texts that these numbers make, and which is each row's."""
    pattern = "%d".join(part.replace("%", "%%") for part in around)
    if len(numbers) == 1:
        different, place = np.unique(numbers[0], return_inverse=True)
        return [pattern % number for number in different.tolist()], place
    seen: dict[tuple[int, ...], int] = {}
    rows = zip(*(column.tolist() for column in numbers), strict=True)
    place = np.fromiter((seen.setdefault(row, len(seen)) for row in rows), np.intp, len(numbers[0]))
    return [pattern % row for row in seen], place


def _number(whole: dict[str, Ints], refuse: Any) -> None:
    """Indices: those that the file gives, else the places in it."""
    index = whole["index"]
    missing = index == NONE
    if missing.all():
        whole["index"] = np.arange(len(index), dtype=np.int64)
    elif missing.any():
        raise refuse(int(np.flatnonzero(missing)[0]), "it has no index, though others have")


def _clock(whole: dict[str, Ints], refuse: Any) -> None:
    """Times: those that the file gives, else its indices.

    Recorders that take the time before they take their place in the file write calls (or returns) that are next to
    each other in another order than that of their times. Which operation preceded which is the same either way, so such
    a time is set to that of the row before. Where it would not be, the file contradicts itself.
    """
    time, type_ = whole["time"], whole["type"]
    known = time != NONE
    if not known.any():
        whole["time"] = whole["index"].copy()
        return
    so_far = np.maximum.accumulate(time)
    back = np.flatnonzero(known & (time < so_far))
    if len(back):
        begun = np.maximum.accumulate(np.where(type_ == INVOKE, time, NONE))
        ended = np.maximum.accumulate(np.where((type_ != INVOKE) & (whole["process"] >= 0), time, NONE))
        latest = np.where(type_ == INVOKE, ended, begun)
        wrong = back[time[back] < latest[back]]
        if len(wrong):
            row = int(wrong[0])
            other = int(np.flatnonzero((time == latest[row]) & ((type_ == INVOKE) != (type_[row] == INVOKE)))[0])
            what = "was called" if type_[row] == INVOKE else "ended"
            before = "ended" if type_[row] == INVOKE else "began"
            raise refuse(
                row,
                f"its time runs backwards: it {what} at {int(time[row])} ns, but before it "
                f"stands op {int(whole['index'][other])}, which {before} at {int(latest[row])} ns; sort the file, or "
                "leave the times out if its order holds",
            )
    whole["time"] = np.maximum(so_far, time[np.argmax(known)])


def _pair(whole: dict[str, Ints], f: npt.NDArray[np.int32], refuse: Any) -> None:
    """Each completion belongs to the last invocation of its process, as in Jepsen. The nemesis and such may also tell
    what belongs to nothing."""
    process, type_, index = whole["process"], whole["type"], whole["index"]
    few = process.min(initial=0) > -9 and process.max(initial=0) < 2**15  # 16 bits are sorted by their digits
    order = np.argsort(process.astype(np.int16) if few else process, kind="stable")
    before = np.full(len(process), -1, dtype=np.intp)  # the row of the process's op before
    same = process[order][1:] == process[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    # The last row, where there is none before: it is looked at only together with `before >= 0`.
    open_ = (before >= 0) & (type_[before] == INVOKE)
    called = type_ == INVOKE
    client = process >= 0
    paired = ~called & open_ & (client | (f == f[before]))
    for rows, problem in (
        (called & open_ & client, "process {process} invokes it while its op {before} has not ended"),
        (
            ~called & ~paired & (before >= 0) & (client | (type_ != INFO)),
            "it completes nothing: process {process}'s op before was completed already, by op {before}",
        ),
        (
            ~called & ~paired & (before < 0) & (client | (type_ != INFO)),
            "it completes nothing: process {process} has invoked nothing before",
        ),
    ):
        wrong = np.flatnonzero(rows)
        if len(wrong):
            row = int(wrong[0])
            last = int(index[before[row]])
            raise refuse(row, problem.format(process=int(process[row]), before=last))
    whole["op"] = np.where(paired, index[before], NONE) if len(index) else index


def _resolve(whole: dict[str, Ints], refuse: Any) -> None:
    """Completions name the number that their invocation bears, else its index. One that names none is about nothing
    that was invoked, such as a delivery whose credit is not known."""
    of, type_, index = whole["op"], whole["type"], whole["index"]
    called = np.flatnonzero((type_ == INVOKE) & (of != NONE))
    if len(called):
        ids, first = np.unique(of[called], return_index=True)
        if len(ids) != len(called):
            again = np.setdiff1d(np.arange(len(called)), first)[0]
            raise refuse(int(called[again]), f"operation {int(of[called[again]])} was invoked already")
        ends = np.flatnonzero((type_ != INVOKE) & (of != NONE))
        place = np.minimum(np.searchsorted(ids, of[ends]), len(ids) - 1)
        unknown = np.flatnonzero(ids[place] != of[ends])
        if len(unknown):
            row = int(ends[unknown[0]])
            raise refuse(row, f"it completes operation {int(of[row])}, which was not invoked")
        of = of.copy()
        of[ends] = index[called[first[place]]]
        of[called] = NONE
    whole["op"] = of
