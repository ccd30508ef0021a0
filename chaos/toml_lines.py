"""On which line of a TOML document each key stands, which `tomllib` does not tell.

Keys are written as errors write them: `nemesis[0].every`, `cluster.settings.net_ticktime`. The scanner takes documents
that `tomllib` has accepted, so it need not refuse anything: it only has to know where keys, strings, arrays and tables
begin and end (TOML 1.0, https://toml.io/en/v1.0.0).
"""

from __future__ import annotations

import re
import tomllib

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")'  # up to two quotes may stand right before the closing three
    r"|'''.*?'{3,5}(?!')" + "|" + _QUOTED.pattern,
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


def lines_of(text: str) -> dict[str, int]:
    """The line, from 1, of each table, key and element of an array; of its first mention where there are several."""
    found: dict[str, int] = {}
    for path, line in _Scanner(text).scan().items():
        found.setdefault(_written(path), line)
    return found


def parent(key: str) -> str:
    """What a key stands in: `nemesis[0]` for `nemesis[0].every`, then `nemesis`, then nothing."""
    cut = max(key.rfind("."), key.rfind("["))
    return key[:cut] if cut > 0 else ""


_Path = tuple[str | int, ...]


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[_Path, int] = {}
        self.lengths: dict[_Path, int] = {}  # of the arrays of tables, while they grow

    def scan(self) -> dict[_Path, int]:
        table: _Path = ()
        while self._peek_after(_BLANK):
            if self._take("[["):
                table = self._header(array=True)
                self._take("]]")
            elif self._take("["):
                table = self._header(array=False)
                self._take("]")
            else:
                self._pair(table)
        return self.lines

    def _header(self, *, array: bool) -> _Path:
        line = self._line()
        parts = self._key()
        path: _Path = ()
        for number, part in enumerate(parts):
            path = (*path, part)
            if array and number == len(parts) - 1:
                self.lengths[path] = self.lengths.get(path, 0) + 1
            self.lines.setdefault(path, line)
            if path in self.lengths:  # what follows belongs to the array's latest table
                path = (*path, self.lengths[path] - 1)
                self.lines.setdefault(path, line)
        return path

    def _pair(self, table: _Path) -> None:
        line = self._line()
        path = table
        for part in self._key():
            path = (*path, part)
            self.lines.setdefault(path, line)
        self._take("=")
        self._value(path)

    def _value(self, path: _Path) -> None:
        self._skip(_SPACE)
        if self._take("["):
            number = 0
            while self._peek_after(_BLANK) != "]":
                self.lines.setdefault((*path, number), self._line())
                self._value((*path, number))
                number += 1
                self._skip(_BLANK)
                self._take(",")
            self._take("]")
        elif self._take("{"):
            while self._peek_after(_BLANK) != "}":
                self._pair(path)
                self._skip(_BLANK)
                self._take(",")
            self._take("}")
        elif not self._skip(_STRING):
            self._skip(_SCALAR)

    def _key(self) -> list[str]:
        parts = []
        while True:
            self._skip(_SPACE)
            quoted = self._skip(_QUOTED)
            parts.append(tomllib.loads(f"key = {quoted}")["key"] if quoted else self._skip(_BARE))
            self._skip(_SPACE)
            if not self._take("."):
                return parts

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found.group()

    def _take(self, mark: str) -> bool:
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def _peek_after(self, pattern: re.Pattern[str]) -> str:
        """The character that comes next once the pattern is skipped; nothing at the end."""
        self._skip(pattern)
        return self.text[self.at : self.at + 1]

    def _line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1


def _written(path: _Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]
