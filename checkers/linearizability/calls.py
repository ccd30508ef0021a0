"""Operations on one kind of object as columns, the common input of monitors and of the search.

Times are ranks: only their order counts. Operation x precedes y iff x.ret < y.call. Taken from a history, a rank is the
row of the invocation or of the completion, so that all ranks differ and the order is the one that was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from chaos.model.history import NONE, Ints

NEVER = np.iinfo(np.int64).max


class F(IntEnum):
    """What an operation does. `arg` and `out` are int64, NONE where there is nothing.

    register: READ (out = what was read; NONE is the initial value), WRITE (arg), CAS (arg = from, out = to, also where
    it is not known whether it took effect), CAS_REFUSED (arg = from: the register held something else). key-value:
    READ, WRITE, APPEND of words; multi-register: TXN (arg); what the numbers stand for is a table of the model's.
    queue and bag: PUT (arg = value), TAKE (out = value, NONE = an empty answer).
    lock: ACQUIRE (out = fencing token, if there is one), TRY (an acquire that was refused), RELEASE. set: ADD (arg),
    REMOVE (arg), CONTAINS (arg; out = 1 present, 0 absent). counter: ADD (arg), READ (out). log: APPEND (arg = value,
    out = offset), FETCH (arg = offset, out = value, NONE = nothing there yet).
    """

    READ = 0
    WRITE = 1
    CAS = 2
    PUT = 3
    TAKE = 4
    ACQUIRE = 5
    TRY = 6
    RELEASE = 7
    ADD = 8
    REMOVE = 9
    CONTAINS = 10
    APPEND = 11
    FETCH = 12
    CAS_REFUSED = 13
    TXN = 14


@dataclass(frozen=True, slots=True)
class Calls:
    """A row an operation, ordered by `call`. Operations that certainly did not happen are not here, unless a model
    learns from them (a refused cas or acquire).

    ret: NEVER where it is not known whether and when it took effect; its `out` is then NONE and means nothing, and it
    may have taken effect at any time after its call, or not at all. key: which object (0, 1, ...; each is judged by
    itself). process: who. channel: a number for each ordered channel, or -1: operations of one channel take effect in
    the order of their calls although they overlap. op, end: indices in the history, for evidence (-1: none).
    """

    f: npt.NDArray[np.int8]
    arg: Ints
    out: Ints
    call: Ints
    ret: Ints
    key: Ints
    process: Ints
    channel: Ints
    op: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.call)

    def select(self, rows: npt.NDArray[np.intp]) -> Calls:
        """The given rows, in the given order (which must be that of their calls)."""
        return Calls(
            self.f[rows], self.arg[rows], self.out[rows], self.call[rows], self.ret[rows], self.key[rows],
            self.process[rows], self.channel[rows], self.op[rows], self.end[rows],
        )  # fmt: skip


def calls(rows: list[tuple[F, int | None, int | None, int, int | None]], keys: list[int] | None = None) -> Calls:
    """Literal operations (f, arg, out, call, ret; ret None = unknown), as tests write them. Sorted by call."""
    order = sorted(range(len(rows)), key=lambda place: rows[place][3])
    columns = [[NONE if cell is None else int(cell) for cell in column] for column in zip(*rows, strict=True)]
    f, arg, out, call, ret = columns or [[], [], [], [], []]

    def column(cells: list[int]) -> Ints:
        return np.asarray([cells[place] for place in order], dtype=np.int64)

    index = np.asarray(order, dtype=np.int64)
    never = column(ret)
    return Calls(
        f=column(f).astype(np.int8),
        arg=column(arg),
        out=column(out),
        call=column(call),
        ret=np.where(never == NONE, NEVER, never),
        key=np.zeros(len(rows), dtype=np.int64) if keys is None else column(keys),
        process=index,
        channel=np.full(len(rows), -1, dtype=np.int64),
        op=index,
        end=index,
    )
