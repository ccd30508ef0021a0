"""The text around a scenario: TOML in, with a line for each key; TOML out; and keys set from the command line."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.model.errors import BadInput, did_you_mean
from chaos.toml_lines import lines_of, parent

LARGEST = 64 << 10  # bytes of a scenario
DEEPEST = 20  # tables and arrays within one another

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DOTTED = re.compile(r"[^.\[\]]+(\.[^.\[\]]+|\[\d+\])*")
_PART = re.compile(r"[^.\[\]]+|\[\d+\]")
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass
class Origin:
    """Where each key of a scenario was written: on which line of a file, or in which flag."""

    file: str | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)

    def folder(self) -> Path:
        """What files that it names are beside: its own file, or where we are."""
        return Path() if self.file is None else Path(self.file).parent

    def place(self, key: str) -> str:
        """The beginning of an error on a key: `file:line: `, `--flag: `, or nothing. A key that was not written is
        placed where it should have been: at the table around it. What a flag has set is not the file's any more."""
        flagged = written = key
        while flagged and flagged not in self.flags:
            flagged = parent(flagged)
        if flagged:
            return f"{self.flags[flagged]}: "
        while written and written not in self.lines:
            written = parent(written)
        return "" if self.file is None else f"{self.file}:{self.lines.get(written, 1)}: "


def read_file(path: Path) -> tuple[dict[str, Any], Origin]:
    """As `read_toml`, of a file, which gives the scenario its name where it has none. Raises BadInput for a file that
    cannot be read, or is no text."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise BadInput(f"{path}: not a scenario: it is larger than {LARGEST >> 10} KB")
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not a scenario: it is not UTF-8 text") from None
    data, origin = read_toml(text, str(path))
    data.setdefault("name", path.stem)
    return data, origin


def read_toml(text: str, where: str) -> tuple[dict[str, Any], Origin]:
    """Parsed data and where each key stands. Raises BadInput with the line for text that is not TOML."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        raise BadInput(f"{where}:{line}: not TOML: {_PLACE.sub('', str(error))}") from None
    except ValueError as error:  # such as a number of thousands of digits
        raise BadInput(f"{where}: not TOML: {error}") from None
    except RecursionError:
        raise BadInput(f"{where}: not a scenario: it is nested too deeply") from None
    level: list[Any] = [data]
    for _ in range(DEEPEST):
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _within(outer)]
    if level:
        raise BadInput(f"{where}: not a scenario: it is nested too deeply")
    return data, Origin(where, lines_of(text))


def _within(outer: dict[str, Any] | list[Any]) -> list[Any]:
    return list(outer.values()) if isinstance(outer, dict) else outer


def write_toml(data: Mapping[str, Any]) -> str:
    """As TOML: plain values first, then tables and arrays of tables under headers, one level of nesting each."""
    return "\n".join(_sections((), data)).lstrip("\n") + "\n"


def set_key(data: dict[str, Any], origin: Origin, key: str, value: Any, flag: str) -> None:
    """Set a dotted key in parsed data. A table in an array is named by its number, `nemesis[0]`, or by its own name,
    `nemesis.partition`. Raises BadInput for a path that leads nowhere."""
    if not _DOTTED.fullmatch(key):
        raise BadInput(f"{flag} {key}: not a dotted key, such as workload.rate or nemesis[0].every")
    parts = _PART.findall(key)
    place: Any = data
    path = ""
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if isinstance(place, list):
            index = _index(place, part, f"{flag} {key}")
            path = f"{path}[{index}]"
            if last:
                place[index] = value
            else:
                place = place[index]
        elif isinstance(place, dict):
            path = f"{path}.{part}" if path else part
            if last:
                place[part] = value
            else:
                if part not in place:
                    place[part] = {}
                    origin.flags[path] = flag
                place = place[part]
        else:
            raise BadInput(f"{flag} {key}: {path} is not a table")
    origin.flags[path] = flag


def _index(tables: list[Any], part: str, where: str) -> int:
    if part.startswith("["):
        number = int(part[1:-1])
        if number < len(tables):
            return number
        raise BadInput(f"{where}: there are only {len(tables)}, counted from 0")
    names = [str(table.get("name")) if isinstance(table, dict) else "" for table in tables]
    if part in names:
        return names.index(part)
    raise BadInput(f"{where}: none is named {part!r}; {did_you_mean(part, names)}")


def _sections(path: tuple[str, ...], table: Mapping[str, Any]) -> list[str]:
    lines = []
    sections = []
    for key, value in table.items():
        header = ".".join(map(_key, (*path, key)))
        if isinstance(value, Mapping):
            below = _sections((*path, key), value)
            only_tables = bool(value) and all(isinstance(inner, Mapping) for inner in value.values())
            sections += below if only_tables else ["", f"[{header}]", *below]
        elif isinstance(value, list) and value and all(isinstance(inner, Mapping) for inner in value):
            for inner in value:
                sections += ["", f"[[{header}]]", *_sections((*path, key), inner)]
        else:
            lines.append(f"{_key(key)} = {_value(value)}")
    return lines + sections


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    return _text(str(value))


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
