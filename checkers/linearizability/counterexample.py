"""Why there is no such order, for people: a sentence, the operations that show it, and the shortest history that fails.

Of a monitor's violation the sentence names one to four operations. Of a search it says how many operations of the
shortest failing history linearize at the most, and which one can then not be next, though it must.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from checkers.linearizability.calls import Calls
from checkers.linearizability.shrink import WORK, shrink
from checkers.linearizability.verdict import Decision, Refused, Violation

NOTHING: Mapping[int, Any] = MappingProxyType({})

# The worker's words (porcupine/go/search/search.go).
_STUCK = re.compile(
    r"in no order can (?P<what>.*) take effect: the longest takes (?P<some>\d+) of (?P<all>\d+) operations, and ends "
    r"at (?P<state>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Counterexample:
    """rule: the rule that is broken, by name; "no-order" from a search. rows: of the calls given, those that show it.

    window: the smallest part found that was decided again and fails, for the same reason as the whole. Rows of the
    calls given, but that what returned after its end is open. (Of a log, offsets are as recorded, though operations at
    other offsets were taken away. Of a register or a counter the beginning may be gone: the rest fails whatever it held
    by then.)

    longest, stuck: of a search, the most operations of the window that linearize, as rows of the calls given in their
    order; and the operation that can then not be next, in words.
    """

    sentence: str
    rule: str
    rows: tuple[int, ...]
    window: Calls
    longest: tuple[int, ...] = ()
    stuck: str | None = None


def explain(
    calls: Calls,
    decision: Decision,
    decide: Callable[[Calls], Decision],
    model: str,
    values: Mapping[int, Any] = NOTHING,
    work: int = WORK,
) -> Counterexample:
    """What shows that the decision about these calls, invalid, is right.

    decide: the engine that gave it (or any that is exact); it is asked about parts of the calls, so where it searches
    let it be with a short time-out: it may use it up a few times. One that raises Refused, or gives no answer, is taken
    for not knowing. model: as in `from_history.OPERATIONS`; of others nothing is taken away but the end. values: what
    numbers stand for that are not the values themselves. work: operations decided in all, at the most.
    """
    if decision.valid is not False or decision.violation is None:
        raise ValueError("only what is not linearizable has a counterexample")
    told = decision.violation
    mine = np.arange(len(calls))
    if told.rows:
        mine = np.flatnonzero(calls.key == calls.key[told.rows[0]])
    part = calls.select(mine)

    def fails(some: Calls) -> bool | None:
        try:
            valid = decide(some).valid
        except Refused:
            return None
        return None if valid is None else not valid

    near = np.flatnonzero(np.isin(mine, told.rows))
    if _STUCK.fullmatch(told.sentence) is None:
        small = shrink(part, fails, model, near.tolist(), work=work)
        return Counterexample(in_words(told.sentence, values), told.rule, told.rows, small.calls)
    small = shrink(part, fails, model, until=int(part.ret[near[0]]) if len(near) else None, work=work)
    rows = mine[small.rows]
    # Of the things that the object may have held at first, what leads furthest.
    again, begun = decision, calls
    for one in small.decided if len(small.rows) < len(part) else ():
        answer = decide(one)
        if answer.violation is not None and (again is decision or len(answer.longest) > len(again.longest)):
            again, begun = answer, one
    first = len(begun) - len(rows) if again is not decision else 0  # operations in front that say what was held
    where = np.arange(len(calls)) if again is decision else np.concatenate((np.full(first, -1), rows))
    violation = again.violation or told
    shown = tuple(int(where[row]) for row in violation.rows)
    longest = tuple(int(where[row]) for row in again.longest if where[row] >= 0)
    held = int(begun.arg[0]) if first else None
    sentence, stuck = _in_full(violation, calls, shown, values, held, len(small.decided) > 1)
    return Counterexample(sentence, violation.rule, shown, small.calls, longest, stuck)


def in_words(sentence: str, values: Mapping[int, Any]) -> str:
    """With what was written or sent, where a number stands for it. (Those numbers are beyond any others; see
    `operations.Words`.)"""
    return re.sub(r"\d{19}", lambda number: _said(int(number[0]), values), sentence)


def _said(number: int, values: Mapping[int, Any]) -> str:
    return json.dumps(values[number]) if number in values else str(number)


def _in_full(
    violation: Violation, calls: Calls, rows: tuple[int, ...], values: Mapping[int, Any], held: int | None, best: bool
) -> tuple[str, str | None]:
    """The sentence of a search with who it was; and what could not be next. held: what the object held at first, where
    the beginning is left out; best: of several things it may have held."""
    found = _STUCK.fullmatch(violation.sentence)
    if found is None:  # a part was decided by a monitor
        return in_words(violation.sentence, values), None
    who = "".join(f" by process {calls.process[row]} (op {calls.op[row]})" for row in rows)
    stuck = in_words(f"{found['what']}{who}", values)
    some, every = (int(found[name]) - (held is not None) for name in ("some", "all"))
    begin = "" if held is None else f"from {_said(held, values)} "
    text = f"{'at best ' if best else ''}{some} of {every} operations linearize, {begin}up to "
    text += in_words(found["state"], values)
    return f"{text}; none can be next, and {stuck} cannot wait", stuck
