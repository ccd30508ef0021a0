"""Reads histories whose lines are ops, at the speed of arrays (see `shapes`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from chaos.formats import shapes
from chaos.formats.cells import Cells, NotKeyed, Problem, cells, says_keys
from chaos.formats.edn import Bracket
from chaos.formats.shapes import Block, Rows
from chaos.formats.table import Table
from chaos.model.errors import BadHistory
from chaos.model.history import History

Parse = Callable[[str], list[Any]]  # a line -> its ops (maps), and the brackets of the history where it has any
_KNOWN = 10_000  # shapes remembered from block to block


@dataclass(frozen=True)
class _Line:
    """What a line says: the cells of its ops, with marks for numbers where they are those of a shape."""

    ops: tuple[Cells, ...] = ()
    brackets: tuple[Bracket, ...] = ()


def read_lines(path: Path, parse: Parse, *, keyed: bool | None, skip: int = 0, by_time: bool = False) -> History:
    """A history out of lines. parse: what a line says; it raises Problem for one that says nothing.

    keyed: whether values are [key value]; None = see for yourself. skip: lines at the top that are no ops. by_time:
    each line is an operation, both ends of it. Raises BadHistory.
    """
    try:
        return _Reader(path, parse, keyed, by_time).read(skip)
    except NotKeyed:  # the first lines looked it, a later one told
        return _Reader(path, parse, False, by_time).read(skip)


def ops_in_order(path: Path, found: Iterable[tuple[int, Any]], *, keyed: bool | None) -> History:
    """A history out of the ops and brackets of a text, each with its line. Raises BadHistory."""
    reader = _Reader(path, lambda _: [], keyed, False)
    return reader.gather(found)


class _Reader:
    def __init__(self, path: Path, parse: Parse, keyed: bool | None, by_time: bool) -> None:
        self._path = path
        self._parse = parse
        self._keyed = keyed
        self._must_be_keyed = keyed is True
        self._by_time = by_time
        self._table = Table()
        self._known: dict[bytes, _Line | None] = {}
        self._says_op = by_time
        self._opened: list[int] = []  # lines of brackets that are open

    def read(self, skip: int) -> History:
        try:
            with self._path.open("rb") as file:
                self._read(file, skip)
        except OSError as error:
            raise BadHistory(f"{self._path}: cannot be read: {error.strerror or error}") from error
        return self._finish()

    def gather(self, found: Iterable[tuple[int, Any]]) -> History:
        ops: list[tuple[int, Any]] = []
        for line, item in found:
            if isinstance(item, Bracket):
                self._bracket(line, item)
            else:
                ops.append((line, item))
        if self._keyed is None:
            self._keyed = says_keys(op for _, op in ops)
        part = self._table.part(np.array([line for line, _ in ops], dtype=np.intp))
        for row, (line, op) in enumerate(ops):
            part.put(row, self._cells(op, line))
        return self._finish()

    def _finish(self) -> History:
        if self._opened:
            raise BadHistory(
                f"{self._path}: the file is cut off: the bracket of line {self._opened[0]} around its ops is not closed"
            )
        return self._table.history(str(self._path), says_op=self._says_op, by_time=self._by_time)

    def _read(self, file: BinaryIO, skip: int) -> None:
        line = 1
        for text in shapes.blocks(file):
            if line == 1 and skip:
                text = text.split(b"\n", skip)[skip]
                line += skip
            if not text:
                continue
            stray = text.find(shapes.MARK)
            if stray >= 0:
                where = line + text.count(b"\n", 0, stray)
                raise BadHistory(f"{self._path}, line {where}: a control character (0x01): this is no text")
            block = shapes.block_of(text)
            self._take(block, line)
            line += len(block)

    def _take(self, block: Block, line: int) -> None:
        count = np.bincount(block.shape, minlength=len(block.shapes))
        # Numbers of 16 bits are sorted by their digits, in no time.
        order = np.argsort(block.shape.astype(np.uint16 if len(count) < 2**16 else np.int32), kind="stable")
        bounds = np.concatenate([[0], np.cumsum(count)])
        if self._keyed is None:
            self._keyed = says_keys(self._first_ops(block, order[bounds[:-1]].tolist(), line))
        whole: list[tuple[_Line, Rows]] = []  # what many lines say
        alone = [order[bounds[:-1]][count == 1]]  # lines that are to be parsed by themselves
        rows = np.zeros(len(block), dtype=np.intp)  # how many each line makes
        for shape in np.flatnonzero(count > 1).tolist():
            lines = order[bounds[shape] : bounds[shape + 1]]
            said = self._shape(block.shapes[shape], line + int(lines[0]))
            if said is None:
                alone.append(lines)
            else:
                rows[lines] = len(said.ops)
                whole.append((said, lines))
        places = np.sort(np.concatenate(alone)).tolist()
        single = [(self._line(block.lines[place], line + place), place) for place in places]
        for said, place in single:
            rows[place] = len(said.ops)
        ends = np.cumsum(rows)
        part = self._table.part(np.repeat(np.arange(line, line + len(block)), rows))
        brackets: list[tuple[int, Bracket]] = []
        for said, lines in whole:
            for nth, op in enumerate(said.ops):
                part.fill(ends[lines] - len(said.ops) + nth, op, block, lines)
            brackets += [(line + place, bracket) for bracket in said.brackets for place in lines.tolist()]
        for said, place in single:
            for nth, op in enumerate(said.ops):
                part.put(int(ends[place]) - len(said.ops) + nth, op)
            brackets += [(line + place, bracket) for bracket in said.brackets]
        for where, bracket in sorted(brackets, key=lambda found: found[0]):
            self._bracket(where, bracket)

    def _bracket(self, line: int, bracket: Bracket) -> None:
        if bracket is Bracket.OPEN:
            if self._opened:
                raise BadHistory(f"{self._path}, line {line}: a vector or a list where an op (a map) was meant")
            self._opened.append(line)
        elif self._opened:
            self._opened.pop()
        else:
            raise BadHistory(f"{self._path}, line {line}: a bracket that closes nothing")

    def _first_ops(self, block: Block, places: list[int], line: int) -> Iterable[Mapping[str, Any]]:
        for place in places:
            for item in self._parsed(block.lines[place], line + place):
                if not isinstance(item, Bracket):
                    yield item

    def _shape(self, shape: bytes, line: int) -> _Line | None:
        """What all lines of a shape say; None where that depends on their numbers."""
        if shape not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[shape] = self._read_shape(shape, line)
        return self._known[shape]

    def _read_shape(self, shape: bytes, line: int) -> _Line | None:
        try:
            text, marks = shapes.stand_in(shape)
            items = self._parse(text)
            if sorted(shapes.slots_in([item for item in items if not isinstance(item, Bracket)])) != list(range(marks)):
                return None
            return self._said(items, line)
        except (Problem, BadHistory, ValueError):
            return None  # to be told of the line itself

    def _line(self, raw: bytes, line: int) -> _Line:
        return self._said(self._parsed(raw, line), line)

    def _parsed(self, raw: bytes, line: int) -> list[Any]:
        try:
            return self._parse(raw.decode())
        except Problem as problem:
            raise BadHistory(f"{self._path}, line {line}: {problem}") from problem
        except UnicodeDecodeError as error:
            raise BadHistory(f"{self._path}, line {line}: not UTF-8 text") from error
        except ValueError as error:  # a number of more digits than Python reads
            raise BadHistory(f"{self._path}, line {line}: {error}") from error

    def _said(self, items: list[Any], line: int) -> _Line:
        brackets = tuple(item for item in items if isinstance(item, Bracket))
        return _Line(tuple(self._cells(op, line) for op in items if not isinstance(op, Bracket)), brackets)

    def _cells(self, op: Any, line: int) -> Cells:
        if isinstance(op, Mapping):
            self._says_op |= "op" in op
            if self._keyed and "key" in op and not self._must_be_keyed:
                raise NotKeyed
        try:
            return cells(op, keyed=bool(self._keyed))
        except Problem as problem:
            raise BadHistory(f"{self._path}, line {line}: {problem}") from problem
        except NotKeyed:
            if self._must_be_keyed:
                meant = "its value is not [key value], as that of independent keys is"
                raise BadHistory(f"{self._path}, line {line}: {meant}") from None
            raise
