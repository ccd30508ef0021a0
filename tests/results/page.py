"""A page as a reader and as a browser see it."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(HTMLParser):
    """Text, and every element with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self.feed(page)
        self.text = " ".join(" ".join(self.pieces).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    def count(self, tag: str) -> int:
        return sum(element == tag for element, _ in self.elements)


def complaints(page: str, folder: Path) -> list[str]:
    """What a browser says of a page on its console. It has no network, for itself neither."""
    file = folder / "page.html"
    file.write_text(page)
    assert CHROMIUM is not None
    quiet = ("gpu", "quic", "sync", "background-networking", "component-update", "extensions")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in quiet)]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}/profile"]
    command += ["--enable-logging=stderr", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "<svg" in done.stdout
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]
