"""Chooses who decides: the monitor of the model where its preconditions hold, else a search, within time and memory."""

from __future__ import annotations

from dataclasses import replace

from checkers.linearizability.calls import Calls
from checkers.linearizability.monitors import MONITORS
from checkers.linearizability.porcupine import Model, Unavailable, search
from checkers.linearizability.verdict import Decision, Refused

AUTO, MONITOR, PORCUPINE = "auto", "monitor", "porcupine"
ENGINES = (AUTO, MONITOR, PORCUPINE)
MONITOR_OF = {"fifo-queue": "fifo", "mutex": "lock"}  # where a monitor goes by another name than the search's model


def decide(
    calls: Calls,
    model: str,
    *,
    search_as: Model | str | None = None,
    engine: str = AUTO,
    timeout: float = 60.0,
    memory: int = 2 << 30,
) -> Decision:
    """Whether the calls are linearizable for the model, each key by itself.

    engine: who may decide; `auto` takes the monitor where it can. search_as: the model with its parameters, for a
    search that needs any. timeout (s) and memory (bytes) bound a search. A history that cannot be decided is answered
    None, with why. Raises BadInput for an operation that the model does not take.
    """
    refused = ""
    if engine != PORCUPINE:
        monitor = MONITORS.get(MONITOR_OF.get(model, model))
        if monitor is None:
            refused = f"there is no monitor for {model}"
        else:
            try:
                return monitor(calls)
            except Refused as why:
                refused = f"the {model} monitor does not take it: {why}"
        if engine == MONITOR:
            return Decision(None, MONITOR, refused)
    try:
        found = search(calls, search_as or model, timeout=timeout, memory=memory)
    except Unavailable as why:
        return Decision(None, PORCUPINE, "; ".join(filter(None, [refused, f"no search: {why}"])))
    return replace(found, reason=f"{found.reason} ({refused})") if refused else found
