"""Calls in, a decision out: Porcupine asked through this process's worker.

Porcupine (Athalye 2017) is a Wing-Gong-Lowe search with partitioning: exact for any model, and exponential at worst, so
every search has a time-out and a memory cap. What it found by then is in the answer.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from chaos.model.errors import BadInput, did_you_mean
from chaos.model.history import NONE, Ints
from checkers.linearizability.calls import NEVER, Calls, F
from checkers.linearizability.porcupine import build
from checkers.linearizability.porcupine.build import Unavailable
from checkers.linearizability.porcupine.models import MODELS, Model
from checkers.linearizability.porcupine.process import GRACE, Buffer, Died, Worker
from checkers.linearizability.verdict import Decision, Violation

__all__ = ["Annotation", "Unavailable", "close", "search", "visualise"]

ENGINE = "porcupine"
_ASSERT_NOTHING = (F.READ, F.FETCH, F.CONTAINS, F.TRY, F.CAS_REFUSED)  # where their outcome is unknown
_workers: dict[Path | None, Worker] = {}  # by the model's own source


@dataclass(frozen=True, slots=True)
class Annotation:
    """Something beside the operations, drawn in a line named `tag`; start and end on the scale of the calls' times.

    color: as CSS has it; empty for the page's own."""

    tag: str
    description: str
    start: int
    end: int
    details: str = ""
    color: str = ""


def search(
    calls: Calls, model: Model | str, *, timeout: float = 60.0, memory: int = 2 << 30, explain: bool = True
) -> Decision:
    """Whether the calls are linearizable for the model, each key by itself.

    timeout in s, of the whole; memory in bytes, of the worker. Where they do not suffice, or the worker dies, the
    answer is None with what was learnt. Where it is False, the violation is about the smallest key that fails: its one
    row is an operation that could not follow the longest order found, which is `longest`. Without `explain` there is
    neither, and the decision comes in about half the time.

    Raises BadInput for an unknown model, or an operation the model does not take; Unavailable where there is no worker
    and no Go to build it with.
    """
    model = _model(model)
    rows, cells = columns(calls, model)
    try:
        verdict, why, counts, longest = _ask("search" if explain else "decide", model, cells, timeout, memory)
    except Died as died:
        return Decision(None, ENGINE, f"Porcupine gave no answer: {died}")
    keys, decided, stuck = counts.tolist()
    found = rows[np.frombuffer(longest, "<i8")]
    prefix = tuple(int(row) for row in found)
    of_keys = "" if keys == 1 else f"{decided} of {keys} keys were decided"
    if verdict == b"ok":
        return Decision(True, ENGINE, f"Porcupine found an order of all {len(rows)} operations")
    if verdict == b"illegal":
        sentence = why or "no order explains these operations"
        at = (int(rows[stuck]),) if stuck >= 0 else ()
        return Decision(False, ENGINE, sentence, Violation("no-order", at, sentence), prefix)
    learnt = [of_keys, f"the longest order found takes {len(prefix)} operations" if prefix else ""]
    return Decision(None, ENGINE, "; ".join(filter(None, [f"Porcupine ran {why}", *learnt])), longest=prefix)


def visualise(
    calls: Calls,
    model: Model | str,
    annotations: Sequence[Annotation] = (),
    *,
    timeout: float = 60.0,
    memory: int = 2 << 30,
) -> str:
    """Porcupine's own page of a history, its orders and where they end, as HTML that needs nothing else.

    For short histories, such as one that was shrunk: the page draws every operation, and the search for it notes every
    dead end. Raises as `search` does, and Died where the worker gave no answer.
    """
    model = _model(model)
    _, cells = columns(calls, model)
    notes = [{name.capitalize(): value for name, value in asdict(note).items()} for note in annotations]
    return _ask("visualise", model, cells, timeout, memory, json.dumps(notes).encode())[3].decode()


def close() -> None:
    """End this process's workers; the next search starts another."""
    for worker in _workers.values():
        worker.close()


