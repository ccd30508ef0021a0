"""EDN, as Clojure programs print it: <https://github.com/edn-format/edn>.

Read as what JSON could say: keywords and symbols as their names, sets as lists in the order written, characters, ratios
and tagged text as text, tags dropped (`#jepsen.history.Op{...}` is a map), keys of maps as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

_TOKEN = re.compile(
    r"""(?P<space>[\s,]+|;[^\n]*)
      | (?P<string>"[^"\\]*(?:\\.[^"\\]*)*")
      | (?P<character>\\(?:[A-Za-z0-9]+|.))
      | (?P<open>\#?\{|\[|\()
      | (?P<close>[\]})])
      | (?P<discard>\#_)
      | (?P<tag>\#[^\s,;"{}\[\]()\#]+|\^)
      | (?P<atom>(?:\#\#)?[^\s,;"{}\[\]()\\\#^][^\s,;"{}\[\]()\\]*)""",
    re.VERBOSE | re.DOTALL,
)
_WHOLE = re.compile(r"[+-]?[0-9]+N?")
_FLOAT = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_CHARACTERS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r", "backspace": "\b", "formfeed": "\f"}
# An op as Jepsen prints it: a map of keywords to what has no parts.
_PAIR = r':([a-z-]+) (-?[0-9]{1,18}|:[A-Za-z][A-Za-z0-9-]*|nil|"[^"\\]*")'
_PAIRS = re.compile(_PAIR)
_PLAIN = re.compile(rf"\{{(?:{_PAIR}, )*{_PAIR}\}}\s*")
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_KEYWORD = re.compile(r"[A-Za-z*!_?<>=+.-][A-Za-z0-9*!_?<>=+.#'-]*(?:/[A-Za-z0-9*!_?<>=+.#'-]+)?")


class Bracket(Enum):
    """The vector or list around the whole of a history."""

    OPEN = "open"
    CLOSE = "close"


class EdnError(Exception):
    """Text that is no EDN: what is wrong, and the offset at which it is."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.offset = offset


class Unfinished(EdnError):
    """Text that ends within a form, which begins at the offset."""


def forms(text: str) -> Iterator[tuple[int, Any]]:
    """The forms of a text, each with its offset. A vector or list at the top is not a form: its brackets are told as
    `Bracket`, also where only one of them is in this text, and its forms one by one.

    Raises EdnError for what is no EDN, Unfinished where the text ends within a form.
    """
    stack: list[tuple[str, int, list[Any]]] = []  # what is open: bracket (or #_), offset, forms so far
    tagged = -1
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            if text[place] == '"':
                raise Unfinished("a string is not closed", place)
            raise EdnError(f"{text[place : place + 20]!r} is no EDN", place)
        start, place = place, match.end()
        kind, token = match.lastgroup, match.group()
        if kind == "space":
            continue
        if kind == "tag":
            tagged = start
            continue
        if kind == "discard":
            stack.append(("#_", start, []))
            continue
        if kind == "open":
            if not stack and token in "[(" and tagged < 0:
                yield start, Bracket.OPEN
            else:
                stack.append((token, start, []))
                tagged = -1
            continue
        if kind == "close":
            if tagged >= 0:
                raise EdnError("a tag without a form", tagged)
            if not stack:
                if token == "}":
                    raise EdnError("'}' closes nothing", start)
                yield start, Bracket.CLOSE
                continue
            opened, start, items = stack.pop()
            if _CLOSES.get(opened) != token:
                raise EdnError(f"{token!r} where {_CLOSES.get(opened, 'a form')!r} was meant", match.start())
            form = _map(items, start) if opened == "{" else items
        else:
            form = _simple(str(kind), token, start)
        tagged = -1
        if not stack:
            yield start, form
        elif stack[-1][0] == "#_":
            stack.pop()
        else:
            stack[-1][2].append(form)
    if stack:
        raise Unfinished(f"{stack[0][0]!r} is not closed", stack[0][1])
    if tagged >= 0:
        raise Unfinished("a tag without a form", tagged)


def plain_map(text: str) -> dict[str, Any] | None:
    """A map of keywords to whole numbers, strings, keywords and nil, read quickly; None for any other text."""
    if _PLAIN.fullmatch(text) is None:
        return None
    return {
        key: token[1:] if token[0] == ":" else token[1:-1] if token[0] == '"' else _number(token)
        for key, token in _PAIRS.findall(text)
    }


def _number(token: str) -> int | None:
    return None if token == "nil" else int(token)


def _map(items: list[Any], start: int) -> dict[str, Any]:
    if len(items) % 2:
        raise EdnError("a map with a key that has no value", start)
    keys = [key if isinstance(key, str) else json.dumps(key, separators=(",", ":")) for key in items[0::2]]
    return dict(zip(keys, items[1::2], strict=True))


def _simple(kind: str, token: str, start: int) -> Any:
    if kind == "string":
        return _unescaped(token[1:-1], start) if "\\" in token else token[1:-1]
    if kind == "character":
        name = token[1:]
        if len(name) == 5 and name[0] == "u":
            return _unescaped(token, start)
        return name if len(name) == 1 else _CHARACTERS.get(name, name)
    if token[0] == ":":
        return token[1:]
    if token in _WORDS:
        return _WORDS[token]
    if _WHOLE.fullmatch(token):
        return int(token.rstrip("N"))
    if _FLOAT.fullmatch(token):
        return float(token.rstrip("M"))
    return token.removeprefix("##")


_WORDS = {"nil": None, "true": True, "false": False}


def _unescaped(text: str, start: int) -> str:
    def meaning(match: re.Match[str]) -> str:
        if match[1] or match[2]:
            return chr(int(match[1], 16) if match[1] else int(match[2], 8))
        if match[3] not in _ESCAPED:
            raise EdnError(f"there is no escape {match[0]!r}", start)
        return _ESCAPED[match[3]]

    # Clojure prints what is beyond 16 bits as a pair of surrogates.
    return _ESCAPE.sub(meaning, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def keyword(word: str) -> str:
    """A name as a keyword, or as a string where no keyword can be called so."""
    return f":{word}" if _KEYWORD.fullmatch(word) else dump(word)


def dump(form: Any) -> str:
    """JSON as EDN. The first word of a micro-operation, a list in a list, becomes a keyword: ["r" "x" nil] is `[:r "x"
    nil]`, as transactions are written."""
    if form is None:
        return "nil"
    if isinstance(form, bool):
        return "true" if form else "false"
    if isinstance(form, str):
        return json.dumps(form)  # Clojure knows all of JSON's escapes
    if isinstance(form, list):
        return f"[{' '.join(_micro(item) for item in form)}]"
    if isinstance(form, dict):
        return "{" + ", ".join(f"{dump(key)} {dump(item)}" for key, item in form.items()) + "}"
    return json.dumps(form)


def _micro(form: Any) -> str:
    if isinstance(form, list) and form and isinstance(form[0], str):
        return f"[{' '.join([keyword(form[0]), *map(_micro, form[1:])])}]"
    return dump(form)
