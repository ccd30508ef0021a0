"""What must hold in every state, whatever the protocol.

One leader a term; the log matching property, leader completeness and state machine safety of Ongaro and Ousterhout, "In
Search of an Understandable Consensus Algorithm" (2014), figure 3. They speak of what happened before as well, so a
world carries what they need of its past: the chronicle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chaos.search.prove.model import View

NOBODY = -1


class Violation(NamedTuple):
    """`kind`: the invariant; `text`: how it is broken."""

    kind: str
    text: str

    @classmethod
    def mismatch(cls, one: str, other: str) -> Violation:
        """Two nodes' logs do not match."""
        return cls("log-matching", f"{one} and {other} have an entry in common, but not all before it")


class Chronicle(NamedTuple):
    """`leaders`: who led each term, by number, from term 1 on. `committed`: the entries that anybody has taken for
    committed, in order, each with the term of who did so first."""

    leaders: tuple[int, ...] = ()
    committed: tuple[tuple[int, Any], ...] = ()


def witness(past: Chronicle, node: int, name: str, view: View) -> Chronicle | Violation:
    """What is known of the past once a node looks like this."""
    leaders, committed = past
    if view.leads:
        leaders = leaders + (NOBODY,) * (view.term - len(leaders))
        led = leaders[view.term - 1]
        if led == NOBODY:
            for index, (term, entry) in enumerate(committed):
                if term < view.term and (index >= len(view.log) or view.log[index] != entry):
                    text = f"{name} leads term {view.term} without entry {index + 1}, committed in term {term}"
                    return Violation("leader-completeness", text)
            leaders = (*leaders[: view.term - 1], node, *leaders[view.term :])
        elif led != node:
            return Violation("two-leaders", f"term {view.term} has a second leader, {name}")
    for index in range(min(view.commit, len(committed))):
        if view.log[index] != committed[index][1]:
            text = f"{name} takes another entry {index + 1} for committed than was committed before"
            return Violation("state-machine-safety", text)
    if view.commit > len(committed):
        committed += tuple((view.term, entry) for entry in view.log[len(committed) : view.commit])
    return Chronicle(leaders, committed)


def matching(one: View, other: View) -> bool:
    """Whether two logs that have an entry of the same term at one index are the same up to there."""
    for index in range(min(len(one.log), len(other.log)), 0, -1):
        if one.log[index - 1][0] == other.log[index - 1][0]:
            return one.log[:index] == other.log[:index]
    return True
