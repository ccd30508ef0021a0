"""The documentation as data: its pages, their fenced blocks, links and tables.

A fence's first word is its language. What may follow, for the tests:

    ```toml file=NAME       is written to NAME before the page's commands run
    ```console              lines "$ COMMAND" are run in order, in one directory a page; lines below are the output
    ```console exit=1       the last command ends so (0 where nothing is said)
    ```console docker       the block needs a Docker engine
    ```console spark        it needs PySpark and Java, and so does its page
    ```console shown        the block is only shown: it installs something, or never ends
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(\S*)[ \t]*(.*?)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block. `words`: what its fence says after the language; `line`: where it begins, from 1."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    def value(self, name: str) -> str | None:
        """What the fence says with `name=...`."""
        return next((word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")), None)


def pages() -> list[Path]:
    """The README and every page of docs/, in order."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def name(page: Path) -> str:
    """A page as errors and test names call it."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        yield Block(page, text.count("\n", 0, match.start()) + 1, match[1], tuple(match[2].split()), match[3])


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """The targets of a page's links and images."""
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """What a link may name after a #, as GitHub makes it from the headings."""
    found = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(prose(page)))
    return set(found)


def headings(page: Path, level: int) -> list[str]:
    """The headings of one level, without their backquotes."""
    return [match.strip("` ") for match in re.findall(rf"^{'#' * level} (.+?)\s*$", prose(page), re.MULTILINE)]


def section(page: Path, heading: str) -> str:
    """The text below a heading, up to the next one of its level or above. Raises LookupError where there is none."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"^(#+) `?{re.escape(heading)}`?\s*$", text, re.MULTILINE)
    if found is None:
        raise LookupError(f"{name(page)} has no heading {heading!r}")
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def first_column(text: str, header: str) -> list[str]:
    """The first cells, without backquotes, of the table whose first header is `header`. Raises LookupError."""
    found = re.search(rf"^\| {re.escape(header)} \|.*\n\|[-| :]+\n((?:\|.*\n?)+)", text, re.MULTILINE)
    if found is None:
        raise LookupError(f"no table that begins with {header!r}")
    return [row.split("|")[1].strip().strip("`") for row in found[1].strip().splitlines()]
