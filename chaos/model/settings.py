"""Settings as data: what a broker, nemesis, workload or checker can be told, with type, default and meaning.

One declaration serves validation, `splitbrain list`, the commented scenario of `splitbrain init`, and the report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from chaos.model.errors import BadInput, did_you_mean

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
LONGEST = 10**5 * _UNITS["h"]  # ns; 11 years, so that sums of a few stay within 64 bits
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|min|m|h)")


def parse_duration(text: object) -> int:
    """Text such as "250ms", "10s" or "1m30s" as integer nanoseconds, with an optional sign.

    Raises ValueError for anything else, bare numbers included: a duration carries its unit; and for one above LONGEST.
    """
    if isinstance(text, str):
        body = text.strip()
        sign = -1 if body.startswith("-") else 1
        body = body.lstrip("+-")
        parts = _DURATION.findall(body)
        if parts and "".join(number + unit for number, unit in parts) == body:
            ns = sum(round(Decimal(number) * _UNITS[unit]) for number, unit in parts)
            if ns > LONGEST:
                raise ValueError(f"{text!r} is longer than anybody waits: at most {LONGEST // _UNITS['h']}h")
            return sign * ns
    raise ValueError(f'{text!r} is not a duration: write a number with a unit, such as "250ms", "10s" or "2m"')


class Duration(int):
    """Nanoseconds that know how a person wrote them."""

    written: str


def format_duration(ns: int) -> str:
    """As it was written; else the shortest text in seconds or less that `parse_duration` reads back the same, with at
    most three decimals."""
    if isinstance(ns, Duration):
        return ns.written
    sign, size = ("-" if ns < 0 else ""), abs(ns)
    for unit in ("s", "ms", "us"):
        whole, rest = divmod(size, _UNITS[unit])
        if (whole or ns == 0) and rest * 1000 % _UNITS[unit] == 0:
            return f"{sign}{whole}" + f".{rest * 1000 // _UNITS[unit]:03}".rstrip("0").rstrip(".") + unit
    return f"{ns}ns"


def duration(value: object) -> int:
    """Setting type: a duration with its unit, kept in ns; integers are taken as ns already parsed."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    ns = Duration(parse_duration(value))
    ns.written = str(value).strip()
    return ns


def _bounded(value: float, low: float | None, high: float | None) -> None:
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = ([] if low is None else [f"at least {low}"]) + ([] if high is None else [f"at most {high}"])
        raise ValueError(f"{value} is out of range: {', '.join(bounds)}")


def integer(low: int | None = None, high: int | None = None) -> Callable[[object], int]:
    """Setting type: a whole number within bounds."""

    def convert(value: object) -> int:
        if isinstance(value, str):
            value = int(value) if re.fullmatch(r"[+-]?\d+", value) else value
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{value!r} is not a whole number")
        _bounded(value, low, high)
        return value

    return convert


def number(low: float | None = None, high: float | None = None) -> Callable[[object], float]:
    """Setting type: a number within bounds."""

    def convert(value: object) -> float:
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise ValueError(f"{value!r} is not a number") from None
        if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
            raise ValueError(f"{value!r} is not a number")
        _bounded(value, low, high)
        return float(value)

    return convert


_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Size(int):
    """Bytes that know how a person wrote them."""

    written: str


def size(value: object) -> int:
    """Setting type: an amount of memory with its unit ("512MiB", "2GB"), kept in bytes; integers are bytes already."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", value.strip()) if isinstance(value, str) else None
    unit = {name.casefold(): factor for name, factor in _SIZES.items()}.get(found[2].casefold()) if found else None
    if found is None or unit is None or not (bytes_ := round(Decimal(found[1]) * unit)):
        raise ValueError(f'{value!r} is not a size: write a number with a unit, such as "512MiB" or "2GB"')
    amount = Size(bytes_)
    amount.written = str(value).strip()
    return amount


def boolean(value: object) -> bool:
    """Setting type: true or false."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def text(value: object) -> str:
    """Setting type: any text."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def choice(*known: str) -> Callable[[object], str]:
    """Setting type: one of the words."""

    def convert(value: object) -> str:
        if value not in known:
            raise ValueError(f"{value!r} is not one of them: {did_you_mean(str(value), known)}")
        return str(value)

    return convert


def choices(*known: str) -> Callable[[object], tuple[str, ...]]:
    """Setting type: a list of the words, without repeats; on the command line joined with commas."""

    def convert(value: object) -> tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not words:
            raise ValueError(f"{value!r} is not a list of: {', '.join(known)}")
        one = choice(*known)
        chosen = tuple(one(word) for word in words)
        if len(dict.fromkeys(chosen)) != len(chosen):
            raise ValueError(f"{value!r} names one of them twice")
        return chosen

    return convert


def optional(convert: Callable[[object], Any]) -> Callable[[object], Any]:
    """Setting type: as `convert`, or absent (None)."""
    return lambda value: None if value is None else convert(value)


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be told. `convert` turns what was written into the value, or raises ValueError saying why.

    `default` is written as a person would write it ("10s") and goes through `convert` too. `follows`: a setting of a
    checker takes the value of the cluster's or workload's setting of that name, where that has one and it is not told
    its own. `scaled`: a duration whose default is meant for a minute of work; for less, it shrinks in proportion.
    """

    name: str
    convert: Callable[[object], Any]
    default: Any
    meaning: str
    follows: str | None = None
    scaled: bool = False


def resolve(settings: Sequence[Setting], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The value of every setting: what was given, else its default.

    Raises BadInput with the dotted key (`where`.name) for an unknown name or a value that cannot be used.
    """
    known = {setting.name: setting for setting in settings}
    for name in given:
        if name not in known:
            raise BadKey(f"{where}.{name}", f"unknown setting {name!r}; {did_you_mean(name, known)}")
    values = {}
    for setting in settings:
        try:
            values[setting.name] = setting.convert(given.get(setting.name, setting.default))
        except ValueError as error:
            raise BadKey(f"{where}.{setting.name}", str(error)) from None
    return values


class BadKey(BadInput):
    """A value of a scenario that cannot be used, with its dotted key; whoever knows the file adds its line."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.problem = problem
