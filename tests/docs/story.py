"""A page's commands, run in order in one directory, as somebody would who follows it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT, Block, blocks, name

NOT_RUN = ("make", "pip", "git", "sudo", "apt-get", "cd", "source")  # shown only; `make demo` is run as its recipe
REST = "..."  # stands for lines of output that are left out


@dataclass(frozen=True)
class Command:
    """One command of a console block, and what the page says that it prints and how it ends."""

    block: Block
    line: str
    output: tuple[str, ...]
    code: int


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block. The last one ends as its fence says, those before it with 0."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:].partition("   # ")[0].strip(), []))
        elif found:
            found[-1][1].append(line)
        else:
            raise AssertionError(f"{name(block.page)}:{block.line}: a console block begins with '$ '")
    for place, (line, output) in enumerate(found, 1):
        code = int(block.value("exit") or 0) if place == len(found) else 0
        yield Command(block, line, tuple(output), code)


def tell(page: Path, directory: Path, *, docker: bool) -> None:
    """Write the page's files, then run its commands: those of blocks marked docker, or those of all others."""
    site = directory / "site"
    site.mkdir()
    (directory / "suites").symlink_to(ROOT / "suites")  # a reader is in a checkout
    for block in blocks(page):
        file = block.value("file")
        if file is not None:
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            (directory / file).write_text(block.text, encoding="utf-8")
            if Path(file).name == "pyproject.toml":
                install((directory / file), site)
        elif block.language == "console" and "shown" not in block.words and ("docker" in block.words) == docker:
            for command in commands(block):
                run(command, directory, site)


def install(project: Path, site: Path) -> None:
    """What `pip install -e .` does, as far as it matters: the package can be imported, its entry points are known."""
    data = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    info = site / f"{data['name'].replace('-', '_')}-{data['version']}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {data['name']}\nVersion: {data['version']}\n")
    lines = []
    for group, entries in data["entry-points"].items():
        lines += [f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))


def run(command: Command, directory: Path, site: Path) -> None:
    """Run one command and compare how it ends and what it prints."""
    where = f"{name(command.block.page)}:{command.block.line}: $ {command.line}"
    line, echoed = command.line, []
    if line == "make demo":
        echoed = [recipe("demo")]
        line = echoed[0].removeprefix(".venv/bin/")
    if shlex.split(line)[0] in NOT_RUN:
        return
    binaries = Path(sys.executable).parent
    environment = {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "HOME": str(directory),
        # what is compiled once for this machine, the search's worker and what Go makes it of, need not be again
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
        "PYTHONPATH": f"{site}:{directory}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "200",
        **{key: value for key, value in os.environ.items() if key.startswith(("DOCKER_", "http", "no_proxy"))},
    }
    done = subprocess.run(line, shell=True, cwd=directory, env=environment, capture_output=True, text=True, timeout=600)
    told = f"{where}\nended with {done.returncode}\n{done.stdout}{done.stderr[-3000:]}"
    assert done.returncode == command.code, told
    errors = [line for line in done.stderr.splitlines() if line.startswith(("splitbrain: error", "  | "))]
    exact = "exact" in command.block.words
    expected, printed = shapes(command.output, exact), shapes([*echoed, *done.stdout.splitlines(), *errors], exact)
    assert not expected or matches(expected, printed), f"{told}\nas compared:\n" + "\n".join(printed)


def shapes(lines: list[str] | tuple[str, ...], exact: bool = False) -> list[str]:
    """Lines without what may differ from run to run: numbers, digests, units of time, widths of columns. exact: what a
    seed gives does not differ, only when it was run."""
    if exact:
        return [re.sub(r"\b\d{8}-\d{6}-", "D-", line.rstrip()) for line in lines]
    found = []
    for line in lines:
        line = re.sub(r"\b[0-9a-f]{32}\b", "D", line)
        line = re.sub(r"(\b\d{8}-\d{6}-[a-z-]+-s\d+)-\d+", r"\1", line)  # a second run in the same second
        line = re.sub(r"\d[\d,.]*", "0", line)
        line = re.sub(r"\b0 ?(ns|us|µs|ms|s|m|min 0 s|min)(?![a-z])", "0 s", line)
        found.append(re.sub(r"\s+", " ", line.strip()))
    return [line for line in found if line]


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether the lines are there, in order; REST stands for any number of lines."""
    if not expected:
        return not printed
    if expected[0] == REST:
        return any(matches(expected[1:], printed[place:]) for place in range(len(printed) + 1))
    return bool(printed) and expected[0] == printed[0] and matches(expected[1:], printed[1:])


def recipe(target: str) -> str:
    """The one command that the Makefile has for a target, as make prints it."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(rf"^{target}:.*\n\t(.+)$", text, re.MULTILINE)
    assert found is not None
    return found[1].replace("$(BIN)", ".venv/bin")


def make_targets() -> set[str]:
    """The targets of the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):(?!=)", text, re.MULTILINE))
