"""Faults and leaders beside the operations, for Porcupine's page of a history (`porcupine.visualise`)."""

from __future__ import annotations

import numpy as np

from chaos.model.history import History
from checkers.faults import faults
from checkers.leaders import claims, views
from checkers.linearizability.porcupine import Annotation

FAULT, LEADER = "#f4c7c3", "#c9daf8"


def beside(history: History) -> list[Annotation]:
    """A line for each nemesis, with its faults, and for each queue (or cluster), with who led it in which term.

    On the scale of the calls that `from_history.calls_of` makes of this history: its rows. (A history with drains of
    several elements has another scale.)
    """
    last = len(history) - 1

    def row(op: int) -> int:
        return int(np.searchsorted(history.index, op))

    found = []
    for span in faults(history):
        what = " ".join(filter(None, (span.kind, *span.nodes))) or span.id
        told = "" if span.bit is not False else "nothing shows that it had an effect"
        end = row(span.ops[-1]) if span.undone else last
        found.append(Annotation(span.nemesis or "fault", what, row(span.ops[0]), end, told, FAULT))
    for claim in claims(history, views(history)):
        term = "" if claim.term is None else f" in term {claim.term}"
        tag = f"leader of {claim.key}" if claim.key else "leader"
        end = max(claim.row, int(np.searchsorted(history.time, claim.end, side="right")) - 1)
        found.append(Annotation(tag, f"{claim.node}{term}", claim.row, end, "", LEADER))
    return found
