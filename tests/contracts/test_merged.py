"""What was merged was merged to its end."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKERS = re.compile(rb"^(?:<{7}|\|{7}|>{7}) ", re.MULTILINE)  # what git leaves around the two sides of a conflict
OTHERS = {"splitbrain-runs", "build", "dist", "node_modules", "__pycache__"}  # written here, by no author


def files(root: Path) -> Iterator[Path]:
    """The project's own."""
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if name not in OTHERS and (name == ".ci" or not name.startswith(".")))
        for name in sorted(names):
            if not (path := Path(folder, name)).is_symlink():
                yield path


def unmerged(root: Path) -> list[str]:
    found = []
    for path in files(root):
        content = path.read_bytes()
        lines = [content.count(b"\n", 0, mark.start()) + 1 for mark in MARKERS.finditer(content)]
        found += [f"{path}:{line}" for line in lines]
    return found


def test_no_file_holds_the_marks_of_a_conflict() -> None:
    assert unmerged(ROOT) == []


def test_marks_are_seen(tmp_path: Path) -> None:
    (tmp_path / "whole.py").write_text("x = 1\n=======\n  <<<<<<< in a text\n")
    (tmp_path / "page.md").write_text("one\n" + "<" * 7 + " HEAD\ntwo\n=======\nthree\n" + ">" * 7 + " branch\n")
    assert unmerged(tmp_path) == [f"{tmp_path}/page.md:2", f"{tmp_path}/page.md:6"]
