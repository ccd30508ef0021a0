"""Every page's commands and examples do what the page says, when somebody follows it from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import Block, blocks, name, pages
from tests.docs.story import Command, commands, matches, shapes, tell

TOLD = [page for page in pages() if any(block.language == "console" for block in blocks(page))]
LANGUAGES = {"console", "toml", "python", "json", "csv", "edn", "go", ""}


def on_spark(page: Path) -> bool:
    return any("spark" in block.words for block in blocks(page))


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.spark if on_spark(page) else ()) for page in TOLD], ids=name
)
def test_a_page_can_be_followed(page: Path, tmp_path: Path) -> None:
    tell(page, tmp_path, docker=False)


@pytest.mark.docker
@pytest.mark.timeout(900)  # a broker may take its time to heal: the same run was seen to take one minute, and five
@pytest.mark.parametrize(
    "page", [page for page in TOLD if any("docker" in block.words for block in blocks(page))], ids=name
)
def test_a_page_can_be_followed_on_docker(page: Path, tmp_path: Path) -> None:
    tell(page, tmp_path, docker=True)


@pytest.mark.parametrize("page", pages(), ids=name)
def test_no_code_is_left_unread(page: Path) -> None:
    """Code and scenarios are files of their page's story, so that none is shown that was not run."""
    for block in blocks(page):
        assert block.language in LANGUAGES
        assert block.language not in ("toml", "python", "csv", "edn", "go") or block.value("file"), (
            f"{name(page)}:{block.line}"
        )


@pytest.mark.parametrize("page", TOLD, ids=name)
def test_no_page_reaches_beyond_its_own_runs(page: Path) -> None:
    """`clean --all` takes the containers of every run on the engine, also of those that others have under way."""
    for block in blocks(page):
        assert block.language != "console" or not re.search(r"clean\b.* --all\b", block.text)


def block(text: str, *words: str) -> Block:
    return Block(pages()[0], 1, "console", words, text)


def test_commands_with_their_output_and_end() -> None:
    one = block("$ a b   # why\nsays\n$ c\n", "exit=2")
    assert list(commands(one)) == [Command(one, "a b", ("says",), 0), Command(one, "c", (), 2)]


def test_lines_are_compared_without_what_differs() -> None:
    assert shapes(["✓ VALID  20261121-001-x  digest 0123456789abcdef0123456789abcdef", "  took 1.5 s"]) == shapes(
        ["✓ VALID  20271121-0-x digest fedcba9876543210fedcba9876543210", "", "took 850 ms"]
    )
    assert shapes(["one"]) != shapes(["two"])


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (["a"], ["a"], True),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["a", "...", "c"], ["a", "b", "c"], True),
        (["...", "b"], ["a", "b", "c"], False),
        (["a"], [], False),
        ([], ["a"], False),
    ],
)
def test_output_matches(expected: list[str], printed: list[str], same: bool) -> None:
    assert matches(expected, printed) is same
