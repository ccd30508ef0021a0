"""Chooses who decides: the monitor of the model where its preconditions hold, else a search, within time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from chaos.model.errors import BadInput, did_you_mean
from chaos.model.history import NONE
from checkers.linearizability.calls import Calls, F
from checkers.linearizability.counterexample import in_words
from checkers.linearizability.monitors import MONITORS
from checkers.linearizability.operations import FIRST_WORD
from checkers.linearizability.porcupine import MODELS, Model, Unavailable, search
from checkers.linearizability.porcupine.models import cas_register
from checkers.linearizability.verdict import Decision, Refused

AUTO, MONITOR, PORCUPINE = "auto", "monitor", "porcupine"
ENGINES = (AUTO, MONITOR, PORCUPINE)

# By model, as searches name it, the monitor that decides it where it can.
MONITOR_OF: Mapping[str, str] = MappingProxyType(
    {
        "register": "register",
        "cas-register": "register",
        "key-value": "register",
        "mutex": "lock",
        "fenced-lock": "fenced-lock",
        "fifo-queue": "fifo",
        "bag": "bag",
        "set": "set",
        "log": "log",
    }
)


def decide(
    calls: Calls,
    model: str,
    *,
    search_as: Model | None = None,
    engine: str = AUTO,
    timeout: float = 60.0,
    memory: int = 2 << 30,
) -> Decision:
    """Whether the calls are linearizable for the model, each key by itself.

    engine: who may decide; `auto` takes the monitor where it can. search_as: the model with its parameters and its
    table, where it has any. timeout (s) and memory (bytes) bound a search. A history that cannot be decided is answered
    None, with why, and with what a search has learnt by then. Raises BadInput for an unknown engine or model, and for
    an operation that the model does not take.
    """
    if engine not in ENGINES:
        raise BadInput(f"engine {engine!r}: {did_you_mean(engine, ENGINES)}")
    asked = search_as or _named(model)
    refused = ""
    if engine != PORCUPINE:
        try:
            return _monitored(calls, model, asked)
        except Refused as why:
            refused = str(why)
        if engine == MONITOR:
            return Decision(None, MONITOR, refused)
    if asked.name == "register" and np.isin(calls.f, (F.CAS, F.CAS_REFUSED)).any():
        asked = replace(asked, operations=cas_register().operations)
    try:
        found = search(calls, asked, timeout=timeout, memory=memory)
    except Unavailable as why:
        return Decision(None, PORCUPINE, "; ".join(filter(None, [refused, f"no search: {why}"])))
    return replace(found, reason=f"{found.reason} ({refused})") if refused else found


def _named(model: str) -> Model:
    if model in ("key-value", "multi-register"):
        raise BadInput(f"the model {model} has a table: give it as search_as")
    if model not in MODELS:
        raise BadInput(f"no model {model!r}: {did_you_mean(model, MODELS)}")
    return MODELS[model]()


def _monitored(calls: Calls, model: str, asked: Model) -> Decision:
    """What the monitor says. Raises Refused, with why, where there is none that can."""
    if model not in MONITOR_OF:
        raise Refused(f"there is no monitor for {model}")
    monitor = MONITORS[MONITOR_OF[model]]
    try:
        if model == "key-value":
            return _texts(calls, asked)
        if asked.parameters != MODELS[model]().parameters:
            raise Refused("it has parameters")
        return monitor(calls)
    except Refused as why:
        raise Refused(f"the {model} monitor does not take it: {why}") from None


def _texts(calls: Calls, asked: Model) -> Decision:
    """A text that is only read and written, each one once, is a register, where nobody writes the empty one that it is
    at first. (Places in the table are moved away from all other numbers, to be told from these in the sentence.)"""
    writes = np.flatnonzero(calls.f == F.WRITE)
    empty = [place for place, text in enumerate(asked.table) if not text]
    blank = writes[np.isin(calls.arg[writes], empty)]
    if len(blank):
        raise Refused(f"operation {int(calls.op[blank[0]])} writes the empty text, which was there at first")
    out = np.where(np.isin(calls.out, empty), NONE, calls.out)
    arg, out = (np.where(column >= 0, column + FIRST_WORD, column) for column in (calls.arg, out))
    decision = MONITORS["register"](replace(calls, arg=arg, out=out))
    if (told := decision.violation) is None:
        return decision
    texts = {place + FIRST_WORD: text.decode() for place, text in enumerate(asked.table)}
    sentence = in_words(told.sentence, texts)
    return replace(decision, reason=sentence, violation=replace(told, sentence=sentence))
