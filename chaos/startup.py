"""The one thing to be sure of before anything is imported: that what we import is ours."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.machinery import PathFinder

PACKAGES = ("chaos", "nemesis", "workloads", "checkers", "clusters", "results")


def shadowed_package(path: Iterable[str] | None = None) -> str | None:
    """One line saying which of our packages is another's of the same name, and what to do; None when all are ours.

    Our six top-level names are common words. A folder `results` where Python was started, or another distribution's
    `checkers`, would be imported in place of ours, and fail somewhere far from the cause. All six lie in one parent
    folder, so the one that does not is not ours. Nothing is imported to find out. `path` is sys.path unless given.
    """
    ours = _parent("chaos", path)
    for name in PACKAGES:
        parent = _parent(name, path)
        if parent is None:
            return f"the package {name!r} is missing from this installation: reinstall splitbrain"
        if parent != ours:
            return (
                f"the package {name!r} comes from {os.path.join(parent, name)}, but 'chaos' from "
                f"{os.path.join(ours or '?', 'chaos')}: rename or remove the former, or keep {parent} off PYTHONPATH"
            )
    return None


def _parent(name: str, path: Iterable[str] | None) -> str | None:
    """The folder in which a top-level package would be found, links resolved."""
    spec = PathFinder.find_spec(name, None if path is None else list(path))
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    # A module in a single file has no folder of its own.
    where = os.path.dirname(folders[0]) if folders else os.path.dirname(spec.origin or "")
    return os.path.realpath(where or ".")
