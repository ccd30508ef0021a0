"""The objects a search can decide: which operations each takes, and its parameters.

A word, a list or a transaction that no number can stand for is in the model's *table*, and `arg` or `out` holds its
place there. An object without parameters, by name: `MODELS["bag"]()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from chaos.model.history import NONE
from checkers.linearizability.calls import F


@dataclass(frozen=True, slots=True)
class Model:
    """name: as the worker knows it. operations: those it takes. parameters, table: see each model's function.

    argument_in_table, answer_in_table: the operations whose `arg` or `out` is a place in the table (or NONE).
    each_value_alone: operations on different values (`arg`) have nothing to do with each other, so they are searched
    apart. source: a Go file with a model of one's own.
    """

    name: str
    operations: tuple[F, ...]
    parameters: tuple[int, ...] = ()
    table: tuple[bytes, ...] = ()
    argument_in_table: tuple[F, ...] = ()
    answer_in_table: tuple[F, ...] = ()
    each_value_alone: bool = False
    source: Path | None = None


def numbers(cells: Iterable[int]) -> bytes:
    """A list of numbers as a cell of a table."""
    return np.asarray(list(cells), dtype="<i8").tobytes()


def register(initial: int = NONE) -> Model:
    """READ, WRITE. A read that answers NONE saw the initial value."""
    return Model("register", (F.READ, F.WRITE), (initial,))


def cas_register(initial: int = NONE) -> Model:
    """READ, WRITE, CAS and CAS_REFUSED."""
    return Model("register", (F.READ, F.WRITE, F.CAS, F.CAS_REFUSED), (initial,))


Step = tuple[str, int, int]


def multi_register(transactions: Iterable[Iterable[Step]], initial: Mapping[int, int] = MappingProxyType({})) -> Model:
    """TXN (arg = place in `transactions`): steps ("read" or "write", register, value), all at once.

    A read of NONE saw a register that was never written. `initial`: values by register.
    """
    kinds = {"read": 0, "write": 1}
    table = tuple(
        numbers(cell for kind, register, value in steps for cell in (kinds[kind], register, value))
        for steps in transactions
    )
    start = tuple(cell for pair in sorted(initial.items()) for cell in pair)
    return Model("multi-register", (F.TXN,), start, table, argument_in_table=(F.TXN,))


def key_value(words: Iterable[str]) -> Model:
    """READ (out), WRITE (arg) and APPEND (arg) of strings: places in `words`. NONE: the empty string, held at first."""
    return Model(
        "key-value",
        (F.READ, F.WRITE, F.APPEND),
        table=tuple(word.encode() for word in words),
        argument_in_table=(F.WRITE, F.APPEND),
        answer_in_table=(F.READ,),
    )


_LOCK = (F.ACQUIRE, F.TRY, F.RELEASE)


def mutex() -> Model:
    """ACQUIRE, TRY, RELEASE; whoever holds it, anyone may release it."""
    return Model("lock", _LOCK, (1, 0, 0))


def reentrant_lock(limit: int = 0, *, fenced: bool = False) -> Model:
    """A lock that its owner (`process`) may acquire again, `limit` times in all (0: any), and only it releases."""
    return Model("lock", _LOCK, (limit, 1, int(fenced)))


def fenced_lock() -> Model:
    """A lock that only its owner releases, and that gives each holder a greater token than all before."""
    return Model("lock", _LOCK, (1, 1, 1))


def fifo_queue() -> Model:
    """PUT, TAKE. A take of unknown outcome may have taken the first."""
    return Model("fifo-queue", (F.PUT, F.TAKE))


def bag() -> Model:
    """PUT, TAKE, in any order. A take of unknown outcome may have taken any."""
    return Model("bag", (F.PUT, F.TAKE))


def set_(lists: Iterable[Iterable[int]] | None = None) -> Model:
    """ADD, REMOVE, CONTAINS; and, given `lists`, READ of all members (out = place in `lists`; NONE: none)."""
    if lists is None:
        return Model("set", (F.ADD, F.REMOVE, F.CONTAINS), each_value_alone=True)
    return Model(
        "set", (F.ADD, F.REMOVE, F.CONTAINS, F.READ), table=tuple(map(numbers, lists)), answer_in_table=(F.READ,)
    )


def counter(initial: int = 0) -> Model:
    """ADD, READ."""
    return Model("counter", (F.ADD, F.READ), (initial,))


def log() -> Model:
    """APPEND, FETCH. Offsets begin at 0 and have no gaps."""
    return Model("log", (F.APPEND, F.FETCH))


def subset_register(lists: Iterable[Iterable[int]]) -> Model:
    """WRITE (arg) stores some part of a list, nobody knows which; READ (out) answers all that is stored, FETCH (out)
    some part of it. Places in `lists`; NONE: nothing. The nondeterministic register of Porcupine's tests."""
    return Model(
        "subset-register",
        (F.WRITE, F.READ, F.FETCH),
        table=tuple(map(numbers, lists)),
        argument_in_table=(F.WRITE,),
        answer_in_table=(F.READ, F.FETCH),
    )


def custom(
    name: str, source: Path, operations: Iterable[F], parameters: Iterable[int] = (), table: Iterable[bytes] = ()
) -> Model:
    """A model of one's own, that the Go file `source` registers as `name` (docs/extending/model.md)."""
    return Model(name, tuple(operations), tuple(parameters), tuple(table), source=source.resolve())


# Those that need nothing but their name.
MODELS: Mapping[str, Callable[[], Model]] = MappingProxyType(
    {
        "register": register,
        "cas-register": cas_register,
        "mutex": mutex,
        "reentrant-lock": reentrant_lock,
        "fenced-lock": fenced_lock,
        "fifo-queue": fifo_queue,
        "bag": bag,
        "set": set_,
        "counter": counter,
        "log": log,
    }
)
