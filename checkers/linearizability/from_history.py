"""Operations on objects, out of a history: Jepsen's conventions and ours, for each model.

======================  ==============================================================================================
model                   f, and values
======================  ==============================================================================================
register, cas-register  read, write, cas with [from to]
key-value               get / read, put / write, append, of text; a read of nil or "" is of the empty one
multi-register          txn with [[:r x 1] [:w y 2]] (also :read, :write); or read and write, whose register is the key
mutex, reentrant-lock,  acquire / lock, release / unlock; try / try-acquire / try-lock: one that fails or answers false
fenced-lock             was refused. An acquire's answer is its fencing token, where it is a whole number
fifo-queue, bag         enqueue / publish / put / push / send / offer, dequeue / consume / take / pop / receive / poll
                        (nil, or failed with :empty or :exhausted: an empty answer), drain with all elements taken
set                     add, remove, contains (answers true or false), read of all members
counter                 add / increment, decrement (by 1 where no value says), read
log                     append / send / publish, answers its offset, or [offset value]; fetch / read / poll / consume of
                        an offset, answers the value, or [offset value]; nil: nothing there yet
======================  ==============================================================================================

- What failed did not happen, and is left out. What it shows is used where it certainly does: a queue was empty, a try
  was refused, and a cas was refused if the caller says that this is what a failed one means.
- What is unknown (info, or without a completion) may happen at any time after its call, or never. Unknown reads are
  left out; an unknown take may have taken anything.
- A delivery that was damaged, or not of this run, took nobody knows what.
- A release of unknown outcome may happen late, or never. Where nobody was refused a lock, that is the same to whoever
  asks for it as one that took effect when it was given up, and is taken for it.
- Operations of a client's channel (`History.channel`) that overlap take effect in the order of their calls.
- A drain is a take of each element, in its order, all between the drain's call and its return. It does not say that the
  queue was empty then. One of unknown outcome took nobody knows how many, which is refused.
- Values that are no whole numbers get numbers of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.model.errors import BadInput, did_you_mean
from chaos.model.history import NONE, History, Mask
from chaos.model.op import CORRUPT, FOREIGN, INFO, OK
from checkers.linearizability.calls import Calls, F
from checkers.linearizability.operations import Operations, shown, spread, whole
from checkers.linearizability.porcupine import models
from checkers.linearizability.porcupine.models import Model
from checkers.linearizability.verdict import Refused

EMPTY = ("empty", "exhausted")
ALIASES = {"fifo": "fifo-queue", "queue": "fifo-queue", "unordered-queue": "bag", "kv": "key-value", "lock": "mutex"}


@dataclass(frozen=True)
class Prepared:
    """The operations of a history. model: its name. search_as: the model with its parameters and its table, for a
    search. values: what numbers in `arg` and `out` stand for, where they are not the values themselves. keys: the key
    of each object, None for the one of ops without."""

    calls: Calls
    model: str
    search_as: Model
    values: Mapping[int, Any]
    keys: tuple[str | None, ...]

    def value(self, number: int) -> Any:
        """What a number stands for; None for NONE, unless that stands for an initial value."""
        return self.values.get(number, None if number == NONE else number)


def calls_of(history: History, model: str, *, initial: Any = None, refused_cas: bool = False) -> Prepared:
    """What the clients of a history did to the objects of a model (a key of OPERATIONS, or of ALIASES).

    initial: what registers and counters hold at first (of a multi-register: by register). Then a read of nil says
    nothing: its recorder did not say what was read. Otherwise it saw that nothing was there yet. refused_cas: a cas
    that failed without an error found something else than it expected, which is more than that it did not happen.

    Raises BadInput for an unknown model; BadHistory, naming the op, for an f that the model has not, a value that is
    not of its kind, and a message published twice; Refused for a drain of unknown outcome.
    """
    name = ALIASES.get(model, model)
    if name not in OPERATIONS:
        raise BadInput(f"model {model!r}: {did_you_mean(model, OPERATIONS)}")
    ops = Operations(history, name, OPERATIONS[name])
    if name in ("register", "cas-register"):
        return _register(ops, name, initial, refused_cas)
    if name == "multi-register":
        return _multi_register(ops, initial)
    if name == "counter":
        return _counter(ops, initial)
    if initial is not None:
        raise BadInput(f"a {name} holds nothing at first: an initial value is for registers and counters")
    return _OTHERS[name](ops, name)


def _register(ops: Operations, name: str, initial: Any, refused_cas: bool) -> Prepared:
    if refused_cas:
        found_other = ops.is_(F.CAS) & ops.failed & ~ops.error()
        ops.f[found_other], ops.outcome[found_other] = F.CAS_REFUSED, OK
    ops.keep(~ops.failed & (ops.ok | ~ops.is_(F.READ)))
    read, write = ops.is_(F.READ), ops.is_(F.WRITE)
    ops.arg[write] = ops.numbers(ops.row[write])
    ops.first_bad(write & (ops.arg == NONE), "it writes nil")
    ops.out[read] = ops.numbers(ops.end[read])
    swaps = np.flatnonzero(~read & ~write)
    for place, pair in zip(swaps.tolist(), ops.said(ops.row[swaps]), strict=True):
        if not isinstance(pair, list) or len(pair) != 2 or pair[1] is None:
            raise ops.bad(place, f"its value is {shown(pair)}: [from to] was meant")
        ops.arg[place] = ops.words.number(pair[0])
        if ops.f[place] == F.CAS:
            ops.out[place] = ops.words.number(pair[1])
    if initial is None:
        return _prepared(ops, name, models.MODELS[name]())
    ops.keep(~ops.is_(F.READ) | (ops.out != NONE))
    write = ops.is_(F.WRITE)
    start = ops.words.number(initial)
    if ((write & (ops.arg == start)) | (ops.is_(F.CAS) & (ops.out == start))).any():  # it is a value like the others
        return _prepared(ops, name, models.register(start) if name == "register" else models.cas_register(start))
    for column in (ops.arg, ops.out):
        column[column == start] = NONE
    return _prepared(ops, name, models.MODELS[name](), {NONE: initial})


def _key_value(ops: Operations, name: str) -> Prepared:
    ops.keep(~ops.failed & (ops.ok | ~ops.is_(F.READ)))
    read = ops.is_(F.READ)
    table: dict[str, int] = {}
    said = ops.said(np.where(read, ops.end, ops.row))
    for place, value in enumerate(said):
        text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
        number = NONE if read[place] and text == "" else table.setdefault(text, len(table))
        (ops.out if read[place] else ops.arg)[place] = number
    return _prepared(
        ops, name, models.key_value(table), {NONE: ""} | {number: text for text, number in table.items()}
    )  # fmt: skip


def _multi_register(ops: Operations, initial: Mapping[str, Any] | None) -> Prepared:
    ops.keep(~ops.failed)
    ok, read = ops.ok, ops.written("read")
    one = read | ops.written("write")
    registers: dict[str, int] = {}
    table: dict[tuple[models.Step, ...], int] = {}
    texts: dict[int, Any] = {}
    asked, got = ops.said(ops.row), ops.said(ops.end)
    for place in range(len(ops)):
        steps = got[place] if ok[place] and got[place] is not None else asked[place]
        if one[place]:
            register_ = ops.history.key[int(ops.row[place])]
            steps = [["r", register_, got[place]] if read[place] else ["w", register_, asked[place]]]
        known: list[models.Step] = []
        for step in steps if isinstance(steps, list) else [None]:
            kind = _STEPS.get(str(step[0])) if isinstance(step, list) and len(step) == 3 else None
            if step is None or kind is None or (kind == "write" and step[2] is None):
                raise ops.bad(place, f"its value is {shown(steps)}: steps such as [[:r x 1] [:w y 2]] were meant")
            if kind == "write" or (ok[place] and (step[2] is not None or initial is None)):
                register = registers.setdefault(_text(step[1]), len(registers))
                known.append((kind, register, ops.words.number(step[2])))
        number = table.setdefault(tuple(known), len(table))
        texts.setdefault(number, steps)
        ops.arg[place] = number
    start = {
        registers.setdefault(_text(register), len(registers)): ops.words.number(value)
        for register, value in (initial or {}).items()
    }
    ops.words.values.clear()  # they are in the table, not in the columns
    key = np.where(ops.written("txn"), ops.history.key.codes[ops.row], -1)
    return _prepared(ops, "multi-register", models.multi_register(table, start), texts, key)


def _lock(ops: Operations, name: str) -> Prepared:
    tried = ops.is_(F.TRY)
    refused = tried & (ops.failed | np.array([answer is False for answer in ops.said(ops.end)], dtype=np.bool_))
    ops.f[tried & ~refused] = F.ACQUIRE
    ops.outcome[refused] = OK
    ops.keep(~ops.failed)
    held = ops.is_(F.ACQUIRE) & ops.ok
    ops.out[held] = ops.history.value[ops.end[held]]
    if name != "reentrant-lock" and not ops.is_(F.TRY).any():
        ops.outcome[_let_go(ops)] = OK
    return _prepared(ops, name, models.MODELS[name]())


def _let_go(ops: Operations) -> Mask:
    """Releases of unknown outcome between two acquires, or after the last, that were given up: whose process has let
    go, only nobody said that the lock is free. Where nobody was refused, a late one can but keep others waiting, so
    that any moment will do (of holds only when they surely began and were over counts, see `monitors.lock`)."""
    order = np.lexsort((ops.row, ops.history.key.codes[ops.row], ops.history.process[ops.row]))
    process, key = ops.history.process[ops.row][order], ops.history.key.codes[ops.row][order]
    same = np.append(False, (process[1:] == process[:-1]) & (key[1:] == key[:-1]))[: len(order)]
    release = ops.is_(F.RELEASE)[order]
    after_hold = same & np.append(False, (ops.is_(F.ACQUIRE) & ops.ok)[order][:-1])[: len(order)]
    before_release = np.append(same[1:] & release[1:], False)[: len(order)]
    found = np.zeros(len(ops), dtype=np.bool_)
    found[order] = release & after_hold & ~before_release
    return np.asarray(found & ~ops.ok & (ops.end >= 0))


def _queue(ops: Operations, name: str) -> Prepared:
    empty = ops.is_(F.TAKE) & ops.failed & ops.error(*EMPTY)
    ops.keep(empty | ~ops.failed)
    put, empty = ops.is_(F.PUT), ops.failed
    ops.outcome[empty] = OK
    drain = ops.written("drain")
    taken = ~put & ~drain & ops.ok & ~empty
    ops.outcome[taken & ops.error(CORRUPT, FOREIGN)] = INFO
    ops.arg[put] = ops.numbers(ops.row[put])
    ops.first_bad(put & (ops.arg == NONE), "it puts no value")
    ops.out[taken] = ops.numbers(ops.end[taken])
    _published_once(ops)
    drains = np.flatnonzero(drain & ~empty)
    if not len(drains):
        return _prepared(ops, name, models.MODELS[name]())
    elements = []
    for place, value in zip(drains.tolist(), ops.said(ops.end[drains]), strict=True):
        if ops.outcome[place] != OK:
            op = int(ops.history.index[ops.row[place]])
            raise Refused(f"operation {op} is a drain of unknown outcome, so nobody knows how many elements it took")
        members = value if isinstance(value, list) else [] if value is None else [value]
        elements.append([ops.words.number(member) for member in members])
    found = _prepared(ops, name, models.MODELS[name]())
    calls = spread(found.calls, drains.tolist(), elements)
    return Prepared(calls, name, found.search_as, found.values, found.keys)


def _published_once(ops: Operations) -> None:
    """An id of ours is unique an attempt. (What others enqueue may be twice in a queue.)"""
    place = np.flatnonzero(ops.written("publish"))
    place = place[np.argsort(ops.arg[place], kind="stable")]
    again = np.flatnonzero(ops.arg[place[1:]] == ops.arg[place[:-1]])
    if len(again):
        first, second = (int(place[again[0] + step]) for step in (0, 1))
        value = ops.words.values.get(int(ops.arg[second]), int(ops.arg[second]))
        op = int(ops.history.index[ops.row[first]])
        raise ops.bad(second, f"{shown(value)} was published already, by op {op}; values are unique per attempt")


def _set(ops: Operations, name: str) -> Prepared:
    ops.keep(~ops.failed & (ops.ok | ops.is_(F.ADD, F.REMOVE)))
    ops.keep(~ops.is_(F.READ) | np.array([value is not None for value in ops.said(ops.end)], dtype=np.bool_))
    read, contains = ops.is_(F.READ), np.flatnonzero(ops.is_(F.CONTAINS))
    ops.arg[~read] = ops.numbers(ops.row[~read])
    ops.first_bad(~read & (ops.arg == NONE), "it names no member")
    for place, answer in zip(contains.tolist(), ops.said(ops.end[contains]), strict=True):
        if not isinstance(answer, bool):
            raise ops.bad(place, f"its answer is {shown(answer)}: true or false was meant")
        ops.out[place] = int(answer)
    table: dict[tuple[int, ...], int] = {}
    reads = np.flatnonzero(read)
    for place, answer in zip(reads.tolist(), ops.said(ops.end[reads]), strict=True):
        if not isinstance(answer, list):
            raise ops.bad(place, f"its answer is {shown(answer)}: all members were meant, as in [1 2 3]")
        members = tuple(sorted(ops.words.number(member) for member in answer))
        ops.out[place] = table.setdefault(members, len(table))
    return _prepared(ops, name, models.set_(table if table else None))


def _counter(ops: Operations, initial: Any) -> Prepared:
    start = 0 if initial is None else initial
    ops.keep(~ops.failed & (ops.ok | ~ops.is_(F.READ)))
    add = ops.is_(F.ADD)
    at = np.where(add, ops.row, ops.end)
    number = ops.numbers(at)
    no_number = ops.words.values
    ops.first_bad(np.isin(number, list(no_number)), f"it counts in {shown(next(iter(no_number.values()), None))}")
    ops.arg[add] = np.where(number[add] == NONE, 1, number[add])
    ops.arg[ops.written("decrement")] *= -1
    ops.out[~add] = number[~add]
    ops.keep(ops.is_(F.ADD) | (ops.out != NONE))  # a read of nil does not say what it read
    return _prepared(ops, "counter", models.counter(start))


def _log(ops: Operations, name: str) -> Prepared:
    ops.keep(~ops.failed & (ops.ok | ops.is_(F.APPEND)))
    append = ops.is_(F.APPEND)
    ops.arg[append] = ops.numbers(ops.row[append])
    ops.first_bad(append & (ops.arg == NONE), "it appends no value")
    ops.out[append] = np.where(ops.end[append] >= 0, ops.history.value[ops.end[append]], NONE)
    ops.arg[~append] = ops.history.value[ops.row[~append]]
    ops.out[~append] = ops.numbers(ops.end[~append])
    pairs = np.flatnonzero(ops.ok & (ops.end >= 0) & (ops.history.value[ops.end] == NONE))
    for place, answer in zip(pairs.tolist(), ops.said(ops.end[pairs]), strict=True):
        if isinstance(answer, list) and len(answer) == 2 and whole(answer[0]):
            if append[place]:
                ops.out[place] = answer[0]
            else:
                ops.arg[place], ops.out[place] = answer[0], ops.words.number(answer[1])
    ops.first_bad(
        ~append & (ops.arg == NONE), "it fetches from no offset: as its value, or in its answer [offset value]"
    )
    return _prepared(ops, name, models.log())


def _prepared(
    ops: Operations, name: str, search_as: Model, values: Mapping[int, Any] | None = None, key: Any = None
) -> Prepared:
    calls, keys = ops.calls(key)
    return Prepared(calls, name, search_as, {**ops.words.values, **(values or {})}, keys)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_STEPS = {"r": "read", "read": "read", "w": "write", "write": "write"}
_REGISTER = {"read": F.READ, "write": F.WRITE}
_MUTEX = {
    "acquire": F.ACQUIRE, "lock": F.ACQUIRE, "release": F.RELEASE, "unlock": F.RELEASE,
    "try": F.TRY, "try-acquire": F.TRY, "try-lock": F.TRY,
}  # fmt: skip
_QUEUE = dict.fromkeys(("enqueue", "publish", "put", "push", "send", "offer"), F.PUT) | dict.fromkeys(
    ("dequeue", "consume", "take", "pop", "receive", "poll", "drain"), F.TAKE
)

OPERATIONS: Mapping[str, Mapping[str, F]] = {
    "register": _REGISTER,
    "cas-register": {**_REGISTER, "cas": F.CAS},
    "key-value": {**_REGISTER, "get": F.READ, "put": F.WRITE, "append": F.APPEND},
    "multi-register": {"txn": F.TXN, "read": F.TXN, "write": F.TXN},
    "mutex": _MUTEX,
    "reentrant-lock": _MUTEX,
    "fenced-lock": _MUTEX,
    "fifo-queue": _QUEUE,
    "bag": _QUEUE,
    "set": {"add": F.ADD, "remove": F.REMOVE, "contains": F.CONTAINS, "read": F.READ},
    "counter": {"add": F.ADD, "increment": F.ADD, "decrement": F.ADD, "read": F.READ},
    "log": dict.fromkeys(("append", "send", "publish"), F.APPEND)
    | dict.fromkeys(("fetch", "read", "poll", "consume"), F.FETCH),
}
_OTHERS: Mapping[str, Callable[[Operations, str], Prepared]] = {
    "key-value": _key_value,
    "mutex": _lock,
    "reentrant-lock": _lock,
    "fenced-lock": _lock,
    "fifo-queue": _queue,
    "bag": _queue,
    "set": _set,
    "log": _log,
}