def _model(model: Model | str) -> Model:
    if isinstance(model, Model):
        return model
    if model not in MODELS:
        raise BadInput(f"no model {model!r}: {did_you_mean(model, MODELS)}")
    return MODELS[model]()


def columns(calls: Calls, model: Model) -> tuple[Ints, list[Buffer]]:
    """The rows that matter, and their columns as the worker takes them. Raises BadInput for what no model takes."""
    _check(calls, model)
    mute = (calls.ret == NEVER) & _among(calls.f, _ASSERT_NOTHING)
    rows = np.flatnonzero(~mute)
    if mute.any():
        calls = calls.select(rows)
    key = calls.key
    if model.each_value_alone and len(calls):
        pairs = np.stack([calls.key, calls.arg], axis=1)
        key = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    channel = calls.channel if (calls.channel >= 0).any() else np.empty(0, np.int64)
    wide = [calls.arg, calls.out, calls.call, calls.ret, key, calls.process, channel]
    cells: list[Buffer] = [np.ascontiguousarray(calls.f, np.int8)]
    cells += [np.ascontiguousarray(column, "<i8") for column in wide]
    return rows, cells


def _check(calls: Calls, model: Model) -> None:
    def refuse(bad: np.ndarray, problem: str) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            what = F(int(calls.f[row])).name.lower().replace("_", " ")
            raise BadInput(f"op {int(calls.op[row])}: {problem.format(what=what)}")

    takes = ", ".join(f.name.lower() for f in model.operations)
    refuse(~_among(calls.f, model.operations), f"the model {model.name} takes no {{what}} (it takes {takes})")
    refuse(calls.ret < calls.call, "this {what} returns before it is called")
    refuse((calls.f == F.CAS) & (calls.out == NONE), "a cas needs its new value in `out`, also where it is unknown")
    for operations, column, optional in (
        (model.argument_in_table, calls.arg, False),
        (model.answer_in_table, calls.out, True),
    ):
        outside = (column < 0) | (column >= len(model.table))
        refuse(
            _among(calls.f, operations) & outside & ~(optional & (column == NONE)),
            f"this {{what}} names none of the {len(model.table)} entries of the model's table",
        )


def _among(f: np.ndarray, operations: Iterable[F]) -> np.ndarray:
    """Which are of these operations; np.isin takes longer than many a search."""
    wanted = np.zeros(256, np.bool_)
    wanted[list(operations)] = True
    return wanted[f.view(np.uint8)]


def request(
    kind: str, model: Model, columns: list[Buffer], timeout: float = 0.0, memory: int = 0, notes: bytes = b""
) -> list[Buffer]:
    """The blocks of a request, as go/main.go lists them. timeout or memory 0: unlimited."""
    ends = np.cumsum([len(cell) for cell in model.table], dtype=np.int64)
    return [
        kind.encode(),
        model.name.encode(),
        np.asarray(model.parameters, "<i8"),
        ends.astype("<i8"),
        b"".join(model.table),
        np.asarray([int(timeout * 1e9), memory], "<i8"),
        *columns,
        notes,
    ]


def _ask(
    kind: str, model: Model, columns: list[Buffer], timeout: float, memory: int, notes: bytes = b""
) -> tuple[bytes, str, Ints, bytes]:
    # The worker keeps both limits itself; those here are for one that does not.
    verdict, why, counts, rest = _worker(model.source).ask(
        request(kind, model, columns, timeout, memory, notes), timeout + GRACE, memory + memory // 4 + (64 << 20)
    )
    if verdict == b"error":
        raise BadInput(f"the Porcupine worker does not take this: {why.decode()}")
    return verdict, why.decode(), np.frombuffer(counts, "<i8"), rest


def _worker(source: Path | None) -> Worker:
    if source not in _workers:
        _workers[source] = Worker([str(build.worker(source))])
    return _workers[source]


def _forget() -> None:
    for worker in _workers.values():
        worker.forget()


os.register_at_fork(after_in_child=_forget)
atexit.register(close)
