"""What is kept and shown: the store of runs, reports, and tables of many runs.

import results
results.load("splitbrain-runs").messages.to_pandas()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.tables.load import Loaded as Loaded
    from results.tables.load import Table as Table
    from results.tables.load import load as load

_OF_TABLES = ("Loaded", "Table", "load")


def __getattr__(name: str) -> object:
    """What notebooks use, imported when it is used: all of ours passes through here, and little of it needs pandas."""
    if name in _OF_TABLES:
        from results.tables import load

        return getattr(load, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_OF_TABLES])
