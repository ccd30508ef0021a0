"""The process that judges: `python -m results.checking.child`, started by `results.checking.apart`.

A request, and its answers:

("run", store, run, only, whole)   ("asked", names) those of the run's checkers that are meant (`only`; None: all);
                                   then, of each that is judged whole, ("begin", name) and ("result", name, Result).
                                   `whole` False: not of those that may be cut, unless the run has but one key.
                                   Then, and of a long run, those that can read it in stretches come first
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
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from chaos.model.errors import SplitbrainError
from chaos.model.history import History
from checkers import stretches
from checkers.base import Part, Parted, Streamed
from checkers.run import failure, guarded, kept
from checkers.split import Split
from checkers.stretches import LONG
from results.checking import judge, wire
from results.checking.spool import Spool

Tell = Callable[..., None]
AHEAD = 16  # messages that are read before they are wanted, so that rows which come fast do not pile up


def main() -> None:
    # what a checker prints is not for whoever asks
    answers = os.dup(1)
    os.dup2(2, 1)

    def tell(*message: Any) -> None:
        wire.put(answers, message)

    requests: queue.Queue[Any] = queue.Queue(AHEAD)
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while True:
        kind, *request = requests.get()
        try:
            (_run if kind == "run" else _part)(request, requests, tell)
        except SplitbrainError as error:
            tell("bad", str(error))
        else:
            tell("done")


def _listen(requests: queue.Queue[Any]) -> None:
    source = sys.stdin.buffer
    try:
        while True:
            requests.put(wire.take(source))
    except (EOFError, OSError):
        os._exit(0)


def _run(request: Any, requests: queue.Queue[Any], tell: Tell) -> None:
    store, run, only, whole = request
    wanted = judge.asked(store, run)
    names = judge.names(wanted, only)
    tell("asked", names)
    source = judge.Source(store, run)
    if whole and source.rows() <= LONG:
        left, history = names, source.history()
    else:
        left, history = _streamed(names, wanted, source, whole, tell), None
    for name in left:
        history = history or source.history()
        tell("begin", name)
        tell("result", name, guarded(wanted[name].checker, history, wanted[name].options))


def _streamed(
    names: list[str], wanted: Mapping[str, judge.Asked], source: judge.Source, whole: bool, tell: Tell
) -> list[str]:
    """Judges what need not have all rows in memory, of those that are not for the parts; the names of the others."""
    seen = source.survey()
    if not whole:
        cut = [Split.MESSAGE, Split.KEY] if seen.keys > 1 else [Split.MESSAGE]
        names = [name for name in names if wanted[name].checker.split not in cut]
    left = []
    for name in names:
        checker, options = wanted[name].checker, wanted[name].options
        if not isinstance(checker, Streamed) or (isinstance(checker, Parted) and seen.keys > 1):
            left.append(name)
            continue
        tell("begin", name)
        tell("result", name, kept(name, lambda: checker.streamed(source.read, options)))  # noqa: B023 (called here)
    return left


def _part(request: Any, requests: queue.Queue[Any], tell: Tell) -> None:
    store, run, split = request
    spool = Spool()
    try:
        try:
            wanted = judge.parted(judge.asked(store, run), Split(split))
            tell("asked", list(wanted))
        finally:  # what came with the request is no request
            spool.fill(requests, run)
        part: History | None = None
        for name, one in wanted.items():
            tell("begin", name)
            if isinstance(one.checker, Streamed) and spool.seen.keys <= 1:
                _pieces(name, partial(_stream, one, spool), tell)
            else:
                part = part or stretches.whole(spool.read)
                _pieces(name, partial(_all, one, part), tell)
    finally:
        spool.close()


def _all(one: judge.Asked, part: History) -> list[tuple[int, Part]]:
    assert isinstance(one.checker, Parted)
    return one.checker.pieces(part, one.options)


def _stream(one: judge.Asked, spool: Spool) -> list[tuple[int, Part]]:
    assert isinstance(one.checker, Streamed)
    return [(spool.first, one.checker.stream(spool.read, one.options))]


def _pieces(name: str, find: Callable[[], list[tuple[int, Part]]], tell: Tell) -> None:
    try:
        found = find()
    except Exception as error:
        tell("failed", name, failure(error))
    else:
        tell("pieces", name, found)


if __name__ == "__main__":
    main()
