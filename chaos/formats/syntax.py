"""What a line says, in each of the languages that histories are written in."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from chaos.formats import edn
from chaos.formats.cells import Problem
from chaos.model.errors import did_you_mean

# As jepsen.util logs an op: process, type, f, value and error, whatever the logger puts before them.
_LOGGED = re.compile(
    r"(?P<before>.*?)(?<![^\s:])(?P<process>-?\d+|:[a-z]+)"
    r"\s+:(?P<type>invoke|ok|fail|info)\s+:(?P<f>\S+)(?P<rest>.*)"
)
_HINT = re.compile(r"\s:(?:invoke|ok|fail|info)\s")

COLUMNS = {
    "process": "who: a whole number, or nemesis",
    "type": "invoke, ok, fail or info",
    "f": "what is done: read, write, cas, enqueue, dequeue ...",
    "value": "a whole number, a word, or JSON or EDN such as [1 2]; empty or nil = none",
    "key": "of what, where there are several",
    "time": "ns, or any whole numbers that do not fall",
    "index": "the op's number; they must rise",
    "error": "why it failed, or why nobody knows",
    "op": "a number that an invocation and its completion share, where a process has several open at once",
    "start": "when it was called (a line an operation)",
    "end": "when it returned; empty = it never did (a line an operation)",
    "result": "what it returned, where that is not its value (a line an operation)",
    "node": "the node that was asked",
    "channel": "which connection, from 0",
    "redelivered": "true or false",
    "term": "the leader's term",
    "incarnation": "which life of the node's process",
    "detail": "anything else, a JSON object",
}
_NOTHING = ("", "nil", "null")  # cells that say none
_NUMBERS = {"time", "index", "op", "start", "end", "channel", "term", "incarnation"}


def json_line(text: str) -> list[Any]:
    """A line of JSON lines."""
    text = text.strip()
    if not text:
        return []
    try:
        op = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        if text[0] == "[":
            raise Problem("a JSON array: write an op a line, without brackets and commas between them") from error
        if text[0] == "{" and text[-1] != "}":
            raise Problem("the line is cut off within its op") from error
        column = f" (column {error.colno}: {error.msg})" if isinstance(error, json.JSONDecodeError) else f" ({error})"
        raise Problem(f"not JSON{column}: {text[:40]}") from error
    if isinstance(op, list):
        raise Problem("a JSON array: write an op a line, without brackets and commas between them")
    return [op]


def edn_line(text: str) -> list[Any]:
    """A line of EDN with whole ops. Raises `edn.Unfinished` where an op goes on beyond it."""
    plain = edn.plain_map(text)
    if plain is not None:
        return [plain]
    try:
        return [form for _, form in edn.forms(text)]
    except edn.Unfinished:
        raise
    except edn.EdnError as error:
        raise Problem(f"not EDN (column {error.offset + 1}): {error}") from error


def log_line(text: str) -> list[Any]:
    """A line of a log in which Jepsen logged its ops, or Porcupine's key-value logs in which ops are maps; other lines
    say nothing."""
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            return edn_line(stripped)
        except edn.Unfinished as error:
            raise Problem("the line is cut off within its op") from error
    found = _LOGGED.fullmatch(stripped)
    if found is None:
        if _HINT.search(stripped + " "):
            raise Problem(f"an op was meant, as in '0 :invoke :read nil', not {stripped[-40:]!r}")
        return []
    try:
        rest = [form for _, form in edn.forms(f"({found['rest']})")]
    except edn.EdnError as error:
        raise Problem(f"not EDN: {error}: {found['rest'].strip()[:40]}") from error
    rest = [form for form in rest if not isinstance(form, edn.Bracket)]
    if not rest:
        raise Problem("the line is cut off: it has no value")
    process: Any = found["process"]
    op = {"process": int(process) if process[0] != ":" else process, "type": found["type"], "f": found["f"]}
    told = found["rest"].strip()
    if op["type"] in ("info", "fail") and len(rest) == 1 and isinstance(rest[0], str) and told[0] == ":":
        op["error"] = rest[0]  # an outcome instead of a value: `3 :info :write :timed-out`
    else:
        op["value"] = rest[0]
        if len(rest) > 1:
            op["error"] = rest[1] if len(rest) == 2 else rest[1:]
    return [op | {"": found["before"]}]


def csv_header(text: str) -> tuple[str, list[str]]:
    """The delimiter (comma, semicolon or tab) and the columns of a CSV file. Raises Problem where they do not do."""
    delimiter = max(",;\t", key=text.count)
    names = [name.strip().lower() for name in next(csv.reader([text], delimiter=delimiter), [])]
    for name in names:
        if names.count(name) > 1 and name in COLUMNS:
            raise Problem(f"column {name!r} is there twice")
        absent = COLUMNS.keys() - set(names)
        if name not in COLUMNS and did_you_mean(name, absent).startswith("did you mean"):
            raise Problem(f"column {name!r}: {did_you_mean(name, absent)}")
    needed = ("f", "start", "end") if "start" in names or "end" in names else ("process", "type", "f")
    for name in needed:
        if name not in names:
            raise Problem(f"there is no column {name!r} ({COLUMNS[name]}); columns here: {', '.join(names)}")
    return delimiter, names


def csv_line(delimiter: str, names: list[str]) -> Callable[[str], list[Any]]:
    """What reads a line of CSV with these columns: an op, or an operation where it has a start and an end."""

    def line(text: str) -> list[Any]:
        if not text.strip():
            return []
        try:
            texts = next(csv.reader([text], delimiter=delimiter, strict=True))
        except csv.Error as error:
            raise Problem(f"not CSV: {error}") from error
        if len(texts) != len(names):
            raise Problem(f"{len(texts)} cells for {len(names)} columns ({', '.join(names)})")
        op = {name: _cell(name, text.strip()) for name, text in zip(names, texts, strict=True)}
        return _operation(op) if "start" in op else [op]

    return line


def _operation(op: Mapping[str, Any]) -> list[Any]:
    """Both ends of an operation that is told in one line."""
    base = {"process": 0} | {name: cell for name, cell in op.items() if name not in ("start", "end", "result", "index")}
    if op["start"] is None:
        raise Problem("column 'start': it is empty: when was it called?")
    call = base | {"type": "invoke", "time": op["start"], "error": None}
    outcome = op.get("type") or ("info" if op["end"] is None else "ok")
    if op["end"] is None:
        if outcome != "info":
            raise Problem(f"column 'end': it is empty, but type is {outcome}: when did it return?")
        return [call]
    if isinstance(op["end"], int) and isinstance(op["start"], int) and op["end"] < op["start"]:
        raise Problem(f"column 'end': {op['end']} is before its start, {op['start']}")
    result = op.get("result")
    return [call, base | {"type": outcome, "time": op["end"], "value": op.get("value") if result is None else result}]


def is_bare(word: str) -> bool:
    """Whether a text in a cell of CSV is read as it stands, without quotes of its own."""
    return word == word.strip() and word not in (*_NOTHING, "true", "false") and word[0] != '"'


def _cell(name: str, text: str) -> Any:
    if text in _NOTHING:
        return None
    if name in _NUMBERS:
        if not re.fullmatch(r"[+-]?\d+", text):
            raise Problem(f"column {name!r}: {text!r} is not a whole number")
        return int(text)
    if name == "process":
        return int(text) if re.fullmatch(r"-?\d+", text) else text
    if name == "redelivered":
        if text.lower() not in ("true", "false"):
            raise Problem(f"column {name!r}: {text!r} is neither true nor false")
        return text.lower() == "true"
    if name in ("value", "result", "detail"):
        return _value(name, text)
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _quoted(text)
    return text


def _quoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text


def _value(name: str, text: str) -> Any:
    if re.fullmatch(r"-?(?:0|[1-9]\d*)", text):
        return int(text)
    if text[0] in '[{"' or text in ("true", "false"):
        try:
            return json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            try:
                (_, form), *more = edn.forms(f"#_#_ 0 0 {{:cell {text}}}")
            except (edn.EdnError, ValueError) as error:
                raise Problem(f"column {name!r}: {text[:40]!r} is neither JSON nor EDN") from error
            if more:
                raise Problem(f"column {name!r}: {text[:40]!r} is more than one value") from None
            return form["cell"]
    return text


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
