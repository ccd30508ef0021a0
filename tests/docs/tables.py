"""The parts of the documentation that are made from the code, and their place between marks in a page:

    <!-- made: settings nemeses partition -->
    ...
    <!-- /made -->

`python -m tests.docs.tables` writes them anew; a test says when that is due.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from chaos.model import registry
from chaos.model.schedule import ABILITIES, VERBS
from chaos.model.settings import Setting, resolve
from chaos.search.prove.protocols import PROTOCOLS
from clusters.hosts.base import Image
from clusters.hosts.docker import DockerHosts
from clusters.simulated.faults import UNABLE
from nemesis.timing import timing
from tests.docs.pages import name, pages

MADE = re.compile(r"^<!-- made: (.+?) -->\n(.*?)^<!-- /made -->$", re.MULTILINE | re.DOTALL)
HANG_ON_THE_KERNEL = ("shape.delay",)
TIMING = tuple(setting.name for setting in timing(every="1s", for_="1s"))


def made(page: Path) -> str:
    """The page with every made part as the code has it now."""

    def fresh(match: re.Match[str]) -> str:
        what, *arguments = match[1].split()
        return f"<!-- made: {match[1]} -->\n{MAKERS[what](*arguments)}\n<!-- /made -->"

    return MADE.sub(fresh, page.read_text(encoding="utf-8"))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def settings(group: str, thing: str) -> str:
    """The settings of something registered; those of timing are left to a table of their own."""
    own = [setting for setting in registry.find(group, thing).settings if not _timed(group, setting)]
    if not own:
        return "It has no settings."
    return table(("setting", "default", "meaning"), [(f"`{s.name}`", _default(s), _said(s)) for s in own])


def timings() -> str:
    """The settings that every nemesis has, with its default; then each nemesis with its own."""
    names = registry.names(registry.NEMESES)
    found = {thing: {s.name: s for s in registry.find(registry.NEMESES, thing).settings} for thing in names}
    kinds = {one: {_default(found[thing][one]) for thing in names} for one in TIMING}
    own = [one for one in TIMING if len(kinds[one]) > 1]
    said = [
        (f"`{one}`", "see below" if one in own else kinds[one].copy().pop(), found[names[0]][one].meaning)
        for one in TIMING
    ]
    rows = [(f"`{thing}`", *(_default(found[thing][one]) for one in own)) for thing in names]
    return "\n".join(
        [table(("setting", "default", "meaning"), said), "", table(("nemesis", *(f"`{one}`" for one in own)), rows)]
    )


def nemeses() -> str:
    """Every nemesis, with what it does to a cluster and where that can be done."""
    refused = DockerHosts("", Image("", "", "")).refused()

    def can(verbs: Iterable[str], not_these: Iterable[str]) -> str:
        return "no" if any(verb in not_these for verb in verbs) else "yes"

    rows = []
    for thing in registry.names(registry.NEMESES):
        nemesis: Any = registry.find(registry.NEMESES, thing)
        verbs = nemesis().verbs(resolve(nemesis.settings, {}, thing))
        assert all(verb in ABILITIES for verb in verbs)
        hangs = any(verb in HANG_ON_THE_KERNEL for verb in verbs)
        docker = "as far as the kernel can" if hangs else can(verbs, refused)
        said = ", ".join(f"`{verb}`" for verb in verbs if verb in VERBS)
        rows.append((f"[`{thing}`](#{thing})", nemesis.meaning, said, can(verbs, UNABLE), docker))
    return table(("nemesis", "what it does", "verb", "simulated", "docker"), rows)


def things(group: str) -> str:
    """What is registered in a group, each with its meaning."""
    found = [(one, registry.find(group, one)) for one in registry.names(group)]
    return table(("name", "meaning"), [(f"`{one}`", _meaning(thing)) for one, thing in found])


def bounds(protocol: str) -> str:
    """How far a protocol can be explored."""
    rows = [(f"`{one.name}`", _default(one), one.meaning) for one in PROTOCOLS[protocol].bounds]
    return table(("bound", "default", "meaning"), rows)


MAKERS: dict[str, Callable[..., str]] = {
    "settings": settings,
    "timings": timings,
    "nemeses": nemeses,
    "things": things,
    "bounds": bounds,
}


def _timed(group: str, setting: Setting) -> bool:
    return group == registry.NEMESES and setting.name in TIMING


def _default(setting: Setting) -> str:
    default = setting.default
    if default is None:
        return "unset"
    if isinstance(default, list | tuple):
        return " ".join(f"`{item}`" for item in default)
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _said(setting: Setting) -> str:
    follows = f"; where it is not set, the cluster's or workload's `{setting.follows}`" if setting.follows else ""
    return setting.meaning + follows


def _meaning(thing: Any) -> str:
    return str(getattr(thing, "meaning", "") or (thing.__doc__ or "").strip().partition("\n")[0])


if __name__ == "__main__":
    for page in pages():
        text = made(page)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"{name(page)}: written anew")
