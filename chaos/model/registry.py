"""Things found by name: brokers, simulations, nemeses, workloads and checkers, through entry points.

A user's own package adds one by declaring an entry point in the same group.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from chaos.model.errors import BadInput, SplitbrainError, did_you_mean

BROKERS = "brokers"
SIMULATIONS = "simulations"
NEMESES = "nemeses"
WORKLOADS = "workloads"
CHECKERS = "checkers"


@cache
def _entries(group: str) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=f"splitbrain.{group}"), key=lambda entry: (entry.name, entry.value)):
        if entry.name in found and found[entry.name].value != entry.value:
            both = f"{found[entry.name].value} and {entry.value}"
            raise SplitbrainError(f"two packages add {entry.name!r} to {group}, {both}: uninstall one")
        found[entry.name] = entry
    return found


def names(group: str) -> list[str]:
    """The names in a group, sorted."""
    return list(_entries(group))


def find(group: str, name: str) -> Any:
    """The class that is registered under `name`.

    Raises BadInput for a name that nothing has, SplitbrainError for one that cannot be imported.
    """
    entry = _entries(group).get(name)
    if entry is None:
        raise BadInput(f"no {name!r} among the {group}; {did_you_mean(name, _entries(group))}")
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise SplitbrainError(f"{group}: {name!r} ({entry.value}) cannot be loaded: {error}") from error
