"""The process that judges: `python -m results.checking.child`, started by `results.checking.apart`.

A request, and its answers:

("run", store, run, only, whole)   ("asked", names) those of the run's checkers that are meant (`only`; None: all);
                                   then, of each that is judged whole, ("begin", name) and ("result", name, Result).
                                   `whole` False: not of those that may be cut, unless the run has but one key
("part", store, run, split)        followed by ("rows", Arrow stream), ... and ("end", cut): one of the parts that a run
                                   was cut into. Answers are "asked" as above; and of each ("begin", name), and
                                   ("pieces", name, [(at, Part)]) or ("failed", name, reason)

Last comes ("done",), or ("bad", reason) for what cannot be read. It ends when its input does, also amid its work.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from chaos.model.errors import SplitbrainError
from chaos.model.history import Columns, History
from checkers.base import Parted
from checkers.run import failure, guarded
from checkers.split import Split, keys
from results.checking import judge, wire

Tell = Callable[..., None]


def main() -> None:
    # what a checker prints is not for whoever asks
    answers = os.dup(1)
    os.dup2(2, 1)

    def tell(*message: Any) -> None:
        wire.put(answers, message)

    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while True:
        kind, *request = requests.get()
        try:
            (_run if kind == "run" else _part)(request, requests, tell)
        except SplitbrainError as error:
            tell("bad", str(error))
        else:
            tell("done")


def _listen(requests: queue.SimpleQueue[Any]) -> None:
    source = sys.stdin.buffer
    try:
        while True:
            requests.put(wire.take(source))
    except (EOFError, OSError):
        os._exit(0)


def _run(request: Any, requests: queue.SimpleQueue[Any], tell: Tell) -> None:
    store, run, only, whole = request
    wanted = judge.asked(store, run)
    names = judge.names(wanted, only)
    tell("asked", names)
    history = judge.history(store, run)
    if not whole:
        cut = [Split.MESSAGE, Split.KEY] if keys(history) > 1 else [Split.MESSAGE]
        names = [name for name in names if wanted[name].checker.split not in cut]
    for name in names:
        tell("begin", name)
        tell("result", name, guarded(wanted[name].checker, history, wanted[name].options))


def _part(request: Any, requests: queue.SimpleQueue[Any], tell: Tell) -> None:
    store, run, split = request
    wanted = judge.parted(judge.asked(store, run), Split(split))
    tell("asked", list(wanted))
    columns = Columns()
    while True:
        kind, what = requests.get()
        if kind == "end":
            break
        columns.add(pa.ipc.open_stream(what).read_all())
    part = columns.history(what)
    for name, one in wanted.items():
        tell("begin", name)
        _pieces(name, one, part, tell)


def _pieces(name: str, one: judge.Asked, part: History, tell: Tell) -> None:
    assert isinstance(one.checker, Parted)
    try:
        found = one.checker.pieces(part, one.options)
    except Exception as error:
        tell("failed", name, failure(error))
    else:
        tell("pieces", name, found)


if __name__ == "__main__":
    main()
