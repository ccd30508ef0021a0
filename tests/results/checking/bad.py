"""Checkers that do not behave, installed as a package of somebody else's would be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

CODE = '''
import os, signal, sys, time
from pathlib import Path
from chaos.model.settings import Setting, text
from chaos.model.verdict import Result, Verdict
from checkers.base import Checker, Part, Parted, Split

class Bad(Checker):
    settings = (Setting("mark", text, "-", "a file that says that it was here before"),)
    def check(self, history, options):
        self.misbehave(options)
        return Result(self.name, Verdict.VALID, "it behaved")

class Raises(Bad):
    """Raises."""
    name = "raises"
    def misbehave(self, options):
        raise ZeroDivisionError("by nothing")

class Kills(Bad):
    """Ends its process."""
    name = "kills"
    def misbehave(self, options):
        os.kill(os.getpid(), signal.SIGKILL)

class Segfaults(Bad):
    """Reads where nothing is."""
    name = "segfaults"
    def misbehave(self, options):
        import ctypes
        ctypes.string_at(0)

class Eats(Bad):
    """Eats memory."""
    name = "eats"
    def misbehave(self, options):
        eaten = []
        while True:
            eaten.append(bytearray(32 << 20))
            time.sleep(0.01)

class Hangs(Bad):
    """Never ends."""
    name = "hangs"
    def misbehave(self, options):
        time.sleep(10000)

class KillsOnce(Bad):
    """Ends its process, the first time."""
    name = "kills-once"
    def misbehave(self, options):
        mark = Path(options["mark"])
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

class Talks(Bad):
    """Prints where others speak."""
    name = "talks"
    def misbehave(self, options):
        print("hello" * 1000, flush=True)
        os.write(1, b"hello")

class KillsParts(Parted):
    """Ends its process over a part."""
    name = "kills-parts"
    split = Split.MESSAGE
    def part(self, history, options):
        os.kill(os.getpid(), signal.SIGKILL)
    def merge(self, parts, options):
        return Result(self.name, Verdict.VALID, "it behaved")

class RaisesInParts(Parted):
    """Raises over a part."""
    name = "raises-in-parts"
    split = Split.MESSAGE
    def part(self, history, options):
        raise ZeroDivisionError("by nothing")
    def merge(self, parts, options):
        return Result(self.name, Verdict.VALID, "it behaved")

class RaisesInMerge(Parted):
    """Raises over all of them."""
    name = "raises-in-merge"
    split = Split.MESSAGE
    def part(self, history, options):
        return Part({})
    def merge(self, parts, options):
        raise ZeroDivisionError("by nothing")
'''
NAMES = {
    "raises": "Raises", "kills": "Kills", "segfaults": "Segfaults", "eats": "Eats", "hangs": "Hangs",
    "kills-once": "KillsOnce", "talks": "Talks", "kills-parts": "KillsParts",
    "raises-in-parts": "RaisesInParts", "raises-in-merge": "RaisesInMerge",
}  # fmt: skip


def install(folder: Path) -> Path:
    """Make a folder that is a package of these checkers, once it is on the path."""
    info = folder / "acme_bad-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "acme_bad.py").write_text(CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-bad\nVersion: 1.0\n")
    entries = "\n".join(f"{name} = acme_bad:{class_}" for name, class_ in NAMES.items())
    (info / "entry_points.txt").write_text(f"[splitbrain.checkers]\n{entries}\n")
    return folder


def ask(run: Path, checkers: Mapping[str, Mapping[str, Any]]) -> None:
    """Have the scenario of a stored run ask these checkers too, before its own."""
    scenario = run / "scenario.toml"
    tables = ""
    for name, options in checkers.items():
        tables += f"[checkers.{name}]\n" + "".join(f'{key} = "{value}"\n' for key, value in options.items())
    text = scenario.read_text()
    at = text.index("[checkers")
    scenario.write_text(text[:at] + tables + text[at:])
