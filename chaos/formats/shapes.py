"""Lines of text that differ only in their numbers have one shape, and each shape is read by a parser only once.

The lines of a history file are alike: `{:type :ok, :f :read, :value 3, :process 4, :time 812, :index 17}` and a million
more. A block of lines is turned, in NumPy, into the numbers that it contains and into lines with a mark in the place of
each number. The few different ones of those are what a parser has to understand; the numbers go to their columns as
arrays.

How a parser that knows nothing of marks tells where each number belongs: it is given the line with a number in each
mark's place that occurs nowhere else (`stand_in`), and those are looked up in what it returns. Where one is not found,
as it became part of a float or of an escaped character, the shape says too little and its lines are parsed one by one.

Numbers here are runs of at most 18 digits without a leading zero; other digits are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.intp]

BLOCK = 1 << 21  # bytes of text turned at once: small enough to stay near the processor
MARK = 1  # a byte that no text file contains
LONGEST = 18
_STAND_IN = 9_170_000_000_000_000_000  # 19 digits: longer than any number, and it fits an int64
_STAND_INS = re.compile(r"917000000\d{10}")


@dataclass(frozen=True)
class Block:
    """Some lines. shape: for each, which of `shapes` (bytes with marks) it is. first: the place of its first number in
    `numbers`."""

    text: bytes
    shape: npt.NDArray[np.int32]
    shapes: list[bytes]
    first: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.shape)

    @cached_property
    def lines(self) -> list[bytes]:
        """The lines themselves."""
        return self.text.split(b"\n")


def blocks(file: BinaryIO, size: int = BLOCK) -> Iterator[bytes]:
    """The file in pieces of whole lines, each ending in a line feed. A byte order mark is passed over."""
    rest = b""
    start = True
    while piece := file.read(size):
        if start:
            piece = piece.removeprefix(b"\xef\xbb\xbf")
            start = False
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield rest + piece[:cut]
            rest = piece[cut:]
        else:
            rest += piece
    if rest:
        yield rest + b"\n"


def block_of(text: bytes) -> Block:
    """Take lines apart. `text` ends in a line feed and contains no MARK."""
    raw = np.frombuffer(text, dtype=np.uint8)
    digit = (raw - np.uint8(48)) < 10
    before = np.empty_like(digit)
    before[0] = False
    before[1:] = digit[:-1]
    edges = np.flatnonzero(digit != before)  # text ends in a line feed, so every run has an end
    begin, end = edges[0::2], edges[1::2]
    length = end - begin
    kept = ~(digit & before)
    no_number = (length > LONGEST) | ((raw[begin] == 48) & (length > 1))
    if no_number.any():
        depth = np.zeros(len(raw) + 1, dtype=np.int8)
        depth[begin[no_number]] = 1
        depth[end[no_number]] = -1
        kept |= np.cumsum(depth[:-1], dtype=np.int8).astype(np.bool_)
        begin, end, length = begin[~no_number], end[~no_number], length[~no_number]
    marked = raw.copy()
    marked[begin] = MARK
    marked = marked[kept]
    ends = np.flatnonzero(marked == 10).astype(np.int32)
    bounds = np.concatenate([np.zeros(1, dtype=np.int32), ends + 1])
    parts = [None, pa.py_buffer(bounds), pa.py_buffer(marked)]
    coded = pa.Array.from_buffers(pa.binary(), len(ends), parts).dictionary_encode()
    shape, shapes = coded.indices.to_numpy(), coded.dictionary.to_pylist()
    marks = np.fromiter((line.count(MARK) for line in shapes), np.int64, len(shapes))[shape]
    return Block(text, shape, shapes, np.cumsum(marks) - marks, _numbers(text, end, length))


def _numbers(text: bytes, end: Rows, length: Rows) -> npt.NDArray[np.int64]:
    """The values of runs of digits, eight digits at a time: the bytes of an int64, multiplied within the word."""
    padded = np.frombuffer(b"\0" * 24 + text, dtype=np.uint8)
    words = np.ndarray((len(padded) - 7,), dtype="<u8", buffer=padded, strides=(1,))

    def eight(end: Rows, length: Rows) -> npt.NDArray[np.int64]:
        shift = (8 * (8 - np.minimum(length, 8))).astype(np.uint64)
        word = ((words[end + 16] & np.uint64(0x0F0F0F0F0F0F0F0F)) >> shift) << shift
        word = (word * np.uint64(10) + (word >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
        word = (word * np.uint64(100) + (word >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
        word = (word * np.uint64(10_000) + (word >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
        return word.astype(np.int64)

    value = eight(end, length)
    for done in (8, 16):
        more = np.flatnonzero(length > done)
        if len(more):
            value[more] += eight(end[more] - done, length[more] - done) * 10**done
    return value


def stand_in(shape: bytes) -> tuple[str, int]:
    """The line with a number that occurs nowhere else for each mark, and how many there are. Raises UnicodeError."""
    parts = shape.decode().split(chr(MARK))
    text = parts[0] + "".join(f"{_STAND_IN + slot}{part}" for slot, part in enumerate(parts[1:]))
    return text, len(parts) - 1


def slot_of(number: int) -> int | None:
    """Which mark this number stands for, with its sign: slot, or ~slot for a negated one; None for all others."""
    slot = abs(number) - _STAND_IN
    if 0 <= slot < 10**10:
        return slot if number > 0 else ~slot
    return None


def split(text: str) -> tuple[list[str], list[int]]:
    """Text around the marks in it, and their slots."""
    return _STAND_INS.split(text), [int(found) - _STAND_IN for found in _STAND_INS.findall(text)]


def slots_in(tree: Any) -> list[int]:
    """The slots of all marks in a tree of JSON, keys included."""
    found: list[int] = []
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            found += split(node)[1]
        elif isinstance(node, dict):
            todo += node
            todo += node.values()
        elif isinstance(node, list):
            todo += node
        elif isinstance(node, int) and not isinstance(node, bool):
            slot = slot_of(node)
            if slot is not None:
                found.append(slot if slot >= 0 else ~slot)
    return found
